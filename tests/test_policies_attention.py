"""Fading and windowed attention, truncation and llama.cpp's shift, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from cache_views import make_view
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.memory import plan_keep
from pace_local.policies import Attention, CacheView, Policy, policy_named


def view_of(mass: list[float], target: int, *, position: list[int] | None = None) -> CacheView:
    """Total mass as given, window mass the other way round."""
    n = len(mass)
    attention = Attention(np.array(mass), np.array(mass[::-1]), np.full(n, np.nan))
    return make_view(range(n), target=target, position=position, attention=attention)


def kept(policy: Policy, view: CacheView) -> list[int]:
    return [int(rank) for rank in plan_keep(view, policy, recent=0).keep]


# h2o_grace


def test_newcomers_have_grace() -> None:
    view = view_of([8.0, 4.0, 2.0, 1.0, 0.0, 0.0, 0.0], 4)
    policy = policy_named("h2o_grace", {"grace": 2, "sinks": 0})
    assert policy.score(view).tolist() == [1, 0.5, 0.25, 0.125, 0, 2, 3]
    assert kept(policy, view) == [0, 1, 5, 6]
    assert kept(policy_named("h2o_grace", {"grace": 0, "sinks": 0}), view) == [0, 1, 2, 3]
    assert kept(policy_named("h2o_grace", {"grace": 0, "sinks": 2}), view) == [0, 1, 2, 3]
    assert kept(policy_named("h2o_grace", {"grace": 4, "sinks": 0}), view) == [3, 4, 5, 6]


@pytest.mark.parametrize(("target", "grace"), [(10, 5), (511, 255), (512, 256), (4000, 256)])
def test_grace_is_256_or_half_of_the_target(target: int, grace: int) -> None:
    view = view_of([1.0] * 5000, target)
    scores = policy_named("h2o_grace").score(view)
    assert np.count_nonzero(scores > 1) == grace
    assert (scores[-grace:] > 1).all()


# attention


def test_the_mode_says_which_activity_counts() -> None:
    view = view_of([8.0, 4.0, 2.0, 1.0], 2)
    plain = {"min_distance": 0, "sinks": 0}
    assert policy_named("attention", plain).score(view).tolist() == [0.125, 0.25, 0.5, 1]
    assert policy_named("attention", plain | {"mode": "decay"}).score(view).tolist() == [1, 0.5, 0.25, 0.125]


def test_what_is_too_near_to_be_counted_stays_first() -> None:
    """Distance is in positions: the last but one is five away, and was counted."""
    view = view_of([8.0, 4.0, 2.0, 1.0, 0.0], 4, position=[0, 1, 2, 6, 11])
    scores = policy_named("attention", {"mode": "decay", "min_distance": 5, "sinks": 0}).score(view)
    assert scores.tolist() == [1, 0.5, 0.25, 0.125, 2]
    scores = policy_named("attention", {"mode": "decay", "min_distance": 6, "sinks": 0}).score(view)
    assert scores.tolist() == [1, 0.5, 0.25, 2, 3]
    # never more than half of what stays
    scores = policy_named("attention", {"mode": "decay", "min_distance": 1000, "sinks": 0}).score(view)
    assert scores.tolist() == [1, 0.5, 0.25, 2, 3]


def test_distance_raises_what_is_far() -> None:
    view = view_of([1.0, 1.0, 2.0, 2.0, 4.0], 2, position=[0, 4, 6, 7, 8])
    options = {"mode": "decay", "min_distance": 0, "sinks": 0}
    near = policy_named("attention", options).score(view)
    assert near.tolist() == [0.25, 0.25, 0.5, 0.5, 1]
    far = policy_named("attention", options | {"distance_power": 1.0}).score(view)
    assert far.tolist() == [0.25, 0.125, 0.125, 0.0625, 0]
    square = policy_named("attention", options | {"distance_power": 2}).score(view)
    assert square.tolist() == [0.25, 0.0625, 0.03125, 0.0078125, 0]
    one = view_of([3.0], 1)
    assert policy_named("attention", options | {"distance_power": 1.0}).score(one).tolist() == [0]


# truncate


def test_truncation_has_no_sinks() -> None:
    assert kept(policy_named("truncate"), make_view(range(10), target=4)) == [6, 7, 8, 9]


def test_a_window_is_counted_in_tokens_of_the_session() -> None:
    view = make_view([0, 3, 7, 8], target=8, session_length=10)
    policy = policy_named("truncate", {"window": 3})
    assert policy.score(view).tolist() == [-np.inf, -np.inf, 7, 8]
    assert kept(policy, view) == [2, 3]
    plan = plan_keep(
        make_view([0, 3, 7, 8], target=8, segment=[0, 1, 1, 1], pinned=frozenset([0])), policy, recent=0
    )
    assert plan.keep.tolist() == [0, 2, 3], "what is pinned stays"


# context_shift


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 40))
def test_what_llama_cpp_would_leave(n: int, target: int, n_keep: int) -> None:
    """Its server: what is not among the first n_keep is halved, the half that goes rounded down."""
    n_keep = min(n_keep, target)
    view = make_view(range(n), target=target)
    if n <= target:
        expected = list(range(n))
    else:
        n_discard = (n - n_keep) // 2
        expected = [*range(n_keep), *range(n_keep + n_discard, n)]
        if len(expected) > target:  # the hard budget comes first
            expected = [*range(n_keep), *range(n - (target - n_keep), n)]
    assert kept(policy_named("context_shift", {"sinks": n_keep}), view) == expected


def test_first_tokens_that_are_gone_are_not_counted() -> None:
    view = make_view([0, 1, 7, 8, 9, 10], target=5)
    policy = policy_named("context_shift", {"sinks": 4})
    assert policy.target(view) == 4
    assert kept(policy, view) == [0, 1, 4, 5]
