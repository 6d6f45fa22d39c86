"""Blocks and placing where several sequences share a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, IDENTITY, SPECS, cached, random_tokens
from test_native_blocks import N, live, part, same_rows, spread
from test_native_sequences import SEVERAL, places, share

from pace_local.errors import NativeError

SOME = ["f16", "f16 transposed", "f32 narrow references", "q8_0"]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("spec", ["llama", "smollm3"])
def test_a_block_goes_into_any_sequence(llama: Any, tiny_models: Path, spec: str, cache: str) -> None:
    """Also at positions that another sequence has, of which nothing changes."""
    with cached(llama, tiny_models, SPECS[spec], **SEVERAL, **CACHES[cache]) as model:
        live(model)
        block = model.save()
        model.place(spread(2))
        expected = model.rows()
        before = model.everything()
        for seq in (1, 2):
            assert model.load(block, spread(2), seq=seq)[:2] == (0, N)
            same_rows(model.rows(seq), expected)
            assert model.everything() == before
            assert not set(places(model, seq)) & set(places(model, 0)), "cells of its own"
        model.load(block, range(5000, 5003), rows=[2, 4, 6], seq=1)
        assert [model.cache.count(seq) for seq in range(3)] == [N, N + 3, N]
        model.check_keys(1)
        # they are renumbered apart from each other
        model.renumber(seq=1)
        assert places(model, 1) == [(rank, rank) for rank in range(N + 3)]
        for seq in (0, 2):
            same_rows(model.rows(seq), expected)


@pytest.mark.parametrize("cache", CACHES)
def test_shared_cells_are_saved_for_either_sequence(llama: Any, tiny_models: Path, cache: str) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], **SEVERAL, **CACHES[cache]) as model:
        model.add(random_tokens(20))
        share(model, 0, 1, 4, 15)
        model.add(random_tokens(6, 1), seq=1)
        shared = range(4, 15)
        mine, theirs = model.save(shared), model.save(range(11), seq=1)
        assert mine.tobytes() == theirs.tobytes()
        assert model.tokens(1) == [*model.tokens()[4:15], *random_tokens(6, 1)]
        block, before = model.save(seq=1), model.everything(n_seq=2)
        model.load(block, range(100, 117), seq=2)
        assert model.everything(n_seq=2) == before
        assert model.tokens(2) == model.tokens(1)
        assert model.read("value", 2).tobytes() == model.read("value", 1).tobytes()
        model.check_keys(2)
        # evicted here, still there: what comes back is a copy, and shares nothing
        model.retain([rank for rank in range(20) if rank not in shared])
        model.load(mine, range(4, 15))
        assert not {cell for _, cell in places(model, 0)} & {cell for _, cell in places(model, 1)}
        model.renumber(first=50)
        model.renumber(first=80, seq=1)
        model.check_keys(0)
        model.check_keys(1)


@pytest.mark.parametrize("cache", SOME)
def test_read_in_isolation_then_handed_over(llama: Any, tiny_models: Path, cache: str) -> None:
    """A segment that a second sequence read after the prefix alone does not depend on what else is there."""
    blocks = []
    for neighbours in ([], random_tokens(60, 5), random_tokens(33, 6)):
        with cached(llama, tiny_models, SPECS["qwen3"], **SEVERAL, **CACHES[cache]) as model:
            model.add(random_tokens(8))
            share(model, 0, 1, 0, 8)
            if neighbours:
                model.add(neighbours)
            model.add(random_tokens(16, 3), seq=1)
            blocks.append(model.save(range(8, 24), seq=1))
            model.retain([], seq=1)
            model.load(blocks[-1], range(200, 216))
            model.renumber()
            model.check_keys()
            assert model.tokens() == [*random_tokens(8), *neighbours, *random_tokens(16, 3)]
    assert blocks[0].tobytes() == blocks[1].tobytes() == blocks[2].tobytes()


@pytest.mark.parametrize("cache", SOME)
def test_a_place_that_would_move_a_shared_cell_is_refused(llama: Any, tiny_models: Path, cache: str) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **SEVERAL, **CACHES[cache]) as model:
        model.add(random_tokens(20))
        share(model, 0, 1, 5, 10)
        for seq, positions, ranks, where in (
            (0, range(1, 21), None, "position 5 .* would move to 6"),
            (0, [*range(9), *range(10, 21)], None, "position 9 .* would move to 10"),
            (0, [0, 3], [0, 7], "position 7 .* would move to 3"),
            (1, range(100, 105), None, "position 5 .* would move to 100"),
        ):
            before = model.everything(n_seq=2)
            with pytest.raises(NativeError, match=where) as error:
                model.place(positions, ranks, seq)
            assert error.value.status == "SHARED_CELL"
            assert model.everything(n_seq=2) == before
        # those that are shared may stay where they are, and all others move
        values, theirs = model.read("value"), model.rows(1)
        model.place([*range(2), *range(5, 10), *range(700, 720, 2)], [0, 1, *range(5, 10), *range(10, 20)])
        assert [position for position, _ in places(model, 0)] == [0, 1, *range(5, 10), *range(700, 720, 2)]
        assert model.read("value").tobytes() == np.delete(values, [2, 3, 4], axis=1).tobytes()
        after = model.rows(1)
        assert after.values.tobytes() == theirs.values.tobytes()
        assert [position for position, _ in places(model, 1)] == list(range(5, 10))
        model.check_keys(0)
        model.check_keys(1)


def test_a_load_takes_no_cell_of_another_sequence(llama: Any, tiny_models: Path) -> None:
    """All that is free, to the last cell, between cells of others."""
    with cached(llama, tiny_models, SPECS["llama"], **SEVERAL) as model:
        live(model)
        block = model.save()
        model.retain([])
        model.add(random_tokens(126, 4))
        model.add(random_tokens(100, 5), seq=1)
        assert model.cache.count(0) + model.cache.count(1) == 256 - N
        model.retain(range(0, 126, 2))
        model.add(random_tokens(63, 6))
        before = model.everything(n_seq=2)
        model.load(block, spread(9), seq=2)
        assert model.everything(n_seq=2) == before
        with pytest.raises(NativeError, match="1 rows to load, and 0 cells are free") as error:
            model.load(block, [4000], [0], seq=2)
        assert error.value.status == "NO_ROOM"
        model.check_keys(2)
        tokens = part(model.rows(2), slice(None)).residents["token"].tolist()
        assert tokens == model.cache.read_block(block, IDENTITY)["token"].tolist()
