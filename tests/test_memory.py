"""The keep plan: hand-written cases, a slow reference, and what must hold for every input."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from cache_views import make_view
from hypothesis import given, settings
from hypothesis import strategies as st
from keep_reference import Resident, slow_keep

from pace_local.memory import KeepPlan, PartialRead, Read, Reason, plan_keep
from pace_local.policies import CacheView, Policy, policy_named

EVICTED, SINK, PINNED, RECENT, READ, SCORE, FRAMING = Reason


class Scored(Policy):
    """Scores and a target as a test gives them."""

    name = "scored"

    def __init__(self, scores: Sequence[float], reads_plan: bool, sinks: int, own_target: int) -> None:
        self.scores = np.array(scores, dtype=np.float64)
        self.reads_plan, self.sinks, self.own_target = reads_plan, sinks, own_target  # type: ignore[misc]

    def target(self, view: CacheView) -> int:
        return self.own_target

    def score(self, view: CacheView) -> npt.NDArray[np.float64]:
        return self.scores


def view_of(
    residents: Sequence[Resident], target: int = 1, pinned: frozenset[int] = frozenset()
) -> CacheView:
    return make_view(
        [resident.index for resident in residents],
        target=target,
        segment=[resident.segment for resident in residents],
        turn=[resident.turn for resident in residents],
        framing=[resident.framing for resident in residents],
        pinned=pinned,
    )


@dataclass(frozen=True)
class Case:
    """All that a keep plan is made from."""

    residents: tuple[Resident, ...]
    scores: tuple[float, ...]
    target: int
    slack: int
    """By how much the view's target is above the policy's, or the policy's above the view's if negative."""
    recent: int
    reads: tuple[Read, ...]
    pinned: frozenset[int]
    sinks: int
    reads_plan: bool

    @property
    def view(self) -> CacheView:
        return view_of(self.residents, self.target + max(0, self.slack), self.pinned)

    @property
    def policy(self) -> Scored:
        return Scored(self.scores, self.reads_plan, self.sinks, self.target + max(0, -self.slack))

    def plan(self) -> KeepPlan:
        return plan_keep(self.view, self.policy, recent=self.recent, reads=self.reads)

    def ranks_of(self, segment: int) -> list[int]:
        return [rank for rank, resident in enumerate(self.residents) if resident.segment == segment]

    def price(self, ranks: Sequence[int]) -> int:
        """What content costs, with all markers of its turns."""
        turns = {self.residents[rank].turn for rank in ranks if not self.residents[rank].framing}
        return len([rank for rank in ranks if not self.residents[rank].framing]) + len(
            [resident for resident in self.residents if resident.framing and resident.turn in turns]
        )

    def always(self, plan: KeepPlan) -> list[int]:
        """Ranks kept before anything competes: sinks, pins, the newest turn's markers, and what they open."""
        first = np.isin(plan.reasons, (SINK, PINNED))
        opened = {self.residents[rank].turn for rank in np.flatnonzero(first & ~self.view.framing)}
        by_turn = np.array([resident.turn in opened for resident in self.residents], dtype=bool)
        markers = self.view.framing & ((plan.reasons == RECENT) | ((plan.reasons == FRAMING) & by_turn))
        ranks: list[int] = np.flatnonzero(first | markers).tolist()
        return ranks

    @property
    def is_tight(self) -> bool:
        return len(self.residents) > self.target or -np.inf in self.scores


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Sessions of a few turns, some of whose tokens were evicted before."""
    index, segments = draw(st.integers(0, 5)), itertools.count()
    residents = []
    for turn in range(draw(st.integers(1, 6))):
        lengths = draw(
            st.tuples(st.integers(0, 3), st.integers(0, 10), st.integers(-9, 5), st.integers(0, 2))
        )
        # mostly one run of content, sometimes two
        for length, framing in zip(lengths, (True, False, False, True), strict=True):
            segment = next(segments)
            residents += [Resident(index + i, segment, turn, framing) for i in range(length)]
            index += max(length, 0)
    # whole numbers stand for many choices at once: one draw is far cheaper than fifty
    gone = draw(st.integers(0, 2**index - 1)) & draw(st.integers(0, 2**index - 1))
    residents = [resident for resident in residents if not gone >> resident.index & 1]
    n, n_segments = len(residents), next(segments)
    marks = draw(st.integers(0, 4**n - 1))
    lowest = draw(st.sampled_from([0.0, 0.0, -np.inf]))
    read = draw(st.lists(st.tuples(st.integers(0, n_segments - 1), st.integers(0, 3)), max_size=4))
    return Case(
        tuple(residents),
        tuple((lowest, 1.0, 2.0, 2.5)[marks >> 2 * rank & 3] for rank in range(n)),
        target=draw(st.integers(1, max(1, n + 2))),
        slack=draw(st.integers(-3, 3)),
        recent=draw(st.integers(0, 12)),
        reads=tuple(Read(segment, step) for segment, step in sorted(dict(read).items(), key=lambda r: r[1])),
        pinned=frozenset(draw(st.sets(st.integers(0, n_segments - 1), max_size=2))),
        sinks=draw(st.integers(0, 5)),
        reads_plan=draw(st.booleans()),
    )


tight_cases = cases().filter(lambda case: case.is_tight)
each_case = settings(max_examples=80, deadline=None)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_equals_the_slow_reference(case: Case) -> None:
    plan = case.plan()
    reasons, partial = slow_keep(
        case.residents,
        case.scores,
        target=case.target + max(0, case.slack),
        lowered=max(0, case.slack),
        recent=case.recent,
        reads=case.reads,
        pinned=case.pinned,
        sinks=case.sinks,
        reads_plan=case.reads_plan,
    )
    assert list(plan.reasons) == reasons
    assert list(plan.over_budget) == partial
    assert list(plan.keep) == [rank for rank, reason in enumerate(reasons) if reason != EVICTED]


# What must hold for every input


@each_case
@given(cases())
def test_never_more_than_the_target_and_in_order(case: Case) -> None:
    """What always stays may take all of the view's target; beside it, no more stays than the policy wants."""
    plan = case.plan()
    always = case.always(plan)
    assert len(plan.keep) <= max(len(always), case.target) <= case.view.target
    if len(always) >= case.target and case.is_tight:
        assert plan.keep.tolist() == always, "nothing else comes in"
    assert np.all(np.diff(plan.keep.astype(np.int64)) > 0)
    assert plan.keep.dtype == np.uint32
    assert list(plan.keep) == list(np.flatnonzero(plan.reasons != EVICTED))


@each_case
@given(cases())
def test_evicts_nothing_when_all_fit(case: Case) -> None:
    plan = case.plan()
    if not case.is_tight:
        assert list(plan.keep) == list(range(len(case.residents)))
        assert plan.over_budget == ()


@each_case
@given(cases())
def test_equal_inputs_give_equal_plans_and_inputs_stay_as_they_were(case: Case) -> None:
    view, policy = case.view, case.policy
    first, second = (plan_keep(view, policy, recent=case.recent, reads=case.reads) for _ in range(2))
    assert np.array_equal(first.keep, second.keep)
    assert np.array_equal(first.reasons, second.reasons)
    assert np.array_equal(first.scores, second.scores)
    assert first.over_budget == second.over_budget
    for name in ("token_index", "segment", "turn", "framing", "position", "kind", "entity"):
        assert np.array_equal(getattr(view, name), getattr(case.view, name))


@each_case
@given(cases())
def test_the_plan_says_what_the_policy_thought(case: Case) -> None:
    assert case.plan().scores.tolist() == list(case.scores)


@each_case
@given(tight_cases)
def test_sinks_and_pinned_stay_while_they_fit(case: Case) -> None:
    sinks = [rank for rank, resident in enumerate(case.residents) if resident.index < case.sinks]
    pinned = [rank for rank, resident in enumerate(case.residents) if resident.segment in case.pinned]
    wanted = sorted({*sinks, *pinned})
    markers = [rank for rank in wanted if case.residents[rank].framing]
    kept = set(case.plan().keep.tolist())
    if case.price(wanted) + len(markers) <= case.view.target:
        assert kept >= set(wanted)


@each_case
@given(tight_cases)
def test_role_markers_stay_exactly_with_content_of_their_turn(case: Case) -> None:
    """llama.cpp 15416: a shift cut the chat template in half. Sinks and pins stand for themselves, and the
    newest turn is being read."""
    plan = case.plan()
    kept = set(plan.keep.tolist())
    with_content = {case.residents[rank].turn for rank in kept if not case.residents[rank].framing}
    for rank, resident in enumerate(case.residents):
        if resident.framing and plan.reasons[rank] not in (SINK, PINNED, RECENT):
            assert (rank in kept) == (resident.turn in with_content)
        if resident.framing and plan.reasons[rank] == RECENT:
            assert resident.turn == case.residents[-1].turn


@each_case
@given(tight_cases)
def test_the_newest_tokens_stay(case: Case) -> None:
    """So many of the newest as the floor pays for, markers included, are kept whatever is read."""
    plan = case.plan()
    first = np.isin(plan.reasons, (SINK, PINNED))
    left = (
        case.target
        - case.price(np.flatnonzero(first).tolist())
        - int(np.count_nonzero(first & view_of(case.residents).framing))
    )
    being_read = [
        rank for rank, resident in enumerate(case.residents) if resident.turn == case.residents[-1].turn
    ]
    markers = [rank for rank in being_read if case.residents[rank].framing and not first[rank]]
    newest: list[int] = []
    for rank in reversed(range(len(case.residents))):
        if not first[rank] and not case.residents[rank].framing:
            newest.append(rank)
            opens = 0 if any(rank in being_read for rank in newest) else len(markers)
            if case.price(newest) + opens > min(case.recent, left):
                newest.pop()
                break
    assert set(newest) <= set(plan.keep.tolist())


@each_case
@given(tight_cases)
def test_reads_come_nearest_step_first_and_whole_before_parts(case: Case) -> None:
    plan = case.plan()
    kept = set(plan.keep.tolist())
    if not case.reads_plan:
        assert plan.over_budget == ()
        assert READ not in plan.reasons
        return
    told = {(part.segment, part.step) for part in plan.over_budget}
    content = {
        read: [rank for rank in case.ranks_of(read.segment) if not case.residents[rank].framing]
        for read in case.reads
    }
    for read in case.reads:
        is_whole = kept >= set(content[read])
        # over_budget reports exactly what did not fit
        assert is_whole == ((read.segment, read.step) not in told)
    for part in plan.over_budget:
        ranks = case.ranks_of(part.segment)
        assert part == PartialRead(part.segment, part.step, len(kept & set(ranks)), len(ranks))
        # where one more token of it would have cost just that token, none was left for anything else
        turn = {case.residents[rank].turn for rank in ranks}
        is_open = any(case.residents[rank].turn in turn and not case.residents[rank].framing for rank in kept)
        has_markers = any(resident.framing and resident.turn in turn for resident in case.residents)
        assert SCORE not in plan.reasons or (has_markers and not is_open)


@each_case
@given(tight_cases)
def test_what_is_kept_for_its_score_is_worth_more_and_ties_go_to_the_newer(case: Case) -> None:
    plan = case.plan()
    by_score = [rank for rank in range(len(case.residents)) if plan.reasons[rank] == SCORE]
    content = [rank for rank, resident in enumerate(case.residents) if not resident.framing]
    gone = [rank for rank in content if plan.reasons[rank] == EVICTED]
    for kept, lost in itertools.product(by_score, gone):
        assert (case.scores[kept], kept) > (case.scores[lost], lost)


@each_case
@given(tight_cases)
def test_what_is_worth_nothing_goes_even_if_there_is_room(case: Case) -> None:
    plan = case.plan()
    for rank, score in enumerate(case.scores):
        assert score != -np.inf or plan.reasons[rank] != SCORE


# Hand-written: lower case is a role marker, upper case content, one letter a turn


KINDS = {EVICTED: ".", SINK: "s", PINNED: "p", RECENT: "w", READ: "r", SCORE: "+", FRAMING: "|"}


def kept_of(
    session: str,
    *,
    target: int,
    recent: int = 2,
    reads: Sequence[tuple[str, int]] = (),
    pinned: str = "",
    policy: str = "pace",
    first: int = 0,
) -> tuple[str, list[tuple[str, int, int]]]:
    """The plan as one sign a resident, and the reads over budget as segment, kept, resident."""
    residents = [
        Resident(first + index, ord(letter), ord(letter.upper()), letter.islower())
        for index, letter in enumerate(session)
    ]
    plan = plan_keep(
        view_of(residents, target, frozenset(map(ord, pinned))),
        policy_named(policy),
        recent=recent,
        reads=[Read(ord(letter), step) for letter, step in reads],
    )
    partial = [(chr(part.segment), part.kept, part.resident) for part in plan.over_budget]
    return "".join(KINDS[Reason(reason)] for reason in plan.reasons), partial


@pytest.mark.parametrize(
    ("session", "options", "kept"),
    [
        ("aAAAAabBBBBb", {"target": 12}, "++++++++++++"),
        ("AAAAAABBBBBB", {"target": 8, "policy": "streaming"}, "ssss....++ww"),
        ("AAAABBBBCCCC", {"target": 8, "reads": [("B", 0)]}, "ssssrr....ww"),
        ("AAAABBBBCCCC", {"target": 8, "reads": [("B", 0)], "policy": "bounded"}, "ssss....++ww"),
        # the nearer step's read is whole first; what is left goes to a part of the farther one's
        ("AAAABBCCCDDDD", {"target": 9, "recent": 1, "reads": [("C", 0), ("B", 1)]}, "ssssr.rrr...w"),
        ("AAAABBCCCDDDD", {"target": 9, "recent": 1, "reads": [("B", 0), ("C", 1)]}, "ssssrrrr....w"),
        # the nearer step's read does not fit whole, the farther one's does, and comes first
        ("AAAABBCCCCCDDDD", {"target": 8, "recent": 1, "reads": [("C", 0), ("B", 1)]}, "ssssrrr.......w"),
        # to open turn B costs its three markers; they stay or go together
        ("AAAAbBBBBbbCCCCCC", {"target": 10, "recent": 1, "reads": [("B", 0)]}, "ssss|rr..||.....w"),
        ("AAAAbBBBBbbCCCCCC", {"target": 7, "recent": 1, "reads": [("B", 0)]}, "ssss..........++w"),
        # two markers are sinks, and content that is a sink has the turn closed too
        ("aaAAAAAAaaBBBBBB", {"target": 11, "pinned": "A"}, "sssspppp||.....w"),
        ("aaAAAAAAaaBBBBBB", {"target": 6, "pinned": "A"}, "ssss....||......"),
        # pinned markers stay without content
        ("AAAAbBBbCCCCCC", {"target": 8, "recent": 1, "pinned": "b"}, "ssssp..p....+w"),
        ("AAAAbBBbCCCCCC", {"target": 5, "recent": 1, "pinned": "b"}, "ssssp........."),
        # a turn that is just being opened keeps its markers, or has none
        ("AAAABBBBcc", {"target": 8, "recent": 4}, "ssss..wwww"),
        ("AAAABBBBcc", {"target": 6, "recent": 1}, "ssss....ww"),
        ("AAAABBBBcc", {"target": 5, "recent": 4}, "ssss...w.."),
        # the session's first tokens are gone: there are no sinks
        ("CCCCCC", {"target": 3, "recent": 0, "first": 100}, "...+++"),
        ("aaaaaa", {"target": 3, "first": 100}, "......"),
        ("aaaaaa", {"target": 6, "first": 100}, "++++++"),
        ("ABCDEF", {"target": 1, "first": 2}, "s....."),
        ("aaaaaa", {"target": 3}, "sss..."),
    ],
)  # fmt: skip
def test_by_hand(session: str, options: dict[str, object], kept: str) -> None:
    assert kept_of(session, **options)[0] == kept  # type: ignore[arg-type]


def test_over_budget_by_hand() -> None:
    session = "AAAABBBBCCCCCDDDD"
    assert kept_of(session, target=9, recent=1, reads=[("C", 0), ("B", 1)]) == (
        "ssssrrrr........w", [("C", 0, 5)],
    )  # fmt: skip
    assert kept_of(session, target=12, recent=1, reads=[("C", 0), ("B", 1)])[1] == [("B", 2, 4)]
    assert kept_of(session, target=14, recent=1, reads=[("C", 0), ("B", 1)])[1] == []


def test_an_empty_cache() -> None:
    plan = plan_keep(view_of([], 4), policy_named("pace"), recent=1)
    assert len(plan.keep) == len(plan.reasons) == 0


def test_scores_of_minus_infinity_by_hand() -> None:
    """They go where all would fit, unless they are sinks, pinned, read, or among the newest."""
    residents = [Resident(index, ord(letter), ord(letter)) for index, letter in enumerate("AABBCCDDEE")]
    scores = [-np.inf] * 8 + [1.0, -np.inf]
    policy = Scored(scores, reads_plan=True, sinks=1, own_target=20)
    view = view_of(residents, 20, frozenset([ord("C")]))
    plan = plan_keep(view, policy, recent=1, reads=[Read(ord("B"), 0)])
    assert "".join(KINDS[Reason(reason)] for reason in plan.reasons) == "s.rrpp..+w"


@pytest.mark.parametrize(("own", "view", "kept"), [(3, 8, 3), (8, 3, 3), (8, 8, 6), (0, 8, 0)])
def test_a_policy_may_lower_the_target_but_not_raise_it(own: int, view: int, kept: int) -> None:
    residents = [Resident(index, 0, 0) for index in range(6)]
    plan = plan_keep(view_of(residents, view), Scored([1.0] * 6, False, 0, own), recent=0)
    assert plan.keep.tolist() == list(range(6 - kept, 6))


def test_a_read_of_what_is_gone_costs_nothing() -> None:
    assert kept_of("AAAABBBB", target=6, reads=[("X", 0)]) == ("ssss..ww", [])
