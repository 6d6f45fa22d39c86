"""Policies score, and say which halves of the method apply."""

from __future__ import annotations

import numpy as np
import pytest

from pace_local.errors import ConfigError
from pace_local.memory import Reason, plan_keep
from pace_local.policies import POLICIES, CacheView, Policy, policy_named


def view(n: int = 12, length: int = 1000) -> CacheView:
    index = np.sort(np.random.default_rng(0).choice(length, n, replace=False))
    zeros = np.zeros(n, dtype=np.int32)
    return CacheView(index, zeros, zeros, np.zeros(n, dtype=np.bool_), length)


def test_the_names() -> None:
    assert list(POLICIES) == ["none", "streaming", "plan", "bounded", "pace"]
    for name in POLICIES:
        policy = policy_named(name)
        assert isinstance(policy, POLICIES[name])
        assert policy.name == name
        assert policy_named(name) is not policy, "a session has a policy of its own"


@pytest.mark.parametrize("name", ["PACE", "", "h2o"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"policy '{name}' is not one of none, streaming, plan, bounded, pace"
    ):
        policy_named(name)


@pytest.mark.parametrize(
    ("name", "evicts", "reads_plan", "bounds_positions"),
    [
        ("none", False, False, False),
        ("streaming", True, False, False),
        ("plan", True, True, False),
        ("bounded", True, False, True),
        ("pace", True, True, True),
    ],
)
def test_which_halves_apply(name: str, evicts: bool, reads_plan: bool, bounds_positions: bool) -> None:
    policy = policy_named(name)
    assert (policy.evicts, policy.reads_plan, policy.bounds_positions) == (
        evicts,
        reads_plan,
        bounds_positions,
    )
    assert policy.sinks == 4


@pytest.mark.parametrize("name", POLICIES)
def test_scores(name: str) -> None:
    """One finite score a resident, the same each time, for any number of them; nothing is changed."""
    policy = policy_named(name)
    for n in (0, 1, 12):
        cache = view(n)
        before = cache.token_index.copy()
        scores = policy.score(cache)
        assert scores.shape == (n,)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert np.array_equal(scores, policy.score(cache))
        assert np.array_equal(cache.token_index, before)
        assert len(cache) == n


def test_the_newer_the_better() -> None:
    assert (np.diff(policy_named("streaming").score(view())) > 0).all()


def test_streaming_is_sinks_and_a_window() -> None:
    cache = CacheView(
        np.arange(20),
        np.zeros(20, dtype=np.int32),
        np.zeros(20, dtype=np.int32),
        np.zeros(20, dtype=np.bool_),
        20,
    )
    plan = plan_keep(cache, policy_named("streaming"), target=10, recent=2)
    assert plan.keep.tolist() == [0, 1, 2, 3, 14, 15, 16, 17, 18, 19]
    assert set(plan.reasons.tolist()) == {Reason.SINK, Reason.EVICTED, Reason.SCORE, Reason.RECENT}


@pytest.mark.parametrize(
    ("one", "other"), [("plan", "streaming"), ("bounded", "streaming"), ("pace", "plan")]
)
def test_the_two_halves_do_not_touch_the_scores(one: str, other: str) -> None:
    """What differs between the four is the mechanism alone; that makes their comparison fair."""
    assert np.array_equal(policy_named(one).score(view()), policy_named(other).score(view()))


def test_a_policy_must_score() -> None:
    with pytest.raises(NotImplementedError):
        Policy().score(view())
