"""How plots look: colours, markers, dashes and numbers, the same for a row in every plot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import matplotlib
from matplotlib.ticker import FuncFormatter

from pace_local.eval.chart import Level, Line, Quantity
from pace_local.eval.page import visible
from pace_local.models.progress import format_bytes

INK = "#5b5b5c"
"""Of text and axes; in SVG it becomes the page's own colour of text."""

PALETTE = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#8a6d3b", "#882255", "#6a51c4"),
)
"""Told apart by eyes that see fewer colours: the first six from M. Okabe and K. Ito, Color Universal Design,
2008. In SVG each is a variable of the page, ``--c0`` and on, which may be darker or lighter."""

_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LONGEST = 48
"""Letters of a label."""
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, and found by a search
    "svg.hashsalt": "pace",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.18,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our settings and none of the user's, who may have others for plots of their own."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def look(line: Line) -> dict[str, Any]:
    """A colour for the row; marker and dashes for the line."""
    number = line.place + line.variant
    return {
        "color": PALETTE[line.place % len(PALETTE)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "label": drawable(line.label),
    }


def level_look(level: Level) -> dict[str, Any]:
    dashes = (0, (1, 2)) if level.dots else (0, (8, 3))
    return {"color": INK, "linewidth": 1.1, "linestyle": dashes, "label": drawable(level.label)}


def axis_format(quantity: Quantity) -> FuncFormatter:
    def short(value: float, _place: int | None = None) -> str:
        if quantity == "bytes":
            return format_bytes(value)
        for size, letter in ((1e6, "M"), (1e3, "K")):
            if abs(value) >= size and quantity != "percent":
                return f"{value / size:.3g}{letter}"
        return f"{value:.3g}"

    return FuncFormatter(short)


def drawable(label: str) -> str:
    """What the measuring font has and a plot has room for; a leading underscore would hide a label."""
    text = visible(label).replace("\n", " ").encode("latin-1", "replace").decode("latin-1").lstrip("_")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
