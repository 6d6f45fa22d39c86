from __future__ import annotations

import collections
import os
import struct
import sys

import pytest

from pace_local.errors import ModelError
from pace_local.models import KvShape, inspect_gguf
from pace_local.models.testing import gguf_bytes

QWEN = {
    "general.name": "A small one",
    "qwen2.context_length": 32768,
    "qwen2.block_count": 24,
    "qwen2.embedding_length": 896,
    "qwen2.attention.head_count": 14,
    "qwen2.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "bc", ""],
}


@pytest.fixture
def write(tmp_path):
    def write(content: bytes):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return path

    return write


def fails(path) -> str:
    with pytest.raises(ModelError) as caught:
        inspect_gguf(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("version", [2, 3])
def test_reads_what_a_model_says_of_itself(write, version):
    content = gguf_bytes("qwen2", fields=QWEN, tensor_bytes=4096, version=version)
    header = inspect_gguf(write(content))
    assert header.architecture == "qwen2"
    assert header.name == "A small one"
    assert header.context_length == 32768
    assert header.parameters == 1024
    assert header.size_bytes == len(content)
    assert header.version == version
    assert header.kv == KvShape(layers=24, kv_heads=2, head_dim=64)


def test_key_length_overrules_the_width_of_a_head(write):
    """Qwen3 has 128 elements a head, which is not embedding length / heads for every size."""
    header = inspect_gguf(
        write(
            gguf_bytes(
                "qwen2",
                fields={**QWEN, "qwen2.attention.key_length": 128, "qwen2.attention.value_length": 128},
            )
        )
    )
    assert header.kv == KvShape(layers=24, kv_heads=2, head_dim=128)


@pytest.mark.parametrize(
    "change",
    [
        {"qwen2.attention.head_count_kv": ["not", "one number"]},
        {"qwen2.attention.key_length": 192, "qwen2.attention.value_length": 128},
        {"qwen2.block_count": 0},
    ],
)
def test_a_cache_of_mixed_shape_has_no_single_shape(write, change):
    assert inspect_gguf(write(gguf_bytes("qwen2", fields={**QWEN, **change}))).kv is None


def test_multi_head_attention_has_as_many_kv_heads_as_heads(write):
    fields = {key: value for key, value in QWEN.items() if not key.endswith("head_count_kv")}
    header = inspect_gguf(write(gguf_bytes("qwen2", fields=fields)))
    assert header.kv == KvShape(layers=24, kv_heads=14, head_dim=64)


def test_agrees_with_the_gguf_package(tmp_path):
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "written.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("from the writer")
    writer.add_context_length(77)
    writer.add_array("some.floats", [0.5, 1.5])
    writer.add_bool("some.flag", True)
    writer.add_float64("some.double", 1e300)
    writer.add_tensor("a", numpy.zeros((3, 5), dtype=numpy.float32))
    quantised = gguf.quants.quantize(numpy.ones((4, 64), dtype=numpy.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("b", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = inspect_gguf(path)
    assert (header.architecture, header.name, header.context_length) == ("llama", "from the writer", 77)
    assert header.parameters == 15 + 256
    # The last tensor ends 272 bytes after its start; one byte less must be noticed.
    whole = path.read_bytes()
    padding = (-272) % 32
    path.write_bytes(whole[: len(whole) - padding])
    inspect_gguf(path)
    path.write_bytes(whole[: len(whole) - padding - 1])
    assert "cut short" in fails(path)


def test_missing_file(tmp_path):
    assert "does not exist" in fails(tmp_path / "none.gguf")


def test_directory_says_what_it_holds(tmp_path):
    assert fails(tmp_path).endswith("is a directory; give the path of one GGUF file")
    (tmp_path / "b.gguf").touch()
    (tmp_path / "a.gguf").touch()
    assert "it holds a.gguf, b.gguf; " in fails(tmp_path)


def test_unreadable_file(tmp_path):
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    assert "cannot be read" in fails(loop)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipe_does_not_block(tmp_path):
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    assert "not a regular file" in fails(pipe)


@pytest.mark.parametrize(
    "content", [b"<!DOCTYPE html>" + b" " * 100, b"version https://git-lfs", b"PK\3\4" * 9]
)
def test_not_a_gguf_shows_how_it_starts(write, content):
    assert f"it starts with {content[:4]!r}" in fails(write(content))


def test_empty_file(write):
    assert "it is empty" in fails(write(b""))


def test_big_endian(write):
    assert "big-endian" in fails(write(b"GGUF" + struct.pack(">IQQ", 3, 0, 0)))


@pytest.mark.parametrize("version", [1, 4])
def test_other_versions(write, version):
    assert f"GGUF version {version};" in fails(write(gguf_bytes(version=version)))


def test_no_architecture(write):
    assert "does not name its architecture" in fails(write(gguf_bytes("")))


def test_cut_in_the_data_says_how_much_is_missing(write):
    content = gguf_bytes(tensor_bytes=4096)
    message = fails(write(content[:-1]))
    assert "cut short" in message
    assert str(len(content) - 1) in message
    assert str(len(content)) in message


def test_every_cut_is_noticed(write):
    """No prefix of a model passes for a model, wherever a download broke."""
    content = gguf_bytes("qwen2", fields=QWEN, tensor_bytes=64)
    for length in range(len(content)):
        fails(write(content[:length]))
    inspect_gguf(write(content))


def test_padding_after_the_data_is_allowed(write):
    inspect_gguf(write(gguf_bytes() + b"\0" * 100))


@pytest.mark.parametrize("at", [8, 16, 24])
def test_absurd_counts_end_at_once(write, at):
    """A damaged count must not make the reader loop through 2**63 entries, or allocate for them."""
    content = bytearray(gguf_bytes("qwen2", fields=QWEN))
    content[at : at + 8] = struct.pack("<Q", 2**63 - 1)
    assert "cut short or damaged" in fails(write(bytes(content)))


def test_a_large_vocabulary_takes_no_call_an_entry(write):
    """The reader of the gguf package builds an array for each, which takes seconds."""
    calls = []
    for entries in (10, 150_000):
        content = gguf_bytes("qwen2", fields={**QWEN, "tokenizer.ggml.tokens": ["token"] * entries})
        path = write(content)
        inspect_gguf(path)  # the first call imports the table of tensor types
        events = collections.Counter()
        sys.setprofile(lambda _frame, event, _argument, events=events: events.update([event]))
        try:
            inspect_gguf(path)
        finally:
            sys.setprofile(None)
        calls.append(events["call"])
    assert calls[0] == calls[1]
