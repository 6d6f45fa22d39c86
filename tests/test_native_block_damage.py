"""Blocks that are broken, forged, or of something else: refused by name, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_layout import HEADER, forge
from native_cache import CACHES, FACTORS, IDENTITY, SPECS, Cached, cached, random_tokens
from test_native_support import LONG

from pace_local._native import CACHE_TYPES, Block, Identity
from pace_local.errors import NativeError
from pace_local.testing import TinySpec

ONE_LAYER = TinySpec(n_layer=1, n_head=1, n_head_kv=1, n_ff=32)
OTHER = Identity(bytes(32), b"build" + bytes(27))
OTHER_BUILD = Identity(bytes(range(32)), b"buile" + bytes(27))


@pytest.fixture(params=["f16", "q8_0"])
def model(request: pytest.FixtureRequest, llama: Any, tiny_models: Path) -> Iterator[Cached]:
    with cached(llama, tiny_models, ONE_LAYER, n_ctx=256, **CACHES[request.param]) as model:
        model.add(random_tokens(20))
        keys, values = model.cache.read_plain_keys(0), model.cache.read_rows("value", 0)
        model.cache.write_rows(0, np.array([3]), 20, keys[[3]], values[[3]], np.array([2.0]))
        yield model


def bad(model: Cached, block: Block, says: str, identity: Identity = IDENTITY) -> None:
    """Neither read nor loaded."""
    positions, rows = np.arange(900, 904, dtype=np.int32), np.arange(4, dtype=np.uint32)
    for act in (
        lambda: model.cache.read_block(block, identity),
        lambda: model.cache.load(block, positions, 20, identity, rows),
    ):
        with pytest.raises(NativeError, match=says) as error:
            act()
        assert error.value.status == "BAD_BLOCK"
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("n", [5, 6])
def test_no_flipped_bit_gets_through(model: Cached, n: int) -> None:
    """In any byte: of the header, of every part, and of what lies between them."""
    block, before = model.save(range(n)), model.everything()
    random = np.random.default_rng(n)
    for offset in range(len(block)):
        broken = block.copy()
        broken[offset] ^= 1 << int(random.integers(8))
        bad(model, broken, "block|another")
    assert model.everything() == before
    model.load(block, range(900, 900 + n))


def test_values_that_lie_otherwise_are_of_another_shape(
    llama: Any, tiny_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream turns quantised values unless it is told not to; a block of the other kind was loaded."""
    spec, options = TinySpec(n_layer=1, head_dim=64), {"values": "q8_0", "n_ctx": 256}
    with cached(llama, tiny_models, spec, **options) as model:
        model.add(random_tokens(20))
        turned = model.save()
    monkeypatch.setenv("LLAMA_ATTN_ROT_DISABLE", "1")
    with cached(llama, tiny_models, spec, **options) as model:
        model.add(random_tokens(20))
        bad(model, turned, "the block's keys and values have another shape")
        model.load(model.save(), range(900, 920))


def test_swapped_words_do_not_get_through(model: Cached) -> None:
    """A checksum that only adds up would not see them."""
    block = model.save()
    before = model.everything()
    words = block[: len(block) // 8 * 8].view(np.uint64)
    for first, second in ((5, 6), (20, 24), (20, 28), (40, 41), (40, 52)):
        if words[first] != words[second]:
            broken = block.copy()
            broken[: len(words) * 8].view(np.uint64)[[first, second]] = words[[second, first]]
            bad(model, broken, "checksum|another")
    assert model.everything() == before


@pytest.mark.parametrize("n", [5, 6])
def test_a_truncated_block_is_told_by_its_size(model: Cached, n: int) -> None:
    """At every length, from nothing on; and one that was grown."""
    block = model.save(range(n))
    before = model.everything()
    for size in range(len(block)):
        says = f"{size} bytes" if size < 128 else f"{size} of {len(block)} bytes"
        bad(model, block[:size].copy(), f"the block is truncated: {says}")
    for more in (1, 8, 64):
        grown = np.concatenate([block, np.zeros(more, dtype=np.uint8)])
        bad(model, grown, f"{len(grown)} of {len(block)} bytes")
        # also when its header agrees
        bad(model, forge(grown, n_bytes=len(grown)), "the block is broken")
    assert model.everything() == before


def test_what_is_no_block_is_said_to_be_none(model: Cached) -> None:
    for junk in (np.zeros(4096), np.full(4096, 255), np.random.default_rng(0).integers(0, 256, 4096)):
        bad(model, junk.astype(np.uint8), "this is no block of saved keys and values")
    bad(model, forge(model.save(range(4)), magic=b"PACEKVC"), "this is no block")


def test_another_model_and_another_build_are_named(model: Cached) -> None:
    block, before = model.save(range(4)), model.everything()
    bad(model, block, "the block was saved from another model", OTHER)
    bad(model, block, "the block was saved by another build", OTHER_BUILD)
    assert model.everything() == before
    theirs = model.cache.save(np.arange(4, dtype=np.uint32), 20, OTHER_BUILD)
    bad(model, theirs, "another build")
    model.cache.load(theirs, np.arange(900, 904, dtype=np.int32), 20, OTHER_BUILD)


FORGED = [
    ({"version": 2}, "the block has version 2, this library reads 1"),
    ({"version": 0}, "the block has version 0, this library reads 1"),
    ({"header_bytes": 136}, "header has 136 bytes"),
    ({"n_bytes": 2**63}, "is truncated"),
    ({"shape": 7}, "the block's keys and values have another shape"),
    ({"n_layers": 2}, "the block's keys and values have another shape"),
    ({"key_type": CACHE_TYPES["f32"]}, "keys of ggml type 0, the cache of type"),
    ({"value_type": CACHE_TYPES["f32"]}, "values of ggml type 0, the cache of type"),
    ({"reference_type": CACHE_TYPES["f32"]}, "reference keys of ggml type 0, the cache of type 1"),
    ({"n_tokens": 3}, "the block is broken"),
    ({"n_tokens": 5}, "the block is broken"),
    ({"n_tokens": 2**32 - 1}, "the block is broken"),
    ({"n_counted": 0}, "the block is broken"),
    ({"n_counted": 2}, "the block is broken"),
    ({"n_counted": 2**32 - 1}, "the block is broken"),
    ({"checksum": 0}, "the block is broken: its checksum is wrong"),
]


@pytest.mark.parametrize(("fields", "says"), FORGED, ids=[str(fields) for fields, _ in FORGED])
def test_a_header_that_does_not_fit_is_refused(model: Cached, fields: dict[str, int], says: str) -> None:
    """Though its checksum is right."""
    block, before = model.save(range(4)), model.everything()
    model.cache.read_block(forge(block), IDENTITY)
    bad(model, forge(block, **fields), says)
    assert model.everything() == before


OF_ANOTHER_TYPE = [
    ("f16", "f32", " keys of ggml type 1, the cache of type 0"),
    ("f32", "f16", " keys of ggml type 0, the cache of type 1"),
    ("q8_0 transposed", "f16", " keys of ggml type 8, the cache of type 1"),
    ("q8_0", "q8_0 transposed", "values of ggml type 8, the cache of type 1"),
    ("f16", "f16 wide references", "reference keys of ggml type 1, the cache of type 0"),
    ("q8_0 wide references", "q8_0 transposed", "reference keys of ggml type 0, the cache of type 1"),
]


@pytest.mark.parametrize(("saved", "here", "says"), OF_ANOTHER_TYPE)
def test_another_type_is_named(llama: Any, tiny_models: Path, saved: str, here: str, says: str) -> None:
    with cached(llama, tiny_models, ONE_LAYER, **CACHES[saved]) as model:
        model.add(random_tokens(20))
        block = model.save(range(4))
    with cached(llama, tiny_models, ONE_LAYER, **CACHES[here]) as model:
        model.add(random_tokens(20))
        before = model.everything()
        bad(model, block, says)
        assert model.everything() == before


SHAPES: dict[str, tuple[TinySpec, dict[str, Any]]] = {
    "fewer layers": (TinySpec(n_layer=3), {}),
    "more key heads": (TinySpec(n_head_kv=4), {}),
    "wider heads": (TinySpec(head_dim=64), {}),
    "fewer and wider heads": (TinySpec(n_head=2, n_head_kv=1, head_dim=64), {}),
    "another pairing": (TinySpec(arch="qwen3"), {}),
    "half of each head turns": (TinySpec(arch="stablelm"), {}),
    "a layer that does not turn": (TinySpec(arch="smollm3"), {}),
    "another base": (TinySpec(rope_freq_base=20000.0), {}),
    "stretched": (SPECS["llama linear"], {}),
    "YaRN": (SPECS["llama yarn"], {}),
    "another base by option": (TinySpec(), {"context": {"rope_freq_base": 20000.0}}),
    "stretched by option": (TinySpec(), {"context": {"rope_freq_scale": 0.5}}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_another_shape_is_refused(llama: Any, tiny_models: Path, name: str) -> None:
    """Also if the caller takes it for the same model, and as many bytes make a token."""
    refused_between(llama, tiny_models, (TinySpec(), {}), SHAPES[name])


def refused_between(
    llama: Any,
    models: Path,
    saved: tuple[TinySpec, dict[str, Any]],
    here: tuple[TinySpec, dict[str, Any]],
) -> None:
    with cached(llama, models, saved[0], **saved[1]) as model:
        model.add(random_tokens(20))
        block = model.save(range(4))
        assert len(block) > HEADER.itemsize
    with cached(llama, models, here[0], **here[1]) as model:
        model.add(random_tokens(20))
        before = model.everything()
        bad(model, block, "the block's keys and values have another shape")
        assert model.everything() == before


LINEAR = SPECS["llama linear"]
HEADS: dict[str, Any] = {"arch": "phi3", "n_embd": 128, "n_rot": 24}
TURNED_OTHERWISE: dict[str, tuple[tuple[TinySpec, dict[str, Any]], tuple[TinySpec, dict[str, Any]]]] = {
    # one model, whose context of another size turns keys by its long factors
    "long factors": ((LONG, {"n_ctx": 512}), (LONG, {"n_ctx": 1024})),
    "short factors": ((LONG, {"n_ctx": 1024}), (LONG, {"n_ctx": 512})),
    # one model, with keys of another magnitude
    "magnitude": ((LINEAR, {}), (LINEAR, {"context": {"yarn_attn_factor": 2.0}})),
    "factors": ((TinySpec(rope_factors=FACTORS), {}), (TinySpec(), {})),
    "heads": (
        (TinySpec(n_head=2, n_head_kv=2, head_dim=64, **HEADS), {}),
        (TinySpec(n_head=4, n_head_kv=4, head_dim=32, **HEADS), {}),
    ),
}


@pytest.mark.parametrize("name", TURNED_OTHERWISE)
def test_keys_that_are_turned_otherwise_are_refused(llama: Any, tiny_models: Path, name: str) -> None:
    """All that decides how a key is turned is part of the shape, not the size of its row alone."""
    refused_between(llama, tiny_models, *TURNED_OTHERWISE[name])
