"""``pace eval recall``: options, what is written, the report of a partial run, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import PACE, PATIENCE, refusal, run, start
from session_pair import TALKER

from pace_local.cli import main
from pace_local.testing import tiny_model

FAST = (
    *("--reads", "8", "--means", "auto,reread", "--specs", "alike", "--tokens", 0),
    *("--budget", 4000, "--threads", 1, "--answer-tokens", 2),
)
CELLS = ["alike/ceiling/-/8", "alike/pace/-/8", "alike/pace_focus/auto/8", "alike/pace_focus/reread/8"]


@pytest.fixture(scope="module")
def tiny(tiny_models: Path) -> Path:
    return tiny_model(TALKER, tiny_models)


def recall(tiny: Path, out: Path, *words: object) -> Any:
    return run("eval", "recall", "--model", tiny, "--out", out, *words)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "turns.jsonl").read_bytes().splitlines()]


def steady(document: dict[str, Any]) -> dict[str, Any]:
    changing = ("read_seconds", "probe_seconds", "wall_seconds", "host_bytes_peak")
    return {
        cell: {name: value for name, value in figures.items() if name not in changing}
        for cell, figures in document["cells"].items()
    }


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("whole")
    shown = recall(tiny, folder, *FAST)
    assert shown.code == 0
    (folder / "shown").write_text(shown.out, "utf-8")
    (folder / "said").write_text(shown.err, "utf-8")
    return folder


def test_what_is_written_and_said(whole: Path, tiny: Path) -> None:
    header = lines_of(whole)[0]
    assert header["type"] == "run"
    assert header["model"]["name"] == tiny.stem
    assert len(header["model"]["fingerprint"]) == 64
    assert (header["config"]["budget"], header["settings"]["reads"]) == (4000, [8])
    assert "policy" not in header["config"]
    command = header["command"]
    assert command[:5] == ["pace", "eval", "recall", "--model", tiny.name]
    assert command[command.index("--means") + 1] == "auto,reread"
    assert command[-2:] == ["--out", whole.name]
    assert str(whole.parent) not in json.dumps(header)
    summary = json.loads((whole / "summary.json").read_text())
    assert list(summary["cells"]) == CELLS
    assert summary["finished"] is True
    assert (whole / "report.md").read_text("utf-8") == (whole / "shown").read_text("utf-8")
    said = (whole / "said").read_text("utf-8")
    assert "4 of 4 cells are left to measure" in said
    for number, cell in enumerate(CELLS, 1):
        assert f"{number} of 4, {cell}, seed 1: " in said
    assert " left\n" in said


def test_the_same_again_measures_nothing(whole: Path, tiny: Path) -> None:
    before = len(lines_of(whole))
    shown = recall(tiny, whole, *FAST)
    assert shown.code == 0
    assert "0 of 4 cells are left to measure" in shown.err
    assert len(lines_of(whole)) == before + 1


def test_report_only_needs_no_model_and_measures_nothing(whole: Path, tmp_path: Path) -> None:
    lines = (whole / "turns.jsonl").read_bytes().splitlines(keepends=True)
    first_end = next(i for i, line in enumerate(lines) if b'"type": "done"' in line)
    (tmp_path / "turns.jsonl").write_bytes(b"".join(lines[: first_end + 1]) + b'{"type": "pro')
    before = (tmp_path / "turns.jsonl").read_bytes()
    shown = run("eval", "recall", "--report-only", "--out", tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert "**Not finished**: 3 of 4 cells" in shown.out
    assert (tmp_path / "report.md").read_text("utf-8") == shown.out
    assert (tmp_path / "turns.jsonl").read_bytes() == before
    document = run("eval", "recall", "--report-only", "--json", "--out", tmp_path).document
    assert document["finished"] is False
    assert document["cells"][CELLS[0]]["checks_total"] == 40
    assert document["cells"][CELLS[1]]["checks_total"] == 0


def test_quiet(tiny: Path, tmp_path: Path) -> None:
    shown = recall(tiny, tmp_path, *FAST, "--policies", "pace", "--quiet", "--json")
    assert (shown.code, shown.err) == (0, "")
    assert list(shown.document["cells"]) == CELLS[:2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_or_killed_goes_on(
    number: signal.Signals, whole: Path, tiny: Path, tmp_path: Path
) -> None:
    words = [str(word) for word in ("eval", "recall", "--model", tiny, "--out", tmp_path, *FAST)]
    process = start(PACE, *words)
    path, deadline = tmp_path / "turns.jsonl", time.monotonic() + PATIENCE
    while not path.exists() or b'"type": "done"' not in path.read_bytes():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == ""
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"finished cells are in {path}; the same command goes on from there" in err
        assert "**Not finished**" in (tmp_path / "report.md").read_text("utf-8")
    else:
        assert process.returncode == -signal.SIGKILL
    done = [line["cell"] for line in lines_of(tmp_path) if line["type"] == "done"]
    assert 1 <= len(done) < 4
    shown = recall(tiny, tmp_path, *FAST)
    assert shown.code == 0
    assert f"{4 - len(done)} of 4 cells are left to measure" in shown.err
    ended = [line["cell"] for line in lines_of(tmp_path) if line["type"] == "done"]
    assert ended == CELLS
    one, other = (json.loads((folder / "summary.json").read_text()) for folder in (whole, tmp_path))
    assert steady(one) == steady(other)


def test_a_time_limit_leaves_what_can_go_on(tiny: Path, tmp_path: Path) -> None:
    shown = recall(tiny, tmp_path, *FAST, "--tokens", 200_000, "--time-limit", 4)
    assert refusal_of_limit(shown) == "the time limit of 4 s was reached"
    assert json.loads((tmp_path / "summary.json").read_text())["finished"] is False


def refusal_of_limit(shown: Any) -> str:
    assert (shown.code, shown.out) == (124, "")
    return str(shown.err.splitlines()[-1].removeprefix("pace: "))


def test_spec_compares_policies(tiny: Path, tmp_path: Path) -> None:
    words = ("--tokens", 0, "--probes", 2, "--policies", "streaming,pace", *FAST[8:])
    shown = run("eval", "spec", "--model", tiny, "--out", tmp_path, *words)
    assert shown.code == 0
    assert shown.out.startswith(f"# Spec: {tiny.stem}, 0 tokens of other work")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["cells"]) == [f"unlike/{policy}/-/1" for policy in ("ceiling", "streaming", "pace")]
    assert summary["cells"]["unlike/streaming/-/1"]["probes"] == 2
    assert summary["cells"]["unlike/streaming/-/1"]["to_reference"]["pairs"] == 2
    command = lines_of(tmp_path)[0]["command"]
    assert command[:3] == ["pace", "eval", "spec"]
    assert command[command.index("--probes") + 1] == "2"
    assert "--reads" not in command
    ended = recall(tiny, tmp_path, *FAST, "--quiet")
    assert "holds results with evaluation spec, not recall" in refusal(ended)
    ended = run("eval", "spec", "--out", tmp_path / "new", "--probes", 17)
    assert "17 unlike specifications are out of range; use 1 to" in refusal(ended)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reads", "many"), "--reads 'many' is out of range; use whole numbers with commas between"),
        (("--reads", "0"), "--reads 0 is out of range for 8 alike specifications; use 1 to 8"),
        (("--reads", ","), "--reads '': give at least one"),
        (("--means", "auto,best"), "--means 'best' is not one of auto, spliced"),
        (("--specs", "all"), "--specs 'all' is not one of alike, unlike"),
        (("--policies", "pace,h3o"), "h3o"),
        (("--budget", "3"), "budget 3 is too small"),
        (("--position-cap", "3"), "position cap 3 is below"),
        (("--threads", "0"), "threads 0 is out of range"),
        (("--seeds", "0"), "--seeds 0 is out of range"),
        (("--time-limit", "0"), "--time-limit 0 is out of range"),
    ],
)
def test_bad_options(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ended = run("eval", "recall", "--out", tmp_path / "new", *words)
    assert said in refusal(ended)
    assert not (tmp_path / "new").exists()


def test_results_of_other_settings_are_left_alone(whole: Path, tiny: Path) -> None:
    before = (whole / "turns.jsonl").read_bytes()
    ended = recall(tiny, whole, *FAST, "--budget", 4100, "--quiet")
    assert "holds results with budget 4000, not 4100; give another folder" in refusal(ended)
    assert (whole / "turns.jsonl").read_bytes() == before


def test_report_only_without_results(tmp_path: Path) -> None:
    ended = run("eval", "recall", "--report-only", "--out", tmp_path)
    assert "cannot read" in refusal(ended)


def test_a_folder_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "recall"])
    assert "--out" in capsys.readouterr().err
