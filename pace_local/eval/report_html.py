"""``report.html``: the report as one page that holds its plots and loads nothing from anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from pace_local.eval.cells import Cell
from pace_local.eval.chart import Chart
from pace_local.eval.chart_numbers import numbers
from pace_local.eval.inline_svg import inline_svg
from pace_local.eval.journal import Results
from pace_local.eval.measures import Break, ProbeMeasure, Share
from pace_local.eval.page import elements, escaped, from_markdown, page, table, without_empty
from pace_local.eval.rate_charts import rate_charts
from pace_local.eval.report_parts import (
    APART,
    INTRODUCTION,
    SETS,
    against_everything,
    broke_words,
    errors_words,
    interval,
    points,
    provenance,
    refusals,
    title,
    unfinished,
    weakness,
)
from pace_local.eval.session_charts import session_charts
from pace_local.eval.summary import REFERENCE, CellSummary, compare, summarise
from pace_local.models.progress import format_bytes

_LINKS: tuple[Break, ...] = get_args(Break)
_FIRST_ERRORS = 10


def html_report(results: Results) -> str:
    """The report as HTML, also of a run that is not finished; the same results give the same text.

    Raises:
        FileError: if there was no run.
    """
    cells = summarise(results)
    heading = escaped(title(results))
    n_ctx_train = int(results.header.get("n_ctx_train") or 0)
    charts: list[Chart] = [*rate_charts(cells, n_ctx_train), *session_charts(results, cells)]
    aparts = dict.fromkeys(each.cell.apart for each in cells if each.cell.gap is not None)
    body = [
        f"<h1>{heading}</h1>",
        *elements(unfinished(cells)),
        f"<p>{from_markdown(INTRODUCTION)}</p>",
        *elements(APART[apart] for apart in aparts),
        "<h2>Results</h2>",
        *_results(cells),
        "<h2>Plots</h2>",
        *(_figure(chart) for chart in charts),
        *([] if charts else ["<p>Nothing was measured so far that could be drawn.</p>"]),
        "<h2>Where the chain broke</h2>",
        *_failures(cells),
        "<h2>How it was measured</h2>",
        *elements(provenance(results)),
    ]
    return page(heading, body)


def _results(cells: Sequence[CellSummary]) -> Iterator[str]:
    """One table for each workload, with what is to be said of it."""
    compared = compare(cells)
    for specs in dict.fromkeys(each.cell.specs for each in cells):
        of_set = [each for each in cells if each.cell.specs == specs]
        yield f"<h3>{escaped(SETS.get(specs, specs))}</h3>"
        yield from elements(weakness(of_set))
        rows = []
        for each in of_set:
            difference = compared.get(each.cell.key)
            against = "" if difference is None else f"{points(difference.mean)}"
            if difference is not None:
                against += _small(f"{points(difference.low)} to {points(difference.high)}")
            rows.append([*_row_head(each), *_measured(each, against)])
        head = ["row", "reads", "gap", "errors", "probes", "checks passed", "tasks passed", "facts recalled"]
        head += [f"against {REFERENCE}, points", "s a probe", "resident", "farthest, positions"]
        head += ["peak of keys and values"]
        yield table(*without_empty(head, rows))
        yield from elements(against_everything(of_set))
        yield from elements(refusals(of_set))


def _row_head(each: CellSummary) -> list[str]:
    cell = each.cell
    probes = f"{len(each.probes)}" + ("" if each.is_finished else f" of {each.probes_expected}")
    return [
        escaped(cell.label),
        f"{cell.reads}",
        "" if cell.gap is None else f"{cell.gap:,}",
        escaped(errors_words(cell)),
        "refused" if each.refused and not each.probes else probes,
    ]


def _measured(each: CellSummary, against: str) -> list[str]:
    if not each.probes:
        return [""] * 8
    return [
        f"<strong>{_counts(each.checks)}</strong>{_small(interval(each.checks))}",
        f"{_counts(each.tasks)}{_small(interval(each.tasks))}",
        f"{_counts(each.facts)}{_small(interval(each.facts))}",
        against,
        f"{each.seconds_per_probe:.1f}",
        f"{100 * (each.residency or 0):.0f} %",
        "gone" if each.distance_max is None else f"{each.distance_max:,}",
        format_bytes(each.kv_bytes_peak),
    ]


def _figure(chart: Chart) -> str:
    """A plot, what it shows in words, and its numbers."""
    head, rows = numbers(chart)
    label = escaped(f"{chart.title}. {chart.note} The numbers follow as a table.")
    svg = inline_svg(chart).replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return "\n".join(
        [
            "<figure>",
            f"<figcaption><strong>{escaped(chart.title)}</strong><br>{escaped(chart.note)}</figcaption>",
            svg,
            "<details>",
            "<summary>The numbers</summary>",
            table([escaped(each) for each in head], [list(map(escaped, row)) for row in rows]),
            "</details>",
            "</figure>",
        ]
    )


def _failures(cells: Sequence[CellSummary]) -> Iterator[str]:
    """How often each link broke in each row, and every failed probe."""
    failed = [(each.cell, probe) for each in cells for probe in each.probes if probe.broke]
    if not failed:
        yield "<p>No probe failed so far.</p>"
        return
    head = ["row", "reads", *_LINKS, "held"]
    rows = [
        [escaped(_whole_label(each.cell)), f"{each.cell.reads}", *_links(each)]
        for each in cells
        if each.probes
    ]
    yield table(head, rows)
    yield "<h3>Probes that failed</h3>"
    for cell, probe in failed:
        yield from _probe(cell, probe)


def _links(each: CellSummary) -> Iterator[str]:
    broke = Counter(probe.broke for probe in each.probes)
    return (f"{broke[link]}" if broke[link] else "" for link in (*_LINKS, None))


def _whole_label(cell: Cell) -> str:
    gap = "" if cell.gap is None else f", gap {cell.gap:,}"
    errors = f", {errors_words(cell)}" if cell.errors is not None else ""
    return f"{cell.specs}, {cell.label}{gap}{errors}"


def _probe(cell: Cell, probe: ProbeMeasure) -> Iterator[str]:
    """Folded: the link that broke; within: what was read, what was wrong, and the answer."""
    checks, facts = probe.check_share, probe.fact_share
    names = ", ".join(read.name for read in probe.reads)
    yield '<details class="probe">'
    yield (
        f"<summary>{escaped(_whole_label(cell))}: <strong>{from_markdown(broke_words(probe))}</strong>; "
        f"{_counts(checks)} checks, {_counts(facts)} facts<br>"
        f"<small>{escaped(names)}; seed {probe.seed}, probe {probe.number}</small></summary>"
    )
    head = ["read", "tokens", "resident", "nearest, positions", "farthest, positions", "means", "reason"]
    reads = [
        (read.name, read.tokens, read.resident, read.nearest, read.farthest, read.means, read.reason)
        for read in probe.reads
    ]
    rows = [["" if value is None else escaped(value) for value in read] for read in reads]
    yield table(*without_empty(head, rows))
    if probe.missing_facts:
        missing = ", ".join(f"<code>{escaped(fact)}</code>" for fact in probe.missing_facts)
        yield f"<p>Facts that the answer does not hold: {missing}.</p>"
    if probe.failures:
        more = len(probe.failures) - _FIRST_ERRORS
        yield "<p>Errors:</p>"
        yield "<ul>"
        yield from (f"<li><code>{escaped(each)}</code></li>" for each in probe.failures[:_FIRST_ERRORS])
        yield f"<li>and {more} more</li></ul>" if more > 0 else "</ul>"
    yield (
        f"<p>The answer, {probe.generated_tokens:,} tokens in {probe.seconds:.1f} s, ended by "
        f"{escaped(probe.finish)}:</p>"
    )
    # A page leaves out a line break right after the tag, which would hide one of the answer's.
    yield f"<pre>\n{escaped(probe.answer)}</pre>"
    yield "</details>"


def _counts(share: Share) -> str:
    return f"{share.passed}/{share.total}"


def _small(text: str) -> str:
    return f" <small>({escaped(text)})</small>"
