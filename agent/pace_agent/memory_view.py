"""What a model's memory holds, as a screen shows it: residents as blocks, segments as a table, bytes.

:func:`memory_view` only looks at a session. What it makes is bounded in size, however long the session is,
and its time follows the residents.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pace_local.errors import ConfigError
from pace_local.explain import Judged, neighbours

if TYPE_CHECKING:
    from pace_local.segments import Segment
    from pace_local.session_view import SessionView

MOST_RUNS = 1_000
"""Runs of residents in one view; the oldest beyond that are joined into one of kind ``several``."""

NEWEST = 200
"""Newest segments that are in the table whether or not anything of them is resident."""

MOST_ROWS = 1_000
"""Segments in the table; of more that are resident, the newest."""

SEVERAL = "several"
"""Kind of a run that stands for several segments."""


@dataclass(frozen=True)
class ResidentRun:
    """Neighbours in the cache that are of one segment and kept for one reason."""

    segment: str
    """Empty for several."""

    kind: str
    first_position: int
    last_position: int
    tokens: int
    reason: str
    is_read: bool
    """Whether the current step reads it."""


@dataclass(frozen=True)
class SegmentRow:
    """A segment, resident or not."""

    name: str
    kind: str
    tokens: int
    resident: int
    """Tokens that are resident."""

    first_position: int | None
    """None: nothing of it is resident."""

    last_position: int | None
    pinned: bool
    isolated: bool
    why: str
    """Why it is kept and how it came, or that it was evicted."""


@dataclass(frozen=True)
class HeldBytes:
    """Bytes by what holds them."""

    keys: int
    values: int
    references: int
    host: int
    """Resident set of the process."""

    device: int
    """Used memory of all devices other than the CPU."""

    saved_host: int
    """Saved keys and values in memory; a part of ``host``."""

    saved_disk: int


@dataclass(frozen=True)
class MemoryView:
    """All that a screen shows of a session's memory. Units are tokens."""

    residents: tuple[ResidentRun, ...]
    """In the order of positions."""

    budget: int
    position_cap: int | None
    """None: positions are not bounded."""

    next_position: int
    session_tokens: int
    resident_tokens: int
    evicted: int
    """In all of the session."""

    renumberings: int
    """In all of the session."""

    segments: tuple[SegmentRow, ...]
    """In the order of the session, without role markers."""

    bytes: HeldBytes

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        # A tenth of what dataclasses.asdict takes, which copies each value deeply.
        return {
            **vars(self),
            "residents": [dict(vars(each)) for each in self.residents],
            "segments": [dict(vars(each)) for each in self.segments],
            "bytes": dict(vars(self.bytes)),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> MemoryView:
        """What :meth:`as_dict` made plain values of.

        Raises:
            ConfigError: if it is none.
        """
        try:
            return _adapter().validate_python(document)
        except ValidationError as error:
            raise ConfigError(f"it is no view of a memory: {error}") from None


_ADAPTERS: list[TypeAdapter[MemoryView]] = []


def _adapter() -> TypeAdapter[MemoryView]:
    if not _ADAPTERS:
        _ADAPTERS.append(TypeAdapter(MemoryView))
    return _ADAPTERS[0]


def memory_view(session: SessionView) -> MemoryView:
    """Look at what a session holds; it stays as it is."""
    owners, runs = _runs(session)
    parts: dict[int, list[ResidentRun]] = {}
    for owner, run in zip(owners, runs, strict=True):
        parts.setdefault(owner, []).append(run)
    stats = session.stats
    return MemoryView(
        residents=tuple(_joined(runs)),
        budget=session.config.budget,
        position_cap=stats.position_cap,
        next_position=session.next_position,
        session_tokens=session.session_length,
        resident_tokens=session.n_residents,
        evicted=stats.evicted_in_session,
        renumberings=stats.renumberings_in_session,
        segments=tuple(_row(session, each, parts.get(each.id, [])) for each in _listed(session, parts)),
        bytes=HeldBytes(
            keys=stats.key_bytes,
            values=stats.value_bytes,
            references=stats.reference_bytes,
            host=stats.host_bytes,
            device=sum(stats.device_bytes.values()),
            saved_host=stats.saved_host_bytes,
            saved_disk=stats.saved_disk_bytes,
        ),
    )


def _runs(session: SessionView) -> tuple[list[int], list[ResidentRun]]:
    """Ids of segments, and the run of each."""
    residents = session.residents
    judged = Judged(session.last_eviction, residents.token_index, session.segments)
    read = {each.segment for each in session.reads() if each.step == 0}
    # As lists: taking single numbers out of arrays would be most of the time.
    position, owner, reasons = (
        residents.position.tolist(),
        residents.segment.tolist(),
        judged.reasons.tolist(),
    )
    owners, runs = [], []
    # Tokens that are gone between two neighbours do not part them: ranks count on where indices do not.
    for first, end in neighbours(np.arange(len(position)), residents.segment, judged.reasons):
        segment = session.segments[owner[first]]
        owners.append(segment.id)
        runs.append(
            ResidentRun(
                segment=segment.name,
                kind=segment.kind,
                first_position=position[first],
                last_position=position[end - 1],
                tokens=end - first,
                reason=judged.words(reasons[first], segment.id, judged.scores[first:end]),
                is_read=segment.id in read,
            )
        )
    return owners, runs


def _joined(runs: Sequence[ResidentRun]) -> Sequence[ResidentRun]:
    """At most so many runs as there may be; if there are more, the oldest are one."""
    if len(runs) <= MOST_RUNS:
        return runs
    old, new = runs[: 1 - MOST_RUNS], runs[1 - MOST_RUNS :]
    several = ResidentRun(
        segment="",
        kind=SEVERAL,
        first_position=old[0].first_position,
        last_position=old[-1].last_position,
        tokens=sum(run.tokens for run in old),
        reason=f"{len(old):,} pieces",
        is_read=any(run.is_read for run in old),
    )
    return [several, *new]


def _listed(session: SessionView, resident: Iterable[int]) -> list[Segment]:
    """Segments for the table, in order: the newest, and those of which something is resident."""
    table = session.segments
    ids = {each for each in resident if table[each].kind != "framing"}
    backwards = (table[each] for each in range(len(table) - 1, -1, -1))
    # One that was read again as another one is no more, unless something of it is left.
    live = (each.id for each in backwards if each.kind != "framing" and table.later(each.id) is None)
    ids.update(itertools.islice(live, NEWEST))
    return [table[each] for each in sorted(ids)[-MOST_ROWS:]]


def _row(session: SessionView, segment: Segment, runs: Sequence[ResidentRun]) -> SegmentRow:
    why = "evicted"
    if runs:
        why = max(runs, key=lambda run: run.tokens).reason
        arrived = session.arrivals.get(segment.id)
        why = f"{why}; {arrived}" if arrived else why
    return SegmentRow(
        name=segment.name,
        kind=segment.kind,
        tokens=len(segment),
        resident=sum(run.tokens for run in runs),
        first_position=runs[0].first_position if runs else None,
        last_position=runs[-1].last_position if runs else None,
        pinned=segment.pinned,
        isolated=segment.isolated,
        why=why,
    )
