from __future__ import annotations

import pytest

from pace_local.errors import ConfigError
from pace_local.models import Device, available_memory, config_path, default_model, selected_model

GB = 10**9
GIB = 2**30


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (80 * GIB, "qwen3-8b"),
        (24 * GIB, "qwen3-8b"),
        # What an L4, a 24 GB card, reports: 22.17 GiB with error correction on.
        (23_800_000_000, "qwen3-8b"),
        (20 * GIB, "qwen3-8b-q8_0"),
        (16 * GIB, "qwen3-8b-q8_0"),
        (12 * GIB, "qwen3-8b-q8_0"),
        (11_500_000_000, "qwen3-8b-q8_0"),
        (10 * GIB, "qwen3-8b-q4_k_m"),
        (8 * GIB, "qwen3-8b-q4_k_m"),
        (6 * GIB, "qwen2.5-coder-1.5b"),
    ],
)
def test_by_gpu_memory(total, expected):
    choice = default_model([Device("card", total)], 64 * GB)
    assert choice.reference == expected
    assert choice.origin == "default"
    assert "\n" not in choice.reason
    assert expected in choice.reason


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (64 * GIB, "qwen3-8b"),
        (32 * GIB, "qwen3-8b-q8_0"),
        (16 * GIB, "qwen3-8b-q4_k_m"),
        (8 * GIB, "qwen2.5-coder-1.5b"),
    ],
)
def test_memory_shared_with_the_system_counts_half(total, expected):
    assert default_model([Device("chip", total, unified=True)], 5 * GB).reference == expected


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (64 * GB, "qwen2.5-coder-1.5b"),
        (4 * GB, "qwen2.5-coder-1.5b"),
        (4 * GB - 1, "qwen2.5-coder-0.5b"),
        (0, "qwen2.5-coder-0.5b"),
    ],
)
def test_by_host_memory(memory, expected):
    choice = default_model([], memory)
    assert choice.reference == expected
    assert "CPU" in choice.reason


def test_the_best_device_counts():
    devices = [Device("small", 4 * GIB), Device("large", 24 * GIB), Device("chip", 30 * GIB, unified=True)]
    choice = default_model(devices, 0)
    assert choice.reference == "qwen3-8b"
    assert "large with 25.8 GB" in choice.reason


def test_reason_is_a_line_for_people():
    assert default_model([Device("NVIDIA L4", 24 * GIB)], 0).reason == (
        "qwen3-8b (F16, 16.4 GB), chosen for NVIDIA L4 with 25.8 GB; --model changes it"
    )
    assert default_model([], 20 * GB).reason == (
        "qwen2.5-coder-1.5b (Q4_K_M, 1.1 GB), "
        "chosen for CPU with 20.0 GB of memory to spare; --model changes it"
    )


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('model = "from-config"\n')
    return path


def choose(flag=None, environ=None, config=None):
    return selected_model(flag, [], 64 * GB, environ=environ or {}, config=config)


def test_order_of_who_may_say(config, tmp_path):
    environ = {"PACE_MODEL": "from-environment"}
    assert choose("from-flag", environ, config).reference == "from-flag"
    choice = choose(None, environ, config)
    assert (choice.reference, choice.origin) == ("from-environment", "environment")
    assert "PACE_MODEL" in choice.reason
    choice = choose(None, {"PACE_MODEL": " "}, config)
    assert (choice.reference, choice.origin) == ("from-config", "config")
    assert str(config) in choice.reason
    choice = choose(None, {}, tmp_path / "none.toml")
    assert (choice.reference, choice.origin) == ("qwen2.5-coder-1.5b", "default")


def test_a_flag_needs_no_config(config):
    config.write_text("not toml at all")
    assert choose("from-flag", {}, config).reference == "from-flag"


def test_a_config_without_a_model_leaves_the_default(config):
    config.write_text("other = 1\n")
    assert choose(None, {}, config).origin == "default"


@pytest.mark.parametrize("content", [b"model = ", b"model = 'a", b"\xff\xfe"])
def test_a_broken_config_is_one_line(config, content):
    config.write_bytes(content)
    with pytest.raises(ConfigError, match="is not valid TOML") as caught:
        choose(None, {}, config)
    assert str(config) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["8", "''", "['a']", "false"])
def test_a_model_that_is_no_text(config, value):
    config.write_text(f"model = {value}\n")
    with pytest.raises(ConfigError, match=r"model = .* is no model"):
        choose(None, {}, config)


def test_a_config_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        choose(None, {}, tmp_path)


def test_config_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path().parts[-2:] == ("pace-local", "config.toml")


def test_memory_of_this_machine_is_plausible():
    assert 10**7 < available_memory() < 10**15
