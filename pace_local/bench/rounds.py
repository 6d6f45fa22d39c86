"""Samples in rounds, each with buffers of its own.

Where the pages of a buffer lie decides how fast it is read: two contexts that do the same can differ by
several per cent for as long as they live. Alternating does not cancel that; allocating anew does, on average.
"""

from __future__ import annotations

ROUNDS = 3


def samples_by_round(samples: int) -> list[int]:
    """How many of the samples each round takes; no round is empty.

    Args:
        samples: 1 or more.
    """
    rounds = min(ROUNDS, samples)
    return [samples // rounds + (number < samples % rounds) for number in range(rounds)]
