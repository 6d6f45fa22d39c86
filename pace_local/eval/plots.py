"""Draws charts: lines with their intervals, and bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from pace_local.eval.chart import BarChart, Chart, Line, LineChart, Panel
from pace_local.eval.measures import Share
from pace_local.eval.plot_style import INK, PALETTE, axis_format, drawable, level_look, look, style

_WIDTH = 7.6
"""Inches, as all lengths here."""
_APART = 0.055
"""Between the names of two ticks, as a share of the width."""
_WIDE_RANGE = 15
"""Values that are farther apart than so many times need a logarithmic axis."""


def draw(chart: Chart) -> Figure:
    """A chart as a figure, whose artists hold the chart's numbers."""
    with style():
        return _draw_bars(chart) if isinstance(chart, BarChart) else _draw_lines(chart)


def _draw_lines(chart: LineChart) -> Figure:
    rows = -(-len(chart.panels) // chart.columns)
    figure = Figure(layout="constrained")
    grid = figure.subplots(rows, chart.columns, squeeze=False, sharex=True)
    axes: list[Axes] = list(grid.flat)
    for number, (panel, ax) in enumerate(zip(chart.panels, axes, strict=False)):
        _draw_panel(panel, ax)
        if number + chart.columns >= len(chart.panels):
            ax.set_xlabel(chart.x_label)
            ax.tick_params(labelbottom=True)
    for ax in axes[len(chart.panels) :]:
        ax.remove()
    _scale_x(chart, axes[0])
    legend = _legend(figure, _keys(chart))
    figure.set_size_inches(_WIDTH, 2.15 * rows + 0.5 + legend)
    return figure


def _draw_panel(panel: Panel, ax: Axes) -> None:
    if panel.title:
        ax.set_title(panel.title)
    ax.set_ylabel(panel.y_label)
    for number, line in enumerate(panel.lines):
        shown = look(line)
        if line.shares:
            aside = ScaledTranslation((number - (len(panel.lines) - 1) / 2) * 3 / 72, 0, _inches(ax))
            ax.errorbar(
                line.x,
                line.y,
                yerr=_whiskers(line.shares),
                transform=ax.transData + aside,
                elinewidth=0.9,
                capsize=2,
                **shown,
            )
            continue
        if line.faint:
            x, y = zip(*line.faint, strict=True)
            ax.plot(x, y, "o", color=shown["color"], alpha=0.3, markersize=2, markeredgewidth=0)
        ax.plot(line.x, line.y, **{**shown, "marker": ""})
        if line.marked:
            x, y = zip(*line.marked, strict=True)
            ax.plot(x, y, **{**shown, "linestyle": ""}, alpha=0.7)
    for level in panel.levels:
        ax.axhline(level.value, **level_look(level))
    for mark in panel.marks:
        ax.axvline(mark.value, **level_look(mark))
    _scale_y(panel, ax)


def _draw_bars(chart: BarChart) -> Figure:
    figure = Figure(layout="constrained")
    grid = figure.subplots(1, len(chart.panels), squeeze=False, sharey=True)
    thick = 0.8 / len(chart.groups)
    for ax, (title, shares) in zip(grid.flat, chart.panels, strict=True):
        for number, group in enumerate(chart.groups):
            found = [
                (place + (number - (len(chart.groups) - 1) / 2) * thick, shares[row, group])
                for place, row in enumerate(chart.rows)
                if (row, group) in shares
            ]
            ax.barh(
                [y for y, _ in found],
                [100 * share.rate for _, share in found],
                thick * 0.92,
                xerr=_whiskers([share for _, share in found]),
                color=PALETTE[number % len(PALETTE)],
                alpha=0.75,
                error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 1.5},
            )
        ax.set_title(title)
        ax.set_xlim(0, 102)
        ax.xaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
        ax.grid(visible=False, axis="y")
    first: Axes = grid[0][0]
    first.yaxis.set_major_locator(FixedLocator(range(len(chart.rows))))
    first.set_yticks(range(len(chart.rows)), [drawable(row) for row in chart.rows])
    first.set_ylim(len(chart.rows) - 0.45, -0.55)
    keys = [Patch(color=PALETTE[number % len(PALETTE)], alpha=0.75) for number in range(len(chart.groups))]
    legend = _legend(figure, dict(zip(chart.groups, keys, strict=True))) if len(chart.groups) > 1 else 0.0
    figure.set_size_inches(_WIDTH, 0.6 + legend + len(chart.rows) * max(0.24, 0.13 * len(chart.groups)))
    return figure


def _whiskers(shares: Sequence[Share]) -> list[list[float]]:
    """Lengths of the interval below and above each share, in percent."""
    ends = [share.interval for share in shares]
    return [
        [100 * max(0.0, share.rate - low) for share, (low, _) in zip(shares, ends, strict=True)],
        [100 * max(0.0, high - share.rate) for share, (_, high) in zip(shares, ends, strict=True)],
    ]


def _keys(chart: LineChart) -> dict[str, Line2D]:
    """What a legend needs, each once."""
    lines = {line.label: look(line) for panel in chart.panels for line in panel.lines}
    levels = {
        level.label: level_look(level) for panel in chart.panels for level in (*panel.levels, *panel.marks)
    }
    return {label: Line2D([], [], **look) for label, look in (lines | levels).items()}


def _legend(figure: Figure, keys: dict[str, Any]) -> float:
    """Below the axes, so that it hides nothing; its height."""
    longest = max(map(len, keys), default=0)
    columns = max(1, min(len(keys), 110 // (longest + 7)))
    labels = [drawable(label) for label in keys]
    figure.legend(list(keys.values()), labels, loc="outside lower center", ncols=columns, handlelength=3.2)
    return 0.18 * -(-len(keys) // columns)


def _scale_x(chart: LineChart, ax: Axes) -> None:
    """All panels follow: they share x."""
    if chart.ticks:
        first, last = chart.ticks[0], chart.ticks[-1]
        least = min(tick for tick in chart.ticks if tick > 0)
        if chart.x == "tokens" and last / least > _WIDE_RANGE:
            ax.set_xscale("symlog", linthresh=least, linscale=0.5)
            ax.set_xlim(first - 0.3 * least if first < least else first / 1.2, last * 1.2)
        else:
            ax.set_xlim(first - 0.06 * (last - first), last + 0.06 * (last - first))
        ax.xaxis.set_major_locator(FixedLocator(chart.ticks))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(_spaced(chart, ax))
    else:
        ends = [x for panel in chart.panels for line in panel.lines for x in _drawn_x(line)]
        ax.set_xlim(0, 1.03 * max(ends, default=1))
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.xaxis.set_major_formatter(axis_format(chart.x))


def _spaced(chart: LineChart, ax: Axes) -> FuncFormatter:
    """Names ticks from the last to the first, but for those too near to one that is named."""
    places = ax.transAxes.inverted().transform(ax.transData.transform([(tick, 0) for tick in chart.ticks]))
    named: dict[float, float] = {}
    for tick, place in reversed(list(zip(chart.ticks, places[:, 0], strict=True))):
        if all(abs(place - other) >= _APART * chart.columns for other in named.values()):
            named[tick] = place
    words = axis_format(chart.x)
    return FuncFormatter(lambda value, place: words(value, place) if value in named else "")


def _drawn_x(line: Line) -> tuple[float, ...]:
    return *line.x, *(x for x, _ in (*line.faint, *line.marked))


def _scale_y(panel: Panel, ax: Axes) -> None:
    drawn = [y for line in panel.lines for y in (*line.y, *(y for _, y in (*line.faint, *line.marked)))]
    positive = [y for y in (*drawn, *(level.value for level in panel.levels)) if y > 0]
    if panel.y == "percent":
        ax.set_ylim(-4, 104)
        ax.yaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
    elif panel.y != "bytes" and positive and max(positive) / min(positive) > _WIDE_RANGE:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_minor_locator(NullLocator())
    else:
        ax.set_ylim(0, 1.15 * max(positive, default=1))
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(axis_format(panel.y))


def _inches(ax: Axes) -> Any:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure.dpi_scale_trans
