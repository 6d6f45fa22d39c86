"""Plots along the session: residency and distance of what is needed, memory, and seconds for what is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pace_local.eval.chart import MOST_POINTS, Level, Line, LineChart, Panel, Points, running_median, thinned
from pace_local.eval.journal import Results
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.rate_charts import places
from pace_local.eval.report_parts import errors_words, reads_words
from pace_local.eval.summary import CellSummary

Turns = Sequence[Mapping[str, Any]]

_MEMORY = {
    "kv_bytes": ("Keys, values and reference keys", "cache, bytes"),
    "host_bytes": ("Host memory", "process, bytes"),
    "device_bytes": ("Device memory", "device, bytes"),
}
_X_LABEL = "tokens of the session"


@dataclass(frozen=True)
class _Played:
    """The session of one row that is shown."""

    label: str
    place: int
    variant: int
    turns: Turns
    probes: tuple[ProbeMeasure, ...]

    def line(self, x: Sequence[float], y: Sequence[float], faint: Points = (), marked: Points = ()) -> Line:
        """With as many points as can be told apart."""
        kept = thinned(y)
        return Line(
            self.label,
            self.place,
            tuple(x[index] for index in kept),
            tuple(y[index] for index in kept),
            variant=self.variant,
            faint=faint,
            marked=marked,
        )


def session_charts(results: Results, cells: Sequence[CellSummary]) -> list[LineChart]:
    """The plots that there is something for: two for each kind of session.

    Of a row, the session with the lowest seed is shown.

    Args:
        results: with the turns.
        cells: of the whole report.
    """
    charts = []
    for number, specs in enumerate(dict.fromkeys(each.cell.specs for each in cells)):
        played = _played(results, [each for each in cells if each.cell.specs == specs], places(cells))
        charts += [*_chain(results, played, specs, number), *_cost(played, specs, number)]
    return charts


def _chain(results: Results, played: Sequence[_Played], specs: str, number: int) -> list[LineChart]:
    """Whether what is needed is resident, and how far it is."""
    residency = tuple(
        _with_probes(each, "needed_residency", 100, lambda probe: probe.residency) for each in played
    )
    distance = tuple(
        _with_probes(each, "needed_distance", 1, lambda probe: probe.farthest) for each in played
    )
    if not any(line.x or line.marked for line in (*residency, *distance)):
        return []
    farthest = max(
        (value for line in distance for value in (*line.y, *(y for _, y in line.marked))), default=0
    )
    limits = {
        "position cap": int(results.header["identity"].get("position_cap") or 0),
        "trained context": int(results.header.get("n_ctx_train") or 0),
    }
    levels = tuple(
        Level(f"{name}: {value:,}", value, dots=name == "trained context")
        for name, value in limits.items()
        if 0 < value <= 1.25 * farthest
    )
    note = "Lines: after each turn, what the plan reads. Marks: what a probe reads, when its answer begins."
    if not any(line.x for line in residency):
        note = "Marks: what a probe reads, when its answer begins. The turns of this run do not say what was."
    return [
        LineChart(
            name=f"session-{number}-chain",
            title=f"What is needed, along the session: {specs}",
            note=note,
            x_label=_X_LABEL,
            x="tokens",
            panels=(
                Panel("Residency", "resident, % of its tokens", "percent", residency),
                Panel("Distance", "farthest, positions", "positions", distance, levels),
            ),
        )
    ]


def _cost(played: Sequence[_Played], specs: str, number: int) -> list[LineChart]:
    """Memory, and seconds for what is read."""
    panels = []
    for what, (title, y_label) in _MEMORY.items():
        lines = tuple(each.line(*_points(each.turns, what)) for each in played)
        if any(value > 0 for line in lines for value in line.y):
            panels.append(Panel(title, y_label, "bytes", lines))
    seconds = tuple(map(_seconds, played))
    if any(line.x for line in seconds):
        panels.append(Panel("Time", "s for 1,000 tokens read", "seconds", seconds))
    if not panels:
        return []
    return [
        LineChart(
            name=f"session-{number}-cost",
            title=f"Memory and time, along the session: {specs}",
            note="Time: running median over turns; faint points are single turns.",
            x_label=_X_LABEL,
            x="tokens",
            panels=tuple(panels),
            columns=min(2, len(panels)),
        )
    ]


def _with_probes(
    each: _Played, what: str, scale: float, of_probe: Callable[[ProbeMeasure], float | None]
) -> Line:
    x, y = _points(each.turns, what, scale, gaps=True)
    marked = tuple(
        (float(probe.session_tokens), scale * value)
        for probe in each.probes
        if (value := of_probe(probe)) is not None
    )
    return each.line(x, y, marked=marked[:MOST_POINTS])


def _seconds(each: _Played) -> Line:
    """For 1,000 tokens, smoothed over more turns the more there are."""
    read = [turn for turn in each.turns if _number(turn.get("tokens")) > 0 and _has(turn, "seconds")]
    x = [float(turn["session_tokens"]) for turn in read]
    y = [1000 * float(turn["seconds"]) / float(turn["tokens"]) for turn in read]
    faint = tuple((x[index], y[index]) for index in thinned(y, MOST_POINTS // 2))
    return each.line(x, running_median(y, max(9, 2 * (len(y) // 40) + 1)), faint=faint)


def _points(
    turns: Turns, what: str, scale: float = 1, *, gaps: bool = False
) -> tuple[list[float], list[float]]:
    """Session tokens and a measure of each turn that has it; with ``gaps``, NaN where turns do not."""
    x, y = [], []
    for turn in turns:
        if _has(turn, what):
            x.append(float(turn["session_tokens"]))
            y.append(scale * float(turn[what]))
        elif gaps and y and not math.isnan(y[-1]):
            x.append(float(turn["session_tokens"]))
            y.append(math.nan)
    if y and math.isnan(y[-1]):
        del x[-1], y[-1]
    return x, y


def _has(turn: Mapping[str, Any], what: str) -> bool:
    return not math.isnan(_number(turn.get(what)))


def _number(value: object) -> float:
    """As a finite number; NaN if it is none."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return math.nan


def _played(results: Results, cells: Sequence[CellSummary], places: Mapping[str, int]) -> list[_Played]:
    """One session a row; a row here also has its number of reads and its errors, where they change it."""
    rows: dict[str, dict[str, list[CellSummary]]] = {}
    for each in cells:
        # Where nothing but positions lies between, there is nothing to see along the session.
        if not each.cell.is_ceiling and each.cell.apart == "work":
            rows.setdefault(each.cell.label, {}).setdefault(each.cell.stage, []).append(each)
    found = []
    for label, stages in rows.items():
        several = len({of_stage[0].cell.reads for of_stage in stages.values()}) > 1
        for variant, of_stage in enumerate(stages.values()):
            cell = of_stage[0].cell
            name = (
                label
                + (f", {reads_words(cell.reads)}" if several else "")
                + (f", {errors_words(cell)}" if cell.errors is not None else "")
            )
            turns, probes = _session(results, of_stage)
            if turns or probes:
                found.append(_Played(name, places[label], variant, turns, probes))
    return found


def _session(results: Results, of_stage: Sequence[CellSummary]) -> tuple[Turns, tuple[ProbeMeasure, ...]]:
    """Of the lowest seed that there is anything of."""
    stage = of_stage[0].cell.stage
    probes = [probe for each in of_stage for probe in each.probes]
    seeds = {seed for of, seed in results.turns if of == stage} | {probe.seed for probe in probes}
    if not seeds:
        return (), ()
    seed = min(seeds)
    turns = [turn for turn in results.turns.get((stage, seed), ()) if _has(turn, "session_tokens")]
    return turns, tuple(probe for probe in probes if probe.seed == seed)
