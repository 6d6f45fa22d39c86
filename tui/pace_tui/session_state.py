"""What is known of a session from what was received: the panels draw it, nothing changes it but events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pace_tui.wire import Received

MODES = ("plan", "ask", "accept-edits", "auto")
_MOST_POINTS = 2000
"""Of the history; older ones are thinned out."""
_MOST_CHANGES = 200
_OF_THE_PROCESS = frozenset(("clock", "phase", "loading_share", "reading", "began", "open_calls", "mode"))
"""What a session's past says nothing about."""


@dataclass(frozen=True)
class Point:
    """The memory after one turn."""

    session_tokens: int
    residents: int
    next_position: int
    seconds: float
    """That the turn took."""
    bytes: int | None
    """Held for keys, values and references; None: not known."""


@dataclass(frozen=True)
class FileChange:
    """A file that was changed."""

    path: str
    by: str
    stale: tuple[str, ...]
    at: float
    """In seconds since 1970."""


@dataclass
class SessionState:
    """All of it. :meth:`take` is given each object as it comes."""

    clock: Callable[[], float] = time.time
    session: str = ""
    repository: str = ""
    model: str = ""
    style: str = ""
    mode: str = "ask"
    policy: str = ""
    budget: int = 0
    position_cap: int | None = None
    phase: str = "starting"
    """starting, loading, ready, reading, running, dead."""
    loading_share: float = 0.0
    reading: tuple[int, int] | None = None
    """Tokens read and to be read, while a text is read."""
    began: float | None = None
    """When the run that goes on was begun."""
    open_calls: set[int] = field(default_factory=set)
    """Calls that have not returned."""
    last_seconds: float = 0.0
    steps: list[dict[str, Any]] = field(default_factory=list)
    plan_by: str = ""
    step: int = 0
    """From 1; 0: none."""
    steps_of: int = 0
    step_reads: dict[str, str] = field(default_factory=dict)
    view: dict[str, Any] = field(default_factory=dict)
    """The last memory view."""
    residents: int = 0
    next_position: int = 0
    session_tokens: int = 0
    reused: int = 0
    decoded: int = 0
    decoded_again: int = 0
    generated: int = 0
    speed: float = 0.0
    """Tokens a second of the last answer."""
    evictions: int = 0
    evicted_tokens: int = 0
    renumberings: int = 0
    recalls: int = 0
    misses: int = 0
    last_memory: str = ""
    """What happened last, in words."""
    history: list[Point] = field(default_factory=list)
    changes: deque[FileChange] = field(default_factory=lambda: deque(maxlen=_MOST_CHANGES))

    @property
    def is_running(self) -> bool:
        """Whether a run goes on."""
        return self.began is not None

    @property
    def is_busy(self) -> bool:
        """Whether there is something to stop: a run, or a command of the user's own."""
        return self.is_running or bool(self.open_calls)

    @property
    def resident_names(self) -> frozenset[str]:
        """Segments with all or some tokens resident."""
        return frozenset(str(run.get("segment")) for run in self.view.get("residents", ()))

    def state_of_read(self, name: str) -> str:
        """``resident``, ``recalled`` or ``missing``."""
        means = self.step_reads.get(name, "")
        if means == "absent":
            return "missing"
        if name in self.resident_names or (not self.view and means):
            return "recalled" if means in ("spliced", "recomputed", "together", "reread") else "resident"
        return "missing"

    def adopt(self, past: SessionState) -> None:
        """Begin with what a session was up to now."""
        for each in fields(self):
            if each.name not in _OF_THE_PROCESS:
                setattr(self, each.name, getattr(past, each.name))

    def take(self, received: Received) -> None:
        """Learn from an object; what is not known is passed over."""
        handler = getattr(self, f"_take_{received.get('type')}", None)
        if handler is not None:
            handler(received)

    def _take_loading(self, received: Received) -> None:
        self.phase, self.loading_share = "loading", float(received.get("share", 0.0))

    def _take_ready(self, received: Received) -> None:
        self.phase = "ready"

    def _take_died(self, received: Received) -> None:
        self.phase, self.began, self.reading = "dead", None, None
        self.open_calls.clear()

    def _take_started(self, received: Received) -> None:
        for name in ("session", "repository", "model", "style", "mode", "policy"):
            setattr(self, name, str(received.get(name, "")))
        self.budget = int(received.get("budget") or 0)
        self.position_cap = received.get("position_cap")

    def _take_mode(self, received: Received) -> None:
        self.mode = str(received["mode"])

    def _take_prompted(self, received: Received) -> None:
        if self.began is None:
            self.began = self.clock()
        self.phase = "running"

    def _take_planned(self, received: Received) -> None:
        self.steps, self.plan_by = list(received.get("steps", ())), str(received.get("by", ""))

    def _take_step_started(self, received: Received) -> None:
        self.step, self.steps_of = int(received.get("number", 0)), int(received.get("of", 0))
        self.step_reads = dict(received.get("reads", {}))
        self._mark_step(self.step, "running")

    def _take_step_ended(self, received: Received) -> None:
        self._mark_step(int(received.get("number", 0)), str(received.get("state", "done")))

    def _mark_step(self, number: int, state: str) -> None:
        if 0 < number <= len(self.steps):  # one that the plan does not have is nobody's
            self.steps[number - 1] = {**self.steps[number - 1], "state": state}

    def _take_missed(self, received: Received) -> None:
        self.misses += 1
        self.step_reads[str(received.get("segment"))] = str(received.get("means"))

    def _take_called(self, received: Received) -> None:
        self.open_calls.add(int(received.get("id", 0)))

    def _take_returned(self, received: Received) -> None:
        self.open_calls.discard(int(received.get("id", 0)))

    def _take_changed(self, received: Received) -> None:
        stale = tuple(received.get("stale", ()))
        path, by = str(received.get("path")), str(received.get("by"))
        at = float(received.get("at") or self.clock())
        self.changes.append(FileChange(path, by, stale, at))

    def _take_wrote(self, received: Received) -> None:
        self.reading = None

    _take_thought = _take_wrote

    def _take_turned(self, received: Received) -> None:
        self.reading = None
        self.reused += int(received.get("reused", 0))
        self.decoded += int(received.get("decoded", 0))
        self.decoded_again += int(received.get("decoded_again", 0))
        self.generated += int(received.get("generated", 0))
        self.session_tokens = int(received.get("session_tokens", 0))
        self.residents = int(received.get("residents", 0))
        self.next_position = int(received.get("next_position", 0))
        writing = float(received.get("generating_seconds", 0.0))
        if writing > 0:
            self.speed = int(received.get("generated", 0)) / writing
        seconds = writing + float(received.get("reading_seconds", 0.0))
        self.history.append(
            Point(self.session_tokens, self.residents, self.next_position, seconds, self._held)
        )
        if len(self.history) > _MOST_POINTS:
            half = len(self.history) // 2
            self.history[:half] = self.history[:half:2]

    @property
    def _held(self) -> int | None:
        sizes = self.view.get("bytes")
        if sizes is None:
            return None
        return sum(int(sizes.get(name) or 0) for name in ("keys", "values", "references"))

    def _take_memory_view(self, received: Received) -> None:
        self.view = received
        self.budget = int(received.get("budget") or self.budget)
        self.position_cap = received.get("position_cap", self.position_cap)
        self.next_position = int(received.get("next_position", self.next_position))
        self.residents = sum(int(run.get("tokens", 0)) for run in received.get("residents", ()))
        self.session_tokens = int(received.get("session_tokens", self.session_tokens))
        # It counts all of the session, and events only what was heard of it.
        self.evicted_tokens = max(self.evicted_tokens, int(received.get("evicted", 0)))
        self.renumberings = max(self.renumberings, int(received.get("renumberings", 0)))
        if self.history:  # the view of a turn comes after it
            self.history[-1] = replace(self.history[-1], bytes=self._held)

    def _take_memory(self, received: Received) -> None:
        event = received.get("event", {})
        kind = event.get("type")
        if kind == "progress":
            done, total = int(event.get("done", 0)), int(event.get("total", 0))
            self.reading = (done, total) if done < total else None
        elif kind == "evicted":
            self.evictions += 1
            self.evicted_tokens += int(event.get("count", 0))
            self.residents = int(event.get("residents", self.residents))
            self.last_memory = f"evicted {event.get('count')} tokens"
        elif kind == "renumbered":
            self.renumberings += 1
            self.next_position = int(event.get("next_position", self.next_position))
            self.last_memory = f"renumbered: {event.get('from_position')} → {event.get('next_position')}"
        elif kind == "recalled":
            self.recalls += 1
            self.last_memory = f"recalled {event.get('segment')} ({event.get('means')})"
        elif kind == "text":
            self.reading = None

    def _take_ended(self, received: Received) -> None:
        self.phase, self.began, self.reading = "ready", None, None
        self.open_calls.clear()
        self.last_seconds = float(received.get("seconds", 0.0))
