"""The RoPE reference agrees with the keys that llama.cpp caches, for every way of rotating them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_llama import Float32Array, loaded

from pace_local.errors import InputError
from pace_local.testing import (
    ARCHS,
    RopeScaling,
    RopeSpec,
    TinySpec,
    rope_reference,
    rotate_by,
    rotation_tolerance,
)

PROMPT = b"def returns the self and other things"
WITH_KEYS = [arch for arch in ARCHS if arch not in ("bert", "mamba")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


FACTORS = tuple(np.geomspace(1.0, 8.0, 16).tolist())
YARN = RopeScaling("yarn", 4.0, n_ctx_orig=2048)
VARIANTS = {
    **{arch: TinySpec(arch=arch) for arch in WITH_KEYS},
    "llama factors": TinySpec(rope_factors=FACTORS),
    "llama linear": TinySpec(rope_scaling=RopeScaling("linear", 4.0)),
    "llama yarn": TinySpec(rope_scaling=YARN),
    "llama yarn longer keys": TinySpec(rope_scaling=dataclasses.replace(YARN, attn_factor=1.3)),
    "llama yarn factors": TinySpec(rope_scaling=YARN, rope_factors=FACTORS),
    "qwen2 linear": TinySpec(arch="qwen2", rope_scaling=RopeScaling("linear", 2.5)),
    "qwen2 base 1e6": TinySpec(arch="qwen2", head_dim=64, rope_freq_base=1e6),
    "qwen3 yarn": TinySpec(arch="qwen3", head_dim=128, n_embd=64, rope_freq_base=1e6, rope_scaling=YARN),
    "stablelm quarter": TinySpec(arch="stablelm", n_rot=8),
    "stablelm yarn": TinySpec(arch="stablelm", rope_scaling=YARN),
    "chatglm linear": TinySpec(arch="chatglm", rope_scaling=RopeScaling("linear", 4.0)),
    "phi3 part": TinySpec(arch="phi3", n_rot=24),
    "phi3 short factors": TinySpec(
        arch="phi3", rope_factors=FACTORS, rope_factors_long=FACTORS[::-1],
        rope_scaling=RopeScaling("linear", 1.0, n_ctx_orig=512, attn_factor=1.19),
    ),
    "phi3 long factors": TinySpec(
        arch="phi3", rope_factors=FACTORS, rope_factors_long=FACTORS[::-1],
        rope_scaling=RopeScaling("linear", 1.0, n_ctx_orig=256, attn_factor=1.19),
    ),
    "gemma3 linear": TinySpec(arch="gemma3", rope_scaling=RopeScaling("linear", 8.0)),
}  # fmt: skip
POSITIONS = (1, 7, 100, 1000, 8191, 100_000)


@pytest.mark.parametrize("cache", ["f32", "f16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_reference_matches_the_keys_that_llama_cpp_caches(
    variant: str, cache: Any, llama: Any, models: Path
) -> None:
    """A token alone in the cache attends to itself, so that its keys depend on its position by RoPE only.

    Position 0 gives the unrotated key times the magnitude; every other position must be that key, turned.
    """
    spec, tokens = VARIANTS[variant], [40, 77, 270]
    with loaded(llama, models, spec, cache=cache) as model:

        def cached(token: int, position: int) -> dict[int, Float32Array]:
            model.clear()
            model.decode([token], start=position)
            return model.keys()

        still = {token: cached(token, 0) for token in tokens}
        worst = 0.0
        for position in POSITIONS:
            for token in tokens:
                moved = cached(token, position)
                assert list(moved) == [layer for layer in range(spec.n_layer) if spec.has_keys(layer)]
                for layer, keys in moved.items():
                    worst = max(
                        worst, check_rotation(spec, layer, still[token][layer], keys, position, cache)
                    )
    print(f"{variant} {cache}: largest difference {worst:.2e}")


def check_rotation(
    spec: TinySpec, layer: int, still: Float32Array, keys: Float32Array, position: int, cache: Any
) -> float:
    rope = spec.rope(layer, n_ctx=512)
    if rope is None:
        np.testing.assert_array_equal(keys, still)
        return 0.0
    fresh = still.astype(np.float64)
    fresh[..., : rope.n_rot] /= rope.magnitude
    expected = rope_reference(fresh, position, rope)
    np.testing.assert_allclose(rotate_by(still, position, rope), expected, rtol=1e-12, atol=1e-12)
    difference = np.abs(keys - expected)
    # the key at position 0 was stored once, the key under test once more
    allowed = rotation_tolerance(expected, position, rope, cache=cache)
    allowed += rotation_tolerance(still, 0, rope, cache=cache)
    assert (difference <= allowed).all(), f"layer {layer}: off by {difference.max():.2e}"
    assert np.abs(keys - still).max() > 0.2, "the position shows"
    return float(difference.max())


@pytest.mark.parametrize(
    "variant", ["llama", "llama linear", "llama factors", "qwen2", "qwen3", "stablelm", "chatglm"]
)
@pytest.mark.parametrize("delta", [1, -200, 5000])
def test_rotation_by_a_difference_matches_the_upstream_shift(
    variant: str, delta: int, llama: Any, models: Path
) -> None:
    spec = VARIANTS[variant]
    with loaded(llama, models, spec, cache="f32") as model:
        model.decode(list(PROMPT), start=300)
        before = model.keys()
        llama.llama_memory_seq_add(model.memory, 0, 0, -1, delta)
        model.decode([65], start=300 + len(PROMPT) + delta)
        after = {layer: keys[: len(PROMPT)] for layer, keys in model.keys().items()}
    for layer, keys in before.items():
        rope = spec.rope(layer)
        assert rope is not None
        expected = rotate_by(keys, delta, rope)
        difference = np.abs(after[layer] - expected)
        print(f"{variant} {delta} layer {layer}: largest difference {difference.max():.2e}")
        assert (difference <= rotation_tolerance(expected, delta, rope, cache="f32")).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_rotation_by_a_difference_keeps_norms_and_adds_up(variant: str) -> None:
    rope = VARIANTS[variant].rope(1)
    assert rope is not None
    head_dim = VARIANTS[variant].head_dim
    keys = np.random.default_rng(5).normal(size=(6, 2, head_dim))
    deltas = np.array([0, 1, -1, 8191, -8191, 2_000_000])
    moved = rotate_by(keys, deltas, rope)
    np.testing.assert_array_equal(moved[0], keys[0])
    np.testing.assert_allclose(np.linalg.norm(moved, axis=2), np.linalg.norm(keys, axis=2), rtol=1e-12)
    np.testing.assert_array_equal(moved[..., rope.n_rot :], keys[..., rope.n_rot :])
    np.testing.assert_allclose(rotate_by(moved, -deltas, rope), keys, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        rotate_by(rope_reference(keys, 31, rope), 11, rope), rope_reference(keys, 42, rope)
    )


def test_yarn_and_attention_factors_lengthen_fresh_keys_only() -> None:
    rope = VARIANTS["llama yarn longer keys"].rope(0)
    assert rope is not None
    assert rope.magnitude == pytest.approx(1.3 * (1 + 0.1 * np.log(4.0)))
    keys = np.random.default_rng(5).normal(size=(1, 2, 32))
    longer = np.linalg.norm(rope_reference(keys, 99, rope)) / np.linalg.norm(keys)
    assert longer == pytest.approx(rope.magnitude)


def test_pairs_turn_as_the_definition_says() -> None:
    """By hand: head of 4, base 100, position 2: pair 0 turns by 2 rad, pair 1 by 2 / 10 rad."""
    x = np.array([[[1.0, 0.0, 1.0, 0.0]]])
    norm = rope_reference(x, 2, RopeSpec(n_rot=4, pairing="norm", freq_base=100.0))
    np.testing.assert_allclose(norm[0, 0], [np.cos(2), np.sin(2), np.cos(0.2), np.sin(0.2)])
    x = np.array([[[1.0, 1.0, 0.0, 0.0]]])
    neox = rope_reference(x, 2, RopeSpec(n_rot=4, pairing="neox", freq_base=100.0))
    np.testing.assert_allclose(neox[0, 0], [np.cos(2), np.cos(0.2), np.sin(2), np.sin(0.2)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"freq_base": 10100.0},
        {"freq_scale": 0.251},
        {"pairing": "neox"},
        {"n_rot": 30},
        {"attn_factor": 1.01},
        {"ext_factor": 0.99},
        {"beta_fast": 16.0},
        {"beta_slow": 2.0},
        {"n_ctx_orig": 8192},
        {"freq_factors": (*[1.0] * 15, 1.1)},
    ],
)
def test_the_tolerance_tells_a_wrong_rotation_apart(wrong: dict[str, Any]) -> None:
    rope = VARIANTS["llama yarn"].rope(0)
    assert rope is not None
    keys = np.random.default_rng(5).normal(size=(40, 2, 32))
    for position in (1000, 8191):
        expected = rope_reference(keys, position, rope)
        other = rope_reference(keys, position, dataclasses.replace(rope, **wrong))
        assert (np.abs(other - expected) > 2.0 * rotation_tolerance(keys, position, rope, cache="f16")).any()


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3)])
def test_keys_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"keys have shape .*: give .* with head_dim >= 4"):
        rotate_by(np.zeros(shape), 1, RopeSpec(n_rot=4, pairing="norm"))
