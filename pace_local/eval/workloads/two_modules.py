"""Functions to write that use two modules of the code base together."""

from __future__ import annotations

import random
from collections.abc import Callable

from pace_local.eval.specification import check_equal
from pace_local.eval.workloads.code_base import FIXED_FEE, CodeTask, Desk, constant_of, price_of

_TAKEN = ((3, 8, 2, 5), (1, 6, 4, 9), (7, 2, 5, 1), (2, 11, 10, 3), (9, 4, 1, 12))
"""Arguments of two requests that no module refuses."""


def _pairs(one: Desk, two: Desk) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    """Parameters of a function of two requests, and arguments that are taken, at the limit, or refused."""
    arguments = (
        (3, 8, 2, 5),
        (one.limit, 1, two.limit, 4),
        (one.limit + 1, 6, 7, 2),
        (9, 2, two.limit + 1, 3),
        (one.limit + 5, 1, two.limit + 2, 9),
    )
    return f"{one.parameters}, {two.parameters}", arguments


def _requests(one: Desk, two: Desk) -> str:
    return (
        f"It prices a request of the {one.module} module, with these {one.units} and {one.others}, and "
        f"one of the {two.module} module, with these {two.units} and {two.others}."
    )


def _together(one: Desk, two: Desk) -> CodeTask:
    parameters, _ = _pairs(one, two)

    def case(a: int, b: int, c: int, d: int) -> tuple[str, object]:
        return f"price_together({a}, {b}, {c}, {d})", (one.price(a, b) or 0) + (two.price(c, d) or 0)

    return CodeTask(
        signature=f"price_together({parameters}) -> int",
        wanted=f"It returns {price_of(one)} plus {price_of(two)}.",
        uses=(one.function, two.function),
        body=f"    return {one.call()} + {two.call()}\n",
        checks=tuple(check_equal(case(*each)) for each in _TAKEN),
    )


def _first_or_second(one: Desk, two: Desk) -> CodeTask:
    parameters, arguments = _pairs(one, two)

    def case(a: int, b: int, c: int, d: int) -> tuple[str, object]:
        first = one.price(a, b)
        return f"first_price({a}, {b}, {c}, {d})", two.price(c, d) if first is None else first

    refused = arguments[2]
    return CodeTask(
        signature=f"first_price({parameters}) -> int",
        wanted=(
            f"In a try statement, it returns {price_of(one)}. If that raises the exception of the "
            f"{one.module} module, it catches it and returns {price_of(two)} instead."
        ),
        uses=(one.function, one.refusal, two.function),
        body=(
            f"    try:\n        return {one.call()}\n    except {one.refusal}:\n        return {two.call()}\n"
        ),
        checks=(
            *(check_equal(case(*each)) for each in arguments[:4]),
            check_equal(case(refused[0] + 4, 2, 1, 6), case(1, 4, two.limit + 1, 1)),
        ),
    )


def _cheaper(one: Desk, two: Desk) -> CodeTask:
    parameters, _ = _pairs(one, two)

    def case(a: int, b: int, c: int, d: int) -> tuple[str, object]:
        first, second = one.price(a, b), two.price(c, d)
        assert first is not None
        assert second is not None
        return f"cheaper_desk({a}, {b}, {c}, {d})", one.module if first <= second else two.module

    near = _near_prices(one, two)
    near[0].append(_apart(one, two, 0))
    return CodeTask(
        signature=f"cheaper_desk({parameters}) -> str",
        wanted=(
            f"{_requests(one, two)} It returns the string '{one.module}' if the first price is lower than "
            f"the second or equal to it, and '{two.module}' otherwise. No request is refused."
        ),
        uses=(one.function, two.function),
        body=(
            f"    if {one.call()} <= {two.call()}:\n        return '{one.module}'\n    return "
            f"'{two.module}'\n"
        ),
        checks=tuple(check_equal(*(case(*each) for each in group)) for group in near),
    )


def _near_prices(one: Desk, two: Desk) -> list[list[tuple[int, int, int, int]]]:
    """Five groups of arguments of two requests, each with one that is cheaper at each desk.

    The cheaper request would not be so, or be refused, with its two arguments the wrong way round.
    """
    rng = random.Random(f"{one.source}{two.source}")
    cheaper: tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]] = ([], [])
    while min(map(len, cheaper)) < 5:
        a, b, c, d = (rng.randrange(1, most) for most in (12, 40, 12, 40))
        first, second = one.price(a, b), two.price(c, d)
        assert first is not None
        assert second is not None
        if first <= second:
            swapped = one.price(b, a)
            if swapped is None or swapped > second:
                cheaper[0].append((a, b, c, d))
        else:
            swapped = two.price(d, c)
            if swapped is None or swapped >= first:
                cheaper[1].append((a, b, c, d))
    return [[for_one, for_two] for for_one, for_two in zip(cheaper[0][:5], cheaper[1][:5], strict=True)]


def _apart(one: Desk, two: Desk, difference: int) -> tuple[int, int, int, int]:
    """Arguments of two requests whose prices differ by exactly this."""
    for b in range(1, 10_000):
        for a in range(1, one.limit + 1):
            for c in range(1, two.limit + 1):
                rest = one.per_unit * a + one.per_other * b - difference - two.per_unit * c
                if rest > 0 and rest % two.per_other == 0:
                    return a, b, c, rest // two.per_other
    raise AssertionError("no such arguments: constants have a common divisor")


def _with_fee(one: Desk, two: Desk) -> CodeTask:
    def case(a: int, b: int) -> tuple[str, object]:
        return f"price_with_fee({a}, {b})", (one.price(a, b) or 0) + two.fee

    return CodeTask(
        signature=f"price_with_fee({one.parameters}) -> int",
        wanted=(
            f"It adds {constant_of(two, FIXED_FEE)} to {price_of(one)}, and returns the sum. It calls no "
            f"function of the {two.module} module."
        ),
        uses=(one.function, two.fee_name),
        body=f"    return {one.call()} + {two.fee_name}\n",
        checks=tuple(check_equal(case(a, b)) for a, b, _, _ in _TAKEN),
    )


WITH_TWO: tuple[Callable[[Desk, Desk], CodeTask], ...] = (_together, _first_or_second, _cheaper, _with_fee)
"""Each makes a function to write with two modules."""
