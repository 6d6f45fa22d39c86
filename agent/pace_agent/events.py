"""What an agent reports while it works: one typed stream, its only output.

A screen draws these events, the headless mode prints them as JSON lines, the session log holds them, and
tests replay them. Every event has a ``text``, empty unless the model wrote some for people, so that
``print(event.text, end="")`` is all that a script needs. :func:`as_dict` and :func:`from_dict` are the form
in which events are logged and sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from pace_local.errors import ConfigError
from pace_local.events import Event as MemoryEvent
from pace_local.events import as_dict as memory_as_dict

EndReason = Literal[
    "done", "question", "turn_limit", "format_errors", "repeated", "refused", "time", "cancelled", "failed"
]
"""Why a run ended: the task is done; the user is asked something; the limit of turns; three answers in a row
that could not be read; the same call with the same result five times; a permission that nobody gave; the time
limit; the user; an error."""

By = Literal["rule", "mode", "approval", "user", "nobody"]
"""Who decided about a permission."""

Author = Literal["agent", "user", "shell"]
"""Who changed a file; ``shell``: a command that the agent ran."""

StepState = Literal["waiting", "running", "done", "failed", "skipped"]


@dataclass(frozen=True)
class AgentEvent:
    """Base of all events."""

    type: ClassVar[str] = "agent"

    @property
    def text(self) -> str:
        """Text that the model wrote for people; empty for all other events."""
        return ""


@dataclass(frozen=True)
class Started(AgentEvent):
    """A session was begun or is gone on with."""

    type: ClassVar[str] = "started"
    session: str
    """Its name, for ``--resume``; empty if it is not kept."""

    repository: str
    model: str
    style: str
    """``tools`` or ``guided``."""

    mode: str
    policy: str
    budget: int
    """Tokens."""

    position_cap: int | None
    resumed: bool = False


@dataclass(frozen=True)
class Prompted(AgentEvent):
    """The user asked for something; ``segment`` holds it."""

    type: ClassVar[str] = "prompted"
    prompt: str
    segment: str
    number: int
    """Of the prompt in its session, from 1; what undo counts."""


@dataclass(frozen=True)
class StepView:
    """One step of the plan as it is shown."""

    text: str
    reads: tuple[str, ...] = ()
    """Names of segments that it reads."""

    wanted: tuple[str, ...] = ()
    """Files and symbols that it needs and that no segment holds yet, such as ``shop/orders.py:total``."""

    state: StepState = "waiting"


@dataclass(frozen=True)
class Planned(AgentEvent):
    """The plan was made or changed; ``steps`` is all of it, done steps included."""

    type: ClassVar[str] = "planned"
    steps: tuple[StepView, ...]
    by: Literal["model", "machine", "user"]
    reason: str = ""


@dataclass(frozen=True)
class StepStarted(AgentEvent):
    """A step begins with what it reads."""

    type: ClassVar[str] = "step_started"
    number: int
    """From 1."""

    of: int
    step: str
    reads: dict[str, str] = field(default_factory=dict)
    """Segment -> by what means it is resident: kept, spliced, together, recomputed, reread, read (now for the
    first time), or absent (it did not fit)."""


@dataclass(frozen=True)
class StepEnded(AgentEvent):
    """A step is over."""

    type: ClassVar[str] = "step_ended"
    number: int
    state: StepState
    summary: str


@dataclass(frozen=True)
class Missed(AgentEvent):
    """A plan miss: the running step needed a segment that its plan had not named and that was gone."""

    type: ClassVar[str] = "missed"
    segment: str
    means: str
    """How it came back: spliced, recomputed, together, reread, or read (its file was read again)."""

    reason: str


@dataclass(frozen=True)
class Wrote(AgentEvent):
    """The model wrote text for people."""

    type: ClassVar[str] = "wrote"
    written: str

    @property
    def text(self) -> str:
        """The new piece."""
        return self.written


@dataclass(frozen=True)
class Thought(AgentEvent):
    """The model reasoned; shown folded, and released after the step."""

    type: ClassVar[str] = "thought"
    written: str


@dataclass(frozen=True)
class Called(AgentEvent):
    """The model called a tool, or in guided style the machine did for it."""

    type: ClassVar[str] = "called"
    id: int
    """Of the call in its session, from 1."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Offer:
    """What an approval for the session or the project would cover."""

    tool: str
    prefix: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """For people."""
        return f"{' '.join(self.prefix)} …" if self.prefix else self.tool


@dataclass(frozen=True)
class Asked(AgentEvent):
    """The user is asked for a permission. Who gives it answers with an :class:`Answer`."""

    type: ClassVar[str] = "asked"
    id: int
    """Of the call."""

    tool: str
    what: str
    """The command, or the path, whole."""

    reason: str
    """Why it is asked."""

    diff: str = ""
    """What would change, as a unified diff."""

    offers: tuple[Offer, ...] = ()
    """Empty: it can only be allowed once."""


AnswerScope = Literal["once", "session", "project", "no"]


@dataclass(frozen=True)
class Answer:
    """A user's answer to :class:`Asked`."""

    scope: AnswerScope
    message: str = ""
    """For the model, with a no: what to do instead."""


@dataclass(frozen=True)
class Decided(AgentEvent):
    """A call was allowed or refused."""

    type: ClassVar[str] = "decided"
    id: int
    allowed: bool
    by: By
    reason: str


@dataclass(frozen=True)
class Output(AgentEvent):
    """A running tool printed something."""

    type: ClassVar[str] = "output"
    id: int
    written: str


@dataclass(frozen=True)
class Returned(AgentEvent):
    """A tool is done; ``result`` is what the model is shown, in ``segment``."""

    type: ClassVar[str] = "returned"
    id: int
    tool: str
    ok: bool
    result: str
    seconds: float
    segment: str = ""


@dataclass(frozen=True)
class Changed(AgentEvent):
    """A file was changed; ``diff`` is unified, cut if it is long."""

    type: ClassVar[str] = "changed"
    path: str
    """From the repository, with ``/``."""

    by: Author
    diff: str
    stale: tuple[str, ...] = ()
    """Segments that hold text which the file no longer has."""


@dataclass(frozen=True)
class Noted(AgentEvent):
    """Something was appended for the model to know: a mode, a change, the date, what AGENTS.md says now."""

    type: ClassVar[str] = "noted"
    note: str
    segment: str


@dataclass(frozen=True)
class Memory(AgentEvent):
    """What the library reported: evicted, renumbered, recalled, focused, progress of reading …"""

    type: ClassVar[str] = "memory"
    event: dict[str, Any]
    """As :func:`pace_local.events.as_dict`."""


@dataclass(frozen=True)
class Turned(AgentEvent):
    """The model has answered once: what it cost."""

    type: ClassVar[str] = "turned"
    number: int
    """Of the turn in this run, from 1."""

    reused: int
    """Tokens of the session that were there already and were not decoded again."""

    decoded: int
    """Tokens that were read for this turn."""

    decoded_again: int
    """Tokens that were evicted before and computed again."""

    generated: int
    session_tokens: int
    residents: int
    next_position: int
    reading_seconds: float
    generating_seconds: float


@dataclass(frozen=True)
class Undone(AgentEvent):
    """Files, conversation and cache are what they were before a prompt."""

    type: ClassVar[str] = "undone"
    number: int
    """Of the prompt that was taken back."""

    restored: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Warned(AgentEvent):
    """Something a user should know; the run goes on."""

    type: ClassVar[str] = "warned"
    message: str


@dataclass(frozen=True)
class Ended(AgentEvent):
    """A run is over. ``result`` is its answer, a question, or what went wrong."""

    type: ClassVar[str] = "ended"
    reason: EndReason
    result: str
    turns: int
    seconds: float
    changed: tuple[str, ...] = ()
    """Files that this run changed."""

    misses: int = 0
    """Plan misses."""

    recalled: int = 0
    """Segments that were brought back."""

    decoded: int = 0
    """Tokens that were read."""

    generated: int = 0

    @property
    def is_success(self) -> bool:
        """Whether the task is done."""
        return self.reason == "done"


Working = Generator[AgentEvent, None, str]
"""Work that yields events, and returns what came of it."""

EVENTS: dict[str, type[AgentEvent]] = {each.type: each for each in AgentEvent.__subclasses__()}
"""All kinds of event by their name."""


def memory(event: MemoryEvent) -> Memory:
    """What the library reported, as an event of the agent's."""
    return Memory(memory_as_dict(event))


def as_dict(event: AgentEvent) -> dict[str, Any]:
    """The event as plain values, with its type under ``"type"``."""
    return {"type": event.type, **dataclasses.asdict(event)}


def from_dict(document: dict[str, Any]) -> AgentEvent:
    """The event that :func:`as_dict` made plain values of. Fields that are not known are left out.

    Raises:
        ConfigError: if it is none.
    """
    kind = EVENTS.get(str(document.get("type")))
    if kind is None:
        raise ConfigError(f"no event is of type {document.get('type')!r}")
    known = {each.name for each in dataclasses.fields(kind)}
    try:
        return _adapter(kind).validate_python({key: value for key, value in document.items() if key in known})
    except ValidationError as error:
        raise ConfigError(f"an event of type {kind.type!r} is not as it should be: {error}") from None


_ADAPTERS: dict[str, TypeAdapter[AgentEvent]] = {}


def _adapter(kind: type[AgentEvent]) -> TypeAdapter[AgentEvent]:
    if kind.type not in _ADAPTERS:
        _ADAPTERS[kind.type] = TypeAdapter(kind)
    return _ADAPTERS[kind.type]
