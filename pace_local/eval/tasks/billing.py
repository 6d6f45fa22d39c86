"""A billing period: days are whole numbers, and a bill is due some days after its period ends."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal


def make(rng: random.Random) -> Specification:
    """The first day of all periods, their length, the days until payment, and a code for days before."""
    first, length, grace, before = rng.sample(range(12, 60), 4)
    text = (
        "# Billing periods\n\n"
        "The billing service knows no calendar. It counts days as whole numbers, and all periods have the "
        f"same length. The first period begins on day {first}, and every period is {length} days long. A "
        f"bill is due {grace} days after the last day of its period.\n\n"
        "The function `due_day(day: int) -> int` says when a purchase of some day is due:\n\n"
        f"1. If day < {first}, it returns -{before}, because nothing was billed then.\n"
        f"2. Otherwise the index of the period is (day - {first}) // {length}.\n"
        f"3. The last day of the period is {first} + {length} * (index + 1) - 1.\n"
        f"4. It returns that last day plus {grace}.\n\n"
        "Weekends do not matter. The function raises nothing."
    )
    solution = (
        "def due_day(day: int) -> int:\n"
        f"    first, length = {first}, {length}\n"
        f"    if day < first:\n        return -{before}\n"
        "    index = (day - first) // length\n"
        "    last = first + length * (index + 1) - 1\n"
        f"    return last + {grace}\n"
    )

    def case(day: int) -> tuple[str, object]:
        last = first + length * ((day - first) // length + 1) - 1
        return f"due_day({day})", -before if day < first else last + grace

    return Specification(
        name="spec:billing",
        title="billing periods",
        text=text,
        function="due_day",
        signature="due_day(day: int) -> int",
        facts=(str(first), str(length), str(grace), str(before)),
        checks=(
            check_equal(case(first - 1), case(0)),
            check_equal(case(first)),
            check_equal(case(first + length - 1)),
            check_equal(case(first + length)),
            check_equal(case(first + 3 * length + 2), case(first + 9 * length - 1)),
        ),
        solution=solution,
    )
