"""Who stays when a step starts: nothing but sinks, pins and reads, and never more than the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cache_views import make_view
from hypothesis import given, settings
from hypothesis import strategies as st
from keep_reference import Resident

from pace_local.memory import KeepPlan, Read, Reason, plan_step
from pace_local.policies import CacheView, Policy


class Sinks(Policy):
    """Only its sinks are asked for."""

    name = "sinks"

    def __init__(self, sinks: int) -> None:
        self.sinks = sinks

    def score(self, view: CacheView) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        raise AssertionError("nothing is scored when a step starts")


@dataclass(frozen=True)
class Case:
    residents: tuple[Resident, ...]
    target: int
    pinned: frozenset[int]
    reads: tuple[int, ...]
    sinks: int

    def plan(self) -> KeepPlan:
        view = make_view(
            [resident.index for resident in self.residents],
            target=self.target,
            segment=[resident.segment for resident in self.residents],
            turn=[resident.turn for resident in self.residents],
            framing=[resident.framing for resident in self.residents],
            pinned=self.pinned,
        )
        return plan_step(view, Sinks(self.sinks), [Read(segment, 0) for segment in self.reads])

    def is_sink(self, rank: int) -> bool:
        return self.residents[rank].index < self.sinks

    def wanted(self) -> set[int]:
        """Ranks of sinks, pins and reads, and the role markers of their turns."""
        named = {*self.pinned, *self.reads}
        own = {
            rank
            for rank, resident in enumerate(self.residents)
            if self.is_sink(rank) or (resident.segment in self.pinned)
        }
        own |= {
            rank
            for rank, resident in enumerate(self.residents)
            if resident.segment in named and not resident.framing
        }
        turns = {self.residents[rank].turn for rank in own if not self.residents[rank].framing}
        return own | {
            rank
            for rank, resident in enumerate(self.residents)
            if resident.framing and resident.turn in turns
        }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    index, segment, residents = draw(st.integers(0, 3)), 0, []
    for turn in range(draw(st.integers(1, 6))):
        for length, framing in ((draw(st.integers(0, 2)), True), (draw(st.integers(0, 8)), False), (1, True)):
            gone = draw(st.integers(0, 255))
            residents += [
                Resident(index + i, segment, turn, framing) for i in range(length) if not gone >> i & 1
            ]
            index, segment = index + length, segment + 1
    some = st.integers(0, segment - 1)
    return Case(
        tuple(residents),
        target=draw(st.integers(1, len(residents) + 2)),
        pinned=frozenset(draw(st.sets(some, max_size=2))),
        reads=tuple(draw(st.lists(some, unique=True, max_size=4))),
        sinks=draw(st.integers(0, 4)),
    )


def kept_of(case: Case, plan: KeepPlan) -> set[int]:
    kept = plan.keep.tolist()
    assert kept == sorted(set(kept))
    assert np.array_equal(plan.keep, np.flatnonzero(plan.reasons != Reason.EVICTED))
    assert len(plan.scores) == len(plan.reasons) == len(case.residents)
    return set(kept)


each_case = settings(max_examples=150, deadline=None)


@each_case
@given(cases())
def test_never_over_the_target_and_nothing_that_is_not_wanted(case: Case) -> None:
    kept = kept_of(case, case.plan())
    assert len(kept) <= case.target
    assert kept <= case.wanted()


@each_case
@given(cases())
def test_all_that_is_wanted_if_it_fits(case: Case) -> None:
    wanted = case.wanted()
    if len(wanted) <= case.target:
        plan = case.plan()
        assert kept_of(case, plan) == wanted
        assert plan.over_budget == ()


@each_case
@given(cases())
def test_sinks_and_pins_before_reads(case: Case) -> None:
    """If they fit by themselves, they stay whatever the step reads."""
    always = Case(case.residents, case.target, case.pinned, (), case.sinks).wanted()
    if len(always) <= case.target:
        assert always <= kept_of(case, case.plan())


@each_case
@given(cases())
def test_what_of_a_read_does_not_fit_is_told(case: Case) -> None:
    plan = case.plan()
    kept = kept_of(case, plan)
    short = {part.segment for part in plan.over_budget}
    for segment in case.reads:
        ranks = [
            rank
            for rank, resident in enumerate(case.residents)
            if resident.segment == segment and not resident.framing
        ]
        assert (segment in short) == bool(set(ranks) - kept)
    for part in plan.over_budget:
        ranks = [rank for rank, resident in enumerate(case.residents) if resident.segment == part.segment]
        assert (part.step, part.resident) == (0, len(ranks))
        assert part.kept == len(kept & set(ranks)) < part.resident


@each_case
@given(cases())
def test_markers_stay_with_what_they_frame(case: Case) -> None:
    kept = kept_of(case, case.plan())
    open_turns = {case.residents[rank].turn for rank in kept if not case.residents[rank].framing}
    for rank, resident in enumerate(case.residents):
        if resident.framing and resident.turn in open_turns:
            assert rank in kept
        if resident.framing and rank in kept and resident.turn not in open_turns:
            assert case.is_sink(rank) or resident.segment in case.pinned


def test_reasons() -> None:
    lengths = [(2, True), (3, False), (2, True), (4, False), (1, True), (5, False)]
    residents, index = [], 0
    for segment, (length, framing) in enumerate(lengths):
        residents += [Resident(index + i, segment, segment // 2, framing) for i in range(length)]
        index += length
    plan = Case(tuple(residents), 99, frozenset({1}), (3,), 2).plan()
    sink, pinned, read, marker, gone = (
        Reason.SINK,
        Reason.PINNED,
        Reason.READ,
        Reason.FRAMING,
        Reason.EVICTED,
    )
    expected = [sink] * 2 + [pinned] * 3 + [marker] * 2 + [read] * 4 + [gone] * 6
    assert plan.reasons.tolist() == expected


def test_nothing_is_resident() -> None:
    assert len(Case((), 4, frozenset(), (), 4).plan().keep) == 0
