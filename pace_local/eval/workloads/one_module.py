"""Functions to write that use one module of the code base."""

from __future__ import annotations

from collections.abc import Callable

from pace_local.eval.specification import check_equal
from pace_local.eval.workloads.code_base import CodeTask, Desk, price_of


def _or_flat(desk: Desk) -> CodeTask:
    def case(units: int, others: int) -> tuple[str, object]:
        price = desk.price(units, others)
        return f"{desk.module}_bill({units}, {others})", desk.flat if price is None else price

    return CodeTask(
        signature=f"{desk.module}_bill({desk.parameters}) -> int",
        wanted=(
            f"It returns {price_of(desk)}. If the module refuses them by raising its exception, the "
            "function catches that and returns the module's constant for the price of what was refused."
        ),
        uses=(desk.function, desk.refusal, desk.flat_name),
        body=(
            f"    try:\n        return {desk.call()}\n    except {desk.refusal}:\n        return "
            f"{desk.flat_name}\n"
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
    def case(*requests: tuple[int, int]) -> tuple[str, object]:
        prices = [desk.price(*request) for request in requests]
        return f"{desk.module}_total({list(requests)!r})", sum(price for price in prices if price is not None)

    return CodeTask(
        signature=f"{desk.module}_total(requests: list[tuple[int, int]]) -> int",
        wanted=(
            f"Each request is a pair: first the {desk.units}, then the {desk.others}. The function returns "
            f"the sum of the prices that the {desk.module} module computes for them. A request that the "
            "module refuses by raising its exception is left out of the sum."
        ),
        uses=(desk.function, desk.refusal),
        body=(
            "    total = 0\n"
            f"    for {desk.units}, {desk.others} in requests:\n"
            f"        try:\n            total += {desk.call()}\n"
            f"        except {desk.refusal}:\n            pass\n"
            "    return total\n"
        ),
        checks=(
            check_equal(case((2, 9))),
            check_equal(case((5, 1), (3, 8))),
            check_equal(case((4, 6), (desk.limit + 1, 2), (1, 3))),
            check_equal(case((desk.limit, 1)), case((7, 2), (7, 2))),
            check_equal(case((1, desk.limit + 5), (desk.limit + 9, 1)), case()),
        ),
    )


def _in_loads(desk: Desk) -> CodeTask:
    def case(units: int, others: int) -> tuple[str, object]:
        full, rest = divmod(units, desk.limit)
        loads = [desk.limit] * full + [rest] * (rest > 0)
        return f"{desk.module}_loads({units}, {others})", sum(desk.price(load, others) or 0 for load in loads)

    return CodeTask(
        signature=f"{desk.module}_loads({desk.parameters}) -> int",
        wanted=(
            f"There can be more {desk.units} than the {desk.module} module takes in one request. So the "
            "function asks for the price of as many as one request may have, again and again, until all "
            f"are done, and last for the rest, if any is left. Each request has the same {desk.others}. It "
            "returns the sum of the prices."
        ),
        uses=(desk.function, desk.limit_name),
        body=(
            "    total = 0\n"
            f"    while {desk.units}:\n"
            f"        load = min({desk.units}, {desk.limit_name})\n"
            f"        total += {desk.call('load')}\n"
            f"        {desk.units} -= load\n"
            "    return total\n"
        ),
        checks=(
            check_equal(case(5, 3)),
            check_equal(case(desk.limit, 2)),
            check_equal(case(desk.limit + 1, 7)),
            check_equal(case(2 * desk.limit, 4)),
            check_equal(case(3 * desk.limit + 2, 1), case(1, 8)),
        ),
    )


def _most_for(desk: Desk) -> CodeTask:
    def most(others: int, cents: int) -> int:
        prices = [(units, desk.price(units, others)) for units in range(1, desk.limit + 1)]
        return max((units for units, price in prices if price is not None and price <= cents), default=0)

    def case(others: int, cents: int) -> tuple[str, object]:
        return f"most_{desk.units}({others}, {cents})", most(others, cents)

    def exactly(units: int, others: int) -> int:
        return desk.per_unit * units + desk.per_other * others

    return CodeTask(
        signature=f"most_{desk.units}({desk.others}: int, cents: int) -> int",
        wanted=(
            f"It returns the largest number of {desk.units}, from 1 up to the most that the {desk.module} "
            f"module takes in one request, whose price for these {desk.others} is at most so many cents. If "
            "even 1 costs more, it returns 0."
        ),
        uses=(desk.function, desk.limit_name),
        body=(
            f"    for {desk.units} in range({desk.limit_name}, 0, -1):\n"
            f"        if {desk.call()} <= cents:\n            return {desk.units}\n"
            "    return 0\n"
        ),
        checks=(
            check_equal(case(3, exactly(7, 3))),
            check_equal(case(2, exactly(6, 2) - 1)),
            check_equal(case(4, exactly(3 * desk.limit, 4))),
            check_equal(case(5, exactly(1, 5) - 1), case(5, exactly(1, 5))),
            check_equal(case(1, exactly(desk.limit - 1, 1) + 1)),
        ),
    )


WITH_ONE: tuple[Callable[[Desk], CodeTask], ...] = (_or_flat, _total, _in_loads, _most_for)
"""Each makes a function to write with a module."""
