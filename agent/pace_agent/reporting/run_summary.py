"""What a run came to, as one JSON object, and as the exit code of a process."""

from __future__ import annotations

import dataclasses
from typing import Any

from pace_agent.events import (
    AgentEvent,
    Ended,
    EndReason,
    Started,
    StepView,
    Turned,
    Warned,
)
from pace_agent.planning.plan_states import steps_after
from pace_local.wording import jsonable

EXIT_CODES: dict[EndReason, int] = {
    "done": 0,
    # Nobody is there to answer it: the task is not done.
    "question": 1,
    "format_errors": 1,
    "repeated": 1,
    "failed": 1,
    "turn_limit": 3,
    "refused": 4,
    "time": 124,
    "cancelled": 130,
}
"""The exit code of a process whose run ended so; 2 is for what was wrong before it began."""


class RunSummary:
    """Gathers from a run's events what is worth telling at its end."""

    def __init__(self) -> None:
        self.ended: Ended | None = None
        """How the run ended; None while it goes on."""
        self._started: Started | None = None
        self._steps: tuple[StepView, ...] = ()
        self._reused = self._decoded_again = 0
        self._warnings: list[str] = []

    def take(self, event: AgentEvent) -> None:
        """Take in the next event."""
        self._steps = steps_after(self._steps, event)
        match event:
            case Started():
                self._started = event
            case Turned():
                self._reused += event.reused
                self._decoded_again += event.decoded_again
            case Warned():
                self._warnings.append(event.message)
            case Ended():
                self.ended = event

    def document(self) -> dict[str, Any]:
        """All of it as values that JSON has. The run must have ended.

        ``plan`` holds the steps of the last plan with the states they came to; ``tokens.reused`` sums up over
        all turns what was there already; seconds are those of the whole run.
        """
        started, ended = self._started, self.ended
        assert ended is not None, "the run has not ended"
        document = {
            "result": ended.result,
            "reason": ended.reason,
            "exit_code": EXIT_CODES[ended.reason],
            "session": started.session if started else "",
            "repository": started.repository if started else "",
            "model": started.model if started else "",
            "turns": ended.turns,
            "seconds": ended.seconds,
            "changed": ended.changed,
            "tokens": {
                "reused": self._reused,
                "decoded": ended.decoded,
                "decoded_again": self._decoded_again,
                "generated": ended.generated,
            },
            "misses": ended.misses,
            "recalled": ended.recalled,
            "plan": [dataclasses.asdict(step) for step in self._steps],
            "warnings": self._warnings,
        }
        plain: dict[str, Any] = jsonable(document)
        return plain
