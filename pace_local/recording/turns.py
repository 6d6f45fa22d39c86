"""What a session was told and what it answered, as typed turns and as JSON objects.

Every turn that adds tokens also holds how long the session was after it and a checksum of all tokens up to
there, so that a replay knows whether it holds the same tokens. The role markers that close an answer belong
to the next turn, since that is when they are read.
"""

from __future__ import annotations

import dataclasses
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast, get_args

import numpy as np

from pace_local.events import FinishReason
from pace_local.plan import Step
from pace_local.segments import CONTENT_KINDS, Kind

T = TypeVar("T")


@dataclass(frozen=True)
class Appended:
    """A text that was read."""

    type: ClassVar[str] = "append"
    text: str
    kind: Kind
    name: str
    """Of the segment, as the session gave it."""
    pinned: bool
    next_use: int | None
    length: int
    """Tokens of the session after it."""
    checksum: int
    """CRC-32 of these tokens, as :func:`checksum_of` has it."""


@dataclass(frozen=True)
class Planned:
    """A new plan."""

    type: ClassVar[str] = "plan"
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class StepDone:
    """The nearest step of the plan was done."""

    type: ClassVar[str] = "step_done"


@dataclass(frozen=True)
class Pinned:
    """A segment was pinned or no longer is."""

    type: ClassVar[str] = "pin"
    name: str
    pinned: bool


@dataclass(frozen=True)
class Generated:
    """An answer that the model wrote, and the prompt before it."""

    type: ClassVar[str] = "generate"
    prompt: str | None
    name: str
    """Of the answer's segment, as the session gave it."""
    tokens: tuple[int, ...]
    """Of the answer, without the token that ended it."""
    end_token: int | None
    """The token with which the model ended its turn; None: something else ended it."""
    text: str
    """What the caller saw: without a stop text."""
    finish: FinishReason
    """``cancelled`` also where the caller left early or an error ended the answer."""
    next_use: int | None
    length: int
    checksum: int


Turn = Appended | Planned | StepDone | Pinned | Generated


def checksum_of(tokens: array[int], before: int = 0) -> int:
    """CRC-32 of tokens as little-endian 32-bit numbers, continued from the checksum of those before."""
    return zlib.crc32(np.frombuffer(tokens, dtype=np.int32).astype("<i4").tobytes(), before)


def as_document(turn: Turn) -> dict[str, Any]:
    """The turn as plain values for JSON."""
    return {"type": turn.type, **dataclasses.asdict(turn)}


def turn_of(document: object) -> Turn:
    """The turn that a JSON object holds.

    Raises:
        ValueError: with what is wrong.
    """
    fields = Fields(document)
    kind = fields.take("type", str)
    if kind == Appended.type:
        return Appended(
            text=fields.take("text", str),
            kind=cast(Kind, fields.one_of("kind", CONTENT_KINDS)),
            name=fields.take("name", str),
            pinned=fields.take("pinned", bool),
            next_use=fields.maybe("next_use", int),
            length=fields.count("length"),
            checksum=fields.count("checksum"),
        )
    if kind == Planned.type:
        return Planned(tuple(_step(step) for step in fields.take("steps", list)))
    if kind == StepDone.type:
        return StepDone()
    if kind == Pinned.type:
        return Pinned(fields.take("name", str), fields.take("pinned", bool))
    if kind == Generated.type:
        tokens = fields.take("tokens", list)
        if not all(type(token) is int and token >= 0 for token in tokens):
            raise ValueError("'tokens' must be a list of token ids")
        return Generated(
            prompt=fields.maybe("prompt", str),
            name=fields.take("name", str),
            tokens=tuple(tokens),
            end_token=fields.maybe("end_token", int),
            text=fields.take("text", str),
            finish=cast(FinishReason, fields.one_of("finish", get_args(FinishReason))),
            next_use=fields.maybe("next_use", int),
            length=fields.count("length"),
            checksum=fields.count("checksum"),
        )
    known = ", ".join(turn.type for turn in get_args(Turn))
    raise ValueError(f"turn {kind!r} is not one of {known}")


class Fields:
    """Values of a JSON object, each of the type that is asked for.

    Raises:
        ValueError: if it is no object; so does each method for a value that is missing or wrong.
    """

    def __init__(self, document: object) -> None:
        if not isinstance(document, Mapping):
            raise ValueError("it is no JSON object")
        self._document = document

    def take(self, name: str, kind: type[T]) -> T:
        value = self._document.get(name)
        if type(value) is not kind:
            raise ValueError(f"{name!r} must be of type {kind.__name__}, not {_short(value)}")
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self._document.get(name) is None else self.take(name, kind)

    def count(self, name: str) -> int:
        value = self.take(name, int)
        if value < 0:
            raise ValueError(f"{name!r} is {value}; it must be 0 or more")
        return value

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        value = self.take(name, str)
        if value not in known:
            raise ValueError(f"{name!r} is {value!r}, not one of {', '.join(known)}")
        return value


def _step(document: object) -> Step:
    fields = Fields(document)
    reads = fields.take("reads", list)
    if not all(isinstance(read, str) for read in reads):
        raise ValueError("'reads' must be a list of names")
    return Step(fields.take("text", str), reads, fields.maybe("prompt", str))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
