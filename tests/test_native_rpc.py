"""The native layer on a device whose memory the host cannot read: llama.cpp's RPC backend, on loopback.

Runs where the library was built with GGML_RPC=on, as ``scripts/rpc-test`` does.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_layout import parse
from native_cache import CACHES, SPECS, Cached, cached, random_tokens
from rpc_server import server
from test_native_block_layout import live as live_cells
from test_native_blocks import N, live, same_rows, spread
from test_native_cells import check_compact
from test_native_decode import compare_first_layer
from test_native_rotation import rotate_often
from test_native_sequences import places, share

from pace_local import _native
from pace_local.errors import NativeError

BUILD = _native.read_build()
pytestmark = [
    pytest.mark.rpc,
    pytest.mark.skipif(
        "ggml-rpc" not in BUILD.facts.get("backends", []),
        reason="the native library has no RPC backend; scripts/rpc-test builds one that has",
    ),
]

SEVERAL = {"n_ctx": 256, "n_seq": 2, "unified": True}
STORED = ["f16", "f16 transposed", "f32", "f32 narrow references", "bf16", "q8_0"]


@pytest.fixture(scope="module")
def device(llama: Any) -> Iterator[dict[str, Any]]:
    """Options that put a model and its cache on the server's device."""
    functions = ctypes.CDLL(str(next(BUILD.folder.glob("*ggml-rpc.[sd]*"))))
    functions.ggml_backend_rpc_add_server.restype = ctypes.c_void_p
    lib = llama._lib
    lib.ggml_backend_reg_dev_get.restype = ctypes.c_void_p
    lib.ggml_backend_reg_dev_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with server(BUILD.folder) as endpoint:
        # not registered: models of other tests must not go there
        registry = functions.ggml_backend_rpc_add_server(endpoint.encode())
        assert registry
        devices = (ctypes.c_void_p * 2)(lib.ggml_backend_reg_dev_get(registry, 0), None)
        yield {"model": {"devices": ctypes.cast(devices, ctypes.c_void_p), "n_gpu_layers": 99}}


@pytest.fixture
def on_device(device: dict[str, Any], llama: Any, tiny_models: Path) -> Callable[..., Any]:
    def make(spec: str, cache: str, **options: Any) -> Any:
        return cached(llama, tiny_models, SPECS[spec], **CACHES[cache], **device, **options)

    return make


def test_all_rows_are_on_the_device(on_device: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="pace_local.native")
    with on_device("llama", "f16"):
        lines = [line for line in caplog.messages if "KV buffer size" in line]
    assert len(lines) == 1
    assert "RPC" in lines[0]


@pytest.mark.parametrize("n", [1, 16])
@pytest.mark.parametrize(
    ("spec", "cache"), [("llama", cache) for cache in STORED] + [(spec, "f16") for spec in SPECS]
)
def test_renumberings_equal_one_rotation(
    spec: str, cache: str, n: int, device: dict[str, Any], llama: Any, tiny_models: Path
) -> None:
    """Garbage after a shift on a device, fine on the CPU: here the same rules hold."""
    rotate_often(spec, cache, n, llama, tiny_models, **device)


@pytest.mark.parametrize("cache", STORED)
def test_256_renumberings_equal_one_rotation(
    cache: str, device: dict[str, Any], llama: Any, tiny_models: Path
) -> None:
    rotate_often("qwen3 yarn", cache, 256, llama, tiny_models, **device)


@pytest.mark.parametrize(("spec", "cache"), [("qwen3", cache) for cache in STORED] + [("llama yarn", "f16")])
def test_first_layer_keys_equal_those_of_a_fresh_decode(
    spec: str, cache: str, device: dict[str, Any], llama: Any, tiny_models: Path
) -> None:
    compare_first_layer(spec, cache, 3000, llama, tiny_models, **device)


def session(model: Cached) -> tuple[bytes, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Residents, keys, and logits after some renumberings."""
    model.add(random_tokens(100))
    model.renumber([*range(4), *range(40, 100)], first=500)
    model.add(random_tokens(30, seed=1))
    model.retain(range(2, 94))
    model.renumber(range(92), first=3)
    model.add([65])
    return model.cache.residents().tobytes(), model.read("key"), model.output(-1)


@pytest.mark.parametrize("cache", STORED)
def test_residents_keys_and_logits_are_those_of_the_cpu(
    cache: str, on_device: Callable[..., Any], llama: Any, tiny_models: Path
) -> None:
    """The device computes with the same kernels, so that only the order of sums may differ, if anything."""
    with on_device("qwen3", cache) as model:
        residents, keys, logits = session(model)
    with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
        expected = session(model)
    assert residents == expected[0]
    apart = np.abs(keys - expected[1]).max(), np.abs(logits - expected[2]).max()
    print(f"{cache}: keys {apart[0]:.2e} and logits {apart[1]:.2e} from the CPU's")
    assert apart[0] < 0.02 * np.abs(expected[1]).max()
    assert apart[1] < 0.02 * np.abs(expected[2]).max()


@pytest.mark.parametrize("cache", STORED)
def test_live_cells_stay_compact_over_hundreds_of_cycles(cache: str, on_device: Callable[..., Any]) -> None:
    random = np.random.default_rng(2)
    with on_device("llama", cache, n_ctx=256) as model:
        for cycle in range(200):
            room = 256 - model.cache.count()
            model.add(random_tokens(int(random.integers(1, min(room, 60) + 1)), seed=cycle))
            count = model.cache.count()
            kept = np.flatnonzero(random.random(count) < (0.5 if count > 180 else 0.9))
            values = model.read("value")[:, kept] if cycle % 20 == 0 else None
            model.renumber(kept, first=cycle)
            check_compact(model, cycle)
            if values is not None:
                assert model.read("value").tobytes() == values.tobytes()
        model.check_keys()


@pytest.mark.parametrize("cache", STORED)
def test_sequences_keep_to_themselves(cache: str, on_device: Callable[..., Any]) -> None:
    with on_device("llama", cache, **SEVERAL) as model:
        model.add(random_tokens(20))
        share(model, 0, 1, 0, 10)
        model.add(random_tokens(4, seed=1), seq=1)
        before = model.rows(seq=1)
        model.renumber([*range(2, 10), *range(12, 20)], first=2)
        assert places(model, 0) == [(2 + rank, rank) for rank in range(16)]
        after = model.rows(seq=1)
        assert after.residents["position"].tolist() == before.residents["position"].tolist()
        assert after.values.tobytes() == before.values.tobytes()
        for seq in (0, 1):
            model.check_keys(seq)
        everything = model.everything(n_seq=2)
        with pytest.raises(NativeError, match="belongs to another sequence"):
            model.renumber(first=0)
        assert model.everything(n_seq=2) == everything


@pytest.mark.parametrize("point", ["plan", "allocate", "compute"])
def test_failures_leave_all_or_nothing(point: str, on_device: Callable[..., Any]) -> None:
    with on_device("llama", "f16") as model:
        model.add(random_tokens(40))
        before = model.everything()
        model.cache.fail_next(point)
        with pytest.raises(NativeError):
            model.renumber(range(3, 40))
        assert model.everything() == before or (point == "compute" and model.cache.count() == 0)
        model.add(random_tokens(5))
        model.renumber(first=9)
        model.check_keys()


def observed(model: Cached) -> list[np.ndarray[Any, Any]]:
    """Attention mass over the same life, in every part."""
    model.cache.observe(queries=8, decay=0.98, min_distance=2)
    session(model)
    for token in random_tokens(80, seed=2):
        model.add([token])
    return [model.cache.attention(part, n) for part, n in (("total", 0), ("steps", 30), ("queries", 20))]


@pytest.mark.parametrize("cache", STORED)
def test_attention_is_that_of_the_cpu(
    cache: str, on_device: Callable[..., Any], llama: Any, tiny_models: Path
) -> None:
    with on_device("qwen3", cache) as model:
        masses = observed(model)
    with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
        expected = observed(model)
    for mass, right in zip(masses, expected, strict=True):
        assert right.sum() > 0
        np.testing.assert_allclose(mass, right, rtol=0.02, atol=0.02)


def merged(model: Cached) -> tuple[np.ndarray[Any, Any], ...]:
    """Keys as at position 0, the same after rows were put in place of others, and logits from then on."""
    model.add(random_tokens(60))
    before = model.cache.read_plain_keys(1)
    ranks = np.array([3, 4, 30, 59])
    values = model.cache.read_rows("value", 1)[ranks - 1]
    model.cache.write_rows(1, ranks, 60, before[ranks - 1], values, np.array([1.0, 4.0, 2.0, 1.0]))
    model.renumber([*range(10), *range(20, 60)], first=7)
    model.add([65])
    return before, model.cache.read_plain_keys(1), model.output(-1)


@pytest.mark.parametrize("cache", STORED)
def test_rows_put_in_place_of_others_are_those_of_the_cpu(
    cache: str, on_device: Callable[..., Any], llama: Any, tiny_models: Path
) -> None:
    with on_device("qwen3", cache) as model:
        got = merged(model)
    with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
        expected = merged(model)
    for mine, right in zip(got, expected, strict=True):
        assert np.abs(mine - right).max() <= 0.02 * np.abs(right).max()


@pytest.mark.parametrize(("spec", "cache"), [("qwen3", cache) for cache in STORED] + [("smollm3", "f16")])
def test_a_loaded_block_is_what_a_renumbering_leaves(
    spec: str, cache: str, on_device: Callable[..., Any]
) -> None:
    """Saved from the device and loaded into it, at the same positions and at others."""
    with on_device(spec, cache) as model:
        live(model)
        block = model.save()
        assert parse(block, model).values.tobytes() == model.read("value").tobytes()
        for positions in (model.cache.residents()["position"].tolist(), spread(3)):
            model.clear()
            live(model)
            model.place(positions)
            expected, logits = model.rows(), model.next_logits()
            model.retain([])
            model.load(block, positions)
            same_rows(model.rows(), expected)
            model.check_keys()
            assert model.next_logits() == logits


@pytest.mark.parametrize("cache", STORED)
def test_some_rows_of_a_block_between_residents(cache: str, on_device: Callable[..., Any]) -> None:
    with on_device("llama", cache) as model:
        live_cells(model)
        block = model.save()
        gone = [*range(4, 9), *range(15, 26)]
        kept = [rank for rank in range(N) if rank not in gone]
        model.renumber(first=40)
        expected = model.rows()
        model.retain(kept)
        before = model.cache.residents()
        model.load(block, [40 + rank for rank in gone], gone)
        same_rows(model.rows(), expected)
        assert model.cache.residents()[kept].tolist() == before.tolist()


@pytest.mark.parametrize(
    ("point", "status"),
    [("plan", "NO_MEMORY"), ("allocate", "NO_MEMORY"), ("compute", "DEVICE_FAILED")],
)
def test_a_failed_save_or_load_loses_nothing(point: str, status: str, on_device: Callable[..., Any]) -> None:
    with on_device("llama", "f16") as model:

        def fail(act: Callable[[], Any]) -> None:
            before = model.everything()
            model.cache.fail_next(point)
            with pytest.raises(NativeError) as error:
                act()
            assert error.value.status == status
            assert model.everything() == before

        live(model)
        fail(model.save)
        block = model.save(range(4, 20))
        model.place(range(5000, 5014), [*range(4), *range(20, N)])
        fail(lambda: model.load(block, range(16)))
        model.load(block, range(16))
        model.check_keys()


@pytest.mark.parametrize("n_on_device", [0, 2, 3, 4])
@pytest.mark.parametrize("cache", ["f16", "q8_0"])
def test_a_block_may_come_from_another_split_of_the_layers(
    cache: str, n_on_device: int, device: dict[str, Any], llama: Any, tiny_models: Path
) -> None:
    """Which layers are on the device decides how references are stored, not what is loaded."""
    with cached(llama, tiny_models, SPECS["llama"], **CACHES[cache], **device) as model:
        live(model)
        block = model.save()
        model.place(spread(3))
        expected = model.rows()
        references = model.read("reference")
    split = {"model": {**device["model"], "n_gpu_layers": n_on_device}}
    with cached(llama, tiny_models, SPECS["llama"], **CACHES[cache], **split) as model:
        model.load(block, spread(3))
        got = model.rows()
        assert got.values.tobytes() == expected.values.tobytes()
        assert model.read("reference").tobytes() == references.tobytes()
        assert np.abs(got.keys - expected.keys).max() <= 0.02 * np.abs(expected.keys).max()
