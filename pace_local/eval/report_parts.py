"""What both forms of the report say: its words, and the tables that they share."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pace_local.eval.cells import NO_PLAN, Cell
from pace_local.eval.journal import Results
from pace_local.eval.measures import ProbeMeasure, Share
from pace_local.eval.plans import n_wrong
from pace_local.eval.summary import WEAK, CellSummary
from pace_local.harmless_text import harmless

SETS = {
    "alike": "Look-alikes: specifications of one form",
    "unlike": "Unlike: specifications of different kinds",
    "facts": "Facts of specifications",
    "codegen": "Code generation",
    "dialogue": "Dialogue",
    "knowledge": "Knowledge",
    "planning": "Planning",
}
_IN_WORDS = ("facts", "dialogue", "knowledge", "planning")
"""Workloads whose answers are no code."""
INTRODUCTION = """\
One session for each cell: the system prompt, some documents (specifications, where not said otherwise),
other work, then the probes, each of which needs one or some of them. Checks are hidden tests of the answer,
five a task; a task is a function, or a question of another kind, all of whose checks pass; facts are
constants, names and codes that the answer holds. The ceiling is the same question in a fresh session with
nothing but the system prompt and what the probe reads. In brackets: Wilson's 95 % interval, which takes the
checks of one answer as independent, though they are not; behind differences, a bootstrap over the probes
that both rows have."""
APART = {
    "work": "Columns: tokens of other work between the documents and the probes, which are asked aside.",
    "positions": (
        "Nothing but positions lies between the documents and a short turn of other work, the question and "
        "the answer: everything is resident."
    ),
}


def title(results: Results) -> str:
    """What was evaluated, with which model.

    Raises:
        FileError: if there was no run.
    """
    header = results.header
    identity = header["identity"]
    length = "" if identity["tokens"] is None else f", {identity['tokens']:,} tokens of other work"
    return f"{identity['evaluation'].capitalize()}: {header['model']['name']}{length}"


def unfinished(cells: Sequence[CellSummary]) -> Iterator[str]:
    """What is said of a run that was not finished; nothing of one that was."""
    left = sum(not each.is_finished for each in cells)
    if left:
        yield f"**Not finished**: {left} of {len(cells)} cells are not, or not in all seeds."
        yield ""


def cell_table(
    cells: Sequence[CellSummary], shown: Any, of_columns: Sequence[CellSummary] | None = None
) -> list[str]:
    """A row for each policy and means, a column for each number of reads, gap and percentage of errors.

    Args:
        cells: of the rows.
        shown: gives the text of a cell.
        of_columns: whose columns there are; None: those of the rows.
    """
    every = cells if of_columns is None else of_columns
    columns = {each.cell.column: each for each in every if not each.cell.is_ceiling}
    columns = dict(sorted((columns or {each.cell.column: each for each in every}).items()))
    rows = dict.fromkeys(each.cell.label for each in cells)
    # A ceiling is the same at every gap and for every plan: it stands in each column with its reads.
    by_place = {(each.cell.label, each.cell.column): each for each in cells}
    ceilings = {(each.cell.label, each.cell.reads): each for each in cells if each.cell.is_ceiling}
    lines = [
        "| | " + " | ".join(column_words(each) for each in columns.values()) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for row in rows:
        found = [
            by_place.get((row, column)) or ceilings.get((row, each.cell.reads))
            for column, each in columns.items()
        ]
        lines.append(f"| {row} | " + " | ".join(_cell(each, shown) for each in found) + " |")
    return lines


def _cell(summary: CellSummary | None, shown: Any) -> str:
    if summary is None:
        return ""
    if not summary.probes:
        return "refused" if summary.refused else "–"
    text: str = shown(summary)
    return (
        text if summary.is_finished else f"{text}, {len(summary.probes)} of {summary.probes_expected} probes"
    )


def column_words(summary: CellSummary) -> str:
    """What a column is about: its gap, its errors, its reads."""
    cell, probes = summary.cell, summary.cell.n_probes(summary.specifications)
    words = []
    if cell.gap is not None:
        words.append(f"{cell.gap:,} {'positions' if cell.apart == 'positions' else 'tokens'}")
    if cell.errors is not None:
        words.append(errors_words(cell) + _wrong_words(summary))
    if cell.reads > 1 or not words:
        words.append(reads_words(cell.reads))
    return f"{', '.join(words)} ({probes} probe{'s' if probes > 1 else ''})"


def reads_words(reads: int) -> str:
    """``1 read a probe``."""
    return f"{reads} read{'s' if reads > 1 else ''} a probe"


def errors_words(cell: Cell) -> str:
    """``25 % of the plan wrong``; nothing where errors were not asked for."""
    if cell.errors is None:
        return ""
    return "no plan" if cell.errors == NO_PLAN else f"{cell.errors} % of the plan wrong"


def _wrong_words(summary: CellSummary) -> str:
    """How many reads that percentage is; nothing where it says it all."""
    errors, reads = summary.cell.errors, summary.cell.n_probes(summary.specifications) * summary.cell.reads
    return f": {n_wrong(errors, reads)} of {reads} reads" if errors and errors < NO_PLAN else ""


def against_everything(cells: Sequence[CellSummary]) -> list[str]:
    """What each policy saves and costs against a cache that keeps everything, where that was measured.

    Memory is that of keys, values and references; a cache that keeps everything needs no references, and is
    counted without. Time and tasks are of the seeds of which both have the same probes. A question mark
    stands for memory of runs that did not keep how much of the cache was room to spare.
    """
    whole = {each.cell.column: each for each in cells if each.cell.policy == "none"}
    whole = {column: each for column, each in whole.items() if each.probes and each.cell.apart == "work"}
    if not whole:
        return []

    def shown(summary: CellSummary) -> str:
        all_kept = whole.get(summary.cell.column)
        if all_kept is None:
            return ""
        itself = summary is all_kept
        saved = "0" if itself else "?"
        if all_kept.is_peak_known and not itself:
            saved = f"{100 * (1 - summary.kv_bytes_peak / all_kept.unreferenced_bytes_peak):.0f}"
        alike = summary.seeds_like(all_kept)
        if not alike:
            return f"{saved} %; –; –"
        own, whole_own = summary.of_seeds(alike), all_kept.of_seeds(alike)
        added = own.wall_seconds / whole_own.wall_seconds - 1
        tasks, of = own.tasks.passed, whole_own.tasks.passed
        kept = f"{100 * tasks / of:.0f} %" if of else f"{tasks} of 0"
        return f"{saved} %; {points(added)} %; {kept}"

    heading = "### Peak memory of the KV cache saved, time added, tasks kept, against keeping everything"
    rows = [each for each in cells if not each.cell.is_ceiling and each.cell.apart == "work"]
    return [heading, "", *cell_table(rows, shown), ""]


def interval(share: Share) -> str:
    low, high = share.interval
    return f"{100 * low:.0f}–{100 * high:.0f} %"


def weakness(cells: Sequence[CellSummary]) -> Iterator[str]:
    for each in cells:
        if each.is_too_weak:
            yield (
                f"**Too weak**: with {reads_words(each.cell.reads)} the "
                f"ceiling is {100 * each.checks.rate:.0f} % of the checks, below {100 * WEAK:.0f} %. What "
                "stands below it in that column says little about policies or means."
            )
            yield ""


def points(share: float) -> str:
    return f"{100 * share:+.0f}"


def refusals(cells: Sequence[CellSummary]) -> Iterator[str]:
    for reason in dict.fromkeys(each.refused for each in cells if each.refused):
        rows = dict.fromkeys(each.cell.label for each in cells if each.refused == reason)
        yield f"Refused ({'; '.join(rows)}): {reason}."
        yield ""


def broke_words(probe: ProbeMeasure) -> str:
    if probe.broke == "not resident":
        return f"not resident: {100 * probe.residency:.0f} % was"
    if probe.broke == "too far":
        return f"too far: {probe.farthest:,} positions"
    if probe.broke == "facts not reused":
        return f"facts not reused: {quoted(', '.join(probe.missing_facts))}"
    what = "answer" if probe.cell.partition("/")[0] in _IN_WORDS else "code"
    return f"{what} wrong" + (", answer cut off" if probe.finish == "length" else "")


def quoted(text: str, longest: int = 100) -> str:
    """A text of a model's making as code in one cell of a table."""
    plain = harmless(" ".join(text.replace("`", "'").replace("|", "¦").split()))
    return f"`{plain[:longest]}{'…' if len(plain) > longest else ''}`"


def provenance(results: Results) -> Iterator[str]:
    header, runs = results.header, list(results.runs.values())
    model = header["model"]
    yield (
        f"- model: {model['name']}, sha256 {model['sha256'] or 'not known'}, "
        f"fingerprint {model['fingerprint']}"
    )
    yield from _by_run("build", [_build(run["build"]) for run in runs])
    yield from _by_run("machine", [_machine(run["machine"]) for run in runs])
    settings = header["settings"]
    yield f"- settings: {', '.join(f'{name} {_plain(value)}' for name, value in settings.items())}"
    for number, run in enumerate(runs, 1):
        finished = ", ".join(results.finished_in(run["run"])) if len(runs) > 1 else ""
        yield (
            f"- run {number}: {run['date']}, commit {run['commit'] or 'unknown'}, "
            f"load at the start {run['machine']['load']}: `{shlex.join(run['command'])}`"
            f"{'; finished ' if finished else ''}{finished}"
        )
    if len({(_build(run["build"]), run["machine"]["cpu"]) for run in runs}) > 1:
        yield "- Rows of different machines or builds differ by that too: a last bit turns a word, or a task"
    if len(runs) > 1:
        yield "- Times of different runs were measured under different load; compare them with care."


def _build(build: Mapping[str, Any]) -> str:
    return (
        f"llama-cpp-python {build['llama_cpp']}, patch {build['patch']}, "
        f"{', '.join(build['isa']) or 'no instruction set beyond the base'}"
    )


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores"


def _by_run(what: str, said: Sequence[str]) -> Iterator[str]:
    """What is said of each run: once, if it is the same of all."""
    for text in dict.fromkeys(said):
        numbers = [str(number) for number, each in enumerate(said, 1) if each == text]
        runs = f" of run{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
        yield f"- {what}{runs if len(numbers) < len(said) else ''}: {text}"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
