"""What the memory of a session holds, as a small file in its folder, so that other processes can look on."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pace_agent.events import (
    AgentEvent,
    Ended,
    Memory,
    Prompted,
    Started,
    StepStarted,
    Thought,
    Turned,
    Undone,
    Wrote,
)
from pace_agent.files.private_file import UnusableFileError, put_private, read_private
from pace_agent.memory_view import MemoryView, memory_view
from pace_agent.sessions.places import VIEW
from pace_local.errors import ConfigError

if TYPE_CHECKING:
    from pace_local.session_view import SessionView

_FORMAT = 1

_SECONDS = 1.0
"""Between two views while a run goes on, at least."""

_SHARE = 0.005
"""Of the time of a run that views may take; one takes milliseconds, on a busy machine tens of them."""

_AT_REST = (Started, Turned, Undone, Ended)
"""Events after which nothing may change for long: their view is written whenever the last one was."""

_AT_WORK = (Memory, StepStarted, Thought, Wrote)

_NOT_LOOKED_AT = "progress"
"""Kind of the library's events at which residents may be set aside for a moment."""


class ViewFile:
    """Keeps a session's view in its folder, replaced in one step, readable by its user alone.

    A view that cannot be written is left out: the work goes on without it.

    Args:
        folder: of the session.
        session: what is looked at.
        clock: the time, in seconds since 1970.
        timer: in seconds, for what a view takes.
    """

    def __init__(
        self,
        folder: Path,
        session: SessionView,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._path = folder / VIEW
        self._session = session
        self._clock = clock
        self._timer = timer
        self._pause = _SECONDS
        self._is_running = False
        self._written_at = float("-inf")

    def hear(self, event: AgentEvent) -> None:
        """Write the view if the event may have changed it. To be called in the thread that works."""
        if isinstance(event, Prompted):
            self._is_running = True
        elif isinstance(event, Ended):
            self._is_running = False
        if isinstance(event, _AT_REST) or (self._may_change_it(event) and self._is_due()):
            self.write()

    @staticmethod
    def _may_change_it(event: AgentEvent) -> bool:
        if isinstance(event, Memory):
            return event.event.get("type") != _NOT_LOOKED_AT
        return isinstance(event, _AT_WORK)

    def _is_due(self) -> bool:
        # Between two runs, what changes the memory is one command of the user's: no other event follows.
        return not self._is_running or not 0 <= self._clock() - self._written_at < self._pause

    def write(self) -> None:
        """Write what the session holds now."""
        self._written_at = now = self._clock()
        began = self._timer()
        document = {"format": _FORMAT, "at": now, "view": memory_view(self._session).as_dict()}
        data = json.dumps(document, separators=(",", ":")).encode("ascii")
        with contextlib.suppress(OSError):
            put_private(self._path, data, is_lasting=False)
        self._pause = max(_SECONDS, (self._timer() - began) / _SHARE)


@dataclass(frozen=True)
class TimedView:
    """A view, and when it was taken."""

    at: float
    """In seconds since 1970."""

    view: MemoryView


def read_view(folder: Path) -> TimedView | None:
    """The view in a session's folder; None if there is none that can be read, or none of this version."""
    try:
        document = read_private(folder / VIEW)
        at = document.get("at")
        if document.get("format") != _FORMAT or not isinstance(at, (int, float)):
            return None
        return TimedView(float(at), MemoryView.from_dict(document.get("view", {})))
    except (UnusableFileError, ConfigError, OverflowError):
        return None
