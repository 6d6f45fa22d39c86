"""Specifications of one form, so that each can be mistaken for another: the hard case for a memory."""

from __future__ import annotations

import random

from pace_local.errors import ConfigError
from pace_local.eval.specification import Specification, check_equal

_SUBJECTS = (
    ("Orders", "units"),
    ("Freight", "pallets"),
    ("Storage", "boxes"),
    ("Repairs", "hours"),
    ("Tickets", "seats"),
    ("Rentals", "days"),
    ("Catering", "meals"),
    ("Printing", "pages"),
    ("Cleaning", "rooms"),
    ("Lessons", "sessions"),
    ("Courier", "parcels"),
    ("Parking", "slots"),
    ("Hosting", "servers"),
    ("Backup", "volumes"),
    ("Survey", "answers"),
    ("Laundry", "bags"),
    ("Mooring", "berths"),
    ("Towing", "miles"),
    ("Welding", "joints"),
    ("Framing", "panels"),
)
"""Name of an API, and what it counts."""

MOST = len(_SUBJECTS)
_CONSTANTS = range(13, 98)
_ERROR_CODES = range(2, 10)


def look_alikes(n: int, seed: int) -> list[Specification]:
    """Specifications of the same form with different names, constants and, slightly, rules.

    Each has three facts: RATE, LIMIT and CUT (or FEE). No two of all these constants are equal.

    Args:
        n: how many, at most :data:`MOST`.
        seed: the same seed gives the same specifications, byte for byte.

    Raises:
        ConfigError: if ``n`` is out of range.
    """
    if not 1 <= n <= MOST:
        raise ConfigError(f"{n} look-alike specifications are out of range; use 1 to {MOST}")
    rng = random.Random(f"look-alikes:{seed}")
    subjects = rng.sample(_SUBJECTS, n)
    constants = rng.sample(_CONSTANTS, 3 * n)
    codes = rng.sample(_ERROR_CODES, len(_ERROR_CODES))
    forms = [(lowers, starts_at) for lowers in (True, False) for starts_at in (True, False)]
    rng.shuffle(forms)
    specifications = []
    for i, (subject, things) in enumerate(subjects):
        rate, limit, change = constants[3 * i : 3 * i + 3]
        lowers, starts_at = forms[i % len(forms)]
        error = -codes[i % len(codes)]
        specifications.append(_specification(subject, things, rate, limit, change, error, lowers, starts_at))
    return specifications


def _specification(
    subject: str, things: str, rate: int, limit: int, change: int, error: int, lowers: bool, starts_at: bool
) -> Specification:
    """``lowers``: whether CUT is subtracted, or FEE added; ``starts_at``: whether so at LIMIT itself."""
    constant, sign = ("CUT", "-") if lowers else ("FEE", "+")
    function = f"price_{subject.lower()}"
    first = limit if starts_at else limit + 1

    def price(quantity: int) -> int:
        difference = -change if lowers else change
        return rate * quantity + (difference if quantity >= first else 0)

    condition, otherwise = (
        ("quantity < LIMIT", "quantity >= LIMIT") if starts_at else ("quantity <= LIMIT", "quantity > LIMIT")
    )
    text = (
        f"# {subject} API, version 2\n\n"
        f"The {subject} API prices a number of {things}. Its constants are RATE = {rate}, LIMIT = {limit} "
        f"and {constant} = {change}; clients depend on these exact values.\n\n"
        f"The function `{function}(quantity: int) -> int` returns the price in cents:\n\n"
        f"- If quantity < 0, it returns the error code {error}.\n"
        f"- If {condition}, it returns RATE * quantity.\n"
        f"- If {otherwise}, it returns RATE * quantity {sign} {constant}.\n\n"
        f"A quantity of 0 {things} is valid and costs nothing. All amounts are integers. The function rounds "
        f"nothing, prints nothing and raises nothing; the {subject} service calls it once for every request, "
        "and stores what it returns."
    )
    solution = (
        f"def {function}(quantity: int) -> int:\n"
        f"    RATE = {rate}\n    LIMIT = {limit}\n    {constant} = {change}\n"
        f"    if quantity < 0:\n        return {error}\n"
        f"    if {condition}:\n        return RATE * quantity\n"
        f"    return RATE * quantity {sign} {constant}\n"
    )
    far = 2 * limit + 5
    return Specification(
        name=f"spec:{subject.lower()}",
        title=f"{subject} API",
        text=text,
        function=function,
        signature=f"{function}(quantity: int) -> int",
        facts=(str(rate), str(limit), str(change)),
        checks=(
            check_equal((f"{function}(-1)", error), (f"{function}({-limit})", error)),
            check_equal((f"{function}(0)", 0), (f"{function}(1)", rate)),
            check_equal((f"{function}({first - 1})", price(first - 1))),
            check_equal((f"{function}({first})", price(first))),
            check_equal((f"{function}({far})", price(far))),
        ),
        solution=solution,
    )
