"""Functions to write that use two modules of the code base together."""

from __future__ import annotations

import random
from collections.abc import Callable

from pace_local.eval.specification import check_equal
from pace_local.eval.workloads.code_base import CodeTask, Desk, price_of


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
    parameters, arguments = _pairs(one, two)

    def case(a: int, b: int, c: int, d: int) -> tuple[str, object]:
        prices = one.price(a, b), two.price(c, d)
        expected = -1 if None in prices else sum(price or 0 for price in prices)
        return f"price_together({a}, {b}, {c}, {d})", expected

    return CodeTask(
        signature=f"price_together({parameters}) -> int",
        wanted=(
            f"It returns {price_of(one)} plus {price_of(two)}. If either module refuses its request by "
            "raising its exception, the function returns -1."
        ),
        uses=(one.function, one.refusal, two.function, two.refusal),
        body=(
            f"    try:\n        return {one.call()} + {two.call()}\n"
            f"    except ({one.refusal}, {two.refusal}):\n        return -1\n"
        ),
        checks=tuple(check_equal(case(*each)) for each in arguments),
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
            f"It returns {price_of(one)}. Only if the {one.module} module refuses them by raising its "
            f"exception, it returns {price_of(two)} instead."
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


def _difference(one: Desk, two: Desk) -> CodeTask:
    parameters, _ = _pairs(one, two)

    def case(a: int, b: int, c: int, d: int) -> tuple[str, object]:
        first, second = one.price(a, b), two.price(c, d)
        assert first is not None
        assert second is not None
        return f"surplus({a}, {b}, {c}, {d})", first - second

    def refused(a: int, b: int, c: int, d: int) -> str:
        call = f"surplus({a}, {b}, {c}, {d})"
        return (
            f"try:\n    _got = {call}\n"
            "except Exception as _error:\n"
            f"    assert type(_error).__name__ == {two.refusal!r}, type(_error).__name__\n"
            f"else:\n    raise AssertionError({call!r} + ' gave ' + repr(_got) + ' and raised nothing')"
        )

    least = next(b for b in range(1, 10_000) if one.per_other * b >= two.per_unit * 9 + two.per_other * 9)
    return CodeTask(
        signature=f"surplus({parameters}) -> int",
        wanted=(
            f"{_requests(one, two)} It returns the first price minus the second. If that is below 0, it "
            f"raises the exception of the {two.module} module instead."
        ),
        uses=(one.function, two.function, two.refusal),
        body=(
            f"    difference = {one.call()} - {two.call()}\n"
            f"    if difference < 0:\n        raise {two.refusal}(difference)\n"
            "    return difference\n"
        ),
        checks=(
            check_equal(case(2, least, 3, 1)),
            check_equal(case(5, least + 1, 1, 4)),
            check_equal(case(one.limit, least, 2, 8), case(*_apart(one, two, 0))),
            refused(1, 0, two.limit, two.limit + 90),
            refused(*_apart(one, two, -1)),
        ),
    )


WITH_TWO: tuple[Callable[[Desk, Desk], CodeTask], ...] = (_together, _first_or_second, _cheaper, _difference)
"""Each makes a function to write with two modules."""
