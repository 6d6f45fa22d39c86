"""How a session stands after the records of its log."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pace_local.plan import Plan
from pace_local.segments import SegmentTable
from pace_local.sessions.folder import log_path
from pace_local.sessions.log import read_log
from pace_local.sessions.packing import Run
from pace_local.sessions.records import Header, StoredSegment, TurnRecord, record_of


@dataclass(frozen=True)
class _Change:
    """What a record does to a state, checked."""

    base: int
    """Tokens that stay."""
    kept: int
    """Segments that stay, as they are or changed."""
    segments: dict[int, StoredSegment]
    """By id: those that stay but change, and new ones."""


class SessionState:
    """What a session holds and knows, apart from its keys and values. Empty until records are applied.

    The same as the session that wrote the records had: :meth:`apply` is all that changes it.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.tokens = array("i")
        """All of the session, by token index."""
        self.segments: list[StoredSegment] = []
        """In order of tokens; a segment's id is its place."""
        self.role: str | None = None
        self.prompt: int | None = None
        self.pending: Sequence[int] = ()
        self.n_turns = 0
        self.plan = Plan()
        self.residents: Sequence[Run] = ()
        self.counters: Mapping[str, int | float] = {}
        self.policy_state: Mapping[str, Any] = {}
        self.n_records = 0
        """Records of turns."""
        self.problem: str | None = None
        """Why the end of the log was left out, for people; None: nothing was."""
        self.torn = False
        """Whether that was just one record that was never finished."""
        self._ids: dict[str, int] = {}

    @property
    def n_residents(self) -> int:
        """Tokens that were in the cache."""
        return sum(count for *_, count in self.residents)

    @property
    def pinned(self) -> list[StoredSegment]:
        """Segments that always stay."""
        return [stored for stored in self.segments if stored.segment.pinned]

    def segment_table(self) -> SegmentTable:
        """The segments as a session has them."""
        table = SegmentTable()
        for stored in self.segments:
            part = stored.segment
            table.add(part.name, part.kind, part.start, part.end, part.turn, pinned=part.pinned)
            if part.isolated:
                table.set_isolated(part.id, True)
            assert table[part.id] == part
        return table

    def take(self, document: object) -> Header | TurnRecord:
        """Apply a record as it stands in the log, the header first, then turns; returns it.

        Raises:
            ValueError: if it is wrong or does not fit; the state is as it was then.
        """
        record = record_of(document)
        if isinstance(record, TurnRecord):
            if self.header is None:
                raise ValueError("the header is missing")
            self.apply(record)
        elif self.header is not None:
            raise ValueError("it is a second header")
        else:
            self.header = record
        return record

    def check(self, record: TurnRecord) -> None:
        """Check that a record fits; :meth:`apply` does so too.

        Raises:
            ValueError: if it does not, with what is wrong.
        """
        self._change(record)

    def apply(self, record: TurnRecord) -> None:
        """Do what a record says. All or nothing; the cost is that of the record, not of the session.

        Raises:
            ValueError: if it does not fit what is here.
        """
        change = self._change(record)
        for stored in self.segments[change.kept :]:
            del self._ids[stored.segment.name]
        for id_ in change.segments:
            if id_ < change.kept:
                del self._ids[self.segments[id_].segment.name]
        for id_, stored in change.segments.items():
            self._ids[stored.segment.name] = id_
        del self.segments[change.kept :]
        for id_, stored in sorted(change.segments.items()):
            self.segments[id_ : id_ + 1] = [stored]
        del self.tokens[change.base :]
        self.tokens.extend(record.tokens)
        self.role, self.prompt, self.pending = record.role, record.prompt, record.pending
        self.n_turns, self.plan, self.residents = record.n_turns, record.plan, record.residents
        self.counters, self.policy_state = record.counters, record.policy_state
        self.n_records += 1

    def _change(self, record: TurnRecord) -> _Change:
        base = record.n_tokens - len(record.tokens)
        if base > len(self.tokens):
            raise ValueError(
                f"tokens {len(self.tokens)} to {base - 1} are missing before {len(record.tokens)} new ones"
            )
        kept, segments = self._kept(base)
        if record.n_segments < kept:
            kept = record.n_segments
        segments = {id_: stored for id_, stored in segments.items() if id_ < kept}
        segments.update((stored.segment.id, stored) for stored in record.segments)
        for id_ in range(kept, record.n_segments):
            if id_ not in segments:
                raise ValueError(f"segment {id_} of {record.n_segments} is missing")
        change = _Change(base, kept, segments)
        self._check_cover(record, change)
        self._check_names(record, change)
        return change

    def _kept(self, base: int) -> tuple[int, dict[int, StoredSegment]]:
        """How many segments begin within the first ``base`` tokens, and those of them that are cut short."""
        kept = len(self.segments)
        cut = {}
        while kept:
            segment = self.segments[kept - 1].segment
            if segment.end <= base:
                break
            if segment.start < base:
                cut[segment.id] = replace(self.segments[kept - 1], segment=replace(segment, end=base))
                break
            kept -= 1
        return kept, cut

    def _check_cover(self, record: TurnRecord, change: _Change) -> None:
        """Segments touch, in the order of turns, and cover all tokens."""

        def part(id_: int) -> StoredSegment:
            return change.segments.get(id_) or self.segments[id_]

        # What has not changed touches its neighbours already.
        for id_ in sorted({*change.segments, *(next_ + 1 for next_ in change.segments)}):
            if id_ >= record.n_segments:
                continue
            segment = part(id_).segment
            end, turn = (part(id_ - 1).segment.end, part(id_ - 1).segment.turn) if id_ else (0, 0)
            if segment.start != end:
                raise ValueError(
                    f"segment {segment.name!r} starts at {segment.start} and the one before it ends at {end}"
                )
            if segment.turn < turn:
                raise ValueError(f"segment {segment.name!r} is of turn {segment.turn}, behind one of {turn}")
        covered = part(record.n_segments - 1).segment.end if record.n_segments else 0
        if covered != record.n_tokens:
            raise ValueError(f"segments cover {covered} of {record.n_tokens} tokens")

    def _check_names(self, record: TurnRecord, change: _Change) -> None:
        """Names are unique, and the plan reads no others."""
        new: dict[str, int] = {}
        for id_, stored in change.segments.items():
            name = stored.segment.name
            old = self._ids.get(name)
            is_taken = old is not None and old < change.kept and old not in change.segments
            if is_taken or name in new:
                raise ValueError(f"two segments are named {name!r}")
            new[name] = id_
        for name in record.plan.next_use():
            old = self._ids.get(name)
            if name not in new and (old is None or old >= change.kept or old in change.segments):
                raise ValueError(f"the plan reads {name!r}, which is no segment")


def state_of(path: Path) -> SessionState:
    """How the session in a folder stands, without changing anything; another process may be using it.

    What follows the last right record is left out, and ``problem`` says why.

    Raises:
        FileError: if there is no log that can be read.
        StorageError: if it may not be read.
    """
    state = SessionState()
    scanned = read_log(log_path(path), state.take)
    state.problem, state.torn = scanned.problem, scanned.torn
    return state
