"""Bit flags: rights that are added up, and a combination that is refused."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_FLAGS = ("enter", "lend", "seal", "sign", "copy", "audit", "mark", "move")
_BITS = (16, 32, 64, 128, 256, 512)


def make(rng: random.Random) -> Specification:
    """Three flags with bits that are not in order; the second needs the first."""
    first, second, third = rng.sample(_FLAGS, 3)
    bits = rng.sample(_BITS, 3)
    refused = rng.randrange(21, 98, 2)  # odd: no sum of bits
    rows = tuple(zip((first, second, third), bits, strict=True))
    text = (
        "# Rights of a badge\n\n"
        "The rights of a badge are stored as one number, in which each right has a bit of its own. The bits "
        "are historical and are not in any order:\n\n"
        + "".join(f"- The right '{flag}' has the bit {bit}.\n" for flag, bit in rows)
        + f"\nThe function `badge_rights({first}: bool, {second}: bool, {third}: bool) -> int` "
        "returns the number:\n\n"
        f"1. If {second} is true and {first} is false, it returns the code {refused}: nobody may {second} "
        f"who may not {first}.\n"
        "2. In all other cases, it returns the sum of the bits of the rights that are true, which is 0 if "
        "none is.\n\n"
        "The door controllers read this number bit by bit. The function raises nothing and prints nothing."
    )
    solution = (
        f"def badge_rights({first}: bool, {second}: bool, {third}: bool) -> int:\n"
        f"    if {second} and not {first}:\n        return {refused}\n"
        "    rights = 0\n"
        + "".join(f"    if {flag}:\n        rights += {bit}\n" for flag, bit in rows)
        + "    return rights\n"
    )

    def case(*flags: bool) -> tuple[str, object]:
        total = sum(bit for flag, bit in zip(flags, bits, strict=True) if flag)
        arguments = ", ".join(map(str, flags))
        return f"badge_rights({arguments})", refused if flags[1] and not flags[0] else total

    return Specification(
        name="spec:rights",
        title="rights of a badge",
        text=text,
        function="badge_rights",
        signature=f"badge_rights({first}: bool, {second}: bool, {third}: bool) -> int",
        facts=(*map(str, bits), str(refused)),
        checks=(
            check_equal(case(True, False, False)),
            check_equal(case(True, True, False)),
            check_equal(case(False, False, True), case(False, False, False)),
            check_equal(case(False, True, False), case(False, True, True)),
            check_equal(case(True, True, True), case(True, False, True)),
        ),
        solution=solution,
    )
