"""The summary and the report against lines whose outcome is known, whole and partial."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from eval_runs import SETTINGS, header
from test_eval_measures import probe, read

from pace_local.errors import FileError, StorageError
from pace_local.eval.cells import Cell
from pace_local.eval.journal import Results
from pace_local.eval.measures import Break, wilson
from pace_local.eval.report import report, write_report
from pace_local.eval.summary import as_document, summarise

CELLS = dataclasses.replace(SETTINGS, policies=("pace", "none"), reads=(4,))
CEILING, PACE, NONE = (cell.key for cell in CELLS.cells())


def a_probe(
    cell: str, number: int, passed: int, facts: int, broke: Break | None, **changes: Any
) -> dict[str, Any]:
    """A line of a probe of four specifications, of whose 20 checks the first so many passed."""
    checks = tuple(tuple(5 * task + check < passed for check in range(5)) for task in range(4))
    measured = probe(
        cell=cell,
        number=number,
        checks=checks,
        facts_recalled=facts,
        facts_total=12,
        missing_facts=("41", "a|b`c"),
        failures=() if broke is None else ("check 1: AssertionError: f(|)` gave\n 3",),
        broke=broke,
        reads=(read(), read(60, 700, "spec:b")) if broke == "not resident" else (read(),),
        **changes,
    )
    return {"type": "probe", **measured.as_document()}


def ended(cell: str, refused: str | None = None) -> dict[str, Any]:
    return {"type": "done", "run": "one", "cell": cell, "seed": 1, "refused": refused}


def turn(number: int, **changes: Any) -> dict[str, Any]:
    sizes = {"kv_bytes": 50, "host_bytes": 70, "device_bytes": 0, "session_tokens": number, **changes}
    return {"type": "turn", "run": "one", "stage": PACE, "seed": 1, "number": number, **sizes}


SESSION = {"type": "session", "stage": PACE, "seed": 1, "tokens": 9, "digest": "d", "seconds": 30.25}
LINES: list[dict[str, Any]] = [
    {"type": "run", **header(CELLS, "one")},
    a_probe(CEILING, 1, 20, 12, None, seconds=1.0),
    a_probe(CEILING, 2, 20, 12, None, seconds=2.0),
    ended(CEILING),
    turn(1),
    turn(2, kv_bytes=90, host_bytes=60),
    SESSION,
    a_probe(PACE, 1, 11, 12, "not resident", seconds=4.0, kv_bytes=80),
    a_probe(PACE, 2, 9, 10, "facts not reused", seconds=6.0),
    ended(PACE),
    ended(NONE, "policy 'none' is full"),
]


def test_each_cell_is_summed_up() -> None:
    document = as_document(Results(LINES))
    assert document["finished"] is True
    assert list(document["cells"]) == [CEILING, PACE, NONE]
    pace = document["cells"][PACE]
    assert (pace["checks_passed"], pace["checks_total"]) == (20, 40)
    assert pace["checks_interval"] == pytest.approx(wilson(20, 40), abs=1e-4)
    assert (pace["tasks_passed"], pace["tasks_total"]) == (3, 8)
    assert pace["tasks_interval"] == pytest.approx(wilson(3, 8), abs=1e-4)
    assert (pace["facts_recalled"], pace["facts_total"]) == (22, 24)
    assert (pace["probes"], pace["residency"], pace["distance_max"]) == (2, 260 / 300, 700)
    assert (pace["read_seconds"], pace["probe_seconds"], pace["wall_seconds"]) == (30.25, 10.0, 40.25)
    assert (pace["kv_bytes_peak"], pace["host_bytes_peak"]) == (90, 70)
    assert pace["broke"] == {"not resident": 1, "facts not reused": 1}
    assert pace["means_used"] == {"kept": 3}
    assert document["cells"][NONE]["refused"] == "policy 'none' is full"
    assert document["cells"][CEILING]["checks_interval"] == pytest.approx(wilson(40, 40), abs=1e-4)
    json.dumps(document, allow_nan=False)


def table(text: str, heading: str) -> list[str]:
    lines = text.partition(f"### {heading}\n\n")[2].splitlines()
    return lines[: lines.index("")]


def test_the_report_shows_every_cell_beside_its_ceiling() -> None:
    text = report(Results(LINES))
    assert table(text, "Checks passed") == [
        "| | 4 reads a probe (2 probes) |",
        "|---|---|",
        "| ceiling | **40/40** (91–100 %) |",
        "| pace | **20/40** (35–65 %) |",
        "| none | refused |",
    ]
    assert "| pace | 22/24 (74–98 %); 3/8 (14–69 %) |" in text
    assert table(text, "Seconds for a probe")[2:4] == ["| ceiling | 1.5 |", "| pace | 5.0 |"]
    assert "| pace | 87 %; 700 |" in text
    assert "Refused (none): policy 'none' is full." in text
    assert "Not finished" not in text
    assert "Too weak" not in text


def test_policies_are_compared_with_pace_probe_by_probe() -> None:
    focus = "alike/pace_focus/auto/4"
    asked = {"type": "run", **header(dataclasses.replace(SETTINGS, means=("auto",), reads=(4,)), "two")}
    lines = [*LINES, asked, a_probe(focus, 2, 19, 12, "code wrong"), a_probe(focus, 1, 20, 12, None)]
    document = as_document(Results(lines))
    assert document["reference"] == "pace"
    assert document["cells"][PACE]["to_reference"] is None
    found = document["cells"][focus]["to_reference"]
    assert (found["mean"], found["pairs"]) == (pytest.approx((9 / 20 + 10 / 20) / 2), 2)
    assert (found["low"], found["high"]) == (pytest.approx(9 / 20), pytest.approx(10 / 20))
    shown = table(report(Results(lines)), "Checks passed against pace, in points, probe by probe")
    assert shown[2:] == [
        "| ceiling | +50 (+45 to +55) |",
        "| pace_focus, auto | +48 (+45 to +50), 2 of 2 probes |",
    ]


def test_every_failed_probe_is_listed_with_where_it_broke() -> None:
    text = report(Results(LINES))
    rows = [line for line in text.splitlines() if line.startswith("| alike |")]
    assert rows == [
        "| alike | pace | 4 reads a probe | spec:a, spec:b | 1, 1 | not resident: 80 % was | 11/20 | 12/12 "
        "| `check 1: AssertionError: f(¦)' gave 3` |",
        "| alike | pace | 4 reads a probe | spec:a | 1, 2 | facts not reused: `41, a¦b'c` | 9/20 | 10/12 "
        "| `check 1: AssertionError: f(¦)' gave 3` |",
    ]


def test_the_report_says_how_it_was_measured() -> None:
    text = report(Results(LINES))
    assert "model: tiny, sha256 not known, fingerprint ab" in text
    assert "llama-cpp-python 1.2.3, patch cd" in text
    assert "a CPU, 1 of 2 cores" in text
    assert "run 1: 2026-01-02T03:04:05+00:00, commit unknown" in text
    assert "`pace eval recall --out 'two words'`" in text
    assert "compare them with care" not in text
    assert "finished" not in text.split("run 1: ")[1]
    both = report(Results([*LINES, {"type": "run", **header(CELLS, "two")}]))
    assert f"'two words'`; finished {CEILING}, {PACE}, {NONE}\n- run 2: " in both
    assert "'two words'`\n- Times" in both
    assert "compare them with care" in both
    assert "- machine: a CPU" in both


def test_runs_on_different_machines_are_told_apart() -> None:
    """The last one's stood for all."""
    runs = [header(CELLS, name) for name in ("one", "two", "three")]
    runs[1]["machine"] = {"cpu": "another", "cores": 4, "threads": 4, "load": 0.5}
    runs[2]["build"] = {"llama_cpp": "1.2.3", "patch": "ef", "isa": ["avx2"]}
    text = report(Results([{"type": "run", **run} for run in runs]))
    assert "- machine of runs 1, 3: a CPU, 1 of 2 cores\n- machine of run 2: another, 4 of 4 cores\n" in text
    assert "- build of runs 1, 2: llama-cpp-python 1.2.3, patch cd," in text
    assert "- build of run 3: llama-cpp-python 1.2.3, patch ef, avx2\n" in text


def test_rows_of_different_machines_are_not_to_be_compared_by_a_task() -> None:
    runs = [header(CELLS, name) for name in ("one", "two")]
    said = "Rows of different machines or builds differ by that too"
    assert said not in report(Results([{"type": "run", **run} for run in runs]))
    runs[1]["machine"] = {**runs[1]["machine"], "cpu": "another"}
    assert said in report(Results([{"type": "run", **run} for run in runs]))


def test_what_keeps_everything_is_compared_in_seeds_that_both_have() -> None:
    """Two of the policy's probes against four would be half of the tasks, in half of the time."""
    settings = dataclasses.replace(CELLS, seeds=2)
    none_session = {**SESSION, "stage": NONE}
    lines = [
        {"type": "run", **header(settings, "one")},
        *({**SESSION, "seed": seed, "seconds": 10.0} for seed in (1,)),
        *({**none_session, "seed": seed, "seconds": 10.0} for seed in (1, 2)),
        *(a_probe(PACE, n, 20, 12, None, seconds=5.0, seed=1, kv_bytes=90, n_cells=2560) for n in (1, 2)),
        *(
            a_probe(NONE, n, 20, 12, None, seconds=5.0, seed=seed, kv_bytes=90, n_cells=2560)
            for seed in (1, 2)
            for n in (1, 2)
        ),
    ]

    def shown(lines: list[dict[str, Any]]) -> list[str]:
        found = table(report(Results(lines)), "Peak memory of the KV cache saved, time added, tasks kept, "
                      "against keeping everything")  # fmt: skip
        return [line.partition(", ")[0] for line in found[2:]]

    assert shown(lines) == ["| pace | -50 %; +0 %; 100 %", "| none | 0 %; +0 %; 100 %"]
    second = [a_probe(PACE, 1, 9, 12, "code wrong", seconds=90.0, seed=2, kv_bytes=90, n_cells=2560)]
    assert shown([*lines, *second]) == shown(lines)
    without = [line for line in lines if line.get("cell") != PACE]
    assert shown([*without, *second])[0] == "| pace | -50 %; –; –"


def test_what_is_saved_for_recall_is_told_where_something_is() -> None:
    heading = "### Most saved for recall: in main memory; on disk"
    assert heading not in report(Results(LINES))
    more = [a_probe(PACE, 1, 20, 12, None, saved_host_bytes=3_000_000, saved_disk_bytes=5_000_000)]
    lines = [line for line in LINES if line.get("cell") != PACE]
    assert table(report(Results([*lines, *more])), heading[4:])[3].startswith("| pace | 3 MB; 5 MB, ")


def test_an_answer_in_words_is_not_called_code() -> None:
    talk = Cell("dialogue", "pace", None, 1)
    asked = {"type": "run", **header(dataclasses.replace(SETTINGS, specs=("dialogue",), reads=(1,)), "two")}
    text = report(Results([asked, a_probe(talk.key, 1, 4, 12, "code wrong")]))
    assert "| 1, 1 | answer wrong | 4/20 |" in text


@pytest.mark.parametrize("whole", range(1, len(LINES)))
def test_a_partial_run_gives_a_report(whole: int) -> None:
    text = report(Results(LINES[:whole]))
    assert "**Not finished**" in text
    assert "| none | – |" in text
    if whole == 8:
        assert "| pace | **11/20** (34–74 %), 1 of 2 probes |" in text


def test_a_ceiling_that_is_too_low_is_said() -> None:
    lines = [line for line in LINES if line.get("cell") != CEILING]
    weak = [a_probe(CEILING, 1, 15, 12, "code wrong"), a_probe(CEILING, 2, 16, 12, "code wrong")]
    assert "the ceiling is 78 % of the checks, below 80 %" in report(Results([*lines, *weak]))
    enough = [a_probe(CEILING, 1, 16, 12, "code wrong"), a_probe(CEILING, 2, 16, 12, "code wrong")]
    assert "Too weak" not in report(Results([*lines, *enough]))


def test_cells_of_several_runs_stand_in_one_table() -> None:
    later = dataclasses.replace(SETTINGS, policies=("pace",), reads=(8,))
    results = Results([*LINES, {"type": "run", **header(later, "two")}])
    assert [each.cell for each in summarise(results)] == [
        *(Cell("alike", "ceiling", None, reads) for reads in (4, 8)),
        Cell("alike", "pace", None, 4),
        Cell("alike", "none", None, 4),
        Cell("alike", "pace", None, 8),
    ]
    assert table(report(results), "Checks passed")[0].count("|") == 4


def test_both_files_are_written_whole(tmp_path: Path) -> None:
    results = Results(LINES)
    write_report(tmp_path, results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "summary.json"]
    assert json.loads((tmp_path / "summary.json").read_text()) == as_document(results)
    assert (tmp_path / "report.md").read_text("utf-8") == report(results)
    with pytest.raises(StorageError, match=r"cannot write .*summary\.json"):
        write_report(tmp_path / "nowhere", results)
    with pytest.raises(FileError, match="no results"):
        write_report(tmp_path, Results(()))
