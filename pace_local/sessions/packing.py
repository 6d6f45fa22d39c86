"""Arrays as text, and rising sequences as runs: the compact forms in which a log holds them."""

from __future__ import annotations

import base64
import binascii
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.json_fields import as_object, required

Run = tuple[int, int, int]
"""Residents that are neighbours in the session and in the cache: first token index, first position, count."""

Range = tuple[int, int]
"""Token indices without a gap: the first, and how many."""

_TYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
)


def encode_runs(token_index: npt.ArrayLike, position: npt.ArrayLike) -> tuple[Run, ...]:
    """Residents as runs.

    Args:
        token_index: shape [n], strictly increasing.
        position: shape [n], strictly increasing.

    Raises:
        ValueError: if the shapes differ or a column does not increase.
    """
    index, place = _column(token_index, "token_index"), _column(position, "position")
    if len(index) != len(place):
        raise ValueError(f"there are {len(index)} token indices and {len(place)} positions")
    return tuple(
        (int(index[first]), int(place[first]), end - first) for first, end in _stretches(index, place)
    )


def decode_runs(runs: Sequence[Run]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Token indices and positions of residents, shape [n] each."""
    return _spread(runs, 0), _spread(runs, 1).astype(np.int32)


def encode_ranges(token_index: npt.ArrayLike) -> tuple[Range, ...]:
    """Token indices, strictly increasing, as ranges.

    Raises:
        ValueError: if they do not increase.
    """
    index = _column(token_index, "token_index")
    return tuple((int(index[first]), end - first) for first, end in _stretches(index))


def decode_ranges(ranges: Sequence[Range]) -> npt.NDArray[np.int64]:
    """Token indices of ranges, shape [n]."""
    return _spread(ranges, 0)


def check_runs(runs: Sequence[tuple[int, ...]], names: Sequence[str]) -> None:
    """Check that every column of runs or ranges rises, without spreading them out.

    Args:
        runs: rows of the first value of each column, and the count.
        names: of the columns, for the message.

    Raises:
        ValueError: with the first row that is wrong.
    """
    ends = [0] * len(names)
    for *firsts, count in runs:
        if count < 1:
            raise ValueError(f"the run at {firsts} has {count} tokens; it must have 1 or more")
        for column, first in enumerate(firsts):
            if first < ends[column]:
                raise ValueError(f"{names[column]} {first} must be {ends[column]} or more: they increase")
            ends[column] = first + count


def pack_tokens(tokens: Sequence[int]) -> str:
    """Token ids as base64 of little-endian 32-bit numbers."""
    return base64.b64encode(np.asarray(tokens, dtype=np.int32).astype("<i4").tobytes()).decode("ascii")


def unpack_tokens(text: str) -> tuple[int, ...]:
    """Token ids that :func:`pack_tokens` has packed.

    Raises:
        ValueError: if the text is not of that form, or holds a negative id.
    """
    data = _bytes(text, 4)
    tokens: list[int] = np.frombuffer(data, dtype="<i4").tolist()
    if tokens and min(tokens) < 0:
        raise ValueError(f"token {min(tokens)} is none; token ids are 0 or more")
    return tuple(tokens)


def pack_array(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of numbers as a JSON object, bit for bit; also NaN, which JSON has no number for.

    Raises:
        ValueError: for a type that is none of bool, (u)int8 to 64, float32 and float64.
    """
    name = values.dtype.name
    if name not in _TYPES:
        raise ValueError(f"an array of {name} cannot be stored; use one of {', '.join(sorted(_TYPES))}")
    data = values.astype(values.dtype.newbyteorder("<")).tobytes()
    return {
        "dtype": name,
        "shape": list(values.shape),
        "base64": base64.b64encode(data).decode("ascii"),
    }


def unpack_array(document: object) -> npt.NDArray[Any]:
    """The array that :func:`pack_array` has packed; it can be written to.

    Raises:
        ValueError: if the document is not of that form.
    """
    fields = as_object(document)
    name, shape = required(fields, "dtype", str), required(fields, "shape", list)
    if name not in _TYPES:
        raise ValueError(f"an array of {name!r} is not known; known are {', '.join(sorted(_TYPES))}")
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"an array has the shape {shape!r}; it must be whole numbers, 0 or more")
    dtype = np.dtype(name)
    data = _bytes(required(fields, "base64", str), dtype.itemsize)
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of {name} of shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _bytes(text: str, size: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("packed numbers are not valid base64") from None
    if len(data) % size:
        raise ValueError(f"packed numbers have {len(data)} bytes, which is no multiple of {size}")
    return data


def _column(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    column = np.asarray(values, dtype=np.int64)
    if column.ndim != 1:
        raise ValueError(f"{name} has the shape {column.shape}; it must have one dimension")
    if len(column) and column[0] < 0:
        raise ValueError(f"{name} begins with {column[0]}; it must be 0 or more")
    if np.any(np.diff(column) <= 0):
        raise ValueError(f"{name} does not increase strictly")
    return column


def _stretches(*columns: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """First and end rank of each stretch in which every column goes up by one."""
    n = len(columns[0])
    if not n:
        return []
    breaks = np.zeros(n - 1, dtype=np.bool_)
    for column in columns:
        breaks |= np.diff(column) != 1
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), n]
    return list(itertools.pairwise(edges))


def _spread(runs: Sequence[tuple[int, ...]], column: int) -> npt.NDArray[np.int64]:
    first = np.array([run[column] for run in runs], dtype=np.int64)
    count = np.array([run[-1] for run in runs], dtype=np.int64)
    before = np.cumsum(count) - count
    spread: npt.NDArray[np.int64] = np.arange(count.sum(), dtype=np.int64) + np.repeat(first - before, count)
    return spread
