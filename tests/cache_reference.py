"""The cache of a session, written the slow and obvious way: what is resident, where, and why.

Evictions and when they come, closed gaps, renumberings, failures, pins and what the plan reads. Scores of
policies that go by attention are told to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from keep_reference import Resident, slow_keep
from score_reference import own_scores, own_target

from pace_local import SessionConfig
from pace_local.memory import Read, Reason
from pace_local.policies import Policy

Event = tuple[object, ...]


class Stopped(Exception):  # noqa: N818 - a way out, as in the session
    """An operation ends here; ``status`` says why: "cancelled", "full", "config" or a native status."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Part:
    """A segment."""

    name: str
    kind: str
    start: int
    end: int
    turn: int
    pinned: bool


@dataclass(frozen=True)
class Slot:
    """A resident."""

    index: int
    position: int
    stay: int = field(default=0, compare=False)
    """A number for each time that a token comes into the cache."""


@dataclass(frozen=True)
class Scored:
    """What the real session's policy saw and said when one eviction was tried."""

    slots: list[Slot]
    session_length: int
    scores: list[float]


@dataclass
class Totals:
    """Counts over the whole session."""

    evicted: int = 0
    evictions: int = 0
    renumberings: int = 0
    highest_position: int = -1


@dataclass
class CacheReference:
    """Tokens, segments, residents, and the plan."""

    config: SessionConfig
    policy: Policy

    tokens: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    """Number of the part that each token belongs to."""
    slots: list[Slot] = field(default_factory=list)
    steps: list[tuple[str, ...]] = field(default_factory=list)
    """Names that each step of the plan reads."""
    events: list[Event] = field(default_factory=list)
    """Of the running operation, or the last one."""
    totals: Totals = field(default_factory=Totals)
    reasons: list[Reason] | None = None
    """Of the last eviction."""
    scores: list[float] = field(default_factory=list)
    """Likewise."""
    scored: list[Scored] = field(default_factory=list)
    """Of the running operation, in order; each is taken out as its eviction is come to."""
    since_eviction: int = 0
    """Tokens decoded since an eviction was last tried."""
    n_stays: int = 0
    fail_next: str = "nowhere"
    n_turns: int = 0
    prompt: int | None = None
    pending: list[int] = field(default_factory=list)
    arriving: Read | None = None
    """What is being read or written, if a step was said to read it."""
    told: set[tuple[int, int, int]] = field(default_factory=set)
    cancelled: bool = False
    cancel_at_event: int | None = None

    def next_position(self) -> int:
        return self.slots[-1].position + 1 if self.slots else 0

    def _decode(self, tokens: Sequence[int], segment: int) -> None:
        if not self.policy.evicts and len(self.slots) + len(tokens) > self.config.budget:
            raise Stopped("full")
        if self.bounds_positions and self.next_position() + len(tokens) > self.config.position_cap:
            self._renumber()
        if self.cancelled:
            raise Stopped("cancelled")
        slots, n, part = list(self.slots), len(self.tokens), self.parts[segment]
        for token in tokens:
            self.slots.append(Slot(len(self.tokens), self.next_position(), self.n_stays))
            self.n_stays += 1
            self.tokens.append(token)
            self.owner.append(segment)
        self.parts[segment] = replace(part, end=len(self.tokens))
        self.totals.highest_position = max(self.totals.highest_position, self.next_position() - 1)
        self.since_eviction += len(tokens)
        if self._is_time_to_evict():
            try:
                self._evict()
            except Stopped:
                self.slots, self.parts[segment] = slots, part
                del self.tokens[n:], self.owner[n:]
                raise

    def _is_time_to_evict(self) -> bool:
        if len(self.slots) > self.config.budget:
            return True
        every = self.config.evict_every
        if every is None or not self.policy.evicts:
            return False
        return len(self.slots) > self._target() and self.since_eviction >= every

    @property
    def bounds_positions(self) -> bool:
        asked = self.config.bound_positions
        return self.policy.bounds_positions if asked is None else asked

    def _evict(self) -> None:
        self.since_eviction = 0
        assert self.scored, f"the session did not evict at {len(self.tokens)} tokens"
        scored = self.scored.pop(0)
        assert (scored.session_length, scored.slots) == (len(self.tokens), self.slots)
        self._fail_at("plan", "NO_MEMORY")
        residents = []
        for slot in self.slots:
            segment = self.owner[slot.index]
            part = self.parts[segment]
            residents.append(Resident(slot.index, segment, part.turn, part.kind == "framing"))
        target, indices = self._target(), [slot.index for slot in self.slots]
        own = own_scores(self.policy, indices, len(self.tokens))
        scores = scored.scores if own is None else own
        reasons, partial = slow_keep(
            residents,
            scores,
            target=target,
            lowered=target - own_target(self.policy, indices, target),
            recent=self._recent(),
            reads=self._reads(),
            pinned=frozenset(i for i, part in enumerate(self.parts) if part.pinned),
            sinks=self.policy.sinks,
            reads_plan=self.policy.reads_plan,
        )
        if self._merges(reasons, residents):
            self._fail_at("allocate", "NO_MEMORY")
            if self.fail_next == "compute":
                self.fail_next = "nowhere"  # references are only being taken: nothing is merged, nothing lost
        self.reasons, self.scores = reasons, scores
        lost: dict[str, int] = {}
        for reason, resident in zip(self.reasons, residents, strict=True):
            if reason == Reason.EVICTED:
                name = self.parts[resident.segment].name
                lost[name] = lost.get(name, 0) + 1
        stays = [reason != Reason.EVICTED for reason in self.reasons]
        self.slots = [slot for slot, stay in zip(self.slots, stays, strict=True) if stay]
        if self.policy.closes_gaps:
            if self.next_position() != len(self.slots):
                self._lose_cache()
            self._close_gaps()
        self.totals.evicted += sum(lost.values())
        self.totals.evictions += 1
        self._emit("evicted", sum(lost.values()), len(self.slots), lost)
        for read in partial:
            told = (read.segment, read.step, read.kept)
            if told not in self.told:
                self.told.add(told)
                name = self.parts[read.segment].name
                self._emit("reads_over_budget", read.step, name, read.kept, read.resident)

    def _renumber(self) -> None:
        n, before = len(self.slots), self.next_position()
        self._fail_at("plan", "NO_MEMORY")
        self._fail_at("allocate", "NO_MEMORY")
        self._lose_cache()
        self._close_gaps()
        self.totals.renumberings += 1
        self._emit("renumbered", n, before, n)

    def _merges(self, reasons: Sequence[Reason], residents: Sequence[Resident]) -> bool:
        """Whether rows are merged: there is something to merge, and something to merge it into."""
        merging = self.policy.merging
        gone = any(
            reason == Reason.EVICTED and not resident.framing
            for reason, resident in zip(reasons, residents, strict=True)
        )
        if merging is None or not merging.early or not gone:
            return False
        newest = math.floor(merging.newest_share * self._target())
        return Reason.SCORE in reasons[: max(0, len(reasons) - newest)]

    def _lose_cache(self) -> None:
        """If the device is to fail now: all residents are decoded again, at positions from 0 on."""
        if self.fail_next == "compute":
            self.fail_next = "nowhere"
            self._close_gaps()
            self._emit("rebuilt", len(self.slots))

    def _close_gaps(self) -> None:
        self.slots = [replace(slot, position=position) for position, slot in enumerate(self.slots)]

    def _fail_at(self, point: str, status: str) -> None:
        if self.fail_next == point:
            self.fail_next = "nowhere"
            raise Stopped(status)

    def _reads(self) -> list[Read]:
        reads = [] if self.prompt is None else [Read(self.prompt, 0)]
        number_of = {part.name: i for i, part in enumerate(self.parts)}
        planned = [Read(number_of[name], step) for name, step in self._next_use().items()]
        if self.arriving is not None and self.arriving.segment not in {read.segment for read in planned}:
            planned.append(self.arriving)
        planned.sort(key=lambda read: read.step)
        return reads + [read for read in planned if read.segment != self.prompt]

    def _next_use(self) -> dict[str, int]:
        uses: dict[str, int] = {}
        for step, names in enumerate(self.steps):
            for name in names:
                uses.setdefault(name, step)
        return uses

    # Sizes and pins

    def _target(self) -> int:
        return math.floor(self.config.budget * self.config.soft_target)

    def _recent(self) -> int:
        return self.config.budget // 8 if self.config.recent is None else self.config.recent

    def _can_pin(self, price: int) -> bool:
        held = sum(self._price(part) for part in self.parts if part.pinned)
        return held + price <= self._target() - self._recent() - self.policy.sinks

    def _price(self, part: Part) -> int:
        """A segment's tokens, and all role markers of its turn, those included that are still to come."""
        markers = sum(p.end - p.start for p in self.parts if p.turn == part.turn and p.kind == "framing")
        if part.turn == self.n_turns - 1:
            markers += len(self.pending)
        return markers if part.kind == "framing" else markers + part.end - part.start

    # Events

    def _emit(self, *event: object) -> None:
        self.events.append(event)
        if len(self.events) == self.cancel_at_event:
            self.cancelled = True
