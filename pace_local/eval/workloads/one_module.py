"""Functions to write that use one module of the code base."""

from __future__ import annotations

from collections.abc import Callable

from pace_local.eval.specification import check_equal
from pace_local.eval.workloads.code_base import (
    FIXED_FEE,
    CodeTask,
    Desk,
    check_raises,
    constant_of,
    price_of,
)


def _or_fee(desk: Desk) -> CodeTask:
    def case(units: int, others: int) -> tuple[str, object]:
        price = desk.price(units, others)
        return f"{desk.module}_bill({units}, {others})", desk.fee if price is None else price

    return CodeTask(
        signature=f"{desk.module}_bill({desk.parameters}) -> int",
        wanted=(
            f"In a try statement, it returns {price_of(desk)}. If that raises the exception of the module, "
            f"it catches it and returns {constant_of(desk, FIXED_FEE)} instead."
        ),
        uses=(desk.function, desk.refusal, desk.fee_name),
        body=(
            f"    try:\n        return {desk.call()}\n    except {desk.refusal}:\n        return "
            f"{desk.fee_name}\n"
        ),
        checks=(
            check_equal(case(3, 7)),
            check_equal(case(desk.limit, 2)),
            check_equal(case(desk.limit + 1, 1)),
            check_equal(case(1, 5), case(0, desk.limit + 3)),
            check_equal(case(4, 0), case(9 * desk.limit, 6)),
        ),
    )


def _total(desk: Desk) -> CodeTask:
    def case(requests: list[int], others: int) -> tuple[str, object]:
        prices = [desk.price(units, others) or 0 for units in requests]
        return f"{desk.module}_total({requests!r}, {others})", sum(prices) + desk.fee

    return CodeTask(
        signature=f"{desk.module}_total(requests: list[int], {desk.others}: int) -> int",
        wanted=(
            f"Each number in `requests` is the {desk.units} of one request; all have the same {desk.others}. "
            f"It adds up the prices that the {desk.module} module computes for the requests, adds "
            f"{constant_of(desk, FIXED_FEE)} once, and returns the sum."
        ),
        uses=(desk.function, desk.fee_name),
        body=(
            f"    total = {desk.fee_name}\n"
            f"    for {desk.units} in requests:\n"
            f"        total += {desk.call()}\n"
            "    return total\n"
        ),
        checks=(
            check_equal(case([2], 9)),
            check_equal(case([5, 3], 8)),
            check_equal(case([4, desk.limit, 1], 2)),
            check_equal(case([7, 7], 3), case([desk.limit], 1)),
            check_equal(case([1, 6, 2, 9], 10)),
        ),
    )


def _full(desk: Desk) -> CodeTask:
    def case(others: int) -> tuple[str, object]:
        return f"full_{desk.module}({others})", desk.price(desk.limit, others)

    return CodeTask(
        signature=f"full_{desk.module}({desk.others}: int) -> int",
        wanted=(
            f"It returns the price that the {desk.module} module computes for these {desk.others} and as "
            f"many {desk.units} as {constant_of(desk, desk.most)} says."
        ),
        uses=(desk.function, desk.limit_name),
        body=f"    return {desk.call(desk.limit_name)}\n",
        checks=tuple(check_equal(case(others)) for others in (1, 3, 0, 8, 11)),
    )


def _within(desk: Desk) -> CodeTask:
    def call(units: int, others: int, cents: int) -> str:
        return f"{desk.module}_within({units}, {others}, {cents})"

    def case(units: int, others: int, above: int) -> tuple[str, object]:
        price = desk.price(units, others)
        assert price is not None
        return call(units, others, price + above), price

    def refused(units: int, others: int, below: int) -> str:
        price = desk.price(units, others)
        assert price is not None
        return check_raises(call(units, others, price - below), desk.refusal)

    return CodeTask(
        signature=f"{desk.module}_within({desk.parameters}, cents: int) -> int",
        wanted=(
            f"It computes {price_of(desk)}. If the price is greater than `cents`, it raises the exception of "
            "the module; otherwise it returns the price."
        ),
        uses=(desk.function, desk.refusal),
        body=(
            f"    price = {desk.call()}\n"
            f"    if price > cents:\n        raise {desk.refusal}(price)\n"
            "    return price\n"
        ),
        checks=(
            check_equal(case(3, 7, 0)),
            check_equal(case(desk.limit, 2, 40), case(5, 11, 1)),
            refused(2, 9, 1),
            refused(6, 1, 30),
            "\n".join((check_equal(case(1, 4, 0)), refused(8, 3, 1))),
        ),
    )


WITH_ONE: tuple[Callable[[Desk], CodeTask], ...] = (_or_fee, _total, _full, _within)
"""Each makes a function to write with a module."""
