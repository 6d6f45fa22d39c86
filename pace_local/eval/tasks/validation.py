"""Validation with an error code for each fault."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal


def make(rng: random.Random) -> Specification:
    """Too short, too long, wrong first letter: in this order, a code for each, and one for what is right."""
    shortest, longest = rng.randrange(11, 16), rng.randrange(17, 21)
    valid, short, long, wrong = rng.sample(range(24, 99), 4)
    letter = rng.choice("BDFGKMPRTW")
    text = (
        "# Check of a voucher\n\n"
        "A voucher is a string. It is checked before it is looked up; the first fault found decides, and "
        "each has its own code. The function `check_voucher(voucher: str) -> int` returns a code:\n\n"
        f"1. If len(voucher) < {shortest}, it returns {short}.\n"
        f"2. If len(voucher) > {longest}, it returns {long}.\n"
        f"3. If the voucher does not start with the capital letter '{letter}', it returns {wrong}.\n"
        f"4. In all other cases, it returns {valid}: the voucher is valid.\n\n"
        f"The tests are made in this order. Vouchers of exactly {shortest} or exactly {longest} characters "
        "are neither too short nor too long. Nothing is stripped or converted before, and nothing is raised."
    )
    solution = (
        "def check_voucher(voucher: str) -> int:\n"
        f"    if len(voucher) < {shortest}:\n        return {short}\n"
        f"    if len(voucher) > {longest}:\n        return {long}\n"
        f"    if not voucher.startswith('{letter}'):\n        return {wrong}\n"
        f"    return {valid}\n"
    )

    def case(first: str, length: int, result: int, rest: str = "x") -> tuple[str, object]:
        return f"check_voucher({(first + rest * length)[:length]!r})", result

    return Specification(
        name="spec:vouchers",
        title="check of a voucher",
        text=text,
        function="check_voucher",
        signature="check_voucher(voucher: str) -> int",
        facts=(str(shortest), str(longest), str(short), str(long), str(wrong), str(valid)),
        checks=(
            check_equal(case(letter, shortest - 1, short), case("x", 1, short)),
            check_equal(case(letter, shortest, valid), case("x", shortest, wrong)),
            check_equal(case(letter, longest, valid, "7"), case(letter.lower(), longest, wrong)),
            check_equal(case(letter, longest + 1, long), case("x", longest + 1, long)),
            check_equal(case("x" + letter, shortest + 1, wrong), case(letter, shortest + 1, valid)),
        ),
        solution=solution,
    )
