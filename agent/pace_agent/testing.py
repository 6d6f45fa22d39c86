"""A scripted agent, for tests of what draws, prints or starts runs: it yields events and touches no model."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from pace_agent.errors import StaleError
from pace_agent.events import AgentEvent, Ended, EndReason, Planned, StepView, Turned, Undone
from pace_agent.safety.permissions import Mode
from pace_local.files import read_text


@dataclass(frozen=True)
class FakeRun:
    """One call of :meth:`FakeAgent.run`."""

    prompt: str
    max_turns: int | None
    time_limit: float | None
    mode: Mode
    """What the agent's mode was."""


@dataclass
class FakeAgent:
    """Yields events as an agent does; each run takes the next of ``runs``.

    It keeps the limits of a run as the real one does: after ``max_turns`` times
    :class:`~pace_agent.events.Turned`, after ``time_limit`` seconds, or when it is cancelled, the rest of the
    events gives way to an :class:`~pace_agent.events.Ended` that says why. A run whose events do not end with
    one gets one that says ``done``.
    """

    runs: Sequence[Iterable[AgentEvent]] = ()
    repository: str | os.PathLike[str] | None = None
    """Where :meth:`edit` writes; None: nowhere."""

    delay: float = 0.0
    """Seconds before each event; a cancel cuts them short."""

    session_name: str = "fake"
    mode: Mode = Mode.ASK
    plan: tuple[StepView, ...] = ()
    taken: list[FakeRun] = field(default_factory=list)
    """Runs so far."""

    edits: list[tuple[str, str]] = field(default_factory=list)
    """Paths and texts that :meth:`edit` was given."""

    notes: list[str] = field(default_factory=list)
    is_closed: bool = False

    def __post_init__(self) -> None:
        """Nobody has cancelled yet."""
        self._cancelled = threading.Event()

    def run(
        self, prompt: str, *, max_turns: int | None = None, time_limit: float | None = None
    ) -> Iterator[AgentEvent]:
        """The next run's events.

        Raises:
            LookupError: if there is no further run.
        """
        if len(self.taken) >= len(self.runs):
            raise LookupError(f"no run is left for the prompt {prompt!r}")
        events = self.runs[len(self.taken)]
        self.taken.append(FakeRun(prompt, max_turns, time_limit, self.mode))
        self._cancelled.clear()
        return self._events(events, max_turns, time_limit)

    def _events(
        self, events: Iterable[AgentEvent], max_turns: int | None, time_limit: float | None
    ) -> Iterator[AgentEvent]:
        began = time.monotonic()
        turns = 0
        for event in events:
            self._cancelled.wait(self.delay)
            seconds = time.monotonic() - began
            reason: EndReason | None = None
            if self._cancelled.is_set():
                reason = "cancelled"
            elif time_limit is not None and seconds >= time_limit:
                reason = "time"
            elif max_turns is not None and turns >= max_turns and not isinstance(event, Ended):
                reason = "turn_limit"
            if reason is not None:
                yield Ended(reason, "", turns, seconds)
                return
            turns += isinstance(event, Turned)
            if isinstance(event, Planned):
                self.plan = event.steps
            yield event
            if isinstance(event, Ended):
                return
        yield Ended("done", "", turns, time.monotonic() - began)

    def cancel(self) -> None:
        """End the run that goes on; from any thread."""
        self._cancelled.set()

    def edit(self, path: str, text: str, *, expected: str | None = None) -> None:
        """Give a file of the repository a new text, in the encoding that it has.

        Raises:
            StaleError: if it holds something else than was expected.
        """
        self.edits.append((path, text))
        if self.repository is not None:
            file = Path(self.repository, path)
            if expected is not None and read_text(file).text != expected:
                raise StaleError(f"{path!r} has been changed meanwhile; look at it again")
            file.write_bytes(dataclasses.replace(read_text(file), text=text).to_bytes())

    def note(self, text: str) -> None:
        """Remember a note."""
        self.notes.append(text)

    def undo(self) -> Undone:
        """Take back nothing, and say so."""
        return Undone(len(self.taken), (), ())

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def __enter__(self) -> FakeAgent:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
