"""Values out of JSON objects: what is taken, and what a message says of what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pace_local.json_fields import (
    as_object,
    numbers,
    one_of,
    optional,
    required,
    rows,
    rows_of,
    step_of,
    texts,
    token_ids,
    whole,
)
from pace_local.plan import Step

KNOWN = ("red", "blue")


@pytest.mark.parametrize(
    ("take", "value", "found"),
    [
        (lambda d: required(d, "a", str), "x", "x"),
        (lambda d: required(d, "a", bool), True, True),
        (lambda d: optional(d, "a", int), None, None),
        (lambda d: optional(d, "a", int), 0, 0),
        (lambda d: whole(d, "a"), 0, 0),
        (lambda d: one_of(d, "a", KNOWN), "blue", "blue"),
        (lambda d: texts(d, "a"), ["x", ""], ("x", "")),
        (lambda d: token_ids(d, "a"), [0, 7], (0, 7)),
        (lambda d: numbers(d, "a"), {"x": 1, "y": -0.5}, {"x": 1, "y": -0.5}),
        (lambda d: rows(d, "a", 2), [[1, 2], [-3, 4]], ((1, 2), (-3, 4))),
        (lambda d: step_of(d["a"]), {"text": "t", "reads": ["x"]}, Step("t", ["x"])),
        (
            lambda d: step_of(d["a"]),
            {"text": "t", "reads": [], "prompt": "p", "more": 1},
            Step("t", [], "p"),
        ),
    ],
)
def test_what_is_right_is_taken(take: Callable[[Any], object], value: object, found: object) -> None:
    assert take({"a": value}) == found


@pytest.mark.parametrize(
    ("take", "value", "said"),
    [
        (lambda d: required(d, "b", str), "x", "'b' is None; it must be of type str"),
        (lambda d: required(d, "a", int), True, "'a' is True; it must be of type int"),
        (lambda d: required(d, "a", int), 1.0, "'a' is 1.0; it must be of type int"),
        (lambda d: required(d, "a", str), 5, "'a' is 5; it must be of type str"),
        (lambda d: optional(d, "a", int), False, "'a' is False; it must be of type int"),
        (lambda d: whole(d, "a"), -1, "'a' is -1; it must be 0 or more"),
        (lambda d: one_of(d, "a", KNOWN), "green", "'a' is 'green', not one of red, blue"),
        (lambda d: one_of(d, "a", KNOWN), ["red"], "'a' is ['red']; it must be of type str"),
        (lambda d: texts(d, "a"), ["x", 1], "'a' is ['x', 1]; it must be a list of strings"),
        (lambda d: token_ids(d, "a"), [1, "2"], "'a' is [1, '2']; it must be a list of token ids"),
        (lambda d: token_ids(d, "a"), [True], "'a' is [True]; it must be a list of token ids"),
        (lambda d: token_ids(d, "a"), [-1], "'a' is [-1]; it must be a list of token ids"),
        (lambda d: numbers(d, "a"), {"x": True}, "'x' of 'a' is True; it must be a finite number"),
        (lambda d: numbers(d, "a"), {"x": float("inf")}, "'x' of 'a' is inf; it must be a finite number"),
        (lambda d: rows(d, "a", 2), [[1]], "'a' holds [1]; it must hold rows of 2 whole numbers"),
        (lambda d: rows_of(d["a"], "b", 2), 5, "'b' holds 5; it must be a list"),
        (lambda d: step_of(d["a"]), 5, "5 is no JSON object"),
        (
            lambda d: step_of(d["a"]),
            {"text": "t", "reads": [1]},
            "'reads' is [1]; it must be a list of strings",
        ),
        (lambda d: as_object(d["a"]), ["x"], "['x'] is no JSON object"),
    ],
)
def test_what_is_wrong_is_shown_with_what_it_must_be(
    take: Callable[[Any], object], value: object, said: str
) -> None:
    with pytest.raises(ValueError) as raised:
        take({"a": value})
    assert str(raised.value) == said


@pytest.mark.parametrize(("length", "shown"), [(45, f"'{'x' * 45}'"), (46, f"'{'x' * 46}…")])
def test_long_values_are_cut(length: int, shown: str) -> None:
    with pytest.raises(ValueError) as raised:
        as_object("x" * length)
    assert str(raised.value) == f"{shown} is no JSON object"
