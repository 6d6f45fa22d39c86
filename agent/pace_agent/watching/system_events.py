"""The file system's events, by watchdog, as hints of where to look."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from pace_agent.repository.ignoring import Ignoring
from pace_agent.watching.hints import Hints
from pace_agent.watching.polling import reason_to_poll

_WANTED: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
]
"""Not opening, reading and closing: whoever reads a whole repository, as we do, would fill the queue."""
_GIT_NAMES = frozenset({"HEAD", "index", "COMMIT_EDITMSG"})
"""Files of git's folder that are written when another branch or commit is checked out."""


TAKES_WHOLE_TREES = not sys.platform.startswith("linux")
"""Whether one watch costs the same whatever is below it, as it does on macOS and Windows."""


class NoWatchesError(Exception):
    """The system gives no (more) watches; the message says why."""


def make_observer() -> BaseObserver:
    """The observer that watchdog has for this system."""
    return Observer(timeout=0.5)


class Events(FileSystemEventHandler):
    """Has folders watched, and notes what happens in them.

    Args:
        root: the repository.
        hints: where to note it.
        git: git's own folder, if it has one.
        make: makes the observer.
    """

    def __init__(
        self,
        root: Path,
        hints: Hints,
        git: Path | None = None,
        make: Callable[[], BaseObserver] = make_observer,
    ) -> None:
        self._root = os.fspath(root)
        self._prefix = self._root.rstrip("/") + "/"
        self._hints = hints
        self._git = os.fspath(git) if git else None
        self._make = make
        self._observer: BaseObserver | None = None
        self._watches: dict[str, tuple[ObservedWatch, tuple[int, int], bool]] = {}
        self._complaints = _Complaints(hints)
        # Of the threads that deliver events, and replaced whole: the watcher's own is not safe to share.
        self._ignoring = Ignoring(root)

    def start(self) -> None:
        """Start without any folder.

        Raises:
            NoWatchesError: if the system refuses.
        """
        # In a race that it copes with, watchdog warns, on stderr.
        warnings.filterwarnings("ignore", r"Callback with id .* already exists", RuntimeWarning)
        logging.getLogger("watchdog").addHandler(self._complaints)
        try:
            self._observer = self._make()
            self._observer.start()
        except (OSError, RuntimeError) as error:
            self.stop()
            if isinstance(error, OSError):
                raise NoWatchesError(reason_to_poll(error) or str(error)) from error
            raise NoWatchesError(f"the system gives no watches here ({error})") from error

    def watch(self, plan: Mapping[str, bool]) -> bool:
        """Watch these folders and no others.

        Args:
            plan: paths relative to the root (or absolute ones), each with whether what is below it counts.

        Returns:
            Whether one was added: what happened in it before is not known.

        Raises:
            NoWatchesError: if the system refuses; the rest is in no certain state.
        """
        assert self._observer is not None
        for path, (watch, known, recursive) in list(self._watches.items()):
            if plan.get(path) != recursive or self._identity(path) != known:
                del self._watches[path]
                with contextlib.suppress(KeyError, OSError, RuntimeError):  # its folder is gone
                    self._observer.unschedule(watch)
        added = False
        for path, recursive in plan.items():
            identity = self._identity(path)
            if path in self._watches or identity is None:
                continue
            try:
                watch = self._observer.schedule(
                    self,
                    os.path.join(self._root, path).rstrip("/") or "/",
                    recursive=recursive,
                    event_filter=_WANTED,
                )
            except OSError as error:
                if reason := reason_to_poll(error):
                    raise NoWatchesError(reason) from error
                continue
            except RuntimeError as error:  # no more threads
                raise NoWatchesError(f"the system gives no watches here ({error})") from error
            self._watches[path] = (watch, identity, recursive)
            added = True
        if added:
            self._try_one_more()
        return added

    @property
    def is_whole(self) -> bool:
        """Whether every folder is still watched: none was replaced, and no thread has died."""
        observer = self._observer
        return (
            observer is not None
            and observer.is_alive()
            and all(emitter.is_alive() for emitter in list(observer.emitters))
            and all(self._identity(path) == identity for path, (_, identity, _) in self._watches.items())
        )

    def stop(self) -> None:
        """End all threads. Safe to call twice, also if it was never started."""
        observer, self._observer = self._observer, None
        self._watches.clear()
        if observer is not None and observer.ident is not None:
            observer.stop()
            if observer is not threading.current_thread():
                observer.join(5)
        logging.getLogger("watchdog").removeHandler(self._complaints)

    def reread(self) -> None:
        """Follow ignore files that have changed."""
        self._ignoring = Ignoring(self._root)

    def dispatch(self, event: FileSystemEvent) -> None:
        """Note one event."""
        folder = event.is_directory
        if event.event_type not in ("created", "modified", "deleted", "moved") or (
            folder and event.event_type == "modified"
        ):
            return
        places = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        inside = [path for place in places if (path := self._relevant(place, folder)) is not None]
        if len(inside) == 2 and not folder:
            self._hints.note(move=(inside[0], inside[1]))
        else:
            for path in inside:
                self._hints.note(folder=path) if folder else self._hints.note(file=path)

    def _relevant(self, place: str, folder: bool) -> str | None:
        """A place relative to the root, if a change there counts."""
        if self._git is not None and place.startswith(self._git + "/"):
            name = place[len(self._git) + 1 :]
            if name in _GIT_NAMES or name == "logs/HEAD":
                self._hints.note()
            elif name == "info/exclude":
                self._hints.note(rules=True)
            return None
        if not place.startswith(self._prefix):
            return None
        path = place[len(self._prefix) :]
        if self._ignoring.ignores(path, folder):
            if folder:
                parts = path.split("/")
                above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
                self._hints.note_ignored(next(one for one in above if self._ignoring.ignores(one, True)))
            return None
        if not folder and self._ignoring.is_rule_file(path):
            self._hints.note(file=path, rules=True)
            return None
        return path

    def _identity(self, path: str) -> tuple[int, int] | None:
        try:
            status = os.lstat(os.path.join(self._root, path))
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino

    def _try_one_more(self) -> None:
        """Find out whether watches ran out below a root: watchdog 7 then leaves folders out and says nothing.

        Raises:
            NoWatchesError: if not one more can be had.
        """
        if TAKES_WHOLE_TREES or self._observer is None:
            return
        with tempfile.TemporaryDirectory(prefix="pace-watch-") as folder:
            try:
                watch = self._observer.schedule(self, folder, event_filter=_WANTED)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise NoWatchesError(reason_to_poll(error) or str(error)) from error
                return
            with contextlib.suppress(KeyError, OSError, RuntimeError):
                self._observer.unschedule(watch)


class _Complaints(logging.Handler):
    """Hears what watchdog has to say, which it says to its log alone: events lost, watches not had.

    Without a handler such lines would land on stderr, and so on the screen.
    """

    def __init__(self, hints: Hints) -> None:
        super().__init__(logging.WARNING)
        self._hints = hints

    def emit(self, record: logging.LogRecord) -> None:
        """Whatever it is, a look at everything puts it right."""
        self._hints.note(everything=True)
