"""A saved block read, and forged, by numpy alone: the layout of ``native/src/pace_blocks.h`` written anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from native_cache import Cached
from numpy.typing import NDArray
from raw_llama import Float32Array

from pace_local._native import CACHE_TYPES, Block

HEADER = np.dtype(
    [
        ("magic", "S8"), ("version", "<u4"), ("header_bytes", "<u4"), ("n_bytes", "<u8"), ("checksum", "<u8"),
        ("model", "V32"), ("build", "V32"), ("shape", "<u8"), ("n_tokens", "<u4"), ("n_layers", "<u4"),
        ("key_type", "<i4"), ("value_type", "<i4"), ("reference_type", "<i4"), ("n_counted", "<u4"),
    ]
)  # fmt: skip
TOKEN = np.dtype([("token", "<i4"), ("position", "<i4"), ("reference_position", "<i4")])
SUMMED_FROM = HEADER.fields["model"][1]  # type: ignore[index]
"""The checksum covers all from this byte on."""

_TYPES = {number: name for name, number in CACHE_TYPES.items()}
_ROW_ALIGNMENT = 8


class Parsed(NamedTuple):
    """Shapes: [n] tokens, [n_layer, n, n_head_kv, head_dim] rows, [n] logarithms a counted layer."""

    header: Any
    tokens: NDArray[np.void]
    references: Float32Array
    values: Float32Array
    counts: dict[int, Float32Array]
    padding: bytes
    """All bytes that lie between parts."""


class _Reader:
    def __init__(self, block: Block) -> None:
        self.bytes, self.at, self.padding = block.tobytes(), 0, b""

    def take(self, size: int) -> bytes:
        part = self.bytes[self.at : self.at + size]
        assert len(part) == size, "the block ends early"
        end = -(-(self.at + size) // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
        self.padding += self.bytes[self.at + size : end]
        self.at = end
        return part


def row_bytes(kind: str, width: int) -> int:
    """Size of a stored row of ``width`` elements."""
    return width // 32 * 34 if kind == "q8_0" else width * (4 if kind == "f32" else 2)


def as_floats(raw: bytes, kind: str, width: int) -> Float32Array:
    """Stored rows as F32, shape [n, width]."""
    if kind == "q8_0":
        blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("steps", "i1", 32)]))
        floats = blocks["scale"].astype(np.float32)[:, None] * blocks["steps"].astype(np.float32)
    elif kind == "bf16":
        floats = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        floats = np.frombuffer(raw, "<f2" if kind == "f16" else "<f4").astype(np.float32)
    return floats.reshape(-1, width)


def parse(block: Block, model: Cached) -> Parsed:
    """Everything that a block of this model holds; fails if its size is not what its header says."""
    spec, reader = model.spec, _Reader(block)
    header = np.frombuffer(reader.take(HEADER.itemsize), HEADER)[0]
    n, width = int(header["n_tokens"]), spec.n_head_kv * spec.head_dim
    tokens = np.frombuffer(reader.take(n * TOKEN.itemsize), TOKEN)
    kind = _TYPES[int(header["reference_type"])]
    references = [
        as_floats(reader.take(n * row_bytes(kind, width)), kind, width) for _ in range(spec.n_layer)
    ]
    kind = _TYPES[int(header["value_type"])]
    values = [as_floats(reader.take(n * row_bytes(kind, width)), kind, width) for _ in range(spec.n_layer)]
    counts = {}
    for _ in range(int(header["n_counted"])):
        raw = reader.take(4 + 4 * n)
        counts[int.from_bytes(raw[:4], "little")] = np.frombuffer(raw[4:], "<f4")
    assert reader.at == len(reader.bytes) == header["n_bytes"]
    shape = (spec.n_layer, n, spec.n_head_kv, spec.head_dim)
    return Parsed(
        header,
        tokens,
        np.reshape(references, shape),
        np.reshape(values, shape),
        counts,
        reader.padding,
    )


def checksum_of(data: bytes) -> int:
    """Four lanes of 64-bit words, each multiplied and folded, then joined; the end is filled with zeros."""
    mask, multiplier = 2**64 - 1, 0x9E3779B97F4A7C15

    def mixed(lane: int, word: int) -> int:
        lane = ((lane ^ word) * multiplier) & mask
        return lane ^ (lane >> 29)

    lanes = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89]
    whole = len(data) - len(data) % 32
    end = data[whole:] + bytes(32 - len(data) + whole)
    for row in np.frombuffer(data[:whole], "<u8").reshape(-1, 4).tolist():
        lanes = [mixed(lane, word) for lane, word in zip(lanes, row, strict=True)]
    result = len(data)
    for lane, word in zip(lanes, np.frombuffer(end, "<u8").tolist(), strict=True):
        result = mixed(result, mixed(lane, word))
    return result


def forge(block: Block, **fields: Any) -> Block:
    """A block with other fields in its header, and the checksum that goes with them."""
    forged: Block = block.copy()
    header = forged[: HEADER.itemsize].view(HEADER)
    for name, value in fields.items():
        header[name] = value
    if "checksum" not in fields:
        header["checksum"] = checksum_of(forged[SUMMED_FROM:].tobytes())
    return forged
