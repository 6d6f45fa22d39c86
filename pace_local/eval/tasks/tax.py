"""A rounding and tax rule: percent of whole cents, rounded down, and a stamp for large amounts."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal


def make(rng: random.Random) -> Specification:
    """Tax is always due; the stamp only from a bound on."""
    percent, bound, stamp = rng.randrange(11, 29), rng.randrange(410, 890), rng.randrange(31, 97)
    text = (
        "# Gross amounts\n\n"
        "Invoices show gross amounts in whole cents. They are computed from the net amount, also in whole "
        "cents, in two steps.\n\n"
        f"1. The tax is {percent} percent of the net amount, rounded down to a whole cent: "
        f"net * {percent} // 100.\n"
        f"2. If the net amount is {bound} cents or more (net >= {bound}), a stamp of {stamp} cents is added. "
        "The stamp itself is not taxed.\n\n"
        "The function `gross_amount(net: int) -> int` returns the net amount plus the tax, plus the stamp if "
        "it is due. Rounding is always down, never to the nearest cent, and floats are not used. The net "
        "amount is never negative, so that no check is needed."
    )
    solution = (
        "def gross_amount(net: int) -> int:\n"
        f"    gross = net + net * {percent} // 100\n"
        f"    if net >= {bound}:\n        gross += {stamp}\n"
        "    return gross\n"
    )

    def gross(net: int) -> int:
        return net + net * percent // 100 + (stamp if net >= bound else 0)

    # The largest remainder below the bound: whoever rounds to the nearest cent is one cent off.
    uneven = max(range(1, 101), key=lambda net: net * percent % 100)
    return Specification(
        name="spec:gross",
        title="gross amounts",
        text=text,
        function="gross_amount",
        signature="gross_amount(net: int) -> int",
        facts=(str(percent), str(bound), str(stamp)),
        checks=(
            check_equal((f"gross_amount({uneven})", gross(uneven))),
            check_equal(("gross_amount(100)", gross(100)), ("gross_amount(0)", 0)),
            check_equal((f"gross_amount({bound - 1})", gross(bound - 1))),
            check_equal((f"gross_amount({bound})", gross(bound))),
            check_equal((f"gross_amount({10 * bound + uneven})", gross(10 * bound + uneven))),
        ),
        solution=solution,
    )
