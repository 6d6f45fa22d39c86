"""Which residents stay: a policy's scores and the plan's reads, turned into one keep plan.

:func:`plan_keep` is a pure function of its arguments and the same for every policy; that is what makes
comparisons between policies fair. It fills the target in this order:

1. sinks and pinned segments;
2. a floor of the newest tokens, so that the text being worked on is never lost to a large plan;
3. for policies that follow the plan, what its steps read: nearest step first, whole segments before parts;
4. the rest by score, ties to the newer token; what is scored ``-inf`` goes even if there is room.

The role markers of a chat turn stay as long as any of its content does, and their cost is part of its price.
Those of the newest turn stay even before it has content: it is being read or written, and what comes next
must not stand without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import CacheView, Policy


class Reason(IntEnum):
    """Why a resident is kept."""

    EVICTED = 0
    SINK = 1
    PINNED = 2
    RECENT = 3
    READ = 4
    SCORE = 5
    FRAMING = 6


@dataclass(frozen=True)
class Read:
    """A segment that a step reads: its id, and how many steps away that step is."""

    segment: int
    step: int


@dataclass(frozen=True)
class PartialRead:
    """A read of which only ``kept`` of ``resident`` tokens fit."""

    segment: int
    step: int
    kept: int
    resident: int


@dataclass(frozen=True)
class KeepPlan:
    """Who stays: ``keep`` holds ranks, strictly increasing; the other arrays have a value a resident."""

    keep: npt.NDArray[np.uint32]
    reasons: npt.NDArray[np.int8]
    """:class:`Reason` of each."""

    scores: npt.NDArray[np.float64]
    """The policy's; higher is kept first."""

    over_budget: tuple[PartialRead, ...] = ()


class _Selection:
    """Residents chosen so far, and what is left of the target."""

    def __init__(self, view: CacheView, target: int) -> None:
        self.view = view
        self.left = target
        self.reasons = np.zeros(len(view), dtype=np.int8)
        # What it costs to open a turn: its resident role markers.
        turns, self._turn = np.unique(view.turn, return_inverse=True)
        self._framing_cost = np.bincount(self._turn[view.framing], minlength=len(turns))
        self._is_open = np.zeros(len(turns), dtype=bool)

    def take(self, ranks: npt.NDArray[np.int64], reason: Reason, limit: int | None = None) -> int:
        """Take content of the given ranks in that order while it fits, and return how many were taken."""
        ranks = ranks[(self.reasons[ranks] == Reason.EVICTED) & ~self.view.framing[ranks]]
        cost = self._cost_in_order(ranks)
        room = self.left if limit is None else min(limit, self.left)
        count = int(np.searchsorted(cost, room, side="right"))
        taken = ranks[:count]
        if count:
            self.left -= int(cost[count - 1])
            self.reasons[taken] = reason
            self._is_open[self._turn[taken]] = True
        return count

    def cost(self, ranks: npt.NDArray[np.int64]) -> int:
        """What it would take to have all of these."""
        ranks = ranks[(self.reasons[ranks] == Reason.EVICTED) & ~self.view.framing[ranks]]
        cost = self._cost_in_order(ranks)
        return int(cost[-1]) if len(cost) else 0

    def close(self) -> None:
        """Add the role markers of the turns that have content."""
        chosen = self.view.framing & self._is_open[self._turn] & (self.reasons == Reason.EVICTED)
        self.reasons[chosen] = Reason.FRAMING

    def take_framing_of(self, ranks: npt.NDArray[np.int64], reason: Reason) -> None:
        """Take role markers themselves, as sinks or as parts of pinned segments, while they fit."""
        ranks = ranks[self.view.framing[ranks] & (self.reasons[ranks] == Reason.EVICTED)]
        unpaid = ~self._is_open[self._turn[ranks]]
        fits = np.cumsum(unpaid) <= self.left
        ranks, unpaid = ranks[fits], unpaid[fits]
        self.reasons[ranks] = reason
        self.left -= int(np.count_nonzero(unpaid))
        np.subtract.at(self._framing_cost, self._turn[ranks[unpaid]], 1)

    def take_newest_markers(self) -> int:
        """Take the role markers of the newest turn, all or none, and return what they cost."""
        newest = self.view.turn == self.view.turn[-1]
        ranks = np.flatnonzero(newest & self.view.framing & (self.reasons == Reason.EVICTED))
        cost = 0 if self._is_open[self._turn[-1]] else len(ranks)
        if cost > self.left:
            return 0
        self.take_framing_of(ranks, Reason.RECENT)
        return cost

    def _cost_in_order(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        turn = self._turn[ranks]
        cost = np.ones(len(ranks), dtype=np.int64)
        opened, first = np.unique(turn, return_index=True)
        closed = ~self._is_open[opened]
        cost[first[closed]] += self._framing_cost[opened[closed]]
        return np.cumsum(cost)


def plan_keep(
    view: CacheView,
    policy: Policy,
    *,
    recent: int,
    reads: Sequence[Read] = (),
) -> KeepPlan:
    """Choose who stays.

    Args:
        view: the residents, which of them are pinned, and how many stay at most.
        policy: scores them.
        recent: newest tokens that stay whatever is read.
        reads: what the plan's steps read, nearest step first; ignored unless the policy follows the plan.
    """
    n = len(view)
    score = policy.score(view)
    lowered = max(0, view.target - policy.target(view))
    if n <= view.target - lowered and not np.any(np.isneginf(score)):
        return KeepPlan(np.arange(n, dtype=np.uint32), np.full(n, Reason.SCORE, dtype=np.int8), score)
    chosen = _Selection(view, view.target)
    every = np.arange(n)
    _take_pinned(chosen, policy)
    floor = max(0, recent - chosen.take_newest_markers())
    # A policy that keeps less than it may does so at the cost of what follows, not of what is pinned.
    chosen.left = max(0, chosen.left - lowered)
    chosen.take(every[::-1], Reason.RECENT, limit=floor)
    over_budget = _take_reads(chosen, reads) if policy.reads_plan else ()
    # A stable sort from the newest on: ties go to the newer token.
    order = every[::-1][np.argsort(-score[::-1], kind="stable")]
    chosen.take(order[~np.isneginf(score[order])], Reason.SCORE)
    chosen.close()
    keep = np.flatnonzero(chosen.reasons != Reason.EVICTED).astype(np.uint32)
    return KeepPlan(keep, chosen.reasons, score, over_budget)


def plan_step(view: CacheView, policy: Policy, reads: Sequence[Read]) -> KeepPlan:
    """Choose who stays when a step starts that is to see nothing but what it reads.

    Sinks and pinned segments stay, and what is resident of the reads. Nothing of the steps before does, their
    last words neither: they would be mistaken for what this step is about.

    Args:
        view: the residents, which of them are pinned, and how many stay at most.
        policy: for its sinks.
        reads: what the step reads.
    """
    chosen = _Selection(view, view.target)
    _take_pinned(chosen, policy)
    over_budget = _take_reads(chosen, reads)
    chosen.close()
    keep = np.flatnonzero(chosen.reasons != Reason.EVICTED).astype(np.uint32)
    return KeepPlan(keep, chosen.reasons, np.zeros(len(view)), over_budget)


def _take_pinned(chosen: _Selection, policy: Policy) -> None:
    view = chosen.view
    every = np.arange(len(view))
    sinks = every[: int(np.searchsorted(view.token_index, policy.sinks))]
    pinned = every[np.isin(view.segment, list(view.pinned))]
    for ranks, reason in ((sinks, Reason.SINK), (pinned, Reason.PINNED)):
        chosen.take_framing_of(ranks, reason)
        chosen.take(ranks, reason)


def _take_reads(chosen: _Selection, reads: Sequence[Read]) -> tuple[PartialRead, ...]:
    ranks_of = {read.segment: np.flatnonzero(chosen.view.segment == read.segment) for read in reads}
    too_large = []
    for read in reads:
        ranks = ranks_of[read.segment]
        if chosen.cost(ranks) <= chosen.left:
            chosen.take(ranks, Reason.READ)
        else:
            too_large.append(read)
    partial = []
    for read in too_large:
        ranks = ranks_of[read.segment]
        chosen.take(ranks, Reason.READ)
        kept = int(np.count_nonzero(chosen.reasons[ranks] != Reason.EVICTED))
        partial.append(PartialRead(read.segment, read.step, kept, len(ranks)))
    return tuple(partial)
