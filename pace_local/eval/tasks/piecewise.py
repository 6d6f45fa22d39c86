"""Constants with a piecewise rule: postage by weight in three bands."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal


def make(rng: random.Random) -> Specification:
    """Three bands, two bounds that belong to the band below them."""
    light, heavy = rng.randrange(41, 97), rng.randrange(210, 480)
    low, middle, high = rng.randrange(110, 190), rng.randrange(230, 390), rng.randrange(510, 890)
    text = (
        "# Postage of letters\n\n"
        "The mail room charges a letter by its weight in grams. There are three bands and one fixed price in "
        "cents for each; weights between two whole grams do not occur.\n\n"
        f"- Up to and including {light} grams, a letter costs {low} cents.\n"
        f"- Above {light} grams, up to and including {heavy} grams, it costs {middle} cents.\n"
        f"- Above {heavy} grams, it costs {high} cents, however heavy it is.\n\n"
        "The function `letter_postage(grams: int) -> int` returns the price in cents. The scale never "
        "reports a weight below one gram, so that no check of the weight is needed. The function prints "
        "nothing and raises nothing; the counter shows what it returns."
    )
    solution = (
        "def letter_postage(grams: int) -> int:\n"
        f"    if grams <= {light}:\n        return {low}\n"
        f"    if grams <= {heavy}:\n        return {middle}\n"
        f"    return {high}\n"
    )
    return Specification(
        name="spec:postage",
        title="postage of letters",
        text=text,
        function="letter_postage",
        signature="letter_postage(grams: int) -> int",
        facts=tuple(str(fact) for fact in (light, heavy, low, middle, high)),
        checks=(
            check_equal((f"letter_postage({light})", low), ("letter_postage(1)", low)),
            check_equal((f"letter_postage({light + 1})", middle)),
            check_equal((f"letter_postage({heavy})", middle)),
            check_equal((f"letter_postage({heavy + 1})", high)),
            check_equal((f"letter_postage({3 * heavy})", high)),
        ),
        solution=solution,
    )
