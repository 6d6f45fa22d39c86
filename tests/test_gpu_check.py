"""``scripts/gpu-check`` from its command line on: tiny models, stages cut off, devices that are not there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pace_local import _native
from pace_local.bench.flat import FlatSizes
from pace_local.bench.gpu import check, cli, peak, room
from pace_local.bench.gpu.check import CheckSizes, device_rows
from pace_local.bench.gpu.flat_length import Rates, affordable_length, flat_seconds
from pace_local.bench.gpu.journal import NAME, StageJournal, StageResult
from pace_local.bench.gpu.native_tests import RECORD
from pace_local.bench.gpu.speed import SpeedSizes
from pace_local.bench.report import Row, median_row
from pace_local.errors import ConfigError, NativeError, PaceError, TimeLimitError
from pace_local.policies import POLICIES

FLAT = FlatSizes(early=160, fact=32, piece=200, write=8, budget=128, headroom=64, position_cap=320)
SPEED = SpeedSizes(before=300, text=80, answer=8, turns=2, budget=192, headroom=64, position_cap=320)
SIZES = CheckSizes(speed=SPEED, flat=FLAT, residents=192, headroom=64, renumberings=2, flat_samples=2)
QUICK = ["--shape", "tiny", "--threads", "1", "--tokens", "600", "--tests", "tests/test_native_settle.py"]
ROW_KEYS = ["name", "value", "unit", "better", "limit", "aim", "ok", "samples", "min", "max"]
ONE_GPU = [_native.Device("CUDA0", "A Card", "gpu", 22 * 10**9, 24 * 10**9)]

Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def run(tmp_path: Path, tiny_models: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in one folder; returns exit code, report (empty if there is none), and stderr."""

    def run_it(*arguments: str, sizes: CheckSizes = SIZES) -> tuple[int, dict[str, Any], str]:
        where = ["--out", str(tmp_path / "out"), "--cache-dir", str(tiny_models)]
        code = cli.main([*QUICK, *where, "--json", *arguments], sizes)
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else {}, said.err

    return run_it


def values(report: dict[str, Any]) -> dict[str, float]:
    named = {row["name"]: row["value"] for row in report["rows"]}
    assert len(named) == len(report["rows"])
    return named


def stage_lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / NAME).read_text().splitlines() if '"stage"' in line]


# From end to end


def test_every_stage_is_measured_and_reported_in_the_benchmarks_form(run: Run, tmp_path: Path) -> None:
    code, report, said = run("--policies", "pace,none,h2o")
    assert list(report) == ["bench", "commit", "build", "machine", "model", "models", "rows"]
    assert report["bench"] == "gpu-check"
    assert report["machine"]["devices"] == []
    assert report["build"]["backends"] == _native.read_build().facts["backends"]
    assert report["model"]["name"] == "tiny"
    assert len(report["model"]["sha256"]) == 64
    assert all([key for key in row if key != "note"] == ROW_KEYS for row in report["rows"])
    found = values(report)
    # Speeds of a loaded machine are judged nowhere here, so that flat may miss its limit.
    assert code in (0, 1)
    assert {row["name"] for row in report["rows"] if not row["ok"]} <= {"flat_ratio"}
    assert found["devices"] == 0
    assert found["native_tests_passed"] > 0
    assert (found["native_tests_failed"], found["violations"]) == (0, 0)
    # 4 layers, 2 KV heads of 32, 2 bytes, K, V and references, budget 192 and headroom 64.
    assert found["total_bytes"] == 256 * 4 * 2 * 32 * 2 * 3
    assert found["kv_bytes.pace"] == found["total_bytes"]
    assert found["kv_bytes.none"] > 2 * found["kv_bytes.pace"]
    for policy in ("pace", "none", "h2o"):
        assert found[f"prompt_tokens_per_second.{policy}"] > 0
        assert found[f"decode_tokens_per_second.{policy}"] > 0
        assert found[f"host_peak_bytes.{policy}"] > 10**6
    assert found["renumber_ms_00b"] > 0
    assert found["session_tokens"] >= 600
    assert not any("device_peak" in name for name in found)
    assert "built for the CPU, and measured on it" in said
    out = tmp_path / "out"
    assert json.loads((out / cli.REPORT).read_text()) == report
    assert "native_tests_passed" in (out / cli.TABLE).read_text()
    assert [line["stage"] for line in stage_lines(out)] == [
        "correctness", "memory", "renumber", "speed.pace", "speed.none", "speed.h2o", "flat.600",
    ]  # fmt: skip


def test_a_run_that_was_cut_off_has_given_what_it_had_and_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--stages", "memory,renumber,speed", "--policies", "pace")
    measured: list[str] = []
    memory, renumber = check.measure_memory, check.measure_renumber

    def noted(name: str, measure: Callable[..., list[Row]]) -> Callable[..., list[Row]]:
        def measure_it(*arguments: Any, **options: Any) -> list[Row]:
            measured.append(name)
            return measure(*arguments, **options)

        return measure_it

    def killed(*_arguments: Any, **_options: Any) -> list[Row]:
        raise KeyboardInterrupt  # nothing of ours catches it, as nothing catches SIGKILL

    monkeypatch.setattr(check, "measure_memory", noted("memory", memory))
    monkeypatch.setattr(check, "measure_renumber", killed)
    with pytest.raises(KeyboardInterrupt):
        run(*asked)
    kept = json.loads((tmp_path / "out" / cli.REPORT).read_text())
    assert "kv_bytes" in values(kept)
    assert "renumber_ms_00b" not in values(kept)
    # The process died in the midst of a line.
    with (tmp_path / "out" / NAME).open("a") as file:
        file.write('{"stage": "renum')
    monkeypatch.setattr(check, "measure_renumber", noted("renumber", renumber))
    code, report, said = run(*asked)
    assert code == 0
    assert measured == ["memory", "renumber"]
    assert "memory: measured before" in said
    assert values(report).items() >= values(kept).items()
    assert run(*asked)[1]["rows"] == report["rows"]
    assert measured == ["memory", "renumber"]


def test_a_stage_that_fails_does_not_stop_the_others_and_is_measured_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_options: Any) -> list[Row]:
        raise NativeError("DEVICE_FAILED", "the device failed while rows were moved")

    asked = ("--stages", "memory,renumber", "--policies", "pace")
    with monkeypatch.context() as patched:
        patched.setattr(check, "measure_memory", broken)
        code, report, _ = run(*asked)
    assert code == 1
    failed = next(row for row in report["rows"] if row["name"] == "failed.memory")
    assert (failed["ok"], failed["note"]) == (False, "the device failed while rows were moved")
    assert "renumber_ms_00b" in values(report)
    code, report, _ = run(*asked)
    assert code == 0
    assert "failed.memory" not in values(report)


def test_results_of_something_else_are_refused(run: Run) -> None:
    assert run("--stages", "memory")[0] == 0
    other = dataclasses.replace(SIZES, residents=128)
    code, report, said = run("--stages", "memory", sizes=other)
    assert (code, report) == (2, {})
    assert "give another --out" in said


# Devices


@pytest.mark.parametrize(
    ("devices", "asked", "required", "ok", "note"),
    [
        ([], [], False, True, "built for the CPU"),
        ([], [], True, False, "was built for the CPU alone"),
        ([], ["CUDA"], False, False, "built with CUDA, but no device is there"),
        (ONE_GPU, ["CUDA"], True, True, "CUDA0: A Card, 24.0 GB"),
    ],
)
def test_a_device_that_was_asked_for_must_be_there(
    devices: list[_native.Device],
    asked: list[str],
    required: bool,
    ok: bool,
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check, "accelerators", lambda: devices)
    monkeypatch.setattr(check, "expected_backends", lambda: asked)
    (row,) = device_rows(required=required)
    assert (row.value, row.ok) == (len(devices), ok)
    assert note in row.note


def test_what_the_build_was_asked_for_is_read_from_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"GGML_CUDA": True, "GGML_METAL": False, "GGML_OPENMP": True}
    build = _native.Build(Path(), {"options": options})
    monkeypatch.setattr(_native, "read_build", lambda: build)
    assert check.expected_backends() == ["CUDA"]


@pytest.mark.parametrize("asked", [[], ["CUDA"]])
def test_without_the_device_that_was_asked_for_nothing_is_measured_and_the_check_fails(
    asked: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "expected_backends", lambda: asked)
    code, report, _ = run(*([] if asked else ["--require-device"]))
    assert code == 1
    assert [(row["name"], row["value"], row["ok"]) for row in report["rows"]] == [("devices", 0, False)]
    assert not (tmp_path / "out" / NAME).exists()


def test_the_peak_is_the_most_that_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([5, 9, 7])

    def devices() -> list[_native.Device]:
        return [dataclasses.replace(ONE_GPU[0], free=ONE_GPU[0].total - next(used, 6))]

    monkeypatch.setattr(peak, "accelerators", devices)
    monkeypatch.setattr(peak, "_EVERY_SECONDS", 3600)
    with peak.Peak() as most:
        most.look()
    assert most.device_bytes == 9
    assert most.host_bytes > 10**6


# Time


def test_flat_is_as_long_as_the_time_left_allows() -> None:
    sizes, rates = FlatSizes(), Rates(prompt=1000.0, decode=50.0)
    whole = flat_seconds(sizes, 24, rates)
    assert affordable_length(sizes, 24, rates, whole) == pytest.approx(200_000, abs=2)
    assert affordable_length(sizes, 24, rates, 10 * whole) == 200_000
    half = dataclasses.replace(sizes, late=100_000)
    assert affordable_length(sizes, 24, rates, flat_seconds(half, 24, rates)) == pytest.approx(100_000, abs=2)
    assert affordable_length(sizes, 24, rates, 60) == 0
    # Both sessions read 4,096 tokens and a cycle twice: 8,192 fewer tokens cannot be the greater part.
    assert whole > 200_000 / rates.prompt


def test_a_shortened_flat_says_so_and_is_made_longer_by_a_run_with_more_time(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = iter([400, 400, 600])
    monkeypatch.setattr(check, "affordable_length", lambda *_: next(lengths))
    asked = ("--stages", "speed,flat", "--policies", "pace", "--time-limit", "600")
    _, report, said = run(*asked)
    ratio = next(row for row in report["rows"] if row["name"] == "flat_ratio")
    assert ratio["note"].startswith("shortened to 400 of 600 session tokens: ")
    assert "shortened to 400" in said
    first = values(report)["session_tokens"]
    _, report, said = run(*asked)
    assert "no shorter than it would be now" in said
    assert values(report)["session_tokens"] == first
    _, report, said = run(*asked)
    assert "note" not in next(row for row in report["rows"] if row["name"] == "flat_ratio")
    assert [line["shortened"] for line in stage_lines(tmp_path / "out") if "flat" in line["stage"]] == [
        True, False,
    ]  # fmt: skip


def test_too_little_time_leaves_a_stage_for_the_next_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(check, "affordable_length", lambda *_: 0)
        code, report, said = run("--stages", "speed,flat", "--policies", "pace", "--time-limit", "600")
    assert code == 124
    assert "too short for flat.600; the same command goes on with it" in said
    assert "prompt_tokens_per_second.pace" in values(report)
    assert "flat_ratio" not in values(report)


def test_a_time_limit_that_was_spent_before_ends_at_once_with_the_report_so_far(run: Run) -> None:
    assert run("--stages", "memory")[0] == 0
    code, report, said = run("--stages", "memory,flat", "--time-limit", "60", "--spent", "60")
    assert code == 124
    assert "time limit" in said
    assert "flat_ratio" not in values(report)


def test_tests_that_a_limit_cut_off_are_in_the_report(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_tests: Any, out: Path, **_options: Any) -> Any:
        line = {"test": "a", "outcome": "passed", "message": "", "contexts": {}}
        (out / RECORD).write_text(json.dumps({"collected": 2}) + "\n" + json.dumps(line) + "\n")
        raise TimeLimitError("the time limit of 600 s was reached")

    monkeypatch.setattr(check, "run_native_tests", cut_off)
    code, report, said = run("--stages", "correctness,memory")
    assert code == 124
    assert "the time limit of 600 s was reached" in said
    passed = next(row for row in report["rows"] if row["name"] == "native_tests_passed")
    assert (passed["value"], passed["note"]) == (1, "so far: 1 of 2 tests")
    assert "kv_bytes" not in values(report)
    assert json.loads((tmp_path / "out" / cli.REPORT).read_text()) == report


# Arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shape", "qwen4"], "--shape 'qwen4' is not one of qwen3-8b, tiny, or shape:NAME"),
        (["--layers", "3"], "--layers 3 needs a full shape"),
        (["--stages", "speeds"], "--stages 'speeds' is not one of correctness, memory"),
        (["--policies", "pace,pace"], "each once"),
        (["--policies", ""], "at least one"),
        (["--tokens", "0"], "--tokens 0 is out of range"),
        (["--time-limit", "0"], "--time-limit 0 is out of range"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], said: str, run: Run) -> None:
    code, report, errors = run(*arguments)
    assert (code, report) == (2, {})
    assert said in errors


def test_all_policies_are_measured_by_default_pace_first() -> None:
    names = cli.build_parser().parse_args([]).policies.split(",")
    assert names[0] == "pace"
    assert sorted(names) == sorted(POLICIES)


# The journal


def test_a_journal_gives_back_what_was_put_in(tmp_path: Path) -> None:
    rows = (
        median_row("a", [1.5, 2.5, 9.0], "x", "lower", limit=2.0, aim=1.0, note="so"),
        median_row("b", [float("inf")], "ms", "lower", limit=1.0),
        median_row("c", [566_231_040], "bytes", "lower"),
    )
    result = StageResult(rows, 3.25, shortened=True)
    with StageJournal(tmp_path, {"commit": "1"}) as journal:
        journal.add("flat.9", result)
        journal.note_model({"name": "m", "sha256": "s"})
    with StageJournal(tmp_path, {"commit": "1"}) as journal:
        assert journal.get("flat.9") == result
        assert not result.is_final
        assert journal.rows(["memory", "flat.9"]) == list(rows)
        assert journal.model == {"name": "m", "sha256": "s"}
        with pytest.raises(ConfigError, match="another model file"):
            journal.note_model({"name": "m", "sha256": "t"})
    with pytest.raises(ConfigError, match="commit '1', and this run has '2'"):
        StageJournal(tmp_path, {"commit": "2"}).__enter__()
    # The lock is free again.
    with StageJournal(tmp_path, {"commit": "1"}):
        pass


def test_what_holds_no_stages_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"stage": "memory"}\n')
    with pytest.raises(PaceError, match="line 1 is no result of a stage"):
        StageJournal(tmp_path, {}).__enter__()


# Room


def test_a_machine_without_room_says_what_is_missing_and_is_not_called_good(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "free_disk", lambda _folder: 10**9)
    code, report, _ = run("--shape", "qwen3-8b", "--stages", "memory,flat")
    assert code == 1
    (row,) = [row for row in report["rows"] if row["name"] == "model_skipped"]
    assert "no room for one layer: all 36 layers of qwen3-8b need 17.4 GB of disk" in row["note"]
    assert "1.0 GB" in row["note"]
    assert report["model"] == {"name": "none", "sha256": ""}
