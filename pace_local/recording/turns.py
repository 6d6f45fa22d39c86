"""What a session was told and what it answered, as typed turns and as JSON objects.

Every turn that adds tokens also holds how long the session was after it and a checksum of all tokens up to
there, so that a replay knows whether it holds the same tokens. The role markers that close an answer belong
to the next turn, since that is when they are read.
"""

from __future__ import annotations

import dataclasses
import zlib
from array import array
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

import numpy as np

from pace_local.events import FinishReason
from pace_local.json_fields import as_object, one_of, optional, required, step_of, token_ids, whole
from pace_local.plan import Step
from pace_local.segments import CONTENT_KINDS, Kind


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
    isolated: bool | None = None
    """As it was asked for."""


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
    fields = as_object(document)
    kind = required(fields, "type", str)
    if kind == Appended.type:
        return Appended(
            text=required(fields, "text", str),
            kind=cast(Kind, one_of(fields, "kind", CONTENT_KINDS)),
            name=required(fields, "name", str),
            pinned=required(fields, "pinned", bool),
            next_use=optional(fields, "next_use", int),
            length=whole(fields, "length"),
            checksum=whole(fields, "checksum"),
            isolated=optional(fields, "isolated", bool),
        )
    if kind == Planned.type:
        return Planned(tuple(step_of(step) for step in required(fields, "steps", list)))
    if kind == StepDone.type:
        return StepDone()
    if kind == Pinned.type:
        return Pinned(required(fields, "name", str), required(fields, "pinned", bool))
    if kind == Generated.type:
        return Generated(
            prompt=optional(fields, "prompt", str),
            name=required(fields, "name", str),
            tokens=token_ids(fields, "tokens"),
            end_token=optional(fields, "end_token", int),
            text=required(fields, "text", str),
            finish=cast(FinishReason, one_of(fields, "finish", get_args(FinishReason))),
            next_use=optional(fields, "next_use", int),
            length=whole(fields, "length"),
            checksum=whole(fields, "checksum"),
        )
    known = ", ".join(turn.type for turn in get_args(Turn))
    raise ValueError(f"turn {kind!r} is not one of {known}")
