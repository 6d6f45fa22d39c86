"""A check number: three digits with weights, the remainder of a division, and what stands for zero."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from pace_local.eval.specification import Specification, check_equal

_MODULI = (41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89)
"""Primes greater than any weight and any quotient, so that another modulus gives other remainders."""


def make(rng: random.Random) -> Specification:
    """A weight for each digit, and a modulus."""
    weights, zero = rng.sample(range(11, 38), 3), rng.randrange(90, 99)
    modulus = rng.choice([modulus for modulus in _MODULI if _digits_without_remainder(weights, modulus)])
    one, two, three = weights
    text = (
        "# Check number of a parcel\n\n"
        "Clerks type the three digits of a parcel by hand. A check number shows whether two of them were "
        "exchanged. It is made of the digits like this:\n\n"
        f"1. The first digit counts {one} times, the second {two} times and the third {three} times: "
        f"total = {one} * first + {two} * second + {three} * third.\n"
        f"2. The remainder is total % {modulus}.\n"
        f"3. If the remainder is 0, the check number is {zero}. Otherwise the remainder itself is the check "
        "number.\n\n"
        "The function `parcel_check(first: int, second: int, third: int) -> int` returns the check number. "
        "Each digit is a whole number from 0 to 9, which the caller makes sure of. The function raises "
        "nothing."
    )
    solution = (
        "def parcel_check(first: int, second: int, third: int) -> int:\n"
        f"    total = {one} * first + {two} * second + {three} * third\n"
        f"    remainder = total % {modulus}\n"
        f"    if remainder == 0:\n        return {zero}\n"
        "    return remainder\n"
    )

    def case(*digits: int) -> tuple[str, object]:
        total = sum(weight * digit for weight, digit in zip(weights, digits, strict=True))
        return f"parcel_check({', '.join(map(str, digits))})", total % modulus or zero

    return Specification(
        name="spec:parcels",
        title="check number of a parcel",
        text=text,
        function="parcel_check",
        signature="parcel_check(first: int, second: int, third: int) -> int",
        facts=(*map(str, weights), str(modulus), str(zero)),
        checks=(
            check_equal(case(1, 0, 0)),
            check_equal(case(0, 1, 0), case(0, 9, 1)),
            check_equal(case(0, 0, 1), case(4, 0, 8)),
            check_equal(case(0, 0, 0), case(*_digits_without_remainder(weights, modulus))),
            check_equal(case(9, 8, 7), case(2, 9, 9)),
        ),
        solution=solution,
    )


def _digits_without_remainder(weights: Sequence[int], modulus: int) -> tuple[int, ...]:
    """Digits, not all 0, whose total is a multiple of the modulus; none if there are no such digits."""
    for digits in itertools.product(range(9, -1, -1), repeat=3):
        total = sum(weight * digit for weight, digit in zip(weights, digits, strict=True))
        if total and total % modulus == 0:
            return digits
    return ()
