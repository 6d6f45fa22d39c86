"""Settings: defaults that agree with each other, and every range at both of its ends."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from pace_local import SessionConfig
from pace_local.config import KEY_TYPES, MINIMUM_BUDGET, VALUE_TYPES
from pace_local.errors import ConfigError


def refuses(**settings: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        SessionConfig(**settings)
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_the_defaults() -> None:
    config = SessionConfig()
    assert (config.budget, config.position_cap, config.policy) == (2048, 8192, "pace")
    assert config.n_cells == 2048 + 512
    assert config.soft_budget == 1861
    assert config.recent_tokens == 256
    assert config.budget >= config.soft_budget * 1.1, "evicted at 110 % of what an eviction leaves"


def test_derived_sizes_follow_the_settings() -> None:
    config = SessionConfig(budget=100, headroom=20, position_cap=120, soft_target=0.5, recent=0)
    assert (config.n_cells, config.soft_budget, config.recent_tokens) == (120, 50, 0)
    assert SessionConfig(budget=64, soft_target=1.0).soft_budget == 64


@pytest.mark.parametrize(
    ("name", "inside", "outside", "says"),
    [
        ("budget", [64, 7680], [63, 0, -1], "at least 64"),
        ("headroom", [16, 6144], [15, 8193], "16 to 8192"),
        ("position_cap", [2560, 2**31 - 1], [2559, 0], "below budget + headroom = 2560"),
        ("soft_target", [0.25, 1, 1.0], [0.2499, 1.01, float("nan"), -1.0], "0.25 to 1"),
        ("recent", [0, 1024, None], [-1, 1025], "0 to half of the budget (1024)"),
        ("evict_every", [1, 2**20, None], [0, -1, 2**20 + 1], "use 1 to 1048576 tokens, or None"),
        ("threads", [1, 512, None], [0, -1, 513], "use 1 to 512"),
        ("key_type", KEY_TYPES, ["q4_0", "F16", ""], "f16, f32, bf16, q8_0"),
        ("value_type", VALUE_TYPES, ["q4_0", None], "f16, f32, bf16, q8_0"),
        ("reference_type", ["f16", "f32", None], ["bf16", "q8_0"], "f16 or f32"),
    ],
)
def test_ranges(name: str, inside: list[Any], outside: list[Any], says: str) -> None:
    for value in inside:
        assert getattr(SessionConfig(**{name: value}), name) == value
    for value in outside:
        text = refuses(**{name: value})
        assert says in text
        assert str(value) in text
        assert name.replace("_", " ") in text


def test_the_cap_above_all_positions_that_there_are() -> None:
    assert str(2**31 - 1) in refuses(position_cap=2**31)


@pytest.mark.parametrize("name", ["budget", "position_cap", "headroom", "recent", "threads", "evict_every"])
@pytest.mark.parametrize("value", ["2048", 2048.5, True, [1]], ids=repr)
def test_types(name: str, value: object) -> None:
    assert refuses(**{name: value}) == f"{name.replace('_', ' ')} is {value!r}; use a whole number"


def test_the_type_of_a_share() -> None:
    assert refuses(soft_target="0.5") == "soft target is '0.5'; use a share from 0.25 to 1"
    assert "budget is None" in refuses(budget=None)


@pytest.mark.parametrize("value", [None, [("sinks", 1)], "sinks=1", 4])
def test_the_type_of_policy_options(value: object) -> None:
    assert refuses(policy_options=value) == f"policy options are {value!r}; use names and values"


def test_no_two_configs_share_their_options() -> None:
    assert SessionConfig().policy_options == {}
    assert SessionConfig().policy_options is not SessionConfig().policy_options


def test_quantized_values_need_flash_attention() -> None:
    assert SessionConfig(value_type="q8_0").flash_attn
    assert SessionConfig(key_type="q8_0", flash_attn=False).key_type == "q8_0"
    assert "needs flash attention; turn it on or use 'f16'" in refuses(value_type="q8_0", flash_attn=False)


def test_replace_changes_a_copy_and_checks_it() -> None:
    config = SessionConfig()
    assert config.replace(budget=100, policy="none") == SessionConfig(budget=100, policy="none")
    assert config == SessionConfig()
    with pytest.raises(
        ConfigError, match="unknown setting 'budjet'; known are bound_positions, budget, check"
    ):
        config.replace(budjet=1)
    with pytest.raises(ConfigError, match="budget 1 is too small"):
        config.replace(budget=MINIMUM_BUDGET - 63)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.budget = 1  # type: ignore[misc]


def test_every_setting_is_documented() -> None:
    source = inspect.getsource(SessionConfig)
    for field in dataclasses.fields(SessionConfig):
        after = source.split(f"\n    {field.name}:", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), field.name
