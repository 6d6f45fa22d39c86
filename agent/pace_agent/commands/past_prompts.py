"""What the events of a session say about each of its prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pace_agent.events import (
    AgentEvent,
    Called,
    Changed,
    Decided,
    Ended,
    Memory,
    Missed,
    Prompted,
    Returned,
    Started,
    StepView,
    Turned,
    Undone,
)
from pace_agent.planning.plan_states import steps_after
from pace_agent.reporting.event_lines import line_of
from pace_agent.sessions.events import TimedEvent
from pace_local.wording import jsonable


@dataclass
class PastCall:
    """One call of a tool."""

    called: Called
    state: str = "running"
    """``running``, ``ok``, ``failed`` or ``refused``."""

    seconds: float = 0.0

    @property
    def line(self) -> str:
        """For people, in one line."""
        text = "".join(part for part, _ in line_of(self.called)).strip()
        return text if self.state == "ok" else f"{text}  ({self.state})"


@dataclass
class PastPrompt:
    """One prompt, and what was done for it."""

    number: int
    prompt: str
    at: float
    """When, in seconds since 1970."""

    steps: tuple[StepView, ...] = ()
    calls: dict[int, PastCall] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    """Files that the agent or its commands changed, in order."""

    recalled: list[Memory] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    turns: int = 0
    reused: int = 0
    """Tokens of the session that were there already, summed over all turns."""

    decoded: int = 0
    decoded_again: int = 0
    generated: int = 0
    ended: Ended | None = None
    """None: the run goes on, or its process was killed."""

    is_undone: bool = False

    def document(self) -> dict[str, Any]:
        """All of it as values that JSON has."""
        ended = self.ended
        document = {
            "number": self.number,
            "prompt": self.prompt,
            "at": self.at,
            "undone": self.is_undone,
            "reason": None if ended is None else ended.reason,
            "result": "" if ended is None else ended.result,
            "seconds": None if ended is None else ended.seconds,
            "turns": self.turns,
            "steps": [dataclasses.asdict(step) for step in self.steps],
            "calls": [
                {
                    "tool": call.called.tool,
                    "arguments": call.called.arguments,
                    "state": call.state,
                    "seconds": call.seconds,
                }
                for call in self.calls.values()
            ],
            "changed": list(self.changed),
            "recalled": [event.event for event in self.recalled],
            "misses": [
                {"segment": miss.segment, "means": miss.means, "reason": miss.reason} for miss in self.missed
            ],
            "tokens": {
                "reused": self.reused,
                "decoded": self.decoded,
                "decoded_again": self.decoded_again,
                "generated": self.generated,
            },
        }
        plain: dict[str, Any] = jsonable(document)
        return plain

    def _take(self, event: AgentEvent) -> None:
        self.steps = steps_after(self.steps, event)
        match event:
            case Called():
                self.calls[event.id] = PastCall(event)
            case Decided() if not event.allowed and event.id in self.calls:
                self.calls[event.id].state = "refused"
            case Returned() if event.id in self.calls:
                call = self.calls[event.id]
                call.seconds = event.seconds
                if call.state != "refused":
                    call.state = "ok" if event.ok else "failed"
            case Changed() if event.by != "user":
                self.changed[event.path] = None
            case Memory() if event.event.get("type") == "recalled":
                self.recalled.append(event)
            case Missed():
                self.missed.append(event)
            case Turned():
                self.turns += 1
                self.reused += event.reused
                self.decoded += event.decoded
                self.decoded_again += event.decoded_again
                self.generated += event.generated
            case Ended():
                self.ended = event


def past_prompts(events: Iterable[TimedEvent]) -> tuple[Started | None, list[PastPrompt]]:
    """How a session was last begun or gone on with, and all its prompts, those taken back too.

    A prompt that was taken back keeps its number, and the next one has it again.
    """
    started: Started | None = None
    prompts: list[PastPrompt] = []
    for at, event in events:
        if isinstance(event, Started):
            started = event
        elif isinstance(event, Prompted):
            prompts.append(PastPrompt(event.number, event.prompt, at))
        elif isinstance(event, Undone):
            for each in prompts:
                each.is_undone = each.is_undone or each.number >= event.number
        elif prompts:
            prompts[-1]._take(event)
    return started, prompts
