"""Twelve kinds of specification that cannot be mistaken for one another, one file each."""

from __future__ import annotations

import random
from collections.abc import Callable

from pace_local.eval.specification import Specification
from pace_local.eval.tasks import (
    billing,
    checksum,
    naming,
    piecewise,
    record,
    retries,
    rights,
    status,
    tax,
    text_format,
    units,
    validation,
)

KINDS: dict[str, Callable[[random.Random], Specification]] = {
    "piecewise": piecewise.make,
    "record": record.make,
    "status": status.make,
    "text_format": text_format.make,
    "validation": validation.make,
    "units": units.make,
    "tax": tax.make,
    "naming": naming.make,
    "rights": rights.make,
    "billing": billing.make,
    "checksum": checksum.make,
    "retries": retries.make,
}
"""Kind -> makes one of it from a source of random numbers."""


def kinds(seed: int) -> list[Specification]:
    """One specification of each kind; the same seed gives the same, byte for byte.

    Kinds draw from sources of their own, so that a change of one leaves the others as they are.
    """
    return [make(random.Random(f"{kind}:{seed}")) for kind, make in KINDS.items()]
