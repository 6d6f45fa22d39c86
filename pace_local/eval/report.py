"""``report.md``: the table of a run, what it cost, and where each failed probe's chain broke."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pace_local.errors import StorageError
from pace_local.eval.journal import Results
from pace_local.eval.measures import Difference, ProbeMeasure, Share
from pace_local.eval.summary import REFERENCE, WEAK, CellSummary, as_document, compare, summarise
from pace_local.models.progress import format_bytes

SUMMARY, REPORT = "summary.json", "report.md"
_SETS = {
    "alike": "Look-alikes: specifications of one form",
    "unlike": "Unlike: specifications of different kinds",
}
_INTRODUCTION = """\
One session for each cell: the system prompt, some specifications, other work, then the probes, each of which
asks for the functions of so many of them. Checks are hidden tests run on the answer's code, five a
function; a task is a function that passes all of its checks; facts are constants, names and codes that the
answer holds. The ceiling is the same question in a fresh session with nothing but the system prompt and what
the probe reads. In brackets: Wilson's 95 % interval, which takes the checks of one answer as independent,
though they are not; behind differences, a bootstrap over the probes that both rows have."""


def write_report(folder: Path, results: Results) -> None:
    """Write ``summary.json`` and ``report.md``, each as a whole or not at all.

    Raises:
        FileError: if there was no run.
        StorageError: if they cannot be written.
    """
    _write(folder / SUMMARY, json.dumps(as_document(results), indent=1) + "\n")
    _write(folder / REPORT, report(results))


def report(results: Results) -> str:
    """The report as Markdown, also of a run that is not finished.

    Raises:
        FileError: if there was no run.
    """
    header, cells = results.header, summarise(results)
    what = header["identity"]["evaluation"].capitalize()
    lines = [
        f"# {what}: {header['model']['name']}, {header['identity']['tokens']:,} tokens of other work",
        "",
    ]
    unfinished = [each for each in cells if not each.is_finished]
    if unfinished:
        lines += [
            f"**Not finished**: {len(unfinished)} of {len(cells)} cells are not, or not in all seeds.",
            "",
        ]
    lines += [_INTRODUCTION, ""]
    for specs in dict.fromkeys(each.cell.specs for each in cells):
        of_set = [each for each in cells if each.cell.specs == specs]
        lines += [f"## {_SETS.get(specs, specs)}", "", *_weakness(of_set)]
        lines += ["### Checks passed", "", *_table(of_set, _checks), ""]
        lines += _differences(of_set, compare(cells))
        lines += ["### Facts recalled and tasks passed", "", *_table(of_set, _facts_and_tasks), ""]
        lines += ["### Seconds for a probe", "", *_table(of_set, _seconds), ""]
        lines += ["### Residency of what the probe reads, and greatest distance in positions", ""]
        lines += [*_table(of_set, _residency), ""]
        lines += ["### Means that were used", "", *_table(of_set, _means), ""]
        lines += ["### Most bytes of keys, values and references", "", *_table(of_set, _bytes), ""]
        lines += _refusals(of_set)
    lines += ["## Where the chain broke", "", *_failures(cells), ""]
    lines += ["## How it was measured", "", *_provenance(results)]
    return "\n".join(lines) + "\n"


def _table(cells: Sequence[CellSummary], shown: Any) -> list[str]:
    """A row for each policy and means, a column for each number of reads."""
    reads = {each.cell.reads: each.cell.n_probes(each.specifications) for each in cells}
    reads = dict(sorted(reads.items()))
    rows = dict.fromkeys(each.cell.label for each in cells)
    by_place = {(each.cell.label, each.cell.reads): each for each in cells}
    lines = [
        "| | " + " | ".join(_reads_words(number, probes) for number, probes in reads.items()) + " |",
        "|---|" + "---|" * len(reads),
    ]
    for row in rows:
        found = [by_place.get((row, number)) for number in reads]
        lines.append(f"| {row} | " + " | ".join(_cell(each, shown) for each in found) + " |")
    return lines


def _reads_words(number: int, probes: int) -> str:
    return f"{number} read{'s' if number > 1 else ''} a probe ({probes} probe{'s' if probes > 1 else ''})"


def _cell(summary: CellSummary | None, shown: Any) -> str:
    if summary is None:
        return ""
    if not summary.probes:
        return "refused" if summary.refused else "–"
    text: str = shown(summary)
    return (
        text if summary.is_finished else f"{text}, {len(summary.probes)} of {summary.probes_expected} probes"
    )


def _checks(summary: CellSummary) -> str:
    share = summary.checks
    return f"**{share.passed}/{share.total}** ({_interval(share)})"


def _facts_and_tasks(summary: CellSummary) -> str:
    return "; ".join(
        f"{share.passed}/{share.total} ({_interval(share)})" for share in (summary.facts, summary.tasks)
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


def _interval(share: Share) -> str:
    low, high = share.interval
    return f"{100 * low:.0f}–{100 * high:.0f} %"


def _weakness(cells: Sequence[CellSummary]) -> Iterator[str]:
    for each in cells:
        if each.is_too_weak:
            yield (
                f"**Too weak**: with {each.cell.reads} read{'s' if each.cell.reads > 1 else ''} a probe the "
                f"ceiling is {100 * each.checks.rate:.0f} % of the checks, below {100 * WEAK:.0f} %. What "
                "stands below it in that column says little about policies or means."
            )
            yield ""


def _differences(cells: Sequence[CellSummary], compared: Mapping[str, Difference]) -> list[str]:
    """Only where there is something to compare."""

    def shown(summary: CellSummary) -> str:
        found = compared.get(summary.cell.key)
        return (
            "" if found is None else f"{_points(found.mean)} ({_points(found.low)} to {_points(found.high)})"
        )

    rows = [each for each in cells if each.cell.key in compared and each.probes]
    if not rows:
        return []
    heading = f"### Checks passed against {REFERENCE}, in points, probe by probe"
    return [heading, "", *_table(rows, shown), ""]


def _points(share: float) -> str:
    return f"{100 * share:+.0f}"


def _refusals(cells: Sequence[CellSummary]) -> Iterator[str]:
    for reason in dict.fromkeys(each.refused for each in cells if each.refused):
        rows = dict.fromkeys(each.cell.label for each in cells if each.refused == reason)
        yield f"Refused ({'; '.join(rows)}): {reason}."
        yield ""


def _failures(cells: Sequence[CellSummary]) -> Iterator[str]:
    failed = [(each.cell, probe) for each in cells for probe in each.probes if probe.broke]
    if not failed:
        yield "No probe failed so far."
        return
    yield "| specifications | row | reads | seed, probe | broke | checks | facts | first error |"
    yield "|---|---|---|---|---|---|---|---|"
    for cell, probe in failed:
        checks, facts = probe.check_share, probe.fact_share
        yield (
            f"| {cell.specs} | {cell.label} | {', '.join(read.name for read in probe.reads)} "
            f"| {probe.seed}, {probe.number} | {_broke(probe)} | {checks.passed}/{checks.total} "
            f"| {facts.passed}/{facts.total} | {_quoted(probe.failures[0])} |"
        )


def _broke(probe: ProbeMeasure) -> str:
    if probe.broke == "not resident":
        return f"not resident: {100 * probe.residency:.0f} % was"
    if probe.broke == "too far":
        return f"too far: {probe.farthest:,} positions"
    if probe.broke == "facts not reused":
        return f"facts not reused: {_quoted(', '.join(probe.missing_facts))}"
    return "code wrong" + (", answer cut off" if probe.finish == "length" else "")


def _quoted(text: str, longest: int = 100) -> str:
    """A text of a model's making as code in one cell of a table."""
    plain = " ".join(text.replace("`", "'").replace("|", "¦").split())
    return f"`{plain[:longest]}{'…' if len(plain) > longest else ''}`"


def _provenance(results: Results) -> Iterator[str]:
    header = results.header
    model, build, machine = header["model"], header["build"], header["machine"]
    yield (
        f"- model: {model['name']}, sha256 {model['sha256'] or 'not known'}, "
        f"fingerprint {model['fingerprint']}"
    )
    yield (
        f"- build: llama-cpp-python {build['llama_cpp']}, patch {build['patch']}, "
        f"{', '.join(build['isa']) or 'no instruction set beyond the base'}"
    )
    yield f"- machine: {machine['cpu']}, {machine['threads']} of {machine['cores']} cores"
    settings = header["settings"]
    yield f"- settings: {', '.join(f'{name} {_plain(value)}' for name, value in settings.items())}"
    for number, run in enumerate(results.runs.values(), 1):
        yield (
            f"- run {number}: {run['date']}, commit {run['commit'] or 'unknown'}, "
            f"load at the start {run['machine']['load']}: `{shlex.join(run['command'])}`"
        )
    if len(results.runs) > 1:
        yield "- Times of different runs were measured under different load; compare them with care."


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
