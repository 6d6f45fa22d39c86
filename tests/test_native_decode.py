"""Renumbered keys against freshly decoded ones: norms, first-layer keys, next-token logits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, expected_keys, random_tokens, store_tolerance
from raw_llama import Float32Array

from pace_local.testing import rotation_tolerance

ALL_SPECS = [(spec, "f16") for spec in SPECS]
ALL_CACHES = [(spec, cache) for spec in ("llama yarn", "qwen3 yarn") for cache in CACHES if cache != "f16"]
GAP = 4


def norms(keys: Float32Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Length of every head of every key."""
    return np.linalg.norm(keys.astype(np.float64), axis=-1)


@pytest.mark.parametrize("first", [0, 1, 4000])
@pytest.mark.parametrize(("spec", "cache"), ALL_SPECS + ALL_CACHES)
def test_a_renumber_keeps_the_length_of_every_key(
    spec: str, cache: str, first: int, llama: Any, tiny_models: Path
) -> None:
    """Shifting under YaRN rescaled the keys; nor may a distance of 0 do so."""
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
        model.add(random_tokens(32))
        before = model.read("key")
        model.renumber(first=first)
        once = model.read("key")
        model.renumber(first=first + 7)
        model.renumber(first=first)
        assert model.read("key").tobytes() == once.tobytes()
        for layer, keys in enumerate(before):
            # it was stored as reference, and as key once more
            exact, allowed = expected_keys(model, layer, keys, np.full(len(keys), first))
            bound = np.linalg.norm(allowed, axis=-1)
            bound += np.linalg.norm(store_tolerance(exact, allowed, model.reference_type), axis=-1)
            assert (np.abs(norms(once[layer]) - norms(keys)) <= bound).all(), f"layer {layer}"
        if first == 0 and cache in ("f16", "f16 transposed", "f16 wide references", "f32", "bf16"):
            assert once.tobytes() == before.tobytes(), "not one bit changes"


@pytest.mark.parametrize("first", [0, 3000])
@pytest.mark.parametrize(("spec", "cache"), ALL_SPECS + ALL_CACHES)
def test_first_layer_keys_equal_those_of_a_fresh_decode(
    spec: str, cache: str, first: int, llama: Any, tiny_models: Path
) -> None:
    """The first layer sees no context: its keys depend on token and position alone."""
    compare_first_layer(spec, cache, first, llama, tiny_models)


def compare_first_layer(spec: str, cache: str, first: int, llama: Any, models: Path, **more: Any) -> None:
    with cached(llama, models, SPECS[spec], **CACHES[cache], **more) as model:
        model.add(random_tokens(40), start=700)
        for evicted in (3, 0, 17, 17):
            ranks = [rank for rank in range(model.cache.count()) if rank != evicted]
            model.renumber(ranks, first=500)
            model.add(random_tokens(2, seed=evicted))
        model.renumber(range(1, model.cache.count()), first=first)
        residents, keys = model.cache.residents(), model.cache.read_rows("key", 0)
        tokens = model.tokens()
    with cached(llama, models, SPECS[spec], **CACHES[cache], **more) as model:
        # cut as above: Vulkan multiplies many rows in F16, and a few not
        pairs = range(len(tokens) - 8, len(tokens), 2)
        model.add(tokens[: pairs.start], start=first)
        for pair in pairs:
            model.add(tokens[pair : pair + 2], start=first + pair)
        fresh = model.cache.read_rows("key", 0)
        allowed = first_layer_tolerance(model, fresh, residents)
    difference = np.abs(keys - fresh)
    print(f"{spec}, {cache}: largest difference {difference.max():.2e}, allowed there {allowed.max():.2e}")
    assert (difference <= allowed).all(), f"{(difference / allowed).max():.2f} x allowed"


def first_layer_tolerance(model: Cached, fresh: Float32Array, residents: Any) -> Any:
    """Both were rotated and stored; one was then stored as reference, rotated and stored again."""
    rope = model.spec.rope(0)
    assert rope is not None
    heads = fresh.reshape(-1, model.spec.n_head_kv, model.spec.head_dim).astype(np.float64)
    then, now = residents["reference_position"], residents["position"]
    allowed = sum(rotation_tolerance(heads, turn, rope, cache="f32") for turn in (then, now, now - then))
    # F16 weights meet keys of another batch size in another order of summation
    allowed = allowed + 2e-6 * np.linalg.norm(heads, axis=-1, keepdims=True)
    stores = [model.key_type, model.reference_type, model.key_type, model.key_type]
    if model.key_type == "q8_0":
        # what was rounded first is mixed by a Hadamard matrix and RoPE before it is rounded again
        allowed = allowed + store_tolerance(heads, allowed, "q8_0")
        lengths = [np.linalg.norm(store_tolerance(heads, allowed, kind), axis=-1) for kind in stores[:2]]
        return (2.0 * allowed + sum(lengths)[..., None]).reshape(fresh.shape)
    for kind in stores:
        # BF16 has three bits less than F16
        one = rotation_tolerance(heads, 0, rope, cache="f32" if kind == "f32" else "f16")
        allowed = allowed + (8.0 * one if kind == "bf16" else one)
    return allowed.reshape(fresh.shape)


def next_logits(model: Cached, prompt: list[int], start: int, *, then: int | None = None) -> Float32Array:
    """Logits after a prompt that was decoded at some positions, and then renumbered to others."""
    model.clear()
    model.add(prompt, start=start)
    if then is not None:
        model.renumber(first=then)
    model.add([65])
    return model.output(-1)


def apart(one: Float32Array, other: Float32Array) -> float:
    """Root mean square difference of logits."""
    return float(np.sqrt(np.mean((one - other) ** 2)))


def without_some(
    model: Cached, prompt: list[int], evict: Callable[[Cached, list[int]], object]
) -> Float32Array:
    """Logits after tokens amid the prompt were evicted: with their gap, or with the gap closed."""
    model.clear()
    model.add(prompt)
    evict(model, [rank for rank in range(len(prompt)) if not 48 <= rank < 48 + GAP])
    model.add([65])
    return model.output(-1)


@pytest.mark.parametrize(
    ("spec", "cache"),
    ALL_SPECS + [(spec, cache) for spec in ("llama", "qwen2") for cache in CACHES if cache != "f16"],
)
def test_next_token_logits_survive_a_renumber_of_everything(
    spec: str, cache: str, llama: Any, tiny_models: Path
) -> None:
    """Attention sees differences of positions only, so that a common offset changes logits by rounding alone.

    How much rounding that is, is measured: the same prompt is decoded at several offsets, without any
    renumbering, and the largest difference between those logits is the noise. A renumbered key is
    rounded twice more (as reference and as key), hence twice the noise is allowed. That this is
    sharp shows in the last comparison: half of the keys a few positions off exceeds it by far.
    """
    prompt = random_tokens(96)
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
        plain = [next_logits(model, prompt, start) for start in (0, 300, 777, 1000, 2500)]
        noise = max(apart(one, other) for one in plain for other in plain)
        moved = [next_logits(model, prompt, start, then=0) for start in (300, 777, 1000, 2500)]
        moved += [next_logits(model, prompt, 0, then=then) for then in (1, 300, 2500)]
        worst = max(apart(logits, plain[0]) for logits in moved)
        wrong = apart(
            without_some(model, prompt, Cached.retain), without_some(model, prompt, Cached.renumber)
        )
    print(f"{spec}, {cache}: noise {noise:.2e}, after a renumber {worst:.2e}, positions off {wrong:.2e}")
    assert worst <= 2.0 * noise
    assert wrong > 2.0 * noise
