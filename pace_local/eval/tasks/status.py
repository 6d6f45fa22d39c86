"""Status codes and the transitions between them."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_EVENTS = (("approve", "dispatch"), ("confirm", "release"), ("reserve", "collect"), ("inspect", "publish"))


def make(rng: random.Random) -> Specification:
    """Three codes, two transitions, and one code for whatever is not allowed."""
    first, second, third, refused = rng.sample(range(21, 99), 4)
    go, finish = rng.choice(_EVENTS)
    text = (
        "# Status of a claim\n\n"
        "A claim has a status, which is a number, and an event moves it on. The codes are "
        f"NEW = {first}, ACTIVE = {second}, CLOSED = {third} and REFUSED = {refused}.\n\n"
        "The function `next_status(status: int, event: str) -> int` returns the code that follows:\n\n"
        f"- If status == NEW and event == '{go}', it returns ACTIVE.\n"
        f"- If status == ACTIVE and event == '{finish}', it returns CLOSED.\n"
        "- In all other cases, it returns REFUSED.\n\n"
        "So a closed claim stays closed: every event is refused there. Other services store the numbers, "
        "which is why they must not change. The function raises nothing and prints nothing."
    )
    solution = (
        "def next_status(status: int, event: str) -> int:\n"
        f"    if status == {first} and event == '{go}':\n        return {second}\n"
        f"    if status == {second} and event == '{finish}':\n        return {third}\n"
        f"    return {refused}\n"
    )
    return Specification(
        name="spec:claims",
        title="status of a claim",
        text=text,
        function="next_status",
        signature="next_status(status: int, event: str) -> int",
        facts=(str(first), str(second), str(third), str(refused), go, finish),
        checks=(
            check_equal((f"next_status({first}, '{go}')", second)),
            check_equal((f"next_status({second}, '{finish}')", third)),
            check_equal(
                (f"next_status({first}, '{finish}')", refused), (f"next_status({second}, '{go}')", refused)
            ),
            check_equal(
                (f"next_status({third}, '{go}')", refused), (f"next_status({third}, '{finish}')", refused)
            ),
            check_equal((f"next_status({first}, 'other')", refused)),
        ),
        solution=solution,
    )
