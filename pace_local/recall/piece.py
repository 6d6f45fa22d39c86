"""What the store tells of a saved block, and of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError

Where = Literal["host", "disk", "both", "writing", "gone"]
TokenIndex = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Piece:
    """One saved block: keys and values of some tokens of one segment, as it was when it was asked for."""

    id: int
    """Never given twice in one store; later pieces have greater ones."""
    segment: int
    """Id of the segment in its session."""
    token_index: TokenIndex = field(compare=False)
    """Strictly increasing, shape [n]; row i of the block is this token. Cannot be written to."""
    n_bytes: int
    """Bytes of the block."""
    where: Where = field(compare=False)
    """``host``, ``disk``, ``both``; ``writing``: in memory until the writer has it on disk; ``gone``: there
    was no room for it anywhere."""


@dataclass(frozen=True)
class StoreStats:
    """What a store holds and has done. Sizes are in bytes; counts are since it was made or opened."""

    host_bytes: int
    """Blocks in memory, those that wait for being written among them."""
    waiting_bytes: int
    """The part of ``host_bytes`` that the writer has yet to write."""
    disk_bytes: int
    """Files of pieces, their headers and the file being written included."""
    kept_bytes: int
    """The part of ``disk_bytes`` that no budget removes."""
    pieces: int
    """Pieces that can be had."""
    dropped_pieces: int
    """Pieces lost for want of room, or because their file could not be written or was broken."""
    dropped_bytes: int
    written_pieces: int
    written_bytes: int
    """Bytes of files written."""
    read_pieces: int
    """Pieces read from disk."""
    read_bytes: int
    write_failures: int
    broken_pieces: int
    """Files that were not what they should be; found when the store was opened or when they were read."""


def checked_tokens(token_index: Any) -> TokenIndex:
    """Token indices as an array of our own that cannot be written to.

    Raises:
        ConfigError: if they are not whole numbers from 0 that strictly increase, or there are none.
    """
    tokens = np.asarray(token_index)
    if tokens.ndim != 1 or not len(tokens) or tokens.dtype.kind not in "iu":
        raise ConfigError(
            f"token indices of shape {tokens.shape} and type {tokens.dtype} cannot be stored; "
            "use one or more whole numbers in one dimension"
        )
    tokens = tokens.astype(np.int64)  # a copy: the caller may use its array again
    if tokens[0] < 0 or not np.all(tokens[1:] > tokens[:-1]):
        raise ConfigError("token indices of a piece must be 0 or more and strictly increase")
    tokens.flags.writeable = False
    return tokens


def checked_data(data: Bytes | bytes) -> Bytes:
    """The bytes of a block as an array that cannot be written to; not a copy.

    Raises:
        ConfigError: if they are not contiguous bytes, or there are none.
    """
    array: object = (
        np.frombuffer(data, np.uint8) if isinstance(data, (bytes, bytearray, memoryview)) else data
    )
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != np.uint8
        or array.ndim != 1
        or not array.flags.c_contiguous
        or not len(array)
    ):
        raise ConfigError("a block must be one or more contiguous bytes: bytes, or an array of uint8")
    view: Bytes = array.view()
    view.flags.writeable = False
    return view


def to_ranges(tokens: TokenIndex) -> list[list[int]]:
    """Runs of neighbours as pairs of first and last (exclusive)."""
    gaps = np.flatnonzero(np.diff(tokens) != 1) + 1
    firsts = tokens[np.concatenate([[0], gaps])]
    lasts = tokens[np.concatenate([gaps - 1, [len(tokens) - 1]])]
    return [[int(first), int(last) + 1] for first, last in zip(firsts, lasts, strict=True)]


def from_ranges(ranges: Sequence[Sequence[int]]) -> TokenIndex:
    """Token indices of runs, as :func:`to_ranges` gives them.

    Raises:
        ConfigError: if they are out of order, overlap or are empty.
    """
    for run in ranges:
        if len(run) != 2 or not all(type(edge) is int for edge in run) or not 0 <= run[0] < run[1] < 2**62:
            raise ConfigError(f"{run!r} is no run of tokens")
    if not ranges or sum(end - start for start, end in ranges) > 2**31:
        raise ConfigError(f"{len(ranges)} runs hold no tokens, or too many")
    return checked_tokens(np.concatenate([np.arange(start, end) for start, end in ranges]))
