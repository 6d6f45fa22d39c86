from __future__ import annotations

import dataclasses
import math
from typing import Any, get_args

import pytest

from pace_agent.safety.permissions import Mode
from pace_agent.settings.config import KEYS, AgentConfig, ModeName, check_key
from pace_local.config import SessionConfig
from pace_local.errors import ConfigError
from pace_local.sampling import Sampling

SEVERAL = "one of"


def test_defaults_are_valid_and_as_agreed() -> None:
    config = AgentConfig()
    assert dataclasses.asdict(config) == {
        "model": "",
        "budget": 2048,
        "position_cap": 8192,
        "policy": "pace_focus",
        "threads": None,
        "style": "auto",
        "mode": "ask",
        "max_turns": 50,
        "max_tokens": 1024,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "seed": 0,
        "enable_thinking": None,
        "check": "",
        "command_seconds": 120.0,
        "tries": 3,
        "extra_folders": (),
        "watch": True,
        "theme": "",
        "editor": "",
    }
    assert tuple(dataclasses.asdict(config)) == KEYS


def test_modes_are_those_of_permissions_from_the_narrowest_on() -> None:
    assert get_args(ModeName) == tuple(each.value for each in Mode)


def test_the_library_gets_what_it_needs() -> None:
    config = AgentConfig(
        budget=512,
        position_cap=2048,
        policy="streaming",
        threads=3,
        enable_thinking=False,
        temperature=0.7,
        top_p=0.9,
        top_k=20,
        seed=7,
    )
    assert config.session_config() == SessionConfig(
        budget=512, position_cap=2048, policy="streaming", threads=3, enable_thinking=False
    )
    assert config.sampling() == Sampling(temperature=0.7, top_p=0.9, top_k=20, seed=7)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model", None, "a text"),
        ("model", "a\0b", "without a zero character"),
        ("budget", 63, "from 64 to"),
        ("budget", "2048", "a whole number"),
        ("budget", True, "a whole number"),
        ("budget", 2048.0, "a whole number"),
        ("budget", 2**40, "from 64 to"),
        ("position_cap", 2559, "from 2,560 (budget + 512) to 2,147,483,647"),
        ("position_cap", 2**31, "from 2,560 (budget + 512) to 2,147,483,647"),
        ("policy", "pace_fokus", SEVERAL),
        ("policy", "", SEVERAL),
        ("policy", ["pace"], "a text"),
        ("threads", 0, "from 1 to 512"),
        ("threads", 513, "from 1 to 512"),
        ("style", "tool", "auto, tools, guided"),
        ("style", [], SEVERAL),
        ("mode", "yolo", "plan, ask, accept-edits, auto"),
        ("mode", "ASK", SEVERAL),
        ("max_turns", 0, "from 1 to 10,000"),
        ("max_tokens", 2**20 + 1, "from 1 to 1,048,576"),
        ("temperature", 11.0, "a number from 0.001 to 10 or 0"),
        ("temperature", math.nan, "a number from 0.001 to 10 or 0"),
        ("temperature", "hot", "a number"),
        ("top_p", 0.0, "from 1e-06 to 1"),
        ("top_k", -1, "from 0"),
        ("seed", 2**32, "from 0 to"),
        ("enable_thinking", 1, "true or false, or leave it out"),
        ("check", 3, "a text"),
        ("command_seconds", 0, "from 0.001 to 86,400"),
        ("command_seconds", math.nan, "from 0.001 to 86,400"),
        ("command_seconds", math.inf, "from 0.001 to 86,400"),
        ("command_seconds", True, "from 0.001 to 86,400"),
        ("tries", 21, "from 1 to 20"),
        ("extra_folders", ["a"], "a list of paths"),
        ("extra_folders", ("a", ""), "a list of paths"),
        ("extra_folders", "ab", "a list of paths"),
        ("watch", "yes", "true or false"),
        ("theme", None, "a text"),
        ("editor", b"vi", "a text"),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_and_range(key: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        AgentConfig().replace(**{key: value})
    message = str(raised.value)
    assert message.startswith(f"{key} is {value!r}; use ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("budget", (64, 7680)),
        ("position_cap", (2560, 2**31 - 1)),
        ("threads", (None, 1, 512)),
        ("max_turns", (1, 10_000)),
        ("max_tokens", (1, 2**20)),
        ("temperature", (0, 0.001, 10)),
        ("seed", (0, 2**32 - 2)),
        ("command_seconds", (1, 0.1, 86_400)),
        ("tries", (1, 20)),
        ("extra_folders", ((), ("../other", "~/notes"))),
        ("enable_thinking", (None, True, False)),
    ],
)
def test_the_ends_of_a_range_are_valid(key: str, values: tuple[Any, ...]) -> None:
    for value in values:
        assert getattr(AgentConfig().replace(**{key: value}), key) == value


def test_what_the_library_checks_itself_is_checked_here_first() -> None:
    """Whatever passes here, the library takes too."""
    for temperature in (0, 0.001, 10):
        for top_p in (1e-6, 1):
            for seed in (0, 2**32 - 2):
                config = AgentConfig(temperature=temperature, top_p=top_p, top_k=2**31 - 1, seed=seed)
                assert config.sampling().seed == seed
    for budget in (64, 2**31 - 1 - 512):
        config = AgentConfig(budget=budget, position_cap=budget + 512, threads=512)
        assert config.session_config().budget == budget


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigError) as raised:
        AgentConfig(policy="x" * 10_000)
    assert len(str(raised.value)) < 600
    assert "x…; use one of" in str(raised.value)


def test_a_copy_leaves_the_original_and_cannot_be_changed() -> None:
    config = AgentConfig()
    assert config.replace(budget=1024).budget == 1024
    assert config == AgentConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.budget = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("buget", "did you mean budget?"),
        ("max-turns", "did you mean max_turns?"),
        ("Temperature", "did you mean temperature?"),
        ("zzz", "known are model, budget, "),
    ],
)
def test_an_unknown_setting_is_refused_with_the_closest(key: str, says: str) -> None:
    with pytest.raises(ConfigError, match="unknown setting") as raised:
        AgentConfig().replace(**{key: 1})
    assert repr(key) in str(raised.value)
    assert says in str(raised.value)


def test_every_known_key_passes() -> None:
    for key in KEYS:
        check_key(key)
