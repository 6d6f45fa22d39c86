"""What a session reports while it works: one typed stream.

Every event has a ``text``, empty unless the model wrote some, so that
``print(event.text, end="")`` is all that a script needs. :func:`as_dict` gives the form in which events
are logged and streamed as JSON.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from pace_local.stats import TurnStats

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    type: ClassVar[str] = "event"

    @property
    def text(self) -> str:
        """Text that the model wrote; empty for all other events."""
        return ""


@dataclass(frozen=True)
class Progress(Event):
    """Prompt processing: ``done`` of ``total`` tokens of the text being read are decoded."""

    type: ClassVar[str] = "progress"
    done: int
    total: int


@dataclass(frozen=True)
class Text(Event):
    """The model wrote ``written``; ``tokens`` is how many tokens of this answer there are so far."""

    type: ClassVar[str] = "text"
    written: str
    tokens: int

    @property
    def text(self) -> str:
        """The new piece of the answer."""
        return self.written


@dataclass(frozen=True)
class Evicted(Event):
    """``count`` tokens were evicted; ``segments`` names those that lost tokens, with how many."""

    type: ClassVar[str] = "evicted"
    count: int
    residents: int
    segments: dict[str, int]
    seconds: float
    """All of it: choosing who stays, merging, telling the cache."""
    planning_seconds: float
    """Choosing who stays."""


@dataclass(frozen=True)
class Renumbered(Event):
    """Residents got new positions: the next token comes at ``next_position`` instead of ``from_position``."""

    type: ClassVar[str] = "renumbered"
    residents: int
    from_position: int
    next_position: int
    seconds: float


@dataclass(frozen=True)
class ReadsOverBudget(Event):
    """A planned read did not fit: ``kept`` of its ``resident`` tokens stay."""

    type: ClassVar[str] = "reads_over_budget"
    step: int
    segment: str
    kept: int
    resident: int


Means = Literal["kept", "spliced", "recomputed", "together", "reread"]
"""How a read came to be resident: it never left; its saved keys and values were loaded; they were computed
again in isolation; the same together with the step's other reads; its text was read again as a new turn."""


@dataclass(frozen=True)
class Recalled(Event):
    """A segment that was not resident, or not as its step needs it, is back; ``tokens`` were brought."""

    type: ClassVar[str] = "recalled"
    segment: str
    means: Means
    reason: str
    """Why by these means, in words."""
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Focused(Event):
    """A step starts with what it reads: ``reads`` says for each by what means it is resident."""

    type: ClassVar[str] = "focused"
    step: str
    reads: dict[str, Means]
    residents: int
    seconds: float


@dataclass(frozen=True)
class Restored(Event):
    """The session is what it was at a checkpoint; ``withdrawn`` tokens are no more, ``loaded`` came back."""

    type: ClassVar[str] = "restored"
    checkpoint: int
    withdrawn: int
    loaded: int
    seconds: float


@dataclass(frozen=True)
class Isolated(Event):
    """A segment was read seeing only the pinned prefix; ``aside`` residents were set aside meanwhile."""

    type: ClassVar[str] = "isolated"
    segment: str
    tokens: int
    aside: int
    seconds: float
    """What setting aside and bringing back took."""


@dataclass(frozen=True)
class Rebuilt(Event):
    """``residents`` tokens were decoded again: a device had lost them, or the disk of an opened session."""

    type: ClassVar[str] = "rebuilt"
    residents: int
    reason: str


@dataclass(frozen=True)
class Finished(Event):
    """The answer is complete: the model stopped, a limit was reached, or the caller cancelled."""

    type: ClassVar[str] = "finished"
    reason: FinishReason
    answer: str
    stats: TurnStats


def as_dict(event: Event) -> dict[str, Any]:
    """The event as plain values, with its type under ``"type"``."""
    values = {"type": event.type, **dataclasses.asdict(event)}
    if isinstance(event, Finished):
        values["stats"] = event.stats.as_dict()
    return values
