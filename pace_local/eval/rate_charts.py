"""Plots of what was passed: against the gap, against errors of the plan, and by row and number of reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from pace_local.eval.cells import NO_PLAN, Cell
from pace_local.eval.chart import BarChart, Chart, Level, Line, LineChart, Panel, percent
from pace_local.eval.measures import Share
from pace_local.eval.report_parts import errors_words, reads_words
from pace_local.eval.summary import CellSummary

K = TypeVar("K", bound=Hashable)

_SHARES: dict[str, Callable[[CellSummary], Share]] = {
    "checks passed": lambda each: each.checks,
    "facts recalled": lambda each: each.facts,
    "tasks passed": lambda each: each.tasks,
}
_ALONG = ("checks passed", "facts recalled")
_APART = {"work": "other work between", "positions": "positions alone between"}
_NOTE = "Bars: Wilson's 95 % interval. "
_AT_NO_PLAN = f"At {NO_PLAN} % there is no plan at all. "
_ASIDE = "Points are moved aside a little, so that none hides another."


def rate_charts(cells: Sequence[CellSummary], n_ctx_train: int) -> list[Chart]:
    """The plots that there is something for.

    Args:
        cells: of the whole report.
        n_ctx_train: farthest distance that the model was trained for; 0: unknown.
    """
    lines: list[Chart] = []
    drawn: set[Cell] = set()
    measured = [each for each in cells if each.probes and not each.cell.is_ceiling]
    gapped = [each for each in measured if each.cell.gap is not None]
    for group in _grouped(gapped, lambda each: (each.cell.specs, each.cell.reads, each.cell.errors)).values():
        if len({each.cell.gap for each in group}) > 1:
            lines.append(_against_gap(group, cells, n_ctx_train, len(lines)))
            drawn |= {each.cell for each in group}
    wrong = [each for each in measured if each.cell.errors is not None]
    for group in _grouped(
        wrong, lambda each: (each.cell.specs, each.cell.reads, each.cell.gap, each.cell.apart)
    ).values():
        if len({each.cell.errors for each in group}) > 1:
            lines.append(_against_errors(group, cells, len(lines)))
            drawn |= {each.cell for each in group}
    left = [each for each in cells if each.probes and each.cell not in drawn]
    for specs, group in _grouped(left, lambda each: each.cell.specs).items():
        only_ceilings = all(each.cell.is_ceiling for each in group)
        if not (only_ceilings and any(cell.specs == specs for cell in drawn)):
            lines.append(_bars(specs, group, len(lines)))
    return lines


def places(cells: Iterable[CellSummary]) -> dict[str, int]:
    """Label of a row -> its place among all rows but the ceilings."""
    labels = dict.fromkeys(each.cell.label for each in cells if not each.cell.is_ceiling)
    return {label: place for place, label in enumerate(labels)}


def _against_gap(
    group: Sequence[CellSummary], cells: Sequence[CellSummary], n_ctx_train: int, number: int
) -> LineChart:
    first = group[0].cell
    farthest = max(each.cell.gap or 0 for each in group)
    trained = Level(f"trained context: {n_ctx_train:,}", n_ctx_train, dots=True)
    shown = 0 < n_ctx_train <= 1.25 * farthest
    beyond = (
        f"The trained context, {n_ctx_train:,}, is farther than any gap here. "
        if n_ctx_train and not shown
        else ""
    )
    return LineChart(
        name=f"rate-{number}-gap",
        title=f"Pass rate against gap: {first.specs}, {reads_words(first.reads)}{_and(errors_words(first))}",
        note=_NOTE + beyond + _ASIDE,
        x_label="gap between what is told and its use, tokens",
        x="tokens",
        panels=_panels(group, cells, _gap, (trained,) if shown else (), _APART),
        columns=len({each.cell.apart for each in group}),
        ticks=_ticks(group, _gap),
    )


def _against_errors(group: Sequence[CellSummary], cells: Sequence[CellSummary], number: int) -> LineChart:
    first = group[0].cell
    gap = "" if first.gap is None else f", gap {first.gap:,}"
    no_plan = any(each.cell.errors == NO_PLAN for each in group)
    return LineChart(
        name=f"rate-{number}-errors",
        title=f"Pass rate against errors of the plan: {first.specs}, {reads_words(first.reads)}{gap}",
        note=_NOTE + (_AT_NO_PLAN if no_plan else "") + _ASIDE,
        x_label="reads in the plan that are wrong, missing or a step late, %",
        x="percent",
        panels=_panels(group, cells, _errors),
        ticks=_ticks(group, _errors),
    )


def _panels(
    group: Sequence[CellSummary],
    cells: Sequence[CellSummary],
    x: Callable[[CellSummary], float],
    marks: tuple[Level, ...] = (),
    titles: Mapping[str, str] | None = None,
) -> tuple[Panel, ...]:
    """A row of them for each kind of share, a column for each kind of gap, which ``titles`` names."""
    place = places(cells)
    kinds = _grouped(group, lambda each: each.cell.apart)
    panels = []
    for number, what in enumerate(_ALONG):
        share = _SHARES[what]
        for apart, of_kind in kinds.items():
            rows = _grouped(of_kind, lambda each: each.cell.label)
            panels.append(
                Panel(
                    title=titles[apart] if titles and number == 0 else "",
                    y_label=f"{what}, %",
                    y="percent",
                    lines=tuple(_line(label, place[label], row, x, share) for label, row in rows.items()),
                    levels=_ceiling(group[0].cell, cells, share),
                    marks=marks,
                )
            )
    return tuple(panels)


def _gap(each: CellSummary) -> float:
    return float(each.cell.gap or 0)


def _errors(each: CellSummary) -> float:
    return float(each.cell.errors or 0)


def _ticks(group: Sequence[CellSummary], x: Callable[[CellSummary], float]) -> tuple[float, ...]:
    return tuple(sorted(set(map(x, group))))


def _line(
    label: str,
    place: int,
    row: Sequence[CellSummary],
    x: Callable[[CellSummary], float],
    share: Callable[[CellSummary], Share],
) -> Line:
    ordered = sorted(row, key=x)
    shares = tuple(map(share, ordered))
    return Line(label, place, tuple(map(x, ordered)), tuple(map(percent, shares)), shares)


def _ceiling(
    cell: Cell, cells: Sequence[CellSummary], share: Callable[[CellSummary], Share]
) -> tuple[Level, ...]:
    found = [each for each in cells if each.cell.is_ceiling and each.probes]
    of_cell = [each for each in found if (each.cell.specs, each.cell.reads) == (cell.specs, cell.reads)]
    total = reduce(Share.__add__, map(share, of_cell), Share(0, 0))
    return (Level("ceiling: nothing between", percent(total)),) if total.total else ()


def _bars(specs: str, group: Sequence[CellSummary], number: int) -> BarChart:
    groups = {each.cell.reads: reads_words(each.cell.reads) for each in group}
    groups = dict(sorted(groups.items()))
    return BarChart(
        name=f"rate-{number}-bars",
        title=f"Pass rate by row: {specs}",
        note="Lines at the ends of bars: Wilson's 95 % interval.",
        rows=tuple(dict.fromkeys(_row(each.cell) for each in group)),
        groups=tuple(groups.values()),
        panels=tuple(
            (f"{what}, %", {(_row(each.cell), groups[each.cell.reads]): share(each) for each in group})
            for what, share in _SHARES.items()
        ),
    )


def _row(cell: Cell) -> str:
    gap = "" if cell.gap is None else f", gap {cell.gap:,}"
    return f"{cell.label}{gap}{_and(errors_words(cell))}"


def _grouped(cells: Iterable[CellSummary], key: Callable[[CellSummary], K]) -> Mapping[K, list[CellSummary]]:
    """In order of first appearance."""
    found: dict[K, list[CellSummary]] = {}
    for each in cells:
        found.setdefault(key(each), []).append(each)
    return found


def _and(words: str) -> str:
    return f", {words}" if words else ""
