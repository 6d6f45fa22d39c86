"""Keys as at position 0, rows put in place of others, and rows that stand for several tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, is_cpu, random_tokens, store_tolerance
from numpy.typing import NDArray

from pace_local.errors import NativeError
from pace_local.testing import TinySpec, rotate_by, rotation_tolerance

SPEC = TinySpec(n_layer=2)
EXACT = {"cache": "f32", "values": "f32"}


def plain(model: Cached, layer: int, seq: int = 0) -> NDArray[np.float32]:
    rows = model.cache.read_plain_keys(layer, seq)
    return rows.reshape(len(rows), model.spec.n_head_kv, model.spec.head_dim)


def write(model: Cached, layer: int, ranks: list[int], keys: Any, values: Any, counts: Any = None) -> None:
    n = len(ranks)
    model.cache.write_rows(
        layer, np.array(ranks), model.cache.count(), np.reshape(keys, (n, -1)), np.reshape(values, (n, -1)),
        None if counts is None else np.array(counts),
    )  # fmt: skip


def same(one: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


# Keys as at position 0


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_plain_keys_are_references_rotated_back(llama: Any, tiny_models: Path, spec: TinySpec) -> None:
    with cached(llama, tiny_models, spec) as model:
        model.add(random_tokens(30), start=5)
        model.renumber(list(range(0, 30, 2)), first=3)
        model.add(random_tokens(20, 1))
        for layer in range(spec.n_layer):
            got = plain(model, layer)
            residents = model.cache.residents()
            assert (residents["reference_position"] >= 0).all(), "all were captured"
            reference = model.read("reference")[layer]
            rope = spec.rope(layer, n_ctx=512)
            if rope is None:
                np.testing.assert_array_equal(got, reference)
                continue
            back = -residents["reference_position"]
            expected = rotate_by(reference, back, rope)
            allowed = rotation_tolerance(reference, back, rope, cache="f32")
            assert (np.abs(got - expected) <= allowed + 1e-6).all()


@pytest.mark.parametrize("options", CACHES.values(), ids=CACHES)
def test_reading_plain_keys_changes_nothing_that_is_computed(
    llama: Any, tiny_models: Path, options: dict[str, Any]
) -> None:
    """What it captures is what a renumbering captures."""

    def work(reads: bool) -> list[bytes]:
        with cached(llama, tiny_models, SPECS["qwen2"], **options) as model:
            model.add(random_tokens(40))
            if reads:
                plain(model, 1)
            model.renumber(list(range(0, 40, 3)))
            model.add([7])
            return [*model.everything()[:3], model.output(-1).tobytes()]

    assert work(True) == work(False)


# Rows in place of others


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("options", CACHES.values(), ids=CACHES)
def test_what_is_written_is_read(
    llama: Any, tiny_models: Path, spec: TinySpec, options: dict[str, Any]
) -> None:
    """And all else stays bit for bit."""
    with cached(llama, tiny_models, spec, **options) as model:
        model.add(random_tokens(30), start=9)
        model.renumber(list(range(0, 30, 2)), first=2)
        model.add(random_tokens(10, 1))
        model.cache.read_plain_keys(0)
        before = model.rows()
        random = np.random.default_rng(0)
        ranks = [1, 4, 5, 14, 20, 24]
        shape = (len(ranks), spec.n_head_kv, spec.head_dim)
        keys, values = random.normal(size=(2, *shape)).astype(np.float32)
        layer = spec.n_layer - 1
        write(model, layer, ranks, keys, values)
        after = model.rows()
        np.testing.assert_array_equal(after.residents, before.residents)
        others = np.delete(np.arange(25), ranks)
        np.testing.assert_array_equal(after.keys[:layer], before.keys[:layer])
        np.testing.assert_array_equal(after.values[:layer], before.values[:layer])
        np.testing.assert_array_equal(after.keys[layer][others], before.keys[layer][others])
        np.testing.assert_array_equal(after.values[layer][others], before.values[layer][others])
        wide = model.reference_type == "f32"
        same(plain(model, layer)[ranks], keys, rtol=1e-5 if wide else 3e-3, atol=1e-5 if wide else 3e-3)
        tolerance = store_tolerance(values.astype(np.float64), np.zeros(shape), options.get("values", "f16"))
        assert (np.abs(after.values[layer][ranks] - values) <= tolerance + 1e-6).all()
        model.renumber(first=2)
        model.check_keys()  # cached keys are rotations of the references
        same(plain(model, layer)[ranks], keys, rtol=1e-5 if wide else 3e-3, atol=1e-5 if wide else 3e-3)


def test_rows_move_with_their_token(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC, **EXACT) as model:
        model.add(random_tokens(30))
        random = np.random.default_rng(0)
        keys, values = random.normal(size=(2, 3, SPEC.n_head_kv, SPEC.head_dim)).astype(np.float32)
        write(model, 1, [3, 10, 29], keys, values)
        model.renumber([1, 3, 10, 11, 29], first=400)
        same(plain(model, 1)[[1, 2, 4]], keys)
        same(model.read("value")[1][[1, 2, 4]], values)
        model.check_keys()


def test_writing_what_is_there_changes_no_logits(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC, **EXACT) as model:
        model.add(random_tokens(30))
        model.cache.read_plain_keys(0)
        expected = model.decode([9], 30)[-1]
        assert llama.llama_memory_seq_rm(model.memory, 0, 30, -1)
        for layer in range(2):
            write(model, layer, [5, 6], plain(model, layer)[[5, 6]], model.read("value")[layer][[5, 6]])
        same(model.decode([9], 30)[-1], expected, rtol=1e-4, atol=1e-4)


# Rows that stand for several


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("count", [2, 5])
def test_equal_rows_merged_change_no_logits(llama: Any, tiny_models: Path, flash: bool, count: int) -> None:
    """Some residents are made equal in every layer; then one that stands for all takes their place."""
    spec = TinySpec(n_layer=2, weights="F32")
    with cached(llama, tiny_models, spec, flash=flash, **EXACT) as model:
        model.add(random_tokens(40))
        twins = list(range(7, 7 + count))
        positions = model.cache.residents()["position"]
        for layer in range(2):
            key, value = plain(model, layer)[7], 20 * model.read("value")[layer][7]
            rope = SPEC.rope(layer)
            # equal where attention sees them: the cached keys, at different positions
            keys = np.stack([rotate_by(key[None], np.array([7 - positions[t]]), rope)[0] for t in twins])
            write(model, layer, twins, keys, np.stack([value] * count))
        expected = [model.decode([5], 40)[-1], model.decode(random_tokens(9, 1), 41)[-1]]
        assert llama.llama_memory_seq_rm(model.memory, 0, 40, -1)
        for layer in range(2):
            write(model, layer, [7], plain(model, layer)[7], model.read("value")[layer][7], [float(count)])
        model.retain([rank for rank in range(40) if rank not in twins[1:]])
        got = [model.decode([5], 40)[-1], model.decode(random_tokens(9, 1), 41)[-1]]
        # flash attention has keys, values and mask in F16, Vulkan's products of matrices both factors
        tolerance = 2e-4 if is_cpu() and not flash else 1e-2
        for one, other in zip(got, expected, strict=True):
            same(one, other, rtol=tolerance, atol=tolerance)
        # and without the counts they do change
        assert llama.llama_memory_seq_rm(model.memory, 0, 40, -1)
        for layer in range(2):
            write(model, layer, [7], plain(model, layer)[7], model.read("value")[layer][7], [1.0])
        assert np.abs(model.decode([5], 40)[-1] - expected[0]).max() > 5 * tolerance


def test_counts_stay_with_their_token(llama: Any, tiny_models: Path) -> None:
    """Through renumberings; and they end with it, whoever gets the cell."""
    with cached(llama, tiny_models, SPEC, flash=False, **EXACT) as model:
        model.cache.observe(layers=[0])

        def step() -> NDArray[np.float64]:
            model.add([5])
            mass = model.cache.attention("steps", 1)[:-1]
            assert llama.llama_memory_seq_rm(model.memory, 0, model.next_position() - 1, -1)
            return mass

        model.add(random_tokens(20))
        before = step()
        row = int(before.argmin())
        assert 3 < row < 17
        write(model, 0, [row], plain(model, 0)[row], model.read("value")[0][row], [3.0])
        with_count = step()
        assert 2 * before[row] < with_count[row] < 3 * before[row]
        assert (np.delete(with_count, row) < np.delete(before, row)).all()
        model.renumber([0, 1, row, *range(row + 2, 20)])
        moved = step()
        model.renumber(list(range(len(moved))), first=50)  # nothing but positions changes
        same(step(), moved, rtol=1e-3, atol=1e-4)
        write(model, 0, [2], plain(model, 0)[2], model.read("value")[0][2])
        assert step()[2] < moved[2], "a row that is written anew stands for one"
        write(model, 0, [2], plain(model, 0)[2], model.read("value")[0][2], [3.0])
        cell = int(model.cache.residents()["cell"][2])
        model.retain([0, 1, *range(3, len(moved))])
        model.add([9, 8])
        residents = model.cache.residents()
        assert cell in residents["cell"].tolist(), "the cell is used again"
        row = residents["cell"].tolist().index(cell)
        got = step()
        write(model, 0, [row], plain(model, 0)[row], model.read("value")[0][row], [1.0])
        same(step(), got, rtol=1e-3, atol=1e-4)


def test_graphs_are_reused_with_counts(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC, context={"no_perf": False}) as model:
        model.add(random_tokens(20))
        write(model, 1, [4], plain(model, 1)[4], model.read("value")[1][4], [3.0])
        for token in random_tokens(30, 1):
            model.add([token])
        assert int(llama.llama_perf_context(model.context).n_reused) >= 28


# What is refused


def bad(model: Cached, message: str, status: str = "INVALID_ARGUMENT", **changes: Any) -> None:
    width = SPEC.n_head_kv * SPEC.head_dim
    given = {
        "layer": 0, "ranks": np.array([1, 2]), "n_residents": 10, "keys": np.ones((2, width)),
        "values": np.ones((2, width)), "counts": np.ones(2), **changes,
    }  # fmt: skip
    before = model.everything()
    with pytest.raises(NativeError) as caught:
        model.cache.write_rows(**given)
    assert message in str(caught.value)
    assert caught.value.status == status
    assert model.everything() == before


def test_bad_rows(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.add(random_tokens(10))
        model.cache.read_plain_keys(0)
        width = SPEC.n_head_kv * SPEC.head_dim
        keys = np.ones((2, width))
        keys[1, 3] = np.nan
        bad(model, "layer 2: the cache has 2", layer=2)
        bad(model, "ranks must increase strictly and stay under 10; number 1 is 1", ranks=np.array([1, 1]))
        bad(model, "ranks must increase strictly and stay under 10; number 1 is 10", ranks=np.array([1, 10]))
        bad(model, "the caller counts 9 residents, the cache 10", "STALE", n_residents=9)
        bad(model, f"keys: element {width + 3} is nan", keys=keys)
        bad(model, f"values: element {width + 3} is nan", values=keys)
        bad(model, "count number 1 is 0.5; use 1 or more", counts=np.array([1.0, 0.5]))
        bad(model, "count number 0 is nan; use 1 or more", counts=np.array([np.nan, 1.0]))
        bad(model, "2 ranks, and not as many rows or counts", keys=np.ones((3, width)))
        bad(model, "2 ranks, and not as many rows or counts", counts=np.ones(1))
        for name in ("keys", "values"):
            # rows that were too narrow were read beyond their end
            says = f"{name} of shape (2, {width - 1}); rows of layer 0 have {width}"
            bad(model, says, **{name: np.ones((2, width - 1))})
            bad(model, f"{name} of shape (2, {width + 1})", **{name: np.ones((2, width + 1))})


def test_a_shared_cell(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC, n_seq=2, unified=True) as model:
        model.add(random_tokens(10))
        llama.llama_memory_seq_cp(model.memory, 0, 1, 0, 2)
        bad(model, "the token of rank 1 belongs to another sequence too", "SHARED_CELL")


@pytest.mark.parametrize(("point", "status"), [("plan", "NO_MEMORY"), ("allocate", "NO_MEMORY")])
def test_a_failure_changes_nothing(llama: Any, tiny_models: Path, point: str, status: str) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.add(random_tokens(10))
        model.cache.read_plain_keys(0)
        model.cache.fail_next(point)
        bad(model, "no ", status)


def test_a_device_that_fails_at_a_read_loses_nothing(llama: Any, tiny_models: Path) -> None:
    """The cache was emptied, though references alone are taken. A write takes them first as well."""
    with cached(llama, tiny_models, SPEC) as model:
        model.add(random_tokens(10))
        before = model.everything()
        for act in (
            lambda: model.cache.read_plain_keys(0),
            lambda: write(model, 0, [1], plain_zero(), plain_zero()),
        ):
            model.cache.fail_next("compute")
            with pytest.raises(NativeError) as caught:
                act()
            assert caught.value.status == "DEVICE_FAILED"
            assert model.everything() == before


def test_a_device_that_fails(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.add(random_tokens(10))
        model.cache.read_plain_keys(0)
        model.cache.fail_next("compute")
        with pytest.raises(NativeError) as caught:
            write(model, 0, [1], plain_zero(), plain_zero())
        assert caught.value.status == "CACHE_LOST"
        assert model.cache.count() == 0
        model.add([1, 2])


def plain_zero() -> NDArray[np.float32]:
    return np.zeros((1, SPEC.n_head_kv * SPEC.head_dim), dtype=np.float32)


def test_no_rows(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        assert model.cache.read_plain_keys(0).shape == (0, 0)
        model.add(random_tokens(4))
        before = model.everything()
        nothing = np.zeros((0, SPEC.n_head_kv * SPEC.head_dim))
        model.cache.write_rows(0, np.zeros(0), 4, nothing, nothing)
        assert model.everything() == before
