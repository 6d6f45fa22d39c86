"""What a table of losses says: the best neighbourhood, and whether the differences mean anything.

The best single point of a grid is often a lucky one. A point whose neighbours are good too stands on a
plateau, and stays good when the next session is a little different; so that is the one recommended.

All points are measured on the same tokens, and a replay has no chance in it; what is left to chance is which
tokens the recording happens to hold. So two points are compared token by token, and the standard error of the
mean of those differences is their noise. Tokens of one answer resemble each other: the noise is computed from
single tokens and from whole answers, and the greater one counts. The two points that differ most were picked
out of all pairs, which makes a large difference likelier; with the threshold of Bonferroni the chance that
any pair of equal points passes it stays below 5 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pace_local.tuning.grid import Grid
from pace_local.tuning.measure import Measurement

CHANCE = 0.05
"""How often a grid of equal points may look as if they differed."""


@dataclass(frozen=True)
class Flatness:
    """Whether any two points differ by more than chance, in nats per token."""

    spread: float
    """Between the greatest and the smallest loss."""
    threshold: float
    """What the spread must exceed."""

    @property
    def is_flat(self) -> bool:
        """Whether the spread may be chance."""
        return self.spread <= self.threshold

    @classmethod
    def of(cls, points: list[Measurement]) -> Flatness | None:
        """Of at least two points with at least two tokens; None for fewer."""
        if len(points) < 2 or points[0].tokens < 2:
            return None
        low = min(points, key=lambda point: point.loss)
        high = max(points, key=lambda point: point.loss)
        n_pairs = len(points) * (len(points) - 1) // 2
        quantile = statistics.NormalDist().inv_cdf(1 - CHANCE / (2 * n_pairs))
        return cls(float(high.loss - low.loss), quantile * standard_error(low, high))


def standard_error(one: Measurement, other: Measurement) -> float:
    """Standard error of the difference of two losses, in nats, from at least two tokens."""
    answers = [
        np.subtract(a, b)
        for a, b in zip(one.log_probabilities, other.log_probabilities, strict=True)
        if len(a)
    ]
    each = np.concatenate(answers)
    n, mean = len(each), float(each.mean())
    by_token = float(each.std(ddof=1)) / math.sqrt(n)
    if len(answers) < 2:
        return by_token
    # An answer's differences may all lean to one side; then there are as many samples as answers.
    sums = np.array([float((answer - mean).sum()) for answer in answers])
    by_answer = math.sqrt(float((sums**2).sum()) * len(sums) / (len(sums) - 1)) / n
    return max(by_token, by_answer)


@dataclass(frozen=True)
class Sensitivity:
    """Losses of neighbourhoods, and the point that is recommended."""

    neighbourhood: dict[int, float]
    """Point -> mean loss of it and its measured neighbours, in nats."""
    recommended: int | None
    """The point with the lowest of them; at a tie, the one with the lower loss of its own, then the first."""
    flatness: Flatness | None

    @classmethod
    def of(cls, grid: Grid, points: Mapping[int, Measurement]) -> Sensitivity:
        """Of the points that were measured."""
        neighbourhood = {
            number: statistics.fmean(
                points[other].loss for other in (number, *grid.neighbours(number)) if other in points
            )
            for number in sorted(points)
        }
        recommended = min(
            neighbourhood, key=lambda number: (neighbourhood[number], points[number].loss), default=None
        )
        return cls(neighbourhood, recommended, Flatness.of([points[number] for number in sorted(points)]))
