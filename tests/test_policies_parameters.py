"""Bad parameters are refused in one line, with the value and what is valid."""

from __future__ import annotations

from typing import Any

import pytest

from pace_local.config import MINIMUM_BUDGET, SessionConfig
from pace_local.errors import ConfigError
from pace_local.policies import POLICIES, policy_named

WHOLE = "use a whole number from "


@pytest.mark.parametrize(
    ("name", "parameter", "value", "valid"),
    [
        ("truncate", "window", 0, f"window 0 is out of range; {WHOLE}1 to"),
        ("truncate", "window", -5, f"window -5 is out of range; {WHOLE}1 to"),
        ("truncate", "window", 2.5, f"window 2.5 is out of range; {WHOLE}1 to"),
        ("streaming", "sinks", -1, f"sinks -1 is out of range; {WHOLE}0 to"),
        ("streaming", "sinks", True, f"sinks True is out of range; {WHOLE}0 to"),
        ("pace", "sinks", "4", f"sinks '4' is out of range; {WHOLE}0 to"),
        ("plan", "sinks", None, f"sinks None is out of range; {WHOLE}0 to"),
        ("context_shift", "sinks", -1, f"sinks -1 is out of range; {WHOLE}0 to"),
        ("h2o", "recent_share", 1.01, "recent share 1.01 is out of range; use 0.0 to 1.0"),
        ("h2o", "recent_share", -0.1, "recent share -0.1 is out of range; use 0.0 to 1.0"),
        ("h2o", "recent_share", float("nan"), "recent share nan is out of range; use 0.0 to 1.0"),
        ("h2o_grace", "decay", 1.5, "decay 1.5 is out of range; use 0.0 to 1.0"),
        ("h2o_grace", "decay", -0.5, "decay -0.5 is out of range; use 0.0 to 1.0"),
        ("h2o_grace", "grace", -1, f"grace -1 is out of range; {WHOLE}0 to"),
        ("h2o_grace", "sinks", -1, f"sinks -1 is out of range; {WHOLE}0 to"),
        ("attention", "mode", "both", "mode 'both' is not one of window, decay"),
        ("attention", "window", 0, f"window 0 is out of range; {WHOLE}1 to 4096"),
        ("attention", "window", 5000, f"window 5000 is out of range; {WHOLE}1 to 4096"),
        ("attention", "decay", 2, "decay 2 is out of range; use 0.0 to 1.0"),
        ("attention", "min_distance", -1, f"min distance -1 is out of range; {WHOLE}0 to"),
        ("attention", "distance_power", -1.0, "distance power -1.0 is out of range; use 0.0 to 8.0"),
        ("attention", "distance_power", 9, "distance power 9 is out of range; use 0.0 to 8.0"),
        ("attention", "sinks", -1, f"sinks -1 is out of range; {WHOLE}0 to"),
        ("snapkv", "window", 0, f"window 0 is out of range; {WHOLE}1 to 8192"),
        ("snapkv", "kernel", 0, f"kernel 0 is out of range; {WHOLE}1 to 255"),
        ("snapkv", "kernel", 6, "kernel 6 is even; use an odd number from 1 to 255"),
        ("snapkv", "kernel", 257, f"kernel 257 is out of range; {WHOLE}1 to 255"),
        ("snapkv", "pooling", "sum", "pooling 'sum' is not one of max, mean"),
        ("hybrid", "window", -1, f"window -1 is out of range; {WHOLE}0 to"),
        ("hybrid", "pool_size", -1, f"pool size -1 is out of range; {WHOLE}0 to"),
        ("hybrid", "base", -1, "base -1 is out of range; use 0.0 to 1000000.0"),
        ("hybrid", "alpha", float("inf"), "alpha inf is out of range; use 0.0 to 1000000.0"),
        ("hybrid", "beta", "2", "beta '2' is out of range; use 0.0 to 1000000.0"),
        ("pace_hybrid", "decay", 1.001, "decay 1.001 is out of range; use 0.0 to 1.0"),
        ("pace_hybrid", "sinks", 4.0, f"sinks 4.0 is out of range; {WHOLE}0 to"),
    ],
)
def test_out_of_range(name: str, parameter: str, value: Any, valid: str) -> None:
    with pytest.raises(ConfigError) as refused:
        policy_named(name, {parameter: value})
    assert str(refused.value).startswith(valid)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("truncate", {"window": 1}),
        ("streaming", {"sinks": 0}),
        ("h2o", {"recent_share": 0}),
        ("h2o", {"recent_share": 1}),
        ("h2o_grace", {"decay": 0, "grace": 0, "sinks": 0}),
        ("h2o_grace", {"decay": 1.0}),
        ("attention", {"window": 4096, "decay": 0.0, "min_distance": 0, "distance_power": 8}),
        ("snapkv", {"window": 8192, "kernel": 255}),
        ("snapkv", {"window": 1, "kernel": 1}),
        ("hybrid", {"window": 0, "pool_size": 0, "base": 0, "alpha": 0, "beta": 0, "decay": 0, "sinks": 0}),
        ("hybrid", {"base": 1e6, "alpha": 1e6, "beta": 1e6, "decay": 1}),
    ],
)
def test_the_ends_of_a_range_are_valid(name: str, parameters: dict[str, Any]) -> None:
    policy = policy_named(name, parameters)
    assert policy.parameters().items() >= parameters.items()
    policy.check_target(100)


@pytest.mark.parametrize(
    ("name", "parameters", "valid"),
    [
        ("truncate", {"window": 101}, f"window 101 is out of range; {WHOLE}1 to 100"),
        ("streaming", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("bounded", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("context_shift", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("h2o_grace", {"grace": 101}, f"grace 101 is out of range; {WHOLE}0 to 100"),
        ("h2o_grace", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("attention", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("hybrid", {"sinks": 101}, f"sinks 101 is out of range; {WHOLE}0 to 100"),
        ("hybrid", {"window": 101}, f"window 101 is out of range; {WHOLE}0 to 100"),
        ("hybrid", {"pool_size": 101}, f"pool size 101 is out of range; {WHOLE}0 to 100"),
        (
            "pace_hybrid",
            {"window": 60, "pool_size": 41},
            "window 60 + pool size 41 = 101 is over the 100 tokens that an eviction leaves; "
            "use a pool size of 0 to 40, or a smaller window",
        ),
    ],
)
def test_what_does_not_fit_the_target(name: str, parameters: dict[str, Any], valid: str) -> None:
    policy = policy_named(name, parameters)
    with pytest.raises(ConfigError) as refused:
        policy.check_target(100)
    assert str(refused.value) == valid
    policy.check_target(101)


@pytest.mark.parametrize("name", POLICIES)
def test_the_defaults_fit_every_budget(name: str) -> None:
    policy = policy_named(name)
    for share in (0.25, 1.0):
        policy.check_target(SessionConfig(budget=MINIMUM_BUDGET, soft_target=share).soft_budget)
    policy.check_target(10**6)
