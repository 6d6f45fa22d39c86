"""The numbers of a plot as a table, for those who do not see it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pace_local.eval.chart import BarChart, Chart, Line, LineChart, Panel, Quantity
from pace_local.eval.measures import Share
from pace_local.models.progress import format_bytes

Table = tuple[list[str], list[list[str]]]
"""Head and rows."""


def numbers(chart: Chart) -> Table:
    """What the bars and points say; of lines along the session, their ends and limits."""
    if isinstance(chart, BarChart):
        head = ["", *(f"{what}: {group}" for what, _ in chart.panels for group in chart.groups)]
        return head, [
            [row, *(_share(shares.get((row, group))) for _, shares in chart.panels for group in chart.groups)]
            for row in chart.rows
        ]
    if chart.ticks:
        head = ["", "row", *(_said(tick, chart.x) for tick in chart.ticks)]
        return head, [row for panel in chart.panels for row in _measured(chart, panel)]
    head = ["", "row", "points", "first", "last", "least", "greatest"]
    return head, [row for panel in chart.panels for row in _along(panel)]


def _measured(chart: LineChart, panel: Panel) -> Iterator[list[str]]:
    for line in panel.lines:
        shares = dict(zip(line.x, line.shares, strict=True))
        yield [_name(panel), line.label, *(_share(shares.get(tick)) for tick in chart.ticks)]
    for level in panel.levels:
        yield [_name(panel), level.label, *(_said(level.value, panel.y) for _ in chart.ticks)]


def _along(panel: Panel) -> Iterator[list[str]]:
    for line in panel.lines:
        for kind, values in (("", _known(line)), (", probes", [y for _, y in line.marked])):
            if values:
                ends = (values[0], values[-1], min(values), max(values))
                said = (_said(value, panel.y) for value in ends)
                yield [_name(panel), line.label + kind, f"{len(values)}", *said]
    for level in panel.levels:
        yield [_name(panel), level.label, "", "", "", "", ""]


def _known(line: Line) -> list[float]:
    return [value for value in line.y if not math.isnan(value)]


def _name(panel: Panel) -> str:
    return f"{panel.title}: {panel.y_label}" if panel.title else panel.y_label


def _share(share: Share | None) -> str:
    if share is None:
        return ""
    low, high = share.interval
    return f"{share.passed}/{share.total} ({100 * low:.0f}–{100 * high:.0f} %)"


def _said(value: float, quantity: Quantity) -> str:
    if quantity == "bytes":
        return format_bytes(value)
    if quantity == "percent":
        return f"{value:.0f} %"
    return f"{value:.1f}" if quantity == "seconds" else f"{value:,.0f}"
