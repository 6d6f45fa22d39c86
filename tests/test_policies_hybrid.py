"""The hybrid's window, pool and score, over whole sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cache_views import PaperCache, make_view
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_references import HybridReference

from pace_local.policies import Attention, CacheView, policy_named
from pace_local.policies.hybrid import HybridPolicy
from pace_local.segments import KINDS


def hybrid(**parameters: Any) -> HybridPolicy:
    policy = policy_named("hybrid", parameters)
    assert isinstance(policy, HybridPolicy)
    return policy


def worth_of(view: CacheView, policy: HybridPolicy) -> dict[int, float]:
    """Base + α · attention + β · entity of each resident, one after the other."""
    assert view.attention is not None
    mass = view.attention.total.tolist()
    mean = sum(mass) / len(mass)
    worth = {}
    for rank, index in enumerate(view.token_index.tolist()):
        instructs = KINDS[view.kind[rank]] == "system" or view.segment[rank] == view.first_user
        attention = mass[rank] / mean if mean else 0.0
        worth[index] = (policy.base if instructs else 0.0) + policy.beta * bool(view.entity[rank])
        worth[index] += policy.alpha * attention
    return worth


# The score


def test_the_score_by_hand() -> None:
    """Relative to the mean over the residents, here 2."""
    attention = Attention(np.array([4.0, 1.0, 2.0, 0.0, 3.0, 2.0]), np.zeros(6), np.zeros(6))
    view = make_view(
        [10, 11, 12, 13, 14, 15],
        target=6,
        segment=[0, 1, 2, 2, 3, 3],
        kind=[KINDS.index(kind) for kind in ("system", "user", "tool", "tool", "user", "user")],
        entity=[False, False, True, False, True, False],
        first_user=1,
        attention=attention,
    )
    policy = hybrid(window=1, alpha=2, beta=0.5, base=50)
    assert policy.score(view).tolist() == [54, 51, 2.5, 0, 3.5, 55]
    assert policy.pool() == {10: 54, 11: 51, 12: 2.5, 13: 0, 14: 3.5}


def test_without_a_weight_attention_is_not_needed() -> None:
    view = make_view(range(8), target=8, entity=[True] + [False] * 7)
    policy = hybrid(alpha=0, sinks=0, window=2, pool_size=1)
    assert policy.score(view).tolist() == [2] + [-np.inf] * 5 + [3, 4]
    assert policy.pool() == {0: 2}


@pytest.mark.parametrize(
    ("parameters", "window", "pool"),
    [
        ({}, 50, 51),
        ({"window": 30}, 30, 71),
        ({"pool_size": 20}, 50, 20),
        ({"pool_size": 70}, 31, 70),
        ({"window": 10, "pool_size": 5}, 10, 5),
        ({"window": 0}, 0, 101),
        ({"window": 101}, 101, 0),
        ({"pool_size": 101}, 0, 101),
        ({"window": 0, "pool_size": 0}, 0, 0),
    ],
)
def test_window_and_pool_share_the_target(parameters: dict[str, int], window: int, pool: int) -> None:
    policy = hybrid(**parameters)
    policy.check_target(101)
    cache = PaperCache(policy, target=101)
    cache.append(300)
    scores = policy.score(cache.view())
    best_of_pool = max(policy.pool().values(), default=0.0)
    assert len(policy.pool()) == pool
    assert np.count_nonzero(scores > best_of_pool) == window
    assert np.count_nonzero(np.isneginf(scores)) == (300 - window - pool if "pool_size" in parameters else 0)


def test_below_the_pool_the_newer_comes_first() -> None:
    """Also at token two billion, where a token is a billionth of the session."""
    for length in (50, 2 * 10**9):
        view = make_view(range(length - 50, length), target=20, attention=Attention(*[np.ones(50)] * 3))
        policy = hybrid(pool_size=None, window=19)
        scores = policy.score(view)
        assert len(policy.pool()) == 1
        assert (np.diff(scores[:30]) > 0).all()
        assert scores[:30].max() < 0


def test_names_and_instructions_outlast_chatter() -> None:
    cache = PaperCache(hybrid(window=20, pool_size=20), target=44)
    cache.append(6, "system")
    cache.append(5, "user")
    for _ in range(40):
        cache.append(12, "answer")
        cache.evict()
    assert set(range(11)) <= set(cache.residents)
    texts = [cache.kind_of[index] for index in cache.policy.pool()]
    assert texts.count("system") == 2, "sinks are no part of the pool"
    assert texts.count("user") == 5


def test_role_markers_take_no_place_in_the_pool() -> None:
    cache = PaperCache(hybrid(window=5, pool_size=30, sinks=0), target=40)
    for _ in range(10):
        cache.append(2, "framing")
        cache.append(6)
    cache.evict()
    assert len(cache.policy.pool()) == 30
    assert all(cache.kind_of[index] == "text" for index in cache.policy.pool())


# Whole sessions


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_equals_a_sorted_list_over_a_session(data: st.DataObject) -> None:
    """Pool and residents after every eviction; with evictions, withdrawals and indices that come again."""
    target = data.draw(st.integers(4, 24))
    pool_size = data.draw(st.none() | st.integers(0, target))
    window = data.draw(st.none() | st.integers(0, target - (pool_size or 0)))
    sinks = data.draw(st.integers(0, 3))
    policy = hybrid(window=window, pool_size=pool_size, sinks=sinks, base=3, beta=0.5)
    cache = PaperCache(policy, target, seed=data.draw(st.integers(0, 99)))
    if data.draw(st.booleans()):
        cache.pinned = frozenset(data.draw(st.sets(st.integers(0, 8), max_size=2)))
    w = min(target // 2, target - (pool_size or 0)) if window is None else window
    reference = HybridReference(w, target - w if pool_size is None else pool_size, sinks)
    last_length = 0
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.integers(0, 4)) == 0:
            kept = data.draw(st.integers(0, cache.length))
            cache.withdraw(kept)
            reference.forget(kept, last_length)
            last_length = min(last_length, kept)
        else:
            kind = data.draw(st.sampled_from(["text", "system", "user", "framing"]))
            cache.append(data.draw(st.integers(1, 16)), kind, data.draw(st.integers(0, 2**16 - 1)))
        if len(cache.residents) <= target:
            continue
        view, before = cache.view(), list(cache.residents)
        markers = {
            index
            for index in before
            if cache.kind_of[index] == "framing" or cache.segment_of[index] in cache.pinned
        }
        reference.evict(worth_of(view, policy), cache.length, markers)
        last_length = cache.length
        if data.draw(st.integers(0, 5)) == 0:  # the eviction fails, and what was read last is taken back
            policy.score(view)
            kept = cache.length - data.draw(st.integers(1, cache.length))
            cache.withdraw(kept)
            reference.forget(kept, last_length)
            last_length = kept
            continue
        cache.evict()
        assert policy.pool() == {index: score for score, index in reference.pool}
        if not markers and not cache.pinned:
            expected = reference.keep(before, cache.length, target, pool_size is None)
            assert cache.residents == expected


def test_the_pool_survives_evictions_that_leave_it_room() -> None:
    cache = PaperCache(hybrid(window=20, pool_size=20, sinks=0, alpha=0, beta=1), target=40)
    cache.append(20, entities=2**20 - 1)
    cache.append(20)
    cache.append(5)
    cache.evict()
    names = dict.fromkeys(range(20), 1.0)
    assert cache.policy.pool() == names
    for _ in range(50):
        cache.append(7)
        cache.evict()
        assert cache.policy.pool() == names
        assert cache.residents == [*range(20), *range(cache.length - 20, cache.length)]


def test_a_pool_member_that_found_no_room_is_dropped_at_the_next_eviction() -> None:
    cache = PaperCache(hybrid(window=10, pool_size=20, sinks=0), target=30)
    cache.append(60)
    cache.pinned = frozenset([0])
    cache.append(1)
    cache.segment_of[30:] = [1] * 31  # half of the text is pinned: there is no room for the pool
    cache.evict()
    pool = cache.policy.pool()
    assert pool
    lost = set(pool) - set(cache.residents)
    assert lost
    cache.pinned = frozenset()
    cache.append(1)
    cache.evict()
    assert not lost & set(cache.policy.pool())


def test_what_is_withdrawn_leaves_the_pool_and_its_indices_come_again() -> None:
    """A name at an index is worth something; what comes to that index later is another token."""
    cache = PaperCache(hybrid(window=4, pool_size=3, sinks=0, alpha=0, beta=1), target=8)
    cache.append(20, entities=0b1111 << 8)
    cache.evict()
    assert cache.policy.pool() == {9: 1, 10: 1, 11: 1}
    cache.withdraw(11)  # the window now begins at 7: nothing in it can be in the pool
    assert cache.policy.pool() == {}
    cache.append(12)
    cache.evict()
    assert cache.policy.pool() == {9: 1, 10: 1, 18: 0}
    assert not cache.entity_of[11]


def test_what_a_withdrawn_token_pushed_out_gets_another_chance() -> None:
    """It may have stayed for another reason, such as a pin; the free place is its own again."""
    names = [index in (0, 1, 8, 9) for index in range(12)]
    policy = hybrid(window=2, pool_size=2, sinks=0, alpha=0, beta=1)
    policy.score(make_view(range(12), target=8, entity=names))
    assert policy.pool() == {8: 1, 9: 1}
    policy.forget(9)
    assert policy.pool() == {}
    policy.score(make_view(range(9), target=8, entity=names[:9]))
    assert policy.pool() == {0: 1, 1: 1}


def test_a_withdrawal_from_the_window_leaves_the_pool_as_it_is() -> None:
    """No token is scored again that never came back into the window."""
    policy = hybrid(window=4, pool_size=3, sinks=0, alpha=0, beta=1)
    policy.score(make_view(range(20), target=8, entity=[True] * 20))
    assert policy.pool() == {13: 1, 14: 1, 15: 1}
    policy.forget(20)
    policy.score(make_view(range(24), target=8, entity=[False] * 24))
    assert policy.pool() == {13: 1, 14: 1, 15: 1}
    policy.forget(22)
    policy.score(make_view(range(22), target=8, entity=[False] * 16 + [True] * 6))
    assert policy.pool() == {15: 1, 16: 1, 17: 1}


def test_asked_again_it_says_the_same() -> None:
    cache = PaperCache(hybrid(), target=40)
    for _ in range(5):
        cache.append(30)
        view = cache.view()
        first, pool = cache.policy.score(view), cache.policy.pool()
        assert np.array_equal(first, cache.policy.score(view))
        assert cache.policy.pool() == pool
        cache.evict()


def test_a_policy_that_comes_late_takes_in_all_that_is_there() -> None:
    """As for a dry run: no state from before, all residents outside the window are offered at once."""
    cache = PaperCache(policy_named("streaming"), target=60)
    for _ in range(9):
        cache.append(30)
        cache.evict()
    late = hybrid(window=10, pool_size=5)
    view = cache.view()
    late.score(view)
    worth = worth_of(view, late)
    outside = [index for index in cache.residents if 4 <= index < cache.length - 10]
    best = sorted(outside, key=lambda index: (worth[index], index))[-5:]
    assert set(late.pool()) == set(best)


# Cost


def test_each_token_passes_through_the_pool_once() -> None:
    """Python touches what has newly left the window, and not the residents."""
    policy = hybrid()
    cache = PaperCache(policy, target=400)
    cache.append(450)
    cache.evict()
    for _ in range(20):
        cache.append(50)
        before = policy._pool.operations
        cache.evict()
        assert policy._pool.operations - before <= 50
        assert len(policy.pool()) == 200
        assert len(policy._pool._heap) <= 400
