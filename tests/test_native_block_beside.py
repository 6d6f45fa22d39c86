"""What lies beside keys and values when residents are saved and loaded: counts, attention, other contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, IDENTITY, SPECS, Cached, cached, random_tokens
from test_native_blocks import N, live, part, same_rows, spread

from pace_local._native import Identity
from pace_local.testing import TinySpec

SPEC = TinySpec(n_layer=3)
MERGED = {0: ([4, 9], [3.0, 2.0]), 2: ([9, 20], [5.0, 7.0])}
"""Layer -> ranks and counts."""


def count(model: Cached, layer: int, ranks: list[int], counts: list[float]) -> None:
    """Let rows stand for several tokens, and be what they are."""
    keys = model.cache.read_plain_keys(layer)[ranks]
    values = model.cache.read_rows("value", layer)[ranks]
    model.cache.write_rows(layer, np.array(ranks), model.cache.count(), keys, values, np.array(counts))


def merge(model: Cached) -> None:
    model.add(random_tokens(N))
    for layer, (ranks, counts) in MERGED.items():
        count(model, layer, ranks, counts)
    model.renumber()


@pytest.mark.parametrize("cache", CACHES)
def test_merged_rows_keep_their_counts(llama: Any, tiny_models: Path, cache: str) -> None:
    with cached(llama, tiny_models, SPEC, **CACHES[cache]) as model:
        merge(model)
        expected, before = model.next_logits(), model.everything()
        for gone in ([4, 9, 20], [9], range(3, 22), range(N)):
            block = model.save(gone)
            model.retain(np.delete(np.arange(N), gone))
            model.load(block, gone)
            model.renumber()
            assert model.everything() == before
            assert model.next_logits() == expected
        whole = model.save()
        # by single rows, so that each count finds its own
        model.clear()
        for row in range(N):
            model.load(whole, [row], [row])
        assert model.everything() == before
        assert model.next_logits() == expected
    # in a context that never saw a count
    with cached(llama, tiny_models, SPEC, **CACHES[cache]) as other:
        other.load(whole, range(N))
        assert other.next_logits() == expected
        for layer, (ranks, _) in MERGED.items():
            count(other, layer, ranks, [1.0] * len(ranks))
        assert other.next_logits() != expected, "the counts are heard"


def test_rows_without_counts_do_not_inherit_those_of_the_cell(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.add(random_tokens(N))
        model.renumber()
        plain, expected = model.save(), model.next_logits()
        merge_again = {0: list(range(N)), 1: [3, 4]}
        for layer, ranks in merge_again.items():
            count(model, layer, ranks, [9.0] * len(ranks))
        assert model.next_logits() != expected
        model.retain([])
        model.load(plain, range(N))
        assert model.next_logits() == expected
        # nor does a block of some rows bring counts of others
        model.clear()
        merge(model)
        some = model.save()
        kept = [rank for rank in range(N) if rank not in (4, 9, 20)]
        model.clear()
        model.load(some, kept, kept)
        model.renumber()
        got = model.next_logits()
        for layer in range(3):
            count(model, layer, [3, 8], [1.0, 1.0])
        assert model.next_logits() == got


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_attention_of_a_loaded_token_starts_at_zero(
    llama: Any, tiny_models: Path, flash: bool, reads: bool
) -> None:
    """In a cell whose last token had some, taken to the host already or not; others keep theirs."""
    gone = list(range(6, 13))
    kept = [rank for rank in range(24) if rank not in gone]
    with cached(llama, tiny_models, SPEC, flash=flash) as model:
        model.cache.observe(queries=0, decay=0.9)
        model.add(random_tokens(20))
        model.renumber()
        for token in (7, 8, 9, 10):
            model.add([token])
        with cached(llama, tiny_models, SPEC, flash=flash) as twin:
            twin.cache.observe(queries=0, decay=0.9)
            twin.add(random_tokens(20))
            twin.renumber()
            for token in (7, 8, 9, 10):
                twin.add([token])
            before = {name: twin.cache.attention(name, 3) for name in ("total", "steps", "queries")}
        assert all((mass[gone] > 0).all() for mass in before.values())
        if reads:
            model.cache.attention()
        block = model.save(gone)
        model.retain(kept)
        model.load(block, gone)
        for name, mass in before.items():
            got = model.cache.attention(name, 3)
            assert (got[gone] == 0).all()
            np.testing.assert_array_equal(got[kept], mass[kept])
        model.add([11])
        total, step = model.cache.attention(), model.cache.attention("steps", 1)
        np.testing.assert_array_equal(total[gone], step[gone])
        assert (step[gone] > 0).all()
        np.testing.assert_allclose(total[kept], 0.9 * before["total"][kept] + step[kept], rtol=1e-12)
        model.place(range(3, 28))
        np.testing.assert_array_equal(model.cache.attention(), total)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("f16", {"n_ctx": 1024}),
        ("f16", {"n_ctx": 256, "n_seq": 3, "unified": True}),
        ("f16", {"flash": False}),
        ("f32", {"flash": False}),
        ("f16 transposed", {"flash": True}),
        ("q8_0", {"n_ubatch": 64}),
    ],
)
@pytest.mark.parametrize("spec", ["llama yarn factors", "qwen3", "smollm3"])
def test_a_block_fits_any_context_of_its_model(
    llama: Any, tiny_models: Path, spec: str, name: str, options: dict[str, Any]
) -> None:
    """Of another size, with more sequences, with values by rows or by columns: the same bits."""
    with cached(llama, tiny_models, SPECS[spec], **CACHES[name]) as model:
        live(model)
        block = model.save()
        model.place(spread(3))
        expected = model.rows()
    with cached(llama, tiny_models, SPECS[spec], **{**CACHES[name], **options}) as other:
        other.add(random_tokens(20, 9))
        other.renumber(range(0, 20, 2), first=5000)
        other.load(block, spread(3))
        same_rows(part(other.rows(), slice(N)), expected)
        other.check_keys()
        other.add([65])


def test_a_block_outlives_what_it_was_saved_from(llama: Any, tiny_models: Path) -> None:
    """It is bytes and no more: written, read and loaded by another model object, at an odd address."""
    with cached(llama, tiny_models, SPECS["qwen3"]) as model:
        live(model)
        data = model.save().tobytes()
        model.place(spread(3))
        expected = model.rows()
    with cached(llama, tiny_models, SPECS["qwen3"]) as other:
        for offset in (0, 1, 4, 7):
            other.clear()
            block = np.frombuffer(bytes(offset) + data, dtype=np.uint8)[offset:]
            again = Identity(bytes(IDENTITY)[:32], bytes(IDENTITY)[32:])
            assert len(other.cache.read_block(block, again)) == N
            other.load(block, spread(3))
            same_rows(other.rows(), expected)


def test_an_abort_that_was_asked_for_does_not_cut_a_load_short(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"]) as model:
        live(model)
        expected_block = model.save()
        model.place(spread(3))
        expected = model.rows()
        model.clear()
        live(model)
        model.cache.abort()
        block = model.save()
        assert block.tobytes() == expected_block.tobytes()
        model.retain([])
        model.load(block, spread(3))
        same_rows(model.rows(), expected)
        assert model.try_decode([1], model.next_position()) == 2
        model.cache.abort_clear()
        model.add([1])


@pytest.mark.parametrize("cache", ["f16", "f16 transposed", "f32"])
def test_a_load_while_upstream_owes_a_shift(llama: Any, tiny_models: Path, cache: str) -> None:
    """The others get theirs, and what was loaded gets none."""
    gone = range(20, N)
    with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
        live(model)
        model.renumber()
        before = model.rows()
        block = model.save(gone)
        model.retain(range(20))
        model.shift(start=10, by=50)
        model.load(block, range(100, 110))
        model.save()
        loaded = model.rows()
        assert loaded.keys[:, :20].tobytes() == before.keys[:, :20].tobytes(), "still owed"
        model.cache.settle()
        settled = model.rows()
        np.testing.assert_array_equal(settled.keys[:, 20:], loaded.keys[:, 20:])
        assert (settled.keys[:, 10:20] != loaded.keys[:, 10:20]).any()
        model.renumber(first=3)
        model.check_keys()
        np.testing.assert_array_equal(model.read("value"), before.values)
