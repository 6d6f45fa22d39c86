"""The model that ``scripts/gpu-check`` makes: its file, its size, and how much of it there is room for."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest

from pace_local import Session
from pace_local.bench.gpu import full_shape, room
from pace_local.bench.gpu.full_shape import (
    FULL_SHAPES,
    full_model,
    full_model_path,
    parameters,
    planned_tensors,
    weight_bytes,
)
from pace_local.bench.gpu.room import Chosen, choose, layers_that_fit, make_subject, needed_memory
from pace_local.bench.subject import Subject
from pace_local.errors import CancelledError, ConfigError, StorageError
from pace_local.model import Model
from pace_local.models import inspect_gguf, model_info
from pace_local.testing import TinySpec, kv_shape_spec, write_tiny_gguf

QWEN3_8B = FULL_SHAPES["qwen3-8b"]
# As uneven as it may be: rows that no piece divides, a vocabulary that is padded, other widths everywhere.
SMALL = TinySpec(
    arch="qwen3", n_layer=2, n_head=6, n_head_kv=2, head_dim=64, n_embd=320, n_ff=96, n_vocab=1000, seed=3
)


# As wide as the real model; one layer and a short vocabulary, so that the file is small.
WIDE = dataclasses.replace(QWEN3_8B, n_layer=1, n_vocab=600)
PIECE = 1 << 18


def quiet(*_: object) -> None:
    """Takes progress."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The file of a wide model, and the most bytes that were allocated while it was made."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(full_shape.os, "cpu_count", lambda: 2)
        patched.setattr(full_shape, "_PIECE", PIECE)
        tracemalloc.start()
        path = full_model(WIDE, tmp_path_factory.mktemp("wide"), quiet)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    yield path, peak
    path.unlink()


@pytest.mark.parametrize(
    ("spec", "piece"),
    [(TinySpec(arch="qwen3"), 1), (TinySpec(arch="qwen3"), 1 << 20), (SMALL, 1 << 13), (SMALL, 1 << 20)],
)
def test_the_streamed_file_is_the_tiny_makers_byte_for_byte(
    spec: TinySpec, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_shape, "_PIECE", piece)
    expected = write_tiny_gguf(tmp_path / "tiny.gguf", spec).read_bytes()
    made = full_model(spec, tmp_path / "full", quiet)
    assert made.read_bytes() == expected
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_the_full_shape_is_the_real_models_to_the_last_weight() -> None:
    info = model_info("qwen3-8b")
    assert parameters(QWEN3_8B) == info.parameters
    # F16 but for the norms, which are F32: two bytes each more.
    norms = sum(tensor.elements for tensor in planned_tensors(QWEN3_8B) if not tensor.rows)
    assert norms == 36 * (2 * 4096 + 2 * 128) + 4096
    assert weight_bytes(QWEN3_8B) == 2 * info.parameters + 2 * norms == 16_382_087_168
    # The header comes on top: 151,936 tokens of the vocabulary, mostly.
    assert 0 < info.size_bytes - weight_bytes(QWEN3_8B) < 10_000_000
    thin = kv_shape_spec("qwen3-8b")
    for name in ("arch", "n_layer", "n_head_kv", "head_dim", "n_ctx_train", "rope_freq_base"):
        assert getattr(QWEN3_8B, name) == getattr(thin, name)


def test_header_and_tensor_table_have_the_full_width_with_few_layers(wide: tuple[Path, int]) -> None:
    path, _ = wide
    header = inspect_gguf(path)
    spec = WIDE
    assert (header.architecture, header.context_length) == ("qwen3", 40_960)
    assert header.kv is not None
    assert (header.kv.layers, header.kv.kv_heads, header.kv.head_dim) == (1, 8, 128)
    assert header.parameters == parameters(spec)
    reader = gguf.GGUFReader(path)
    table = {
        tensor.name: (tuple(int(n) for n in tensor.shape), tensor.tensor_type.name)
        for tensor in reader.tensors
    }
    assert table == {
        # fastest dimension first: inputs, outputs
        "token_embd.weight": ((4096, 600), "F16"),
        "output_norm.weight": ((4096,), "F32"),
        "output.weight": ((4096, 600), "F16"),
        "blk.0.attn_norm.weight": ((4096,), "F32"),
        "blk.0.attn_q.weight": ((4096, 4096), "F16"),
        "blk.0.attn_k.weight": ((4096, 1024), "F16"),
        "blk.0.attn_v.weight": ((4096, 1024), "F16"),
        "blk.0.attn_q_norm.weight": ((128,), "F32"),
        "blk.0.attn_k_norm.weight": ((128,), "F32"),
        "blk.0.attn_output.weight": ((4096, 4096), "F16"),
        "blk.0.ffn_norm.weight": ((4096,), "F32"),
        "blk.0.ffn_gate.weight": ((4096, 12_288), "F16"),
        "blk.0.ffn_up.weight": ((4096, 12_288), "F16"),
        "blk.0.ffn_down.weight": ((12_288, 4096), "F16"),
    }
    start = min(tensor.data_offset for tensor in reader.tensors)
    assert path.stat().st_size == start + weight_bytes(spec)
    # Every further layer adds the same: so the whole file's size is known from this one's.
    layer = weight_bytes(dataclasses.replace(spec, n_layer=2)) - weight_bytes(spec)
    vocabulary = 2 * (151_936 - 600) * 4096 * 2
    assert weight_bytes(spec) + 35 * layer + vocabulary == weight_bytes(QWEN3_8B)


def test_no_tensor_is_ever_in_memory_whole(wide: tuple[Path, int]) -> None:
    _, peak = wide
    # Two threads with a piece each, in F32 and in F16; the largest tensor has 100 MB, the file 400 MB.
    assert 2 * PIECE * 4 < peak < 4 * PIECE * 6


def test_a_model_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = full_model(SMALL, tmp_path, quiet)
    path.write_bytes(b"as it was")
    assert full_model(SMALL, tmp_path, quiet).read_bytes() == b"as it was"
    other = dataclasses.replace(SMALL, n_layer=1)
    assert full_model_path(other, tmp_path) != path


def test_stopping_leaves_nothing_behind(tmp_path: Path) -> None:
    def stop(_done: int, _total: int, _what: str) -> None:
        raise CancelledError("cancelled")

    with pytest.raises(CancelledError):
        full_model(SMALL, tmp_path / "models", stop)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_full_disk_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(full_shape.os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left on device; choose another --cache-dir"):
        full_model(SMALL, tmp_path / "models", quiet)
    assert list((tmp_path / "models").iterdir()) == []


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    for spec in (TinySpec(arch="llama"), TinySpec(arch="qwen3", weights="F32")):
        with pytest.raises(ConfigError, match="cannot be streamed"):
            full_model(spec, tmp_path, quiet)


def test_the_streamed_model_loads_and_answers(tmp_path: Path) -> None:
    with Model.load(full_model(SMALL, tmp_path, quiet)) as model:
        assert model.shape.n_vocab == 1000
        with Session(model, budget=128, headroom=64, threads=1) as session:
            text = "".join(event.text for event in session.generate("Say it.", max_tokens=16))
    assert len(text) >= 16


# Room


def test_fewer_layers_are_taken_where_disk_or_memory_is_short() -> None:
    layer = 192_946_432 * 2 + 2 * (2 * 4096 + 2 * 128)
    whole = weight_bytes(QWEN3_8B)
    plenty = 10**12
    assert layers_that_fit(QWEN3_8B, plenty, plenty) == 36
    assert layers_that_fit(QWEN3_8B, whole + room.DISK_RESERVE, plenty) == 36
    assert layers_that_fit(QWEN3_8B, whole + room.DISK_RESERVE - 1, plenty) == 35
    assert layers_that_fit(QWEN3_8B, whole + room.DISK_RESERVE - 10 * layer, plenty) == 26
    assert layers_that_fit(QWEN3_8B, plenty, needed_memory(QWEN3_8B)) == 36
    assert layers_that_fit(QWEN3_8B, plenty, needed_memory(QWEN3_8B) - 1) == 35
    assert layers_that_fit(QWEN3_8B, plenty, 10**9) == 0
    # A card of 24 GB has room for all of it, one of 16 GB for less.
    assert layers_that_fit(QWEN3_8B, plenty, 23_034 * 2**20) == 36
    assert 20 < layers_that_fit(QWEN3_8B, plenty, 15 * 2**30) < 36


def test_fewer_layers_are_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_disk", lambda _folder: 12 * 10**9)
    monkeypatch.setattr(room, "free_memory", lambda: 10**12)
    chosen = choose("qwen3-8b", None, tmp_path)
    assert chosen.layers == layers_that_fit(QWEN3_8B, 12 * 10**9, 10**12) == 22
    assert chosen.name == "qwen3-8b, 22 layers, random weights"
    assert chosen.remark.startswith("22 of 36 layers: all 36 layers of qwen3-8b need 17.4 GB of disk and")
    assert choose("qwen3-8b", 36, tmp_path).layers == 36
    # The file itself is no reason against it.
    full_model_path(QWEN3_8B, tmp_path).touch()
    assert choose("qwen3-8b", None, tmp_path).layers == 36


def test_what_is_made_without_a_wish_depends_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "accelerators", list)
    chosen = choose(None, None, tmp_path)
    assert (chosen.shape, chosen.remark) == (
        "shape:qwen3-8b", "no device: thin weights with the KV shape",
    )  # fmt: skip
    monkeypatch.setattr(room, "accelerators", lambda: ["a card"])
    assert room.default_shape() == "qwen3-8b"


def test_a_model_of_some_layers_is_made_and_identified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FULL_SHAPES, "small", SMALL)
    made = make_subject(Chosen("small", 1, ""), tmp_path, progress=quiet, say=quiet)
    assert isinstance(made, Subject)
    assert made.name == "small, 1 layers, random weights"
    assert made.header.kv is not None
    assert made.header.kv.layers == 1
    assert len(made.sha256) == 64


def test_free_disk_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    assert room.free_disk(tmp_path / "not" / "yet") > 0
