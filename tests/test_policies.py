"""Policies by name, and which halves of the method apply to each."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cache_views import make_attention, make_view

from pace_local.errors import ConfigError
from pace_local.memory import plan_keep
from pace_local.policies import POLICIES, CacheView, Observation, Policy, policy_named

ATTENTIVE = ["h2o", "h2o_grace", "attention", "snapkv", "hybrid", "pace_hybrid"]
PACE = ["streaming", "plan", "bounded", "pace", "pace_focus"]


def view(n: int = 12, length: int = 1000, target: int = 8, measured: bool = True) -> CacheView:
    index = np.sort(np.random.default_rng(0).choice(length, n, replace=False))
    attention = make_attention(n, after=n // 6) if measured else None
    return make_view(index, target=target, session_length=length, attention=attention)


def test_the_names() -> None:
    expected = "none truncate streaming context_shift h2o h2o_grace attention snapkv"
    expected += " hybrid plan bounded pace pace_hybrid pace_focus"
    assert [name for name in POLICIES if name != "merge"] == expected.split()
    for name in POLICIES:
        policy = policy_named(name)
        assert isinstance(policy, POLICIES[name])
        assert policy.name == name
        assert policy_named(name) is not policy, "a session has a policy of its own"


@pytest.mark.parametrize("name", ["PACE", "", "h20"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"policy '{name}' is not one of none, truncate, .*, pace_focus"):
        policy_named(name)


@pytest.mark.parametrize(
    ("name", "evicts", "reads_plan", "bounds_positions", "sinks"),
    [
        ("none", False, False, False, 4),
        ("truncate", True, False, False, 0),
        ("streaming", True, False, False, 4),
        ("context_shift", True, False, False, 0),
        ("h2o", True, False, False, 0),
        ("h2o_grace", True, False, False, 4),
        ("attention", True, False, False, 4),
        ("snapkv", True, False, False, 0),
        ("hybrid", True, False, False, 4),
        ("plan", True, True, False, 4),
        ("bounded", True, False, True, 4),
        ("pace", True, True, True, 4),
        ("pace_hybrid", True, True, True, 4),
    ],
)
def test_which_halves_apply(
    name: str, evicts: bool, reads_plan: bool, bounds_positions: bool, sinks: int
) -> None:
    policy = policy_named(name)
    halves = (policy.evicts, policy.reads_plan, policy.bounds_positions)
    assert halves == (evicts, reads_plan, bounds_positions)
    assert policy.sinks == sinks
    assert policy.closes_gaps == (name == "context_shift")
    assert policy.marks_entities == (name in ("hybrid", "pace_hybrid"))


@pytest.mark.parametrize(
    ("name", "parameters", "observes"),
    [
        ("h2o", {}, Observation(queries=0)),
        ("h2o_grace", {}, Observation(queries=32, decay=0.998)),
        ("h2o_grace", {"decay": 0.5}, Observation(queries=32, decay=0.5)),
        ("attention", {}, Observation(queries=32, min_distance=64, decay=1.0, window=100)),
        ("attention", {"window": 7, "min_distance": 0}, Observation(queries=32, window=7)),
        ("attention", {"mode": "decay"}, Observation(queries=32, min_distance=64, decay=0.99)),
        ("snapkv", {"window": 16}, Observation(queries=16)),
        ("hybrid", {"decay": 0.9}, Observation(queries=32, decay=0.9)),
        ("hybrid", {"alpha": 0}, None),
        ("pace_hybrid", {}, Observation(queries=32, decay=0.998)),
    ],
)
def test_what_is_measured_for_it(
    name: str, parameters: dict[str, object], observes: Observation | None
) -> None:
    assert policy_named(name, parameters).observes == observes


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "merge"])
def test_only_policies_that_need_attention_have_it_measured_and_they_say_so(name: str) -> None:
    policy = policy_named(name)
    assert (policy.observes is not None) == (name in ATTENTIVE)
    if name in ATTENTIVE:
        with pytest.raises(
            ConfigError, match=f"policy '{name}' needs attention, and none was measured; .*obs"
        ):
            policy.score(view(measured=False))
    else:
        assert np.isfinite(policy.score(view(measured=False))).all()


@pytest.mark.parametrize("one", PACE)
@pytest.mark.parametrize("target", [1, 5, 8, 40])
def test_the_four_of_the_two_by_two_differ_in_mechanism_alone(one: str, target: int) -> None:
    """That makes their comparison fair: the same parameters, sinks, target and scores, nothing measured."""
    streaming, policy = policy_named("streaming", {"sinks": 3}), policy_named(one, {"sinks": 3})
    assert policy.parameters() == streaming.parameters() == {"sinks": 3}
    cache = view(40, target=target)
    assert np.array_equal(policy.score(cache), streaming.score(cache))
    assert policy.target(cache) == streaming.target(cache) == target
    for mechanism in ("observes", "marks_entities", "closes_gaps", "evicts"):
        assert getattr(policy, mechanism) == getattr(streaming, mechanism)
    # without a plan they keep the same
    ours, theirs = (plan_keep(cache, made, recent=2) for made in (policy, streaming))
    assert ours.keep.tolist() == theirs.keep.tolist()
    assert ours.reasons.tolist() == theirs.reasons.tolist()


def test_the_pace_hybrid_is_the_hybrid_with_both_halves() -> None:
    hybrid, both = policy_named("hybrid"), policy_named("pace_hybrid")
    assert both.parameters() == hybrid.parameters()
    assert both.observes == hybrid.observes
    cache = view(40, target=20)
    assert np.array_equal(both.score(cache), hybrid.score(cache))


@pytest.mark.parametrize("name", POLICIES)
def test_parameters_are_fields_with_defaults_and_nothing_else(name: str) -> None:
    policy = policy_named(name)
    if name == "none":
        assert policy.parameters() == {}
        return
    fields = {field.name: field.default for field in dataclasses.fields(policy)}  # type: ignore[arg-type]
    assert policy.parameters() == fields
    assert dataclasses.MISSING not in fields.values()
    assert policy_named(name, policy.parameters()).parameters() == policy.parameters()
    with pytest.raises(
        ConfigError, match=f"policy '{name}' has no parameter 'depth'; it has {next(iter(fields))}"
    ):
        policy_named(name, {"depth": 3})


def test_a_policy_must_score() -> None:
    with pytest.raises(NotImplementedError):
        Policy().score(view())
