"""Random weights in the full shape of a real model, streamed to disk.

The file is, byte for byte, what :func:`pace_local.testing.write_tiny_gguf` writes for the same spec. That one
makes every tensor before it writes the first; here header and tensor table come first, and each tensor is
then made in pieces of a few megabytes, several tensors at a time, and written where the table says.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np

from pace_local import testing
from pace_local.errors import ConfigError, StorageError
from pace_local.models import Progress
from pace_local.testing import TinySpec
from pace_local.testing.gguf import add_metadata
from pace_local.testing.tensors import (
    ATTENTION_GAIN,
    LOGIT_SPREAD,
    QUERY_KEY_GAIN,
    Float32Array,
    RandomTensors,
)
from pace_local.testing.vocab import tiny_vocab

FULL_SHAPES: dict[str, TinySpec] = {
    "qwen3-8b": TinySpec(
        arch="qwen3", n_layer=36, n_head=32, n_head_kv=8, head_dim=128, n_embd=4096, n_ff=12_288,
        n_vocab=151_936, n_ctx_train=40_960, rope_freq_base=1e6,
    ),
}  # fmt: skip
"""Every dimension of the real model; the tokenizer is the tiny models' own, padded to as many tokens."""

_ALIGNMENT = 32
_PIECE = 1 << 20
"""Elements that are made at a time: 4 MiB, and half of it once rounded."""


class Planned(NamedTuple):
    """A tensor before it is made."""

    name: str
    rows: int
    """0 for a vector of norm weights, which stays F32."""
    columns: int
    gain: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns) if self.rows else (self.columns,)

    @property
    def elements(self) -> int:
        return max(1, self.rows) * self.columns

    @property
    def n_bytes(self) -> int:
        return self.elements * (2 if self.rows else 4)

    @property
    def padded_bytes(self) -> int:
        """With the zeros up to the next tensor."""
        return -(-self.n_bytes // _ALIGNMENT) * _ALIGNMENT


def planned_tensors(spec: TinySpec) -> Iterator[Planned]:
    """All tensors, in the order of the file.

    Raises:
        ConfigError: for anything but F16 weights of the architecture qwen3.
    """
    if spec.arch != "qwen3" or spec.weights != "F16" or spec.speech != "text":
        raise ConfigError(
            f"architecture {spec.arch!r} cannot be streamed; use qwen3 with F16 weights and text"
        )
    width, queries, keys = spec.width, spec.n_head * spec.head_dim, spec.n_head_kv * spec.head_dim
    yield Planned("token_embd", spec.vocab_size, width, float(np.sqrt(width)))
    yield Planned("output_norm", 0, width, 1.0)
    yield Planned("output", spec.vocab_size, width, LOGIT_SPREAD)
    for layer in range(spec.n_layer):
        for name, rows, columns, gain in (
            ("attn_norm", 0, width, 1.0),
            ("attn_q", queries, width, QUERY_KEY_GAIN),
            ("attn_k", keys, width, QUERY_KEY_GAIN),
            ("attn_v", keys, width, 1.0),
            ("attn_q_norm", 0, spec.head_dim, QUERY_KEY_GAIN),
            ("attn_k_norm", 0, spec.head_dim, QUERY_KEY_GAIN),
            ("attn_output", width, queries, ATTENTION_GAIN),
            ("ffn_norm", 0, width, 1.0),
            ("ffn_gate", spec.n_ff, width, 1.0),
            ("ffn_up", spec.n_ff, width, 1.0),
            ("ffn_down", width, spec.n_ff, 1.0),
        ):
            yield Planned(f"blk.{layer}.{name}", rows, columns, gain)


def weight_bytes(spec: TinySpec) -> int:
    """Bytes of all tensors in the file; the header takes a few more megabytes."""
    return sum(tensor.padded_bytes for tensor in planned_tensors(spec))


def parameters(spec: TinySpec) -> int:
    """Elements of all tensors."""
    return sum(tensor.elements for tensor in planned_tensors(spec))


def full_model_path(spec: TinySpec, directory: Path) -> Path:
    """Where :func:`full_model` puts the file; its name holds a hash of the spec and of what makes it."""
    sources = [*sorted(Path(testing.__file__).parent.glob("*.py")), Path(__file__)]
    content = b"".join(source.read_bytes() for source in sources)
    key = hashlib.sha256(content + repr(spec).encode()).hexdigest()[:16]
    return directory / f"full-{spec.arch}-{spec.n_layer}-{key}.gguf"


def full_model(spec: TinySpec, directory: Path, progress: Progress) -> Path:
    """The file of a spec, made in ``directory`` unless it is there already.

    Args:
        spec: of the architecture qwen3, with F16 weights.
        directory: made if it is not there.
        progress: called while it is made; it may raise, which stops the work and leaves nothing behind.

    Raises:
        ConfigError: for a spec that cannot be streamed.
        StorageError: if it cannot be written.
    """
    path = full_model_path(spec, directory)
    if path.is_file():
        return path
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".full-") as scratch:
            whole = Path(scratch) / path.name
            _write(whole, spec, progress)
            os.replace(whole, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {reason}; choose another --cache-dir") from error
    return path


def _write(path: Path, spec: TinySpec, progress: Progress) -> None:
    tensors = list(planned_tensors(spec))
    start = _write_header(path, spec, tensors)
    total = start + sum(tensor.padded_bytes for tensor in tensors)
    with path.open("r+b") as file:
        file.truncate(total)
        _write_tensors(file.fileno(), spec, tensors, start, total, progress)


def _write_header(path: Path, spec: TinySpec, tensors: list[Planned]) -> int:
    """Metadata and the table of tensors; returns where the first tensor begins."""
    writer = gguf.GGUFWriter(path, spec.arch)
    add_metadata(writer, spec)
    for tensor in tensors:
        kind = np.dtype(np.float16 if tensor.rows else np.float32)
        writer.add_tensor_info(f"{tensor.name}.weight", tensor.shape, kind, tensor.n_bytes)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
    finally:
        writer.close()
    return -(-path.stat().st_size // _ALIGNMENT) * _ALIGNMENT


def _write_tensors(
    file: int, spec: TinySpec, tensors: list[Planned], start: int, total: int, progress: Progress
) -> None:
    halt = threading.Event()
    written = [0] * len(tensors)

    def make(number: int, offset: int) -> None:
        for piece in _pieces(tensors[number], spec):
            if halt.is_set():
                return
            view = piece.data.cast("B")
            while view:
                count = os.pwrite(file, view, offset)
                offset, view = offset + count, view[count:]
                written[number] += count

    offsets = np.cumsum([start] + [tensor.padded_bytes for tensor in tensors])[:-1].tolist()
    # The largest first, or the others would have to wait for them in the end.
    order = sorted(range(len(tensors)), key=lambda number: -tensors[number].elements)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        pending = {pool.submit(make, number, offsets[number]) for number in order}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.25, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                progress(min(total, start + sum(written)), total, "making the model")
        except BaseException:
            halt.set()
            for future in pending:
                future.cancel()
            raise


def _pieces(tensor: Planned, spec: TinySpec) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """The tensor's values as they lie in the file, some rows at a time, from the stream of its name."""
    if not tensor.rows:
        scale = RandomTensors(spec.seed).scale(tensor.name, tensor.columns)
        yield scale.values * np.float32(tensor.gain)
        return
    name = f"{tensor.name}.weight"
    stream = np.random.default_rng([spec.seed, zlib.crc32(name.encode())])
    factor = np.float32(tensor.gain / np.sqrt(tensor.columns))
    spoken = _spoken(spec) if tensor.name == "output" else None
    step = max(1, _PIECE // tensor.columns)
    for first in range(0, tensor.rows, step):
        rows = min(step, tensor.rows - first)
        values = stream.standard_normal((rows, tensor.columns), dtype=np.float32)
        values *= factor
        if spoken is not None:
            values *= spoken[first : first + rows]
        yield values.astype(np.float16)


def _spoken(spec: TinySpec) -> Float32Array:
    """1 for tokens that the model may say, 0 for others, shape [n_vocab, 1]."""
    spoken = np.zeros((spec.vocab_size, 1), dtype=np.float32)
    spoken[list(tiny_vocab().readable())] = 1.0
    return spoken
