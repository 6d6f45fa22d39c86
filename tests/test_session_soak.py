"""The script that does a hundred thousand random operations, on a few of them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from session_pair import SessionPair

SCRIPT = Path(__file__).parent.parent / "scripts" / "soak"


@pytest.fixture
def soak() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("soak", str(SCRIPT))
    spec = importlib.util.spec_from_loader("soak", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_three_hundred_operations() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--operations", "300", "--seed", "4"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    found = re.fullmatch(
        r"soak: seed 4: 300 operations in 2 sessions, ([\d,]+) tokens, ([\d,]+) evictions, .*: "
        r"no violation in \d+ s\n",
        run.stdout,
    )
    assert found, run.stdout
    assert all(int(number.replace(",", "")) > 0 for number in found.groups())
    assert [line.split(" ")[0] for line in run.stderr.splitlines()] == ["250/300", "300/300"]


def test_a_run_goes_on_where_another_stopped(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "PER_SESSION", 20)
    assert soak.main(["--operations", "60", "--seed", "1"]) == 0
    whole = capsys.readouterr().err.splitlines()
    assert soak.main(["--operations", "20", "--seed", "1", "--offset", "40"]) == 0
    assert capsys.readouterr().err.splitlines() == whole[2:]


@pytest.mark.parametrize(
    ("error", "code"), [(AssertionError("residents over the budget"), 1), (KeyboardInterrupt(), 130)]
)
def test_what_is_not_as_it_must_be_is_said_with_the_command_that_repeats_it(
    soak: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    monkeypatch.setattr(soak, "PER_SESSION", 20)
    compare, calls = SessionPair.compare_state, []

    def fails(pair: SessionPair) -> None:
        calls.append(pair)
        if len(set(calls)) == 2:
            raise error
        compare(pair)

    monkeypatch.setattr(SessionPair, "compare_state", fails)
    assert soak.main(["--operations", "60", "--seed", "1"]) == code
    out, err = capsys.readouterr()
    assert "scripts/soak --seed 1 --offset 20 --operations 40" in err
    assert (out == "soak: seed 1: violation in session 1 after 20 operations\n") == (code == 1)
    assert ("residents over the budget" in err) == (code == 1)
