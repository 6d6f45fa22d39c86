"""The records of a session's log: a header, then what each turn has changed.

A record holds what is new since the one before it, and whole what is small: residents, plan, counters. It
is checked by itself; whether it fits the records before it, :class:`~pace_local.sessions.state.SessionState`
checks.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pace_local.json_fields import (
    as_object,
    numbers,
    optional,
    required,
    rows,
    rows_of,
    step_of,
    token_ids,
    whole,
)
from pace_local.plan import Plan
from pace_local.segments import KINDS, Kind, Segment
from pace_local.sessions.packing import Range, Run, check_runs, pack_tokens, unpack_tokens
from pace_local.sessions.versions import FORMAT

_FLAGS = tuple(part.name for part in dataclasses.fields(Segment) if part.default is False)
"""Fields of a segment that are true or false; one that a log does not know yet is false."""


@dataclass(frozen=True)
class Header:
    """What a session was begun with.

    Raises:
        ValueError: for a value that is wrong.
    """

    type: ClassVar[str] = "header"
    pace_version: str
    build: Mapping[str, str]
    """How the native library was built: ``llama_cpp`` and ``patch``."""
    model_name: str
    model_path: str
    model_fingerprint: str
    """Hexadecimal digits that differ between models."""
    config: Mapping[str, Any]
    """Fields of :class:`~pace_local.config.SessionConfig` as plain values."""
    created: str
    """Date and time in ISO 8601 with the offset from UTC."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Check what types do not say."""
        if not self.model_name:
            raise ValueError("'model_name' is empty")
        if not self.model_fingerprint or set(self.model_fingerprint) - set(string.hexdigits):
            raise ValueError(f"'model_fingerprint' is {self.model_fingerprint!r}, not hexadecimal digits")
        try:
            has_offset = datetime.datetime.fromisoformat(self.created).tzinfo is not None
        except ValueError:
            has_offset = False
        if not has_offset:
            raise ValueError(f"'created' is {self.created!r}, not a time such as 2026-01-31T12:00:00+00:00")
        if not all(isinstance(fact, str) for fact in self.build.values()):
            raise ValueError(f"'build' is {dict(self.build)!r}; its values must be strings")

    def as_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "type": self.type,
            "format": self.format,
            "pace_version": self.pace_version,
            "build": dict(self.build),
            "model": {
                "name": self.model_name,
                "path": self.model_path,
                "fingerprint": self.model_fingerprint,
            },
            "config": dict(self.config),
            "created": self.created,
        }

    @classmethod
    def from_document(cls, document: object) -> Header:
        """The header that a JSON object holds.

        Raises:
            ValueError: with what is wrong.
        """
        fields = as_object(document)
        model = as_object(fields.get("model"))
        return cls(
            pace_version=required(fields, "pace_version", str),
            build=required(fields, "build", dict),
            model_name=required(model, "name", str),
            model_path=required(model, "path", str),
            model_fingerprint=required(model, "fingerprint", str),
            config=required(fields, "config", dict),
            created=required(fields, "created", str),
            format=whole(fields, "format"),
        )


@dataclass(frozen=True)
class StoredSegment:
    """A segment, and what else its session knows of it.

    Raises:
        ValueError: for a value that is wrong.
    """

    segment: Segment
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Plain values in any form, such as whether it was read in isolation."""

    def __post_init__(self) -> None:
        """Check every range."""
        segment = self.segment
        if segment.kind not in KINDS:
            raise ValueError(f"segment kind {segment.kind!r} is not one of {', '.join(KINDS)}")
        if not segment.name:
            raise ValueError(f"segment {segment.id} has no name")
        if not 0 <= segment.start <= segment.end:
            raise ValueError(f"segment {segment.name!r} runs from {segment.start} to {segment.end}")

    def as_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {**vars(self.segment), **({"extra": dict(self.extra)} if self.extra else {})}

    @classmethod
    def from_document(cls, document: object) -> StoredSegment:
        """The segment that a JSON object holds.

        Raises:
            ValueError: with what is wrong.
        """
        fields = as_object(document)
        segment = Segment(
            id=whole(fields, "id"),
            name=required(fields, "name", str),
            kind=cast(Kind, required(fields, "kind", str)),
            start=whole(fields, "start"),
            end=whole(fields, "end"),
            turn=whole(fields, "turn"),
            **{flag: bool(optional(fields, flag, bool)) for flag in _FLAGS},
        )
        return cls(segment, optional(fields, "extra", dict) or {})


@dataclass(frozen=True)
class TurnRecord:
    """What has changed since the record before, and how the session stands now.

    ``tokens`` begin at ``n_tokens - len(tokens)``. If the session was longer before, what lies behind that
    token index was withdrawn first: a checkpoint was restored, or a turn failed.

    Raises:
        ValueError: for a value that is wrong.
    """

    type: ClassVar[str] = "turn"
    tokens: Sequence[int]
    """Token ids that are new."""
    n_tokens: int
    """Length of the session, with them."""
    segments: Sequence[StoredSegment]
    """Those that are new or have changed, by id."""
    n_segments: int
    role: str | None
    """Of the last turn; None: there is none."""
    prompt: int | None
    """Id of the last prompt's segment."""
    pending: Sequence[int]
    """Tokens that will be read with what comes next."""
    n_turns: int
    plan: Plan = field(default_factory=Plan)
    residents: Sequence[Run] = ()
    counters: Mapping[str, int | float] = field(default_factory=dict)
    policy_state: Mapping[str, Any] = field(default_factory=dict)
    """Plain values in any form; arrays as :func:`~pace_local.sessions.packing.pack_array` has them."""
    evictions: Sequence[Sequence[Range]] = ()
    """Token indices that each eviction since the record before took, oldest first."""
    events: Sequence[Mapping[str, Any]] = ()
    """As :func:`pace_local.events.as_dict` gives them."""

    def __post_init__(self) -> None:
        """Make sequences immutable, and check what can be checked without the records before."""
        for name in ("tokens", "segments", "pending", "residents", "evictions", "events"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "evictions", tuple(map(tuple, self.evictions)))
        if len(self.tokens) > self.n_tokens:
            raise ValueError(f"{len(self.tokens)} tokens are new in a session of {self.n_tokens}")
        for token in (*self.tokens, *self.pending):
            if not 0 <= token < 2**31:
                raise ValueError(f"token {token} is none; token ids are 0 to {2**31 - 1}")
        if self.prompt is not None and not 0 <= self.prompt < self.n_segments:
            raise ValueError(f"the prompt is segment {self.prompt} of {self.n_segments}")
        self._check_segments()
        check_runs(self.residents, ("token index", "position"))
        if self.residents:
            first, position, count = self.residents[-1]
            if first + count > self.n_tokens:
                raise ValueError(f"token {first + count - 1} is resident in a session of {self.n_tokens}")
            if position + count > 2**31:
                raise ValueError(f"position {position + count - 1} is above {2**31 - 1}")
        for eviction in self.evictions:
            check_runs(eviction, ("token index",))
        if not all(isinstance(value, int) or math.isfinite(value) for value in self.counters.values()):
            raise ValueError(f"counters {dict(self.counters)} are not all finite")

    def _check_segments(self) -> None:
        before = -1
        for segment in (stored.segment for stored in self.segments):
            if not before < segment.id < self.n_segments:
                raise ValueError(f"segment {segment.id} comes after {before} of {self.n_segments} segments")
            if segment.end > self.n_tokens:
                raise ValueError(
                    f"segment {segment.name!r} ends at {segment.end} in a session of {self.n_tokens}"
                )
            if not 0 <= segment.turn < self.n_turns:
                raise ValueError(f"segment {segment.name!r} is of turn {segment.turn} of {self.n_turns}")
            before = segment.id

    def as_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "type": self.type,
            "tokens": pack_tokens(self.tokens),
            "n_tokens": self.n_tokens,
            "segments": [segment.as_document() for segment in self.segments],
            "n_segments": self.n_segments,
            "role": self.role,
            "prompt": self.prompt,
            "pending": list(self.pending),
            "n_turns": self.n_turns,
            "plan": plan_document(self.plan),
            "residents": [list(run) for run in self.residents],
            "counters": dict(self.counters),
            "policy_state": dict(self.policy_state),
            "evictions": [[list(part) for part in eviction] for eviction in self.evictions],
            "events": [dict(event) for event in self.events],
        }

    @classmethod
    def from_document(cls, document: object) -> TurnRecord:
        """The record that a JSON object holds.

        Raises:
            ValueError: with what is wrong.
        """
        fields = as_object(document)
        return cls(
            tokens=unpack_tokens(required(fields, "tokens", str)),
            n_tokens=whole(fields, "n_tokens"),
            segments=tuple(map(StoredSegment.from_document, required(fields, "segments", list))),
            n_segments=whole(fields, "n_segments"),
            role=optional(fields, "role", str),
            prompt=optional(fields, "prompt", int),
            pending=token_ids(fields, "pending"),
            n_turns=whole(fields, "n_turns"),
            plan=Plan(map(step_of, required(fields, "plan", list))),
            residents=cast("tuple[Run, ...]", rows(fields, "residents", 3)),
            counters=numbers(fields, "counters"),
            policy_state=required(fields, "policy_state", dict),
            evictions=tuple(
                cast("tuple[Range, ...]", rows_of(eviction, "evictions", 2))
                for eviction in required(fields, "evictions", list)
            ),
            events=tuple(map(as_object, required(fields, "events", list))),
        )


def plan_document(plan: Plan) -> list[dict[str, Any]]:
    """A plan as plain values for JSON."""
    return [{"text": step.text, "reads": list(step.reads), "prompt": step.prompt} for step in plan]


def record_of(document: object) -> Header | TurnRecord:
    """The record that a JSON object holds.

    Raises:
        ValueError: with what is wrong.
    """
    kind = required(as_object(document), "type", str)
    if kind == Header.type:
        return Header.from_document(document)
    if kind == TurnRecord.type:
        return TurnRecord.from_document(document)
    raise ValueError(f"a record of type {kind!r} is not one of {Header.type}, {TurnRecord.type}")
