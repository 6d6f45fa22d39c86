"""Benchmarks: arithmetic, report, what it was measured on, command line."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from pace_local import _native
from pace_local.bench import cli, surroundings
from pace_local.bench.report import Report, Row, median_row, pair_ratios
from pace_local.bench.rounds import samples_by_round
from pace_local.bench.subject import Subject
from pace_local.models import inspect_gguf
from pace_local.testing import TinySpec, tiny_model

ROW_KEYS = ["name", "value", "unit", "better", "limit", "aim", "ok", "samples", "min", "max"]


@pytest.fixture(scope="module")
def subject(tiny_models: Path) -> Subject:
    return Subject("tiny", inspect_gguf(tiny_model(TinySpec(arch="qwen3"), tiny_models)), "0" * 64)


# Arithmetic


def test_a_row_is_the_median_with_the_extremes():
    row = median_row("r", [3.0, 1.0, 2.5], "x", "lower", limit=2.5, aim=2.0)
    assert (row.value, row.min, row.max, row.samples) == (2.5, 1.0, 3.0, 3)
    assert median_row("r", [1.0, 2.0], "x", "lower").value == 1.5


def test_ratios_are_formed_pair_by_pair():
    # The ratio of the medians would be 20 / 10 = 2: drift between pairs must not count.
    assert pair_ratios([1.0, 20.0, 300.0], [1.0, 10.0, 100.0]) == [1.0, 2.0, 3.0]
    assert pair_ratios([1.0, 1.0], [0.0, -1.0]) == [math.inf, math.inf]
    with pytest.raises(ValueError, match="shorter"):
        pair_ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("value", "better", "limit", "ok"),
    [
        (0.35, "lower", 0.35, True),
        (0.351, "lower", 0.35, False),
        (0.97, "higher", 0.97, True),
        (0.969, "higher", 0.97, False),
        (1, "lower", 0, False),
        (0, "lower", 0, True),
        (9.0, "lower", None, True),
        (math.nan, "lower", 1.0, False),
        (math.nan, "higher", 1.0, False),
        (math.inf, "lower", 1.0, False),
    ],
)
def test_ok_compares_with_the_limit_and_not_with_the_aim(value, better, limit, ok):
    assert Row("r", value, "x", better, 1, value, value, limit, aim=limit and -limit).ok is ok


def test_an_infinite_value_is_null_in_json_and_misses_its_limit():
    row = median_row("r", [math.inf], "x", "lower", limit=1.0).as_dict()
    assert (row["value"], row["max"], row["ok"]) == (None, None, False)
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize(
    ("samples", "rounds"), [(1, [1]), (2, [1, 1]), (3, [1, 1, 1]), (9, [3, 3, 3]), (11, [4, 4, 3])]
)
def test_samples_are_spread_over_rounds(samples, rounds):
    assert samples_by_round(samples) == rounds


# Report


def report(*rows: Row) -> Report:
    return Report(
        "decode",
        None,
        {"llama_cpp": "1", "patch": "2", "isa": []},
        {"cpu": "c", "cores": 2, "threads": 1, "load": 0.5},
        [{"name": "m", "sha256": "s"}, {"name": "n", "sha256": "t"}],
        rows,
    )


def test_a_report_has_the_documented_form():
    made = report(
        median_row("a", [1.23456789], "x", "lower"), median_row("b", [7], "bytes", "lower", limit=6)
    )
    plain = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert list(plain) == ["bench", "commit", "build", "machine", "model", "models", "rows"]
    assert plain["model"] == plain["models"][0] == {"name": "m", "sha256": "s"}
    assert [list(row) for row in plain["rows"]] == [ROW_KEYS, ROW_KEYS]
    assert plain["rows"][0]["value"] == 1.23457
    assert plain["rows"][1]["value"] == 7
    assert not made.ok
    assert report(median_row("a", [1.0], "x", "lower")).ok


def test_a_table_marks_what_missed_its_limit():
    table = report(
        median_row("kept", [1.0], "x", "lower", limit=2.0, aim=0.5),
        median_row("broken", [3.0], "x", "lower", limit=2.0),
        median_row("informs", [566_231_040], "bytes", "lower"),
    ).table()
    lines = {line.split()[1]: line for line in table.splitlines()[1:3]}
    assert lines["kept"].startswith("ok")
    assert "≤ 2.000" in lines["kept"]
    assert lines["broken"].startswith("MISSED")
    assert "566,231,040" in table


# What it was measured on


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_our_own_checkout_only(tmp_path, monkeypatch):
    monkeypatch.setattr(surroundings, "_SOURCE", tmp_path)
    assert surroundings.current_commit() is None
    git(tmp_path, "init", "--quiet")
    assert surroundings.current_commit() is None
    (tmp_path / "file").write_text("one")
    (tmp_path / "inside").mkdir()
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--no-verify", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert surroundings.current_commit() == head
    (tmp_path / "file").write_text("two")
    assert surroundings.current_commit() == f"{head}-dirty"
    # An environment inside the repository of somebody else.
    monkeypatch.setattr(surroundings, "_SOURCE", tmp_path / "inside")
    assert surroundings.current_commit() is None


def test_facts_are_those_of_build_and_machine():
    build = surroundings.build_facts()
    assert build["isa"] == _native.read_build().isa
    assert build["llama_cpp"]
    assert build["patch"]
    machine = surroundings.machine_facts(3)
    assert machine["cpu"]
    assert machine["threads"] == 3
    assert machine["load"] >= 0


# Command line


def test_the_command_prints_one_json_object(subject, tmp_path, capsys):
    code = cli.main(
        [
            "decode",
            "--json",
            "--samples",
            "1",
            "--threads",
            "1",
            "--model",
            str(subject.path),
            "--cache-dir",
            str(tmp_path),
        ]
    )
    out, err = capsys.readouterr()
    plain = json.loads(out)
    assert out.count("\n") == 1
    assert plain["bench"] == "decode"
    assert plain["model"]["name"] == subject.path.stem
    assert plain["rows"][0]["name"] == "decode_ratio"
    assert code == (0 if all(row["ok"] for row in plain["rows"]) else 1)
    assert "block 1 of 1" in err


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (2.0, 1)])
def test_a_missed_limit_is_exit_code_1(value, code, subject, monkeypatch, capsys):
    row = median_row("r", [value], "x", "lower", limit=1.5)
    for name in cli.BENCHES:
        monkeypatch.setitem(cli.BENCHES, name, lambda _options: ([subject], [row]))
    assert cli.main(["all", "--json"]) == code
    plain = json.loads(capsys.readouterr().out)
    assert plain["bench"] == "all"
    assert len(plain["rows"]) == len(cli.BENCHES) - 1, "policies takes too long to be one of all"
    assert plain["models"] == [subject.identity()]
    assert cli.main(["memory"]) == code
    assert ("MISSED" in capsys.readouterr().out) is (code == 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", "--samples", "0"], "bench: --samples 0 is out of range; use 1 or more"),
        (["flat", "--tokens", "-5"], "bench: --tokens -5 is out of range; use 1 or more"),
        (["memory", "--threads", "0"], "bench: --threads 0 is out of range; use 1 or more"),
        (["decode", "--model", "shape:none"], "bench: no KV shape named 'none'"),
        (["decode", "--model", "./missing.gguf"], "missing.gguf"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    assert cli.main([*arguments, "--cache-dir", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_unknown_benchmark_is_a_usage_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["speed"])
    assert "invalid choice" in capsys.readouterr().err


def test_cancelling_is_exit_code_130(monkeypatch, capsys):
    def cancelled(_options: cli.Options) -> cli.Outcome:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.BENCHES, "memory", cancelled)
    assert cli.main(["memory", "--json"]) == 130
    assert capsys.readouterr().out == ""


def test_the_script_can_be_run():
    script = Path(__file__).parent.parent / "scripts" / "bench"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert '-m pace_tui.bench "$@"' in script.read_text(encoding="utf-8")
