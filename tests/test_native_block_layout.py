"""What is in a saved block, read by numpy and compared with what the cache says of itself."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_layout import SUMMED_FROM, checksum_of, forge, parse
from native_cache import CACHES, IDENTITY, SPECS, Cached, cached, random_tokens

from pace_local._native import CACHE_TYPES, RESIDENT
from pace_local.testing import TinySpec

SOME = [0, 1, 2, 5, 9, 10, 11, 24, 29]


def live(model: Cached) -> None:
    """30 residents, of which some were captured by a renumbering, and cells that were used twice."""
    model.add(random_tokens(40), start=5)
    model.renumber(range(0, 40, 2), first=1)
    model.retain([*range(3), *range(8, 20)])
    model.add(random_tokens(15, 1))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("cache", CACHES)
def test_a_block_holds_what_the_cache_holds(
    llama: Any, tiny_models: Path, spec: TinySpec, cache: str
) -> None:
    options = CACHES[cache]
    with cached(llama, tiny_models, spec, **options) as model:
        live(model)
        block = model.save(SOME)
        saved = model.cache.residents()[SOME]
        assert (saved["reference_position"] >= 0).all(), "all were captured"
        values = model.read("value")[:, SOME]
        model.save()
        references = model.read("reference")[:, SOME]
        got = parse(block, model)
        for name in ("token", "position", "reference_position"):
            assert got.tokens[name].tolist() == saved[name].tolist()
        assert got.references.tobytes() == references.tobytes()
        assert got.values.tobytes() == values.tobytes()
        assert (got.counts, got.padding.strip(b"\0")) == ({}, b"")
        header = got.header
        assert (header["magic"], header["version"], header["header_bytes"]) == (b"PACEKVB", 1, 128)
        assert (header["n_tokens"], header["n_layers"]) == (len(SOME), spec.n_layer)
        assert header["key_type"] == CACHE_TYPES[options.get("cache", "f16")]
        assert header["value_type"] == CACHE_TYPES[options.get("values", "f16")]
        assert header["reference_type"] == CACHE_TYPES[model.reference_type]
        assert header["model"].tobytes() + header["build"].tobytes() == bytes(IDENTITY)
        assert header["checksum"] == checksum_of(block[SUMMED_FROM:].tobytes())


def test_a_block_says_which_tokens_it_holds(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"]) as model:
        live(model)
        block = model.save(SOME)
        expected = model.cache.residents()[SOME]
        expected["cell"] = -1
        got = model.cache.read_block(block, IDENTITY)
        assert got.dtype == RESIDENT
        assert got.tolist() == expected.tolist()


def test_forging_nothing_gives_the_same_block(llama: Any, tiny_models: Path) -> None:
    """So that what a forged block is refused for is what was forged."""
    with cached(llama, tiny_models, SPECS["qwen3"]) as model:
        live(model)
        for n in range(1, 12):
            block = model.save(range(n))
            assert forge(block).tobytes() == block.tobytes()


def test_counts_are_in_the_block_as_logarithms(llama: Any, tiny_models: Path) -> None:
    """Of the layers that have any among the saved rows."""
    spec = TinySpec(n_layer=3)
    with cached(llama, tiny_models, spec) as model:
        model.add(random_tokens(20))
        for layer, ranks, counts in ((0, [3], [2.0]), (2, [4, 9], [3.0, 7.5])):
            keys, values = (
                read(layer)[ranks]
                for read in (
                    model.cache.read_plain_keys,
                    lambda layer: model.cache.read_rows("value", layer),
                )
            )
            model.cache.write_rows(layer, np.array(ranks), 20, keys, values, np.array(counts))
        got = parse(model.save([1, 4, 8, 9]), model)
        assert got.counts.keys() == {2}
        np.testing.assert_array_equal(got.counts[2], np.log([1, 3, 1, 7.5]).astype(np.float32))
        got = parse(model.save([3, 4, 5]), model)
        assert {layer: logs.tolist() for layer, logs in got.counts.items()} == {
            0: np.log([2, 1, 1]).astype(np.float32).tolist(),
            2: np.log([1, 3, 1]).astype(np.float32).tolist(),
        }
        assert parse(model.save([1, 2, 5]), model).counts == {}


@pytest.mark.parametrize("cache", CACHES)
def test_every_byte_of_a_block_is_written(llama: Any, tiny_models: Path, cache: str) -> None:
    """Also what lies between its parts: equal residents give equal blocks, whatever was in the buffer."""
    with cached(llama, tiny_models, TinySpec(n_layer=1), **CACHES[cache]) as model:
        model.add(random_tokens(20))
        values = model.cache.read_rows("value", 0)[[7]]
        keys = model.cache.read_plain_keys(0)[[7]]
        model.cache.write_rows(0, np.array([7]), 20, keys, values, np.array([4.0]))
        lib, size = llama._lib, ctypes.c_uint64()
        for n in (9, 10, 11):
            ranks = np.arange(n, dtype=np.uint32)
            blocks = []
            for fill in (0, 0xA5, 0xFF):
                room = np.full(len(model.save(ranks)) + 16, fill, dtype=np.uint8)
                status = lib.pace_save(
                    model.cache._pointer, 0, ranks.ctypes.data, n, 20, ctypes.byref(IDENTITY),
                    room.ctypes.data, len(room), ctypes.byref(size),
                )  # fmt: skip
                assert status == 0
                assert (room[size.value :] == fill).all(), "nothing is written behind the block"
                blocks.append(room[: size.value].tobytes())
            assert blocks[0] == blocks[1] == blocks[2] == model.save(ranks).tobytes()


def test_no_rows_make_a_block_too(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        empty = model.save([])
        assert len(empty) == 128
        assert len(model.cache.read_block(empty, IDENTITY)) == 0
        assert model.load(empty, [])[:5] == (0, 0, 0, 0, 0)
        model.add(random_tokens(10))
        before = model.everything()
        assert model.save([]).tobytes() == empty.tobytes()
        model.load(empty, [])
        model.load(model.save(range(3)), [], rows=[])
        after = model.everything()
        assert after[:3][1:] == before[1:3], "saving the first three takes their references, and no more"
        assert model.tokens() == random_tokens(10)
