"""Where a file system's events say that something changed, gathered until it has been quiet for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST = 2_000
"""Paths held; where there are more, everything is looked at."""
LONGEST_BUSY = 30.0
"""Seconds that a command which is changing the checkout is waited for, whatever the longest wait is."""


@dataclass
class Noted:
    """What events named since the last time. Paths are relative to the root, with ``/``."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    """Folders that came, went or moved."""
    moves: dict[str, str] = field(default_factory=dict)
    """New path of a file by its old one, where the system named both."""
    events: int = 0
    everything: bool = False
    """Whether events may have been lost, or there were too many to hold."""
    rules: bool = False
    """Whether an ignore file may have changed."""
    ignored: set[str] = field(default_factory=set)
    """Ignored trees in which folders were made."""


class Hints:
    """Gathers what event threads note, for one thread that takes it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._noted = Noted()
        self._first: float | None = None
        self._last = 0.0
        self._stopped = False

    def note(
        self,
        *,
        file: str | None = None,
        folder: str | None = None,
        move: tuple[str, str] | None = None,
        everything: bool = False,
        rules: bool = False,
    ) -> None:
        """Note an event; one that names nothing only asks for a look at what is checked out."""
        with self._changed:
            noted = self._noted
            noted.events += 1
            noted.everything |= everything or noted.events > _MOST
            noted.rules |= rules
            if noted.everything:
                noted.files.clear()
                noted.folders.clear()
                noted.moves.clear()
            else:
                if file is not None:
                    noted.files.add(file)
                if folder is not None:
                    noted.folders.add(folder)
                if move is not None:
                    noted.files.update(move)
                    noted.moves[move[0]] = move[1]
            self._last = time.monotonic()
            if self._first is None:
                self._first = self._last
                self._changed.notify_all()

    def note_ignored(self, tree: str) -> None:
        """Note that an ignored tree grows. It is no reason to wake up."""
        with self._changed:
            self._noted.ignored.add(tree)

    def stop(self) -> None:
        """Let :meth:`take` return at once, now and always."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(
        self, timeout: float, quiet: float, longest: float, is_busy: Callable[[], bool] = lambda: False
    ) -> Noted | None:
        """Wait for a first event, then until events have paused, and take all that was noted.

        Args:
            timeout: seconds to wait for the first event.
            quiet: seconds without an event that are a pause.
            longest: seconds from the first event after which a pause is no longer waited for.
            is_busy: whether more events are sure to come.

        Returns:
            None if nothing was noted, or :meth:`stop` was called.
        """
        end = time.monotonic() + timeout
        with self._changed:
            while self._first is None and not self._stopped:
                left = end - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            while not self._stopped:
                assert self._first is not None
                now = time.monotonic()
                due = min(self._last + quiet, self._first + longest)
                if now >= due:
                    if now >= self._first + max(longest, LONGEST_BUSY) or not is_busy():
                        break
                    due = now + quiet
                self._changed.wait(due - now)
            if self._stopped:
                return None
            noted, self._noted, self._first = self._noted, Noted(), None
            return noted
