"""What a worker is told and what it says: one JSON object a line, each with its ``"type"``.

A screen sends commands, and gets events of the agent's (:func:`pace_agent.events.as_dict`) and the messages
below. A command may have an ``id`` of the sender's choice; it is then answered by one :class:`Reply`. An
answer's ``id`` is that of the question instead.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter, ValidationError

from pace_agent.events import EVENTS, AgentEvent, AnswerScope, from_dict
from pace_agent.events import as_dict as event_as_dict
from pace_agent.memory_view import MemoryView
from pace_agent.settings.config import ModeName
from pace_local.errors import ConfigError

CommandId = int | str | None


# Commands


@dataclass(frozen=True)
class Command:
    """Base of all commands."""

    type: ClassVar[str] = "command"


@dataclass(frozen=True)
class Prompt(Command):
    """Work on this; behind what was asked for before. The reply comes when it begins."""

    type: ClassVar[str] = "prompt"
    prompt: str
    id: CommandId = None


@dataclass(frozen=True)
class GiveAnswer(Command):
    """Answers :class:`~pace_agent.events.Asked`."""

    type: ClassVar[str] = "answer"
    id: int
    """Of what was asked."""

    scope: AnswerScope
    message: str = ""


@dataclass(frozen=True)
class Cancel(Command):
    """End the run or command that is going on; if none is, the one that is about to begin."""

    type: ClassVar[str] = "cancel"
    id: CommandId = None


@dataclass(frozen=True)
class Undo(Command):
    """Take back the last prompt; behind the prompts that were sent before."""

    type: ClassVar[str] = "undo"
    id: CommandId = None


@dataclass(frozen=True)
class RunCommand(Command):
    """Run a shell command of the user's own, unasked; behind the prompts that were sent before."""

    type: ClassVar[str] = "shell"
    command: str
    id: CommandId = None


@dataclass(frozen=True)
class SetMode(Command):
    """How much is done without asking, from now on."""

    type: ClassVar[str] = "mode"
    mode: ModeName
    id: CommandId = None


@dataclass(frozen=True)
class SetPlan(Command):
    """A plan in the place of what is still to do, or for the next prompt."""

    type: ClassVar[str] = "plan"
    steps: tuple[tuple[str, tuple[str, ...]], ...]
    """What each does, and the files and symbols that it needs."""

    id: CommandId = None


@dataclass(frozen=True)
class Note(Command):
    """Have the model told something before its next turn."""

    type: ClassVar[str] = "note"
    text: str
    id: CommandId = None


@dataclass(frozen=True)
class Pin(Command):
    """Keep a segment whatever happens."""

    type: ClassVar[str] = "pin"
    segment: str
    id: CommandId = None


@dataclass(frozen=True)
class Unpin(Command):
    """Keep it no longer whatever happens."""

    type: ClassVar[str] = "unpin"
    segment: str
    id: CommandId = None


@dataclass(frozen=True)
class Evict(Command):
    """Evict a segment now."""

    type: ClassVar[str] = "evict"
    segment: str
    id: CommandId = None


@dataclass(frozen=True)
class Recall(Command):
    """Have a segment back now."""

    type: ClassVar[str] = "recall"
    segment: str
    id: CommandId = None


@dataclass(frozen=True)
class Inspect(Command):
    """Say the text of a segment; comes as :class:`SegmentText`."""

    type: ClassVar[str] = "inspect"
    segment: str
    id: CommandId = None


@dataclass(frozen=True)
class Quit(Command):
    """End the process."""

    type: ClassVar[str] = "quit"
    id: CommandId = None


COMMANDS: dict[str, type[Command]] = {each.type: each for each in Command.__subclasses__()}
"""All kinds of command by their name."""


# Messages


@dataclass(frozen=True)
class WorkerMessage:
    """Base of what a worker says beside events."""

    type: ClassVar[str] = "message"


@dataclass(frozen=True)
class Loading(WorkerMessage):
    """The model is being fetched or loaded."""

    type: ClassVar[str] = "loading"
    share: float
    """Of what is being done, 0 to 1."""

    what: str = ""
    """What is fetched; empty: the model is loaded."""


@dataclass(frozen=True)
class Ready(WorkerMessage):
    """The agent takes prompts."""

    type: ClassVar[str] = "ready"
    session: str = ""
    """Its name; empty: it is not kept."""

    log: str = ""
    """File with all that libraries print; empty: where stderr goes."""


@dataclass(frozen=True)
class View(WorkerMessage):
    """What the memory holds now."""

    type: ClassVar[str] = "memory_view"
    view: MemoryView


@dataclass(frozen=True)
class Problem(WorkerMessage):
    """Something could not be done. If that is fatal, the process ends."""

    type: ClassVar[str] = "error"
    message: str
    fatal: bool = False


@dataclass(frozen=True)
class SegmentText(WorkerMessage):
    """The text of a segment."""

    type: ClassVar[str] = "text"
    segment: str
    text: str


@dataclass(frozen=True)
class Reply(WorkerMessage):
    """A command with an id was done, or could not be, and ``message`` says why."""

    type: ClassVar[str] = "reply"
    id: int | str
    ok: bool
    message: str = ""


@dataclass(frozen=True)
class Died(WorkerMessage):
    """The process is no more. Said by who started it."""

    type: ClassVar[str] = "died"
    code: int | None
    """Exit code; None: a signal ended it."""

    signal: str = ""
    """The name of that signal, such as ``SIGSEGV``."""

    log: tuple[str, ...] = ()
    """Last lines of its log."""

    is_expected: bool = field(default=False)
    """Whether it had been told to end."""

    @property
    def words(self) -> str:
        """How it ended, for people."""
        return f"ended by {self.signal}" if self.signal else f"ended with exit code {self.code}"


MESSAGES: dict[str, type[WorkerMessage]] = {each.type: each for each in WorkerMessage.__subclasses__()}
"""All kinds of message by their name."""

Message = AgentEvent | WorkerMessage
"""All that a worker says."""


# As lines


def line_of(said: Command | Message) -> bytes:
    """A command, message or event as its line, with the line end."""
    # In ASCII: no character of a text can end a line, and half a surrogate pair can be sent.
    return json.dumps(as_dict(said), separators=(",", ":")).encode("ascii") + b"\n"


def as_dict(said: Command | Message) -> dict[str, Any]:
    """A command, message or event as plain values."""
    if isinstance(said, AgentEvent):
        return event_as_dict(said)
    if isinstance(said, View):
        return {"type": said.type, **said.view.as_dict()}
    return {"type": said.type, **dataclasses.asdict(said)}


def parse_command(line: bytes) -> Command:
    """The command in a line.

    Raises:
        ConfigError: if there is none; it says what is wrong.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a command is no JSON ({error}): {_shown(line)}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"a command is no JSON object: {_shown(line)}")
    return _made(COMMANDS, document, "command")


def message_of(document: dict[str, Any]) -> Message:
    """The event or message that :func:`as_dict` made plain values of.

    Raises:
        ConfigError: if it is none.
    """
    kind = document.get("type")
    if isinstance(kind, str) and kind in EVENTS:
        return from_dict(document)
    if kind == View.type:
        return View(MemoryView.from_dict(document))
    return _made(MESSAGES, document, "message")


_Made = TypeVar("_Made")
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _made(kinds: Mapping[str, type[_Made]], document: dict[str, Any], what: str) -> _Made:
    name = document.get("type")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ConfigError(f"no {what} is of type {name!r}; known are {', '.join(kinds)}")
    known = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        made: _Made = _ADAPTERS[kind].validate_python(
            {key: value for key, value in document.items() if key in known}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"the {what} {name!r} cannot be used: {where}: {first['msg']}") from None
    return made


def _shown(line: bytes) -> str:
    text = repr(line[:80].decode("utf-8", "replace"))
    return f"{text} …" if len(line) > 80 else text
