"""The trials can be solved: with the right answers the agent is not in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session_pair import TALKER

from pace_agent.trials import LONG_SESSION, TASKS
from pace_agent.trials.__main__ import main
from pace_local.testing import tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(TALKER, tmp_path_factory.mktemp("model"))


def test_scripted_answers_solve_all_tasks(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--model", str(model), "--trials", ",".join(TASKS), "--scripted", "--out", str(tmp_path)]
    assert main(command) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["trial"], line["problem"]) for line in lines] == [(name, "") for name in TASKS]
    assert all(line["passed"] and line["scripted"] for line in lines)
    assert (tmp_path / "results.jsonl").read_text().count("\n") == len(TASKS)
    # What is there is not run again.
    assert main(command) == 0
    assert capsys.readouterr().out == ""


def test_a_long_session_ends_with_what_its_beginning_said(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = ["--trials", "long", "--policies", "pace_focus", "--tokens", "9000", "--scripted"]
    assert main(["--model", str(model), *trial, "--out", str(tmp_path)]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["checks"], line["facts"], line["passed"]) == (5, 4, True)
    assert line["most_residents"] <= 2048
    assert line["recalled"] > 0  # the first prompt had been evicted


@pytest.mark.parametrize(("name", "task"), TASKS.items())
def test_a_task_that_nobody_has_worked_on_is_not_passed(name: str, task: object, tmp_path: Path) -> None:
    task = TASKS[name]
    for path, text in task.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert task.judge(tmp_path)


def test_a_wrong_answer_passes_fewer_checks() -> None:
    right = LONG_SESSION.answers[-1]
    assert LONG_SESSION.judge(right) == (5, 4)
    assert LONG_SESSION.judge(right.replace("4711", "4712")) == (4, 3)
    assert LONG_SESSION.judge(right.replace("<= 4711", "< 4711")) == (4, 4)
    assert LONG_SESSION.judge("I do not know.") == (0, 0)
