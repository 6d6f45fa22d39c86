"""``report.md``: the table of a run, what it cost, and where each failed probe's chain broke."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pace_local.errors import StorageError
from pace_local.eval.journal import Results
from pace_local.eval.measures import Difference
from pace_local.eval.report_parts import (
    APART,
    INTRODUCTION,
    SETS,
    against_everything,
    broke_words,
    cell_table,
    column_words,
    interval,
    points,
    provenance,
    quoted,
    refusals,
    title,
    unfinished,
    weakness,
)
from pace_local.eval.summary import REFERENCE, CellSummary, as_document, compare, summarise
from pace_local.models.progress import format_bytes

SUMMARY, REPORT, PAGE = "summary.json", "report.md", "report.html"


def write_report(folder: Path, results: Results) -> None:
    """Write ``summary.json`` and ``report.md``, each as a whole or not at all.

    Raises:
        FileError: if there was no run.
        StorageError: if they cannot be written.
    """
    _write(folder / SUMMARY, json.dumps(as_document(results), indent=1) + "\n")
    _write(folder / REPORT, report(results))


def write_page(folder: Path, results: Results) -> None:
    """Write ``report.html``, as a whole or not at all. Drawing it takes seconds, and memory.

    Raises:
        FileError: if there was no run.
        StorageError: if it cannot be written.
    """
    from pace_local.eval.report_html import html_report  # brings the plotting library

    _write(folder / PAGE, html_report(results))


def report(results: Results) -> str:
    """The report as Markdown, also of a run that is not finished.

    Raises:
        FileError: if there was no run.
    """
    cells = summarise(results)
    lines = [f"# {title(results)}", "", *unfinished(cells), INTRODUCTION, ""]
    lines += [
        APART[apart] + "\n" for apart in dict.fromkeys(e.cell.apart for e in cells if e.cell.gap is not None)
    ]
    for specs in dict.fromkeys(each.cell.specs for each in cells):
        of_set = [each for each in cells if each.cell.specs == specs]
        lines += [f"## {SETS.get(specs, specs)}", "", *weakness(of_set)]
        lines += ["### Checks passed", "", *cell_table(of_set, _checks), ""]
        lines += _differences(of_set, compare(cells))
        lines += ["### Facts recalled and tasks passed", "", *cell_table(of_set, _facts_and_tasks), ""]
        lines += against_everything(of_set)
        lines += ["### Seconds for a probe", "", *cell_table(of_set, _seconds), ""]
        lines += ["### Residency of what the probe reads, and greatest distance in positions", ""]
        lines += [*cell_table(of_set, _residency), ""]
        lines += ["### Means that were used", "", *cell_table(of_set, _means), ""]
        lines += ["### Most bytes of keys, values and references", "", *cell_table(of_set, _bytes), ""]
        lines += _saved(of_set)
        lines += refusals(of_set)
    lines += ["## Where the chain broke", "", *_failures(cells), ""]
    lines += ["## How it was measured", "", *provenance(results)]
    return "\n".join(lines) + "\n"


def _checks(summary: CellSummary) -> str:
    share = summary.checks
    return f"**{share.passed}/{share.total}** ({interval(share)})"


def _facts_and_tasks(summary: CellSummary) -> str:
    return "; ".join(
        f"{share.passed}/{share.total} ({interval(share)})" for share in (summary.facts, summary.tasks)
    )


def _seconds(summary: CellSummary) -> str:
    return f"{summary.seconds_per_probe:.1f}"


def _residency(summary: CellSummary) -> str:
    distance = "gone" if summary.distance_max is None else f"{summary.distance_max:,}"
    return f"{100 * (summary.residency or 0):.0f} %; {distance}"


def _means(summary: CellSummary) -> str:
    used: dict[str, int] = summary.as_document()["means_used"]
    return ", ".join(f"{means} {count}" for means, count in used.items()) or "–"


def _bytes(summary: CellSummary) -> str:
    return format_bytes(summary.kv_bytes_peak)


def _saved(cells: Sequence[CellSummary]) -> list[str]:
    """Only where something was saved."""

    def shown(summary: CellSummary) -> str:
        sizes = summary.saved_host_bytes_peak, summary.saved_disk_bytes_peak
        return "; ".join(format_bytes(size) for size in sizes) if any(sizes) else "–"

    if not any(each.saved_host_bytes_peak or each.saved_disk_bytes_peak for each in cells):
        return []
    return ["### Most saved for recall: in main memory; on disk", "", *cell_table(cells, shown), ""]


def _differences(cells: Sequence[CellSummary], compared: Mapping[str, Difference]) -> list[str]:
    """Only where there is something to compare."""

    def shown(summary: CellSummary) -> str:
        found = compared.get(summary.cell.key)
        return "" if found is None else f"{points(found.mean)} ({points(found.low)} to {points(found.high)})"

    rows = [each for each in cells if each.cell.key in compared and each.probes]
    if not rows:
        return []
    heading = f"### Checks passed against {REFERENCE}, in points, probe by probe"
    return [heading, "", *cell_table(rows, shown, cells), ""]


def _failures(cells: Sequence[CellSummary]) -> Iterator[str]:
    failed = [(each, probe) for each in cells for probe in each.probes if probe.broke]
    if not failed:
        yield "No probe failed so far."
        return
    yield "| documents | row | column | reads | seed, probe | broke | checks | facts | first error |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each, probe in failed:
        cell = each.cell
        checks, facts = probe.check_share, probe.fact_share
        yield (
            f"| {cell.specs} | {cell.label} | {column_words(each).partition(' (')[0]} "
            f"| {', '.join(read.name for read in probe.reads)} "
            f"| {probe.seed}, {probe.number} | {broke_words(probe)} | {checks.passed}/{checks.total} "
            f"| {facts.passed}/{facts.total} | {quoted(probe.failures[0])} |"
        )


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
