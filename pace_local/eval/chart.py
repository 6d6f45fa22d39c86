"""What a plot shows, before anything is drawn: lines and bars with their numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pace_local.eval.measures import Share

Quantity = Literal["percent", "tokens", "positions", "bytes", "seconds"]

MOST_POINTS = 400
"""Of one line: more could not be told apart at the size of a plot."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Line:
    """One line of a panel; a ``y`` of NaN interrupts it."""

    label: str
    place: int
    """Of its row in the whole report, so that a row has one colour in all plots."""
    x: tuple[float, ...]
    y: tuple[float, ...]
    shares: tuple[Share, ...] = ()
    """What each ``y`` is a percentage of; empty if it is none."""
    variant: int = 0
    """Which of the lines of one row it is."""
    faint: Points = ()
    """What the line was smoothed from."""
    marked: Points = ()
    """The probes at its end."""


@dataclass(frozen=True)
class Level:
    """A value that lines are compared with: drawn across the panel, and named in the legend."""

    label: str
    value: float
    dots: bool = False
    """Dotted instead of dashed."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    y_label: str
    y: Quantity
    lines: tuple[Line, ...]
    levels: tuple[Level, ...] = ()
    """Along x."""
    marks: tuple[Level, ...] = ()
    """Along y."""


@dataclass(frozen=True)
class LineChart:
    """Panels that have x in common."""

    name: str
    """Without spaces, unlike that of any other plot in a page."""
    title: str
    note: str
    x_label: str
    x: Quantity
    panels: tuple[Panel, ...]
    columns: int = 1
    ticks: tuple[float, ...] = ()
    """Where x was measured; empty if along the way."""


@dataclass(frozen=True)
class BarChart:
    """Shares of several kinds, by row and group."""

    name: str
    title: str
    note: str
    rows: tuple[str, ...]
    groups: tuple[str, ...]
    panels: tuple[tuple[str, dict[tuple[str, str], Share]], ...]
    """Of each kind its title, and row and group -> share; what was not measured is left out."""


Chart = LineChart | BarChart


def percent(share: Share) -> float:
    """0 to 100."""
    return 100 * share.rate


def thinned(y: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """Which points of a long line to draw: its ends, and of each stretch the least and the greatest.

    Returns:
        Indices in order, at most ``most`` (which is 4 or more); all of them if there are no more.
    """
    assert most >= 4
    if len(y) <= most:
        return list(range(len(y)))
    stretches = (most - 2) // 2
    inner = len(y) - 2
    kept = {0, len(y) - 1}
    for number in range(stretches):
        first, end = 1 + number * inner // stretches, 1 + (number + 1) * inner // stretches
        known = [index for index in range(first, end) if not math.isnan(y[index])] or [first]
        kept |= {min(known, key=lambda index: y[index]), max(known, key=lambda index: y[index])}
    return sorted(kept)


def running_median(values: Sequence[float], window: int) -> list[float]:
    """Median of each value and its neighbours, ``window`` (odd) in all; fewer at the ends."""
    assert window % 2 == 1
    half = window // 2
    return [
        statistics.median(values[max(0, index - half) : index + half + 1]) for index in range(len(values))
    ]
