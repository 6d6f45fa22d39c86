"""The stage ``correctness`` of ``scripts/gpu-check``: counts, crashes, and runs that go on."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from pace_local.bench.gpu.native_tests import RECORD, Tally, run_native_tests, tally
from pace_local.bench.gpu.pytest_record import read_record, reason
from pace_local.bench.report import Row
from pace_local.errors import CancelledError, PaceError
from pace_local.terminal import Stop

TESTS = """
import logging
import os
import pathlib
import pytest

def context(buffer):
    logging.getLogger("pace_local.native").debug("llama_kv_cache: %10s KV buffer size =  1.00 MiB", buffer)

def test_good():
    context("CUDA0")

@pytest.mark.parametrize("n", [1, 2])
def test_more(n):
    context("CUDA0")
    context("CPU")

def test_bad():
    assert 1 + 1 == 3, "so it is"

@pytest.fixture
def broken():
    raise OSError("no set-up")

def test_error(broken):
    pass

@pytest.mark.skipif(True, reason="not here")
def test_skipped():
    pass

@pytest.mark.model
def test_of_a_model():
    pass

def test_crash():
    os.abort()

def test_last():
    pathlib.Path(__file__).with_name("reached").touch()
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """Tests of all outcomes, in a folder of their own."""
    path = tmp_path / "suite" / "test_made_up.py"
    path.parent.mkdir()
    path.write_text(TESTS)
    (path.parent / "pytest.ini").write_text("[pytest]\nmarkers = model: needs one\n")
    return path


def run(tests: Path, out: Path) -> Tally:
    out.mkdir(exist_ok=True)
    return run_native_tests([str(tests)], out, say=lambda _line: None, stop=Stop())


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_outcomes_are_counted_and_a_crash_costs_one_test(tests: Path, tmp_path: Path) -> None:
    found = run(tests, tmp_path / "out")
    assert found.collected == 8  # not the one that needs a model
    assert found.outcomes == {"passed": 4, "failed": 2, "skipped": 1, "crashed": 1}
    assert (tests.parent / "reached").exists()
    said = "\n".join(found.failures)
    assert "::test_bad: " in said
    assert "no set-up" in said
    assert "::test_crash: the process ended with -6" in said
    assert found.contexts == {"CUDA0": 3, "CPU": 2}
    rows = by_name(found.rows(on_device=True))
    assert (rows["native_tests_passed"].value, rows["native_tests_passed"].ok) == (4, True)
    assert (rows["native_tests_failed"].value, rows["native_tests_failed"].ok) == (3, False)
    assert "test_crash" in rows["native_tests_failed"].note
    assert rows["native_tests_skipped"].value == 1
    assert (rows["native_contexts_on_device"].value, rows["native_contexts_on_device"].ok) == (3, True)
    assert rows["native_contexts_on_device"].note == "cells lay in CPU 2, CUDA0 3"


def test_tests_that_ran_on_the_cpu_do_not_pass_for_a_device(tmp_path: Path) -> None:
    line = {"test": "a", "outcome": "passed", "message": "", "contexts": {"CPU": 9, "CPU_Mapped": 1}}
    (tmp_path / RECORD).write_text(json.dumps({"collected": 1}) + "\n" + json.dumps(line) + "\n")
    found = tally(tmp_path / RECORD)
    assert not by_name(found.rows(on_device=True))["native_contexts_on_device"].ok
    assert by_name(found.rows(on_device=False))["native_contexts_on_device"].ok
    assert by_name(found.rows(on_device=True))["native_tests_failed"].ok


def test_a_run_that_is_not_over_says_so_and_is_held_to_its_failures_alone() -> None:
    assert Tally(10, Counter(), (), Counter()).rows_so_far() == []
    rows = by_name(Tally(10, Counter(passed=3, crashed=1), ("a: b",), Counter()).rows_so_far())
    assert (rows["native_tests_passed"].value, rows["native_tests_passed"].note) == (
        3,
        "so far: 4 of 10 tests",
    )
    assert (rows["native_tests_failed"].ok, rows["native_tests_failed"].note) == (False, "a: b")
    assert all(row.ok for row in Tally(10, Counter(passed=3), (), Counter()).rows_so_far())


def test_a_run_that_was_cut_off_goes_on_with_what_has_no_outcome(tests: Path, tmp_path: Path) -> None:
    whole = run(tests, tmp_path / "whole")
    lines = (tmp_path / "whole" / RECORD).read_text().splitlines(keepends=True)
    ended = [number for number, line in enumerate(lines) if '"test"' in line]
    (tmp_path / "cut").mkdir()
    # Killed in the midst of the line of the third test.
    text = "".join(lines[: ended[2]]) + lines[ended[2]][:20]
    (tmp_path / "cut" / RECORD).write_text(text)
    assert tally(tmp_path / "cut" / RECORD).done == 2
    went_on = run(tests, tmp_path / "cut")
    assert went_on.outcomes == whole.outcomes
    assert went_on.failures == whole.failures
    record = read_record(tmp_path / "cut" / RECORD)
    names = [line["test"] for line in record if "test" in line]
    assert len(names) == len(set(names)) == 8
    # Nothing is run when everything has its outcome.
    size = (tmp_path / "cut" / RECORD).stat().st_size
    assert run(tests, tmp_path / "cut").outcomes == whole.outcomes
    grown = (tmp_path / "cut" / RECORD).read_text()[size:]
    assert '"begun"' not in grown


def test_tests_that_never_ran_count_as_failed() -> None:
    found = Tally(10, Counter(passed=7, skipped=1), (), Counter())
    row = by_name(found.rows(on_device=False))["native_tests_failed"]
    assert (row.value, row.ok, row.note) == (2, False, "2 of 10 tests never ran")


def test_a_broken_suite_is_an_error_and_no_pass(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(PaceError, match="pytest ended with 2 before any test; its output is in"):
        run(tmp_path / "test_broken.py", tmp_path / "out")
    (tmp_path / "test_empty.py").write_text("")
    with pytest.raises(PaceError, match="ended with 5"):
        run(tmp_path / "test_empty.py", tmp_path / "none")


def test_stopping_ends_the_process_and_keeps_what_there_is(tmp_path: Path) -> None:
    suite = tmp_path / "test_slow.py"
    suite.write_text("import time\ndef test_one(): pass\ndef test_two(): time.sleep(600)\n")
    stop = Stop()
    out = tmp_path / "out"
    out.mkdir()

    def ask() -> None:
        while tally(out / RECORD).done == 0:
            threading.Event().wait(0.05)
        stop.request(CancelledError("cancelled"))

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(CancelledError):
        run_native_tests([str(suite)], out, say=lambda _line: None, stop=stop)
    asking.join()
    assert tally(out / RECORD).outcomes == {"passed": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test():\n>  assert x\nE   KeyError: so\nE   and so\n\nf.py:3: Error", "KeyError: so"),
        ("ERROR in set-up\nfile not found\n", "file not found"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_failure_is_one_line(text: str, said: str) -> None:
    assert reason(text) == said
