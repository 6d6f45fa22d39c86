"""What is drawn comes from the results, is thinned without losing its extremes, and is the same each time."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from eval_lines import CEILING, TRAINED, probe_line, run_line, turn_line
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from test_eval_measures import read

from pace_local.eval.cells import NO_PLAN, Cell
from pace_local.eval.chart import BarChart, Chart, LineChart, running_median, thinned
from pace_local.eval.chart_numbers import numbers
from pace_local.eval.inline_svg import inline_svg
from pace_local.eval.journal import Results
from pace_local.eval.measures import wilson
from pace_local.eval.plot_style import INK, PALETTE
from pace_local.eval.plots import draw
from pace_local.eval.rate_charts import rate_charts
from pace_local.eval.session_charts import session_charts
from pace_local.eval.summary import summarise

GAPS = (0, 2000, 60_000)
PACE = [Cell("alike", "pace", None, 1, gap) for gap in GAPS]
PLAN = [Cell("alike", "plan", None, 1, gap) for gap in GAPS]
MOVED = [Cell("alike", "none", None, 1, gap, "positions") for gap in GAPS]
PASSED = {"ceiling": (5, 4), "pace": (5, 4, 4), "plan": (5, 2, 0), "none": (5, 5, 1)}


def gap_lines() -> list[dict[str, Any]]:
    lines = [run_line([CEILING, *PACE, *PLAN, *MOVED])]
    lines += [probe_line(CEILING, number, passed) for number, passed in enumerate(PASSED["ceiling"], 1)]
    for cell in (*PACE, *PLAN, *MOVED):
        passed = PASSED[cell.policy][GAPS.index(cell.gap or 0)]
        lines.append(
            probe_line(cell, 1, passed, 3 if passed > 2 else 1, session_tokens=900 + (cell.gap or 0))
        )
    return lines


def charts_of(lines: list[dict[str, Any]]) -> dict[str, Chart]:
    results = Results(lines)
    cells = summarise(results)
    return {chart.name: chart for chart in (*rate_charts(cells, TRAINED), *session_charts(results, cells))}


def line_chart(lines: list[dict[str, Any]], name: str) -> LineChart:
    chart = charts_of(lines)[name]
    assert isinstance(chart, LineChart)
    return chart


def drawn_lines(ax: Axes) -> dict[str, tuple[list[float], list[float], list[float], list[float]]]:
    """Label -> x, y, and both ends of the intervals, as the artists have them."""
    found = {}
    for container in ax.containers:
        assert isinstance(container, ErrorbarContainer)
        line, _, (bars,) = container.lines
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        assert line is not None
        found[str(container.get_label())] = (
            list(map(float, line.get_xdata())),  # type: ignore[arg-type]
            list(map(float, line.get_ydata())),  # type: ignore[arg-type]
            ends[:, 0].tolist(),
            ends[:, 1].tolist(),
        )
    return found


def levels(ax: Axes, *, upright: bool = False) -> list[float]:
    """Values of the lines in the colour of the axes, which go from end to end."""
    inked = [line for line in ax.lines if line.get_color() == INK]
    data = [line.get_xdata() if upright else line.get_ydata() for line in inked]
    return [float(first) for first, last in data if first == last]  # type: ignore[misc]


def by_title(figure: Figure) -> dict[str, Axes]:
    return {ax.get_title() or ax.get_ylabel(): ax for ax in figure.axes}


def test_the_pass_rate_stands_against_the_gap_beside_ceiling_and_trained_context() -> None:
    chart = line_chart(gap_lines(), "rate-0-gap")
    figure = draw(chart)
    work, positions, facts, _ = figure.axes
    assert (work.get_title(), positions.get_title()) == ("other work between", "positions alone between")
    assert (work.get_ylabel(), facts.get_ylabel()) == ("checks passed, %", "facts recalled, %")
    assert "tokens" in facts.get_xlabel()
    found = drawn_lines(work)
    assert list(found) == ["pace", "plan"]
    x, y, low, high = found["plan"]
    assert (x, y) == ([0, 2000, 60_000], pytest.approx([100, 40, 0]))
    assert low == pytest.approx([100 * wilson(passed, 5)[0] for passed in (5, 2, 0)])
    assert high == pytest.approx([100 * wilson(passed, 5)[1] for passed in (5, 2, 0)])
    assert drawn_lines(positions)["positions alone"][1] == pytest.approx([100, 100, 20])
    assert drawn_lines(facts)["plan"][1] == pytest.approx([100, 100 / 3, 100 / 3])
    for ax in (work, positions):
        assert levels(ax) == [pytest.approx(90)]
        assert levels(ax, upright=True) == [TRAINED]
        assert ax.get_ylim()[0] <= 0 < 100 <= ax.get_ylim()[1]
        assert ax.get_xscale() == "symlog"
        low_x, high_x = ax.get_xlim()
        assert low_x < 0 < 60_000 < high_x
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    named = ["pace", "plan", "positions alone"]
    assert legend == [*named, "ceiling: nothing between", "trained context: 32,768"]


def test_a_trained_context_beyond_all_gaps_is_said_rather_than_drawn() -> None:
    chart = rate_charts(summarise(Results(gap_lines())), 1_000_000)[0]
    assert "1,000,000, is farther than any gap" in chart.note
    assert not any(levels(ax, upright=True) for ax in draw(chart).axes)


def test_one_gap_makes_bars() -> None:
    cells = [CEILING, PACE[1], MOVED[1]]
    lines = [run_line(cells), *(probe_line(cell, 1, 4) for cell in cells)]
    chart = charts_of(lines)["rate-0-bars"]
    assert isinstance(chart, BarChart)
    assert chart.rows == ("ceiling", "pace, gap 2,000", "positions alone, gap 2,000")


def test_the_pass_rate_stands_against_errors_of_the_plan() -> None:
    cells = [Cell("alike", "pace", None, 1, errors=errors) for errors in (25, 0, NO_PLAN)]
    lines = [run_line([CEILING, *cells]), probe_line(CEILING, 1, 5)]
    lines += [probe_line(cell, 1, passed) for cell, passed in zip(cells, (4, 5, 2), strict=True)]
    chart = line_chart(lines, "rate-0-errors")
    assert "no plan" in chart.note
    figure = draw(chart)
    ax = figure.axes[0]
    assert drawn_lines(ax)["pace"][:2] == ([0, 25, 100], pytest.approx([100, 80, 40]))
    assert levels(ax) == [100]
    assert ax.get_xscale() == "linear"
    assert "%" in figure.axes[-1].get_xlabel()


def test_bars_show_each_row_by_number_of_reads() -> None:
    cells = [Cell("alike", policy, None, reads) for policy in ("ceiling", "pace") for reads in (2, 1)]
    passed = dict(zip(cells, (5, 4, 1, 3), strict=True))
    chart = charts_of([run_line(cells), *(probe_line(cell, 1, passed[cell]) for cell in cells)])[
        "rate-0-bars"
    ]
    assert isinstance(chart, BarChart)
    figure = draw(chart)
    assert [ax.get_title() for ax in figure.axes] == [
        "checks passed, %",
        "facts recalled, %",
        "tasks passed, %",
    ]
    one, two = ([bar.get_width() for bar in found.patches] for found in figure.axes[0].containers[1::2])
    assert (one, two) == (pytest.approx([80, 60]), pytest.approx([100, 20]))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["ceiling", "pace"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["1 read a probe", "2 reads a probe"]


def session_lines(cell: Cell, **changes: Any) -> list[dict[str, Any]]:
    """Turns of 100 tokens: the first before anything is needed, then ever less resident and farther."""
    turns = [
        turn_line(
            cell,
            number,
            100 * number,
            needed_residency=None if number == 1 else 1 - number / 10,
            needed_distance=None if number == 1 else 200 * number,
            seconds=float(number),
            host_bytes=10**9 + number,
            **changes,
        )
        for number in range(1, 6)
    ]
    asked = (read(50, 1500),)
    return [*turns, probe_line(cell, 1, 5, session_tokens=600, reads=asked)]


def test_residency_and_distance_stand_along_the_session_with_the_probes_at_its_end() -> None:
    cell = Cell("alike", "plan", None, 1)
    lines = [run_line([CEILING, cell], n_ctx_train=1200), *session_lines(cell)]
    figure = draw(line_chart(lines, "session-0-chain"))
    residency, distance = figure.axes
    line, marks = residency.lines
    assert list(line.get_xdata()) == [200, 300, 400, 500]  # type: ignore[arg-type]
    assert list(line.get_ydata()) == pytest.approx([80, 70, 60, 50])  # type: ignore[arg-type]
    assert marks.get_xydata().tolist() == [[600, 50]]  # type: ignore[union-attr]
    assert list(distance.lines[0].get_ydata()) == [400, 600, 800, 1000]  # type: ignore[arg-type]
    assert distance.lines[1].get_xydata().tolist() == [[600, 1500]]  # type: ignore[union-attr]
    assert levels(distance) == [1200]
    assert distance.get_xlabel() == "tokens of the session"
    assert distance.get_xlim()[0] == 0
    assert distance.get_xlim()[1] > 600


def test_a_far_position_makes_the_axis_logarithmic() -> None:
    cell = Cell("alike", "plan", None, 1)
    far = turn_line(cell, 6, 90_000, needed_residency=1.0, needed_distance=89_000)
    lines = [run_line([CEILING, cell]), *session_lines(cell), far]
    distance = draw(line_chart(lines, "session-0-chain")).axes[1]
    assert distance.get_yscale() == "log"
    assert levels(distance) == [8192, TRAINED]


def test_memory_and_seconds_stand_along_the_session() -> None:
    cell = Cell("alike", "plan", None, 1)
    lines = [run_line([cell]), *session_lines(cell, device_bytes=7 * 10**8)]
    found = by_title(draw(line_chart(lines, "session-0-cost")))
    assert list(found) == ["Keys, values and reference keys", "Host memory", "Device memory", "Time"]
    assert list(found["Host memory"].lines[0].get_ydata()) == [10**9 + n for n in range(1, 6)]  # type: ignore[arg-type]
    assert set(found["Device memory"].lines[0].get_ydata()) == {7 * 10**8}  # type: ignore[arg-type]
    faint, median = found["Time"].lines
    assert list(faint.get_ydata()) == [10, 20, 30, 40, 50]  # type: ignore[arg-type]
    assert list(median.get_ydata()) == running_median([10, 20, 30, 40, 50], 9)  # type: ignore[arg-type]
    assert faint.get_alpha() < 0.5  # type: ignore[operator]
    assert "Device memory" not in by_title(
        draw(line_chart([lines[0], *session_lines(cell)], "session-0-cost"))
    )


def test_turns_without_the_newer_fields_leave_the_probes() -> None:
    cell = Cell("alike", "plan", None, 1)
    old = [turn_line(cell, 1, 100), probe_line(cell, 1, 5)]
    chart = line_chart([run_line([cell]), *old], "session-0-chain")
    assert "do not say" in chart.note
    assert [len(line.x) for panel in chart.panels for line in panel.lines] == [0, 0]
    assert [len(line.marked) for panel in chart.panels for line in panel.lines] == [1, 1]
    bare = [{"type": "turn", "run": "one", "stage": cell.stage, "seed": 1, "number": 1, "kv_bytes": 5}]
    assert list(charts_of([run_line([cell]), *bare])) == []
    broken = turn_line(cell, 1, 100, seconds=math.nan, needed_residency="x", host_bytes=math.inf)
    assert [p.title for p in line_chart([run_line([cell]), broken], "session-0-cost").panels] == [
        "Keys, values and reference keys"
    ]


def test_a_line_is_interrupted_where_nothing_was_needed() -> None:
    cell = Cell("alike", "plan", None, 1)
    needed = (0.5, None, None, 0.25, None)
    lines = [turn_line(cell, n, n, needed_residency=share) for n, share in enumerate(needed, 1)]
    line = line_chart([run_line([cell]), *lines], "session-0-chain").panels[0].lines[0]
    assert line.x == (1, 2, 4)
    assert (line.y[0], line.y[2]) == (50, 25)
    assert math.isnan(line.y[1])


def test_rows_of_one_policy_differ_in_name_and_marks_but_not_in_colour() -> None:
    cells = [Cell("alike", "pace", None, reads) for reads in (1, 2)]
    lines = [run_line(cells), *(probe_line(cell, 1, 5) for cell in cells)]
    first, second = line_chart(lines, "session-0-chain").panels[0].lines
    assert (first.label, second.label) == ("pace, 1 read a probe", "pace, 2 reads a probe")
    marks = [line for line in draw(line_chart(lines, "session-0-chain")).axes[0].lines if line.get_marker()]
    assert len({line.get_color() for line in marks}) == 1
    assert len({line.get_marker() for line in marks if len(line.get_xdata())}) == 2  # type: ignore[arg-type]


def test_up_to_nine_rows_have_a_colour_each() -> None:
    assert len(set(PALETTE)) >= 9


def test_thinning_keeps_ends_and_extremes() -> None:
    values = [math.sin(number / 50) for number in range(10_000)]
    values[1234], values[8000] = 9.0, -9.0
    kept = thinned(values, 400)
    assert len(kept) <= 400
    assert kept == sorted(set(kept))
    assert {0, 1234, 8000, 9999} <= set(kept)
    assert max(itertools.starmap(lambda a, b: b - a, itertools.pairwise(kept))) < 110
    assert thinned(values[:400], 400) == list(range(400))
    assert len(thinned([math.nan] * 1000, 100)) <= 100
    partly = [math.nan if number % 3 else float(number) for number in range(3000)]
    assert max(partly[index] for index in thinned(partly, 50) if not math.isnan(partly[index])) == 2997


def test_a_long_session_is_thinned() -> None:
    cell = Cell("alike", "plan", None, 1)
    turns = [turn_line(cell, n, 100 * n, host_bytes=10**9 + (n == 777)) for n in range(1, 3001)]
    for panel in line_chart([run_line([cell]), *turns], "session-0-cost").panels:
        (line,) = panel.lines
        assert len(line.x) <= 400
        assert len(line.faint) <= 400
        assert (line.x[0], line.x[-1]) == (100, 300_000)
        if panel.title == "Host memory":
            assert max(line.y) == 10**9 + 1


def test_the_running_median_takes_neighbours_on_both_sides() -> None:
    assert running_median([1, 9, 2, 8, 3], 3) == [5, 2, 8, 3, 5.5]
    assert running_median([], 9) == []
    assert running_median([4], 9) == [4]


def test_the_numbers_of_a_plot_are_a_table() -> None:
    head, rows = numbers(line_chart(gap_lines(), "rate-0-gap"))
    assert head == ["", "row", "0", "2,000", "60,000"]
    assert [
        "other work between: checks passed, %",
        "plan",
        "5/5 (57–100 %)",
        "2/5 (12–77 %)",
        "0/5 (0–43 %)",
    ] in rows
    cell = Cell("alike", "plan", None, 1)
    lines = [run_line([cell]), *session_lines(cell)]
    _, rows = numbers(line_chart(lines, "session-0-chain"))
    assert ["Distance: farthest, positions", "plan", "4", "400", "1,000", "400", "1,000"] in rows
    assert ["Residency: resident, % of its tokens", "plan, probes", "1", *["50 %"] * 4] in rows
    head, rows = numbers(charts_of(lines)["rate-0-bars"])
    assert head[1] == "checks passed, %: 1 read a probe"
    assert rows == [["plan", "5/5 (57–100 %)", "3/3 (44–100 %)", "1/1 (21–100 %)"]]


def test_the_svg_stands_for_itself_and_takes_the_colours_of_the_page() -> None:
    for chart in charts_of(gap_lines()).values():
        svg = inline_svg(chart)
        assert re.match(r'<svg viewBox="[\d. ]+">', svg)
        assert svg.endswith("</svg>")
        for word in ("http", "<style", "<metadata", "<script", "<image", "xlink", "font-family", INK):
            assert word not in svg
        defined = set(re.findall(r' id="([^"]+)"', svg))
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
        assert defined == used
        assert all(name.startswith(chart.name) for name in defined)
        assert "currentColor" in svg
        assert f"var(--c0, {PALETTE[0]})" in svg


def test_a_hostile_label_is_text_and_no_mathematics() -> None:
    label = "_$x^2$ </text><script>é\U0001f600\x00\ud800"
    cell = Cell("alike", label, None, 1)
    for chart in charts_of([run_line([cell]), probe_line(cell, 1, 5)]).values():
        svg = inline_svg(chart)
        assert "<script" not in svg
        assert "\x00" not in svg
        assert r"$x^2$ &lt;/text&gt;&lt;script&gt;é?\x00\ud800" in svg
        svg.encode()


def test_drawing_leaves_settings_as_they_are_and_heeds_none_of_them() -> None:
    chart = line_chart(gap_lines(), "rate-0-gap")
    expected = inline_svg(chart)
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False, "svg.fonttype": "path"}):
        before = matplotlib.rcParams.copy()
        assert inline_svg(chart) == expected
        assert matplotlib.rcParams.copy() == before


_DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_eval_plots import digest
print(digest(), 'matplotlib.pyplot' in sys.modules)
"""


def digest() -> str:
    svgs = [inline_svg(chart) for chart in charts_of(gap_lines()).values()]
    return hashlib.sha256("".join(svgs).encode()).hexdigest()


def test_the_same_results_give_the_same_bytes_in_every_process() -> None:
    assert digest() == digest()
    other = subprocess.run(
        [sys.executable, "-c", _DIGEST, str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout.split() == [digest(), "False"]
