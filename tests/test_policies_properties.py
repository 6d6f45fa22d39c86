"""What must hold for every policy, whatever is in the cache."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
from cache_views import PaperCache, make_attention, make_view
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.memory import Read, Reason, plan_keep
from pace_local.policies import POLICIES, CacheView, policy_named
from pace_local.segments import KINDS

each_policy = pytest.mark.parametrize("name", POLICIES)
some_cases = settings(deadline=None, max_examples=60)

FRAMING = KINDS.index("framing")


@st.composite
def views(draw: st.DrawFn) -> CacheView:
    """Turns with role markers at both ends, gaps, names, and attention that is sometimes all equal."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_turns, per_turn = draw(st.integers(1, 6)), draw(st.integers(3, 20))
    length = n_turns * per_turn
    in_turn = np.arange(length) % per_turn
    turn = np.arange(length) // per_turn
    framing = (in_turn == 0) | (in_turn == per_turn - 1)
    stays = random.random(length) < draw(st.sampled_from([0.4, 0.9, 1.0]))
    stays[draw(st.integers(0, length - 1))] = True
    n = int(stays.sum())
    attention = make_attention(n, draw(st.integers(0, 9)), after=draw(st.integers(0, n)))
    if draw(st.booleans()):
        for mass in (attention.total, attention.window, attention.prompt):
            mass[:] = np.minimum(mass, draw(st.sampled_from([0.0, 0.5])))
    position = np.cumsum(random.integers(1, draw(st.sampled_from([2, 40])), n))
    kinds = random.integers(0, len(KINDS), n_turns)
    return make_view(
        np.flatnonzero(stays),
        target=draw(st.integers(1, n + 2)),
        segment=(2 * turn + framing)[stays],
        turn=turn[stays],
        framing=framing[stays],
        position=position,
        kind=np.where(framing, FRAMING, kinds[turn])[stays],
        entity=(random.random(length) < 0.3)[stays],
        session_length=length,
        first_user=draw(st.none() | st.integers(0, n_turns - 1).map(lambda turn: 2 * turn)),
        attention=attention,
    )


@each_policy
@some_cases
@given(view=views())
def test_scores(name: str, view: CacheView) -> None:
    """One a resident, finite, the same from every instance and each time."""
    before = copy.deepcopy(view)
    policy, other = policy_named(name), policy_named(name)
    parameters = policy.parameters()
    scores = policy.score(view)
    assert scores.shape == (len(view),)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all(), "the defaults let nothing go while there is room"
    assert np.array_equal(scores, policy.score(view))
    assert np.array_equal(scores, other.score(view))
    assert policy.parameters() == parameters
    for field in ("token_index", "segment", "turn", "framing", "position", "kind", "entity"):
        assert np.array_equal(getattr(view, field), getattr(before, field))
    for mass in ("total", "window", "prompt"):
        ours, theirs = getattr(view.attention, mass), getattr(before.attention, mass)
        assert np.array_equal(ours, theirs, equal_nan=True)
    # what it answered belongs to the caller
    scores[:] = -1
    assert policy.parameters() == parameters
    assert np.array_equal(policy.score(view), other.score(view))


@each_policy
@some_cases
@given(view=views(), recent=st.integers(0, 10), data=st.data())
def test_the_rules_hold(name: str, view: CacheView, recent: int, data: st.DataObject) -> None:
    policy = policy_named(name)
    n_segments = int(view.segment.max()) + 1
    pinned = frozenset(data.draw(st.sets(st.integers(0, n_segments), max_size=1)))
    view = dataclasses.replace(view, pinned=pinned)
    reads = [Read(data.draw(st.integers(0, n_segments)), 0)]
    plan = plan_keep(view, policy, recent=recent, reads=reads)
    again = plan_keep(view, policy_named(name), recent=recent, reads=reads)
    assert np.array_equal(plan.keep, again.keep)
    assert np.array_equal(plan.reasons, again.reasons)

    target = policy.target(view)
    assert 0 < target <= view.target
    # what always stays does not pay for a target that the policy lowers
    fixed = np.isin(plan.reasons, (Reason.SINK, Reason.PINNED)) | (view.framing & (plan.reasons != 0))
    assert len(plan.keep) <= max(target, np.count_nonzero(fixed)) <= view.target
    assert (np.diff(plan.keep.astype(np.int64)) > 0).all()
    if len(view) <= view.target:
        assert len(plan.keep) == len(view), "nothing goes while there is room"
        return

    kept = np.isin(np.arange(len(view)), plan.keep)
    sinks = view.token_index < policy.sinks
    always = sinks | np.isin(view.segment, list(pinned))
    turns = view.turn[always & ~view.framing]
    with_markers = always | (view.framing & np.isin(view.turn, turns))
    if with_markers.sum() <= target:
        assert kept[always].all()
    # markers stay with content of their turn, and without it only for reasons of their own
    for turn in np.unique(view.turn):
        markers, content = view.framing & (view.turn == turn), ~view.framing & (view.turn == turn)
        if kept[content].any():
            assert kept[markers].all()
        else:
            assert set(plan.reasons[markers]) <= {
                Reason.EVICTED, Reason.SINK, Reason.PINNED, Reason.RECENT,
            }  # fmt: skip
    newest = view.framing & (view.turn == view.turn[-1])
    if with_markers.sum() + newest.sum() <= target:
        assert kept[newest].all(), "the newest turn's role markers stay"
    assert policy.reads_plan or Reason.READ not in plan.reasons
    # better scores first, ties to the newer
    by_score = [(plan.scores[rank], rank) for rank in np.flatnonzero(plan.reasons == Reason.SCORE)]
    gone = [(plan.scores[rank], rank) for rank in np.flatnonzero(~kept & ~view.framing)]
    assert not by_score or not gone or min(by_score) > max(gone)


@each_policy
@pytest.mark.parametrize("mass", [0.0, 1.0])
@pytest.mark.parametrize("target", [9, 30, 59])
def test_where_nothing_tells_residents_apart_the_newer_stay(name: str, mass: float, target: int) -> None:
    attention = make_attention(60)
    for of in (attention.total, attention.window, attention.prompt):
        of[:] = mass
    view = make_view(range(60), target=target, attention=attention)
    policy = policy_named(name)
    stays = policy.target(view)
    assert stays == (30 if name == "context_shift" and target > 30 else target)
    keep = plan_keep(view, policy, recent=0).keep.tolist()
    assert keep == [*range(policy.sinks), *range(60 - stays + policy.sinks, 60)]


@each_policy
def test_an_empty_cache(name: str) -> None:
    policy = policy_named(name)
    view = make_view([], target=5, attention=make_attention(0))
    assert policy.score(view).shape == (0,)
    assert len(plan_keep(view, policy, recent=2).keep) == 0


@each_policy
def test_a_long_session_with_withdrawals(name: str) -> None:
    """Within the target after each eviction, without memory of what was taken back, the same each time."""

    def run() -> tuple[list[int], dict[int, float]]:
        cache = PaperCache(policy_named(name), target=100, pinned=frozenset([0]))
        cache.append(10, "system")
        random = np.random.default_rng(5)
        for step in range(60):
            cache.append(2, "framing")
            cache.append(int(random.integers(5, 60)), ("user", "answer", "file")[step % 3], 0b1011011101)
            if step % 9 == 4:
                cache.withdraw(cache.length - int(random.integers(1, 50)))
                assert all(index < cache.length for index in cache.policy.pool())
            if len(cache.residents) > 110:
                cache.evict(recent=12)
                assert len(cache.residents) <= 100
                assert cache.residents[:10] == list(range(10)), "what is pinned stays"
                assert len(cache.policy.pool()) <= 100
        return cache.residents, cache.policy.pool()

    first = run()
    assert first == run()
    assert bool(first[1]) == ("hybrid" in name)


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("truncate", {"window": 5}),
    ("streaming", {"sinks": 0}),
    ("context_shift", {"sinks": 6}),
    ("h2o", {"recent_share": 0.0}),
    ("h2o", {"recent_share": 1.0}),
    ("h2o_grace", {"grace": 3, "sinks": 0}),
    ("attention", {"mode": "decay", "min_distance": 0, "distance_power": 2.5}),
    ("snapkv", {"window": 4, "kernel": 9, "pooling": "mean"}),
    ("hybrid", {"window": 3, "pool_size": 4}),
    ("hybrid", {"alpha": 1e6, "base": 1e6, "beta": 1e6, "window": 0}),
    ("pace_hybrid", {"pool_size": 0, "sinks": 0}),
]


@pytest.mark.parametrize(("name", "parameters"), OTHERS)
@some_cases
@given(view=views())
def test_other_parameters(name: str, parameters: dict[str, Any], view: CacheView) -> None:
    """Never more than the target, and scores that are finite or minus infinity."""
    policy = policy_named(name, parameters)
    plan = plan_keep(view, policy, recent=2)
    assert len(plan.keep) <= min(policy.target(view), view.target)
    assert not np.isnan(plan.scores).any()
    assert not np.isposinf(plan.scores).any()
    worthless = np.isneginf(plan.scores)
    assert not (plan.reasons[worthless] == Reason.SCORE).any()
    assert worthless.any() <= ("window" in parameters or "pool_size" in parameters)
