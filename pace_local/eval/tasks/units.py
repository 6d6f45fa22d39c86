"""A unit table: invented units, so that no model knows them from elsewhere."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_UNITS = ("tog", "bex", "rud", "lum", "pik", "dorn", "vash", "quill", "marn", "fesk")


def make(rng: random.Random) -> Specification:
    """Three units in grains, and what an unknown one gives."""
    small, middle, large = rng.sample(_UNITS, 3)
    factors = rng.randrange(13, 39), rng.randrange(112, 299), rng.randrange(610, 980)
    unknown = -rng.randrange(3, 10)
    rows = tuple(zip((small, middle, large), factors, strict=True))
    text = (
        "# Units of grain\n\n"
        "The mill trades in old units, each of which is a whole number of grains. The function "
        "`to_grains(amount: int, unit: str) -> int` converts an amount of a unit to grains:\n\n"
        + "".join(f"- If unit == '{unit}', it returns amount * {factor}.\n" for unit, factor in rows)
        + f"- For every other unit, it returns {unknown}, whatever the amount is.\n\n"
        "Names of units are written in small letters, as above, and are compared as they are; there are no "
        "plural forms. An amount of 0 of a known unit is 0 grains. All numbers are integers. The function "
        "raises nothing and prints nothing; the ledger of the mill calls it once for every line."
    )
    table = ", ".join(f"'{unit}': {factor}" for unit, factor in rows)
    solution = (
        "def to_grains(amount: int, unit: str) -> int:\n"
        f"    grains = {{{table}}}\n"
        f"    if unit not in grains:\n        return {unknown}\n"
        "    return amount * grains[unit]\n"
    )
    return Specification(
        name="spec:grain",
        title="units of grain",
        text=text,
        function="to_grains",
        signature="to_grains(amount: int, unit: str) -> int",
        facts=(small, middle, large, *map(str, factors)),
        checks=(
            *(
                check_equal(
                    (f"to_grains(1, '{unit}')", factor), (f"to_grains({amount}, '{unit}')", amount * factor)
                )
                for amount, (unit, factor) in zip((7, 3, 12), rows, strict=True)
            ),
            check_equal(("to_grains(4, 'stone')", unknown), ("to_grains(0, 'stone')", unknown)),
            check_equal((f"to_grains(0, '{large}')", 0), (f"to_grains(2, '{small}s')", unknown)),
        ),
        solution=solution,
    )
