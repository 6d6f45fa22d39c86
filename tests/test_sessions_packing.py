from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pace_local.sessions.packing import (
    check_runs,
    decode_ranges,
    decode_runs,
    encode_ranges,
    encode_runs,
    pack_array,
    pack_tokens,
    unpack_array,
    unpack_tokens,
)


@st.composite
def residents(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two rising columns of one length, often without gaps."""
    steps = draw(st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 9]), st.sampled_from([1, 1, 1, 3, 5]))))
    index, place = [], []
    at = draw(st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)))
    for gap in steps:
        index.append(at[0])
        place.append(at[1])
        at = (at[0] + gap[0], at[1] + gap[1])
    return index, place


@given(residents())
def test_runs_come_back(columns: tuple[list[int], list[int]]) -> None:
    runs = encode_runs(*columns)
    index, place = decode_runs(runs)
    assert (index.tolist(), place.tolist()) == columns
    assert (index.dtype, place.dtype) == (np.int64, np.int32)
    check_runs(runs, ("token index", "position"))


@given(residents())
def test_runs_are_as_long_as_they_can_be(columns: tuple[list[int], list[int]]) -> None:
    runs = encode_runs(*columns)
    for (first, place, count), (next_first, next_place, _) in itertools.pairwise(runs):
        assert (first + count, place + count) != (next_first, next_place)


@given(residents())
def test_ranges_come_back(columns: tuple[list[int], list[int]]) -> None:
    ranges = encode_ranges(columns[0])
    assert decode_ranges(ranges).tolist() == columns[0]
    assert all(a + n < b for (a, n), (b, _) in itertools.pairwise(ranges))
    check_runs(ranges, ("token index",))


def test_runs_by_hand() -> None:
    assert encode_runs([0, 1, 2, 5, 6, 7], [0, 1, 2, 3, 4, 9]) == ((0, 0, 3), (5, 3, 2), (7, 9, 1))
    assert encode_runs([], []) == ()
    assert encode_ranges([4, 5, 9]) == ((4, 2), (9, 1))


@pytest.mark.parametrize(
    ("index", "place", "said"),
    [
        ([0, 0], [0, 1], "token_index does not increase strictly"),
        ([0, 1], [1, 0], "position does not increase strictly"),
        ([0, 1], [0], "there are 2 token indices and 1 positions"),
        ([-1, 0], [0, 1], "token_index begins with -1; it must be 0 or more"),
        ([[0, 1]], [[0, 1]], "token_index has the shape (1, 2)"),
    ],
)
def test_columns_that_are_no_residents(index: Any, place: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        encode_runs(index, place)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(0, 0, 0)], "the run at [0, 0] has 0 tokens; it must have 1 or more"),
        ([(-1, 0, 1)], "token index -1 must be 0 or more"),
        ([(0, 0, 3), (2, 3, 1)], "token index 2 must be 3 or more: they increase"),
        ([(0, 0, 3), (3, 2, 1)], "position 2 must be 3 or more: they increase"),
    ],
)
def test_runs_that_do_not_rise(runs: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_runs(runs, ("token index", "position"))


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_tokens_come_back(tokens: list[int]) -> None:
    assert unpack_tokens(pack_tokens(tokens)) == tuple(tokens)


def test_tokens_are_little_endian() -> None:
    assert pack_tokens([1, 256]) == "AQAAAAABAAA="


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AQ", "not valid base64"),
        ("AQ=A", "not valid base64"),
        ("é", "not valid base64"),
        ("AQA=", "have 2 bytes, which is no multiple of 4"),
        ("/////w==", "token -1 is none"),
    ],
)
def test_tokens_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack_tokens(text)


@given(
    arrays.arrays(
        st.sampled_from(["bool", "int8", "uint16", "int32", "uint64", "float32", "float64"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_arrays_come_back_bit_for_bit(values: np.ndarray) -> None:
    back = unpack_array(pack_array(values))
    assert (back.dtype, back.shape) == (values.dtype, values.shape)
    assert back.tobytes() == values.tobytes()
    assert back.flags.writeable


def test_big_endian_arrays_are_stored_like_others() -> None:
    values = np.arange(4, dtype=">f4")
    assert pack_array(values) == pack_array(values.astype("<f4"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "object"}, "an array of 'object' is not known"),
        ({"dtype": None}, "'dtype' is None; it must be of type str"),
        ({"shape": [3]}, r"an array of int32 of shape \[3\] has 8 bytes"),
        ({"shape": [-2]}, "whole numbers, 0 or more"),
        ({"shape": [True, 2]}, "whole numbers, 0 or more"),
        ({"base64": "AAAA"}, "have 3 bytes, which is no multiple of 4"),
    ],
)
def test_documents_that_are_no_array(change: dict[str, Any], said: str) -> None:
    document = pack_array(np.zeros(2, dtype=np.int32))
    with pytest.raises(ValueError, match=said):
        unpack_array({**document, **change})


def test_an_array_that_cannot_be_stored() -> None:
    with pytest.raises(ValueError, match="an array of complex128 cannot be stored; use one of bool"):
        pack_array(np.zeros(1, dtype=complex))
