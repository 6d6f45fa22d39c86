"""Segments: named runs of tokens that make up a session, and the turns that frame them."""

from __future__ import annotations

import bisect
import dataclasses
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from pace_local.errors import ConfigError, PlanError

Kind = Literal["system", "user", "file", "tool", "answer", "reasoning", "plan", "framing", "text"]
KINDS: tuple[str, ...] = get_args(Kind)
CONTENT_KINDS = tuple(kind for kind in KINDS if kind != "framing")
"""What a caller can append; framing is what the session puts around it."""

ROLE_OF_KIND = {"system": "system", "answer": "assistant", "reasoning": "assistant"}
"""Chat role of a kind; all others are the user's."""


@dataclass(frozen=True)
class Segment:
    """A named run of tokens, ``start`` to ``end`` (exclusive) in token indices.

    ``turn`` numbers the chat turn that it belongs to. A ``framing`` segment holds the role markers of a
    turn; it is kept or dropped with the content of that turn.
    """

    id: int
    name: str
    kind: Kind
    start: int
    end: int
    turn: int
    pinned: bool = False
    isolated: bool = False
    """Whether it was read seeing only the pinned prefix and itself."""

    def __len__(self) -> int:
        """Number of tokens."""
        return self.end - self.start


@dataclass(frozen=True)
class Snapshot:
    """A table as it was once."""

    segments: tuple[Segment, ...]
    later: dict[int, int]


class SegmentTable:
    """All segments of a session in order; they touch and cover every token.

    Names are unique: a second segment of the same name gets a number behind it.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._by_name: dict[str, int] = {}
        self._copies: dict[str, int] = {}
        self._later: dict[int, int] = {}
        self.changed: set[int] = set()
        """Ids of segments that were added or changed since whoever writes them down has cleared this."""
        self._pinned: frozenset[int] = frozenset()
        self._first_user: int | None = None

    def __len__(self) -> int:
        """Number of segments."""
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """In order of tokens."""
        return iter(self._segments)

    def __getitem__(self, segment_id: int) -> Segment:
        """The segment of an id."""
        return self._segments[segment_id]

    def __contains__(self, name: object) -> bool:
        """Whether there is a segment of this name."""
        return name in self._by_name

    def add(
        self, name: str | None, kind: Kind, start: int, end: int, turn: int, *, pinned: bool = False
    ) -> Segment:
        """Append a segment that starts where the last one ends.

        Raises:
            ConfigError: for an unknown kind.
        """
        if kind not in KINDS:
            raise ConfigError(f"segment kind {kind!r} is not one of {', '.join(KINDS)}")
        assert start == (self._segments[-1].end if self._segments else 0)
        assert end >= start
        segment = Segment(
            len(self._segments), self._unique(name or f"{kind}:{turn}"), kind, start, end, turn, pinned
        )
        self._segments.append(segment)
        self.changed.add(segment.id)
        self._starts.append(start)
        self._by_name[segment.name] = segment.id
        if pinned:
            self._pinned |= {segment.id}
        if kind == "user" and self._first_user is None:
            self._first_user = segment.id
        return segment

    def extend(self, segment_id: int, end: int) -> None:
        """Move the end of the last segment."""
        assert segment_id == len(self._segments) - 1
        self.changed.add(segment_id)
        self._segments[segment_id] = dataclasses.replace(self._segments[segment_id], end=end)

    def set_pinned(self, segment_id: int, pinned: bool) -> None:
        """Mark a segment as one that always stays, or no longer."""
        self.changed.add(segment_id)
        self._segments[segment_id] = dataclasses.replace(self._segments[segment_id], pinned=pinned)
        self._pinned = (self._pinned - {segment_id}) | ({segment_id} if pinned else frozenset())

    def set_kind(self, segment_id: int, kind: Kind) -> None:
        """Note that a segment turned out to be of another kind; its name becomes that kind's and is free."""
        segment = self._segments[segment_id]
        del self._by_name[segment.name]
        self.changed.add(segment_id)
        name = self._unique(f"{kind}:{segment.turn}")
        self._segments[segment_id] = dataclasses.replace(segment, kind=kind, name=name)
        self._by_name[name] = segment_id

    def set_isolated(self, segment_id: int, isolated: bool) -> None:
        """Note that a segment was read in isolation, or not."""
        self.changed.add(segment_id)
        self._segments[segment_id] = dataclasses.replace(self._segments[segment_id], isolated=isolated)

    @property
    def pinned(self) -> frozenset[int]:
        """Ids of the segments that always stay."""
        return self._pinned

    @property
    def first_user(self) -> int | None:
        """Id of the first user message, if there is one."""
        return self._first_user

    def truncate(self, count: int) -> None:
        """Forget all segments but the first ``count``."""
        for segment in self._segments[count:]:
            del self._by_name[segment.name]
        del self._segments[count:]
        self._copies.clear()  # numbers that are free again are given again
        self._pinned = frozenset(i for i in self._pinned if i < count)
        if self._first_user is not None and self._first_user >= count:
            self._first_user = None
        del self._starts[count:]
        self.changed |= {old for old, new in self._later.items() if old < count <= new}
        self._later = {old: new for old, new in self._later.items() if new < count}

    def snapshot(self) -> Snapshot:
        """All that :meth:`restore` needs to come back to what it is now."""
        return Snapshot(tuple(self._segments), dict(self._later))

    def restore(self, snapshot: Snapshot) -> None:
        """Make the first segments, pins included, what they were; later ones are forgotten."""
        self.truncate(len(snapshot.segments))
        self.changed |= {
            one.id for one, was in zip(self._segments, snapshot.segments, strict=True) if one is not was
        }
        self.changed |= {old for old in self._later if old not in snapshot.later}
        self._segments[:] = snapshot.segments
        self._later = dict(snapshot.later)
        self._pinned = frozenset(segment.id for segment in self._segments if segment.pinned)

    def supersede(self, old: int, new: int) -> None:
        """From now on the name of the old segment means the new one, which has the same text."""
        self.changed.add(old)
        self._later[old] = new

    def later(self, segment_id: int) -> int | None:
        """The segment that has taken the place of one, if there is one."""
        return self._later.get(segment_id)

    def from_id(self, segment_id: int) -> list[Segment]:
        """This segment and all behind it."""
        return self._segments[segment_id:]

    def reaching_beyond(self, token_index: int) -> list[int]:
        """Ids of the segments that end behind a token index."""
        first = bisect.bisect_right(self._starts, token_index)
        if first and self._segments[first - 1].end > token_index:
            first -= 1
        return list(range(first, len(self._segments)))

    def take_over(self, other: SegmentTable, later: dict[int, int]) -> None:
        """Become what another table is."""
        self.__dict__.update(other.__dict__)
        self._later = dict(later)

    def named(self, name: str) -> Segment:
        """The segment of a name.

        Raises:
            PlanError: if there is none, with the closest names.
        """
        try:
            found = self._by_name[name]
            while found in self._later:
                found = self._later[found]
            return self._segments[found]
        except KeyError:
            close = difflib.get_close_matches(name, self._by_name, n=3, cutoff=0.4)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise PlanError(f"no segment is named {name!r}{hint}") from None

    def of_turn(self, segment: Segment) -> list[Segment]:
        """All segments of the same turn as this one, in order; they are neighbours."""
        first = last = segment.id
        while first > 0 and self._segments[first - 1].turn == segment.turn:
            first -= 1
        while last + 1 < len(self._segments) and self._segments[last + 1].turn == segment.turn:
            last += 1
        return self._segments[first : last + 1]

    def at(self, token_index: int) -> Segment:
        """The segment that holds a token."""
        return self._segments[bisect.bisect_right(self._starts, token_index) - 1]

    def _unique(self, name: str) -> str:
        if name not in self._by_name:
            return name
        number = self._copies.get(name, 1)
        while True:
            number += 1
            candidate = f"{name}#{number}"
            if candidate not in self._by_name:
                self._copies[name] = number
                return candidate
