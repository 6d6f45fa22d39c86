"""A keep plan made the slow way: one resident after the other, in plain Python, straight from the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pace_local.memory import PartialRead, Read, Reason


@dataclass(frozen=True)
class Resident:
    """One resident, as the rules see it."""

    index: int
    segment: int
    turn: int
    framing: bool = False


@dataclass
class Choice:
    """Who stays so far, why, and how many more may."""

    residents: Sequence[Resident]
    left: int
    why: dict[int, Reason] = field(default_factory=dict)
    promised: set[int] = field(default_factory=set)
    """Role markers that will stay because their turn has content that stays; they are paid for."""

    def __post_init__(self) -> None:
        self._markers: dict[int, list[int]] = {}
        for rank, resident in enumerate(self.residents):
            if resident.framing:
                self._markers.setdefault(resident.turn, []).append(rank)

    def unpaid_markers(self, rank: int) -> list[int]:
        markers = self._markers.get(self.residents[rank].turn, [])
        return [marker for marker in markers if marker not in self.promised and marker not in self.why]

    def take(self, ranks: Iterable[int], reason: Reason, limit: int | None = None) -> None:
        """Content in the given order, each with its turn's markers, up to the first that does not fit."""
        spent = 0
        for rank in ranks:
            if rank in self.why or self.residents[rank].framing:
                continue
            markers = self.unpaid_markers(rank)
            price = 1 + len(markers)
            if price > self.left or (limit is not None and spent + price > limit):
                return
            spent += price
            self.left -= price
            self.why[rank] = reason
            self.promised.update(markers)

    def take_markers(self, ranks: Iterable[int], reason: Reason) -> None:
        """Role markers themselves, up to the first that does not fit."""
        for rank in ranks:
            if rank in self.why or not self.residents[rank].framing:
                continue
            if rank not in self.promised:
                if self.left < 1:
                    return
                self.left -= 1
            self.why[rank] = reason

    def price(self, ranks: Iterable[int]) -> int:
        """What it would take to have all of these."""
        trial = Choice(self.residents, 10**9, dict(self.why), set(self.promised))
        trial.take(ranks, Reason.READ)
        return 10**9 - trial.left


def slow_keep(
    residents: Sequence[Resident],
    scores: Sequence[float],
    *,
    target: int,
    recent: int,
    reads: Sequence[Read] = (),
    pinned: frozenset[int] = frozenset(),
    sinks: int = 4,
    reads_plan: bool = False,
    lowered: int = 0,
) -> tuple[list[Reason], list[PartialRead]]:
    """A reason for each resident, and the reads that did not fit; what ``plan_keep`` must come to.

    What is scored ``-inf`` is never kept for its score. ``lowered`` is by how much the policy's own target is
    below the view's: what always stays does not pay for that.
    """
    every = range(len(residents))
    worth_something = [rank for rank in every if scores[rank] != float("-inf")]
    if len(residents) <= target - lowered and len(worth_something) == len(residents):
        return [Reason.SCORE for _ in every], []
    choice = Choice(residents, target)
    for ranks, reason in (
        ([rank for rank in every if residents[rank].index < sinks], Reason.SINK),
        ([rank for rank in every if residents[rank].segment in pinned], Reason.PINNED),
    ):
        choice.take_markers(ranks, reason)
        choice.take(ranks, reason)
    newest = [rank for rank in every if residents[rank].turn == residents[-1].turn]
    markers = [rank for rank in newest if residents[rank].framing and rank not in choice.why]
    cost = len([rank for rank in markers if rank not in choice.promised])
    if cost <= choice.left:
        choice.take_markers(markers, Reason.RECENT)
        recent -= cost
    choice.left = max(0, choice.left - lowered)
    choice.take(reversed(every), Reason.RECENT, limit=recent)
    partial = []
    if reads_plan:
        tokens_of = {read: [r for r in every if residents[r].segment == read.segment] for read in reads}
        too_large = []
        for read in reads:
            if choice.price(tokens_of[read]) <= choice.left:
                choice.take(tokens_of[read], Reason.READ)
            else:
                too_large.append(read)
        for read in too_large:
            choice.take(tokens_of[read], Reason.READ)
            kept = sum(rank in choice.why for rank in tokens_of[read])
            partial.append(PartialRead(read.segment, read.step, kept, len(tokens_of[read])))
    choice.take(sorted(worth_something, key=lambda rank: (-scores[rank], -rank)), Reason.SCORE)
    for rank in choice.promised:
        choice.why.setdefault(rank, Reason.FRAMING)
    return [choice.why.get(rank, Reason.EVICTED) for rank in every], partial
