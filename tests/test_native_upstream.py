"""What llama.cpp itself does to a cache between renumberings: shifts, removals, saved states."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local._native import query
from pace_local.errors import NativeError

Change = Callable[[Cached], object]


def shift(model: Cached, delta: int, first: int = -1, end: int = -1, seq: int = 0) -> None:
    """Upstream's own way to move positions. Keys follow at the next decode."""
    model.llama.llama_memory_seq_add(model.memory, seq, first, end, delta)


def keys_after(steps: list[Change], spec: str, llama: Any, models: Path, options: dict[str, Any]) -> bytes:
    """Keys after some steps and a last renumber to position 50."""
    with cached(llama, models, SPECS[spec], n_ctx=256, **options) as model:
        model.add(random_tokens(30))
        for step in steps:
            step(model)
        model.renumber(range(30), first=50)
        assert model.cache.residents()["position"].tolist() == list(range(50, 80))
        model.check_keys()
        return model.read("key").tobytes()


PENDING: dict[str, list[Change]] = {
    "one": [lambda model: shift(model, 100)],
    "two in a row": [lambda model: shift(model, 100), lambda model: shift(model, -30)],
    "two that cancel": [lambda model: shift(model, 100), lambda model: shift(model, -100)],
    "of the later half": [lambda model: shift(model, 100, 15, -1)],
    "to where they are renumbered": [lambda model: shift(model, 50)],
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", PENDING)
@pytest.mark.parametrize(
    ("spec", "cache"), [("llama", cache) for cache in CACHES] + [(spec, "f16") for spec in SPECS]
)
def test_a_shift_that_upstream_owes_is_part_of_the_renumber(
    spec: str, cache: str, name: str, captured: bool, llama: Any, tiny_models: Path
) -> None:
    """Two shifts in a row kept only the second delta; here not one bit differs from keys never shifted."""
    known: list[Change] = [lambda model: model.renumber(first=20)] if captured else []
    shifted = keys_after(known + PENDING[name], spec, llama, tiny_models, CACHES[cache])
    assert shifted == keys_after(known, spec, llama, tiny_models, CACHES[cache])


APPLIED: dict[str, list[Change]] = {
    "one": [lambda model: shift(model, 100), lambda model: model.add([1])],
    "one, and its reverse owed": [
        lambda model: shift(model, 30),
        lambda model: model.add([1]),
        lambda model: shift(model, -30),
    ],
    "to where they are renumbered": [lambda model: shift(model, 30), lambda model: model.add([1])],
    "two": [
        lambda model: shift(model, 100),
        lambda model: model.add([1]),
        lambda model: shift(model, -77),
        lambda model: model.add([1]),
    ],
}


@pytest.mark.parametrize("name", APPLIED)
@pytest.mark.parametrize(
    ("spec", "cache"), [("qwen2", "f16"), ("qwen2", "q8_0"), ("qwen3", "f32"), ("llama yarn", "f16")]
)
def test_a_shift_that_upstream_did_leaves_no_trace_in_captured_keys(
    spec: str, cache: str, name: str, llama: Any, tiny_models: Path
) -> None:
    """Upstream rotates what is cached, which rounds once more; a renumber starts from the reference."""
    known: list[Change] = [lambda model: model.renumber(first=20)]
    shifted = keys_after(known + APPLIED[name], spec, llama, tiny_models, CACHES[cache])
    assert shifted == keys_after(known, spec, llama, tiny_models, CACHES[cache])


def test_tokens_that_upstream_shifted_away_are_gone(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256) as model:
        tokens = random_tokens(30)
        model.add(tokens)
        model.renumber(first=3)
        shift(model, -10)
        assert model.tokens() == tokens[7:]
        model.renumber()
        assert model.tokens() == tokens[7:]
        assert model.cache.residents()["reference_position"].tolist() == list(range(7, 30))
        model.check_keys()


def test_a_refused_renumber_leaves_an_owed_shift_owed(llama: Any, tiny_models: Path) -> None:
    with (
        cached(llama, tiny_models, SPECS["qwen2"], n_ctx=256) as model,
        cached(llama, tiny_models, SPECS["qwen2"], n_ctx=256) as other,
    ):
        for each in (model, other):
            each.add(random_tokens(30))
            shift(each, 100, 10, -1)
        for point in ("plan", "allocate"):
            model.cache.fail_next(point)
            with pytest.raises(NativeError):
                model.renumber()
        for each in (model, other):
            each.add([1])
        assert model.everything() == other.everything()


@pytest.mark.parametrize("spec", ["llama", "llama yarn", "smollm3"])
def test_an_owed_shift_of_another_sequence_is_paid_once(spec: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS[spec], n_ctx=256, n_seq=2, unified=True) as model:
        model.add(random_tokens(10))
        model.add(random_tokens(10, seed=1), seq=1)
        shift(model, 77, seq=1)
        model.renumber(range(2, 10))
        residents = model.cache.residents(1)
        assert residents["position"].tolist() == list(range(77, 87))
        assert residents["reference_position"].tolist() == list(range(10))
        model.check_keys(seq=1)
        keys = model.read("key", 1).tobytes()
        model.add([1], seq=1)
        assert model.read("key", 1)[:, :10].tobytes() == keys, "and not a second time"


@pytest.mark.parametrize("cache", CACHES)
def test_what_upstream_removed_is_not_there(cache: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], n_ctx=256, **CACHES[cache]) as model:
        tokens = random_tokens(40)
        model.add(tokens)
        model.renumber(first=5)
        model.llama.llama_memory_seq_rm(model.memory, 0, 15, 25)
        model.add([1, 2, 3])
        left = tokens[:10] + tokens[20:] + [1, 2, 3]
        assert model.tokens() == left
        references = model.cache.residents()["reference_position"].tolist()
        assert references == [*range(10), *range(20, 40), -1, -1, -1]
        values = model.read("value")
        model.renumber(first=1)
        assert model.tokens() == left
        assert model.read("value").tobytes() == values.tobytes()
        model.check_keys()


def saved(model: Cached, *, whole: bool) -> Any:
    llama, context = model.llama, model.context
    size = llama.llama_state_get_size(context) if whole else llama.llama_state_seq_get_size(context, 0)
    data = (ctypes.c_uint8 * size)()
    n = (
        llama.llama_state_get_data(context, data, size)
        if whole
        else llama.llama_state_seq_get_data(context, data, size, 0)
    )
    assert n == size
    return data


def restore(model: Cached, data: Any, *, whole: bool) -> None:
    llama, context = model.llama, model.context
    if whole:
        assert llama.llama_state_set_data(context, data, len(data)) == len(data)
    else:
        assert llama.llama_state_seq_set_data(context, data, len(data), 0) == len(data)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("cache", CACHES)
def test_a_restored_state_is_renumbered_from_its_own_keys(
    cache: str, whole: bool, llama: Any, tiny_models: Path
) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], n_ctx=256, **CACHES[cache]) as model:
        model.add(random_tokens(40))
        model.renumber([*range(5), *range(9, 40)], first=30)
        before, data = model.rows(), saved(model, whole=whole)
        # other tokens, in the same cells, with references of their own
        model.clear()
        model.add(random_tokens(50, seed=1))
        model.renumber(first=7)
        restore(model, data, whole=whole)
        after = model.rows()
        assert after.residents["position"].tolist() == before.residents["position"].tolist()
        assert (after.residents["reference_position"] == -1).all()
        assert after.keys.tobytes() == before.keys.tobytes()
        assert after.values.tobytes() == before.values.tobytes()
        model.add([1, 2])
        change = model.renumber(first=3000)
        assert change.n_captured == 38
        np.testing.assert_array_equal(
            model.cache.residents()["reference_position"], np.arange(30, 68), "captured as restored"
        )
        model.check_keys()
        assert model.read("value")[:, :36].tobytes() == before.values.tobytes()
        assert query(model.context).supported
