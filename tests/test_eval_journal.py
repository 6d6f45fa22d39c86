"""The lines of a folder of results: what counts, what is refused, and what a kill leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_eval_measures import probe

from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.eval.journal import Journal, Results, load_results
from pace_local.eval.measures import ProbeMeasure

CELL = "alike/pace/-/2"
TURN = {"number": 1, "kv_bytes": 5, "host_bytes": 7, "device_bytes": 0}


def header(run: str, **identity: Any) -> dict[str, Any]:
    return {"run": run, "identity": {"model_fingerprint": "aa", "tokens": 100, **identity}}


def measured(run: str, number: int = 1, **changes: Any) -> ProbeMeasure:
    return probe(run=run, number=number, cell=CELL, **changes)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "turns.jsonl").read_text("ascii").splitlines()]


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "new" / "folder", header("one")) as journal:
        journal.add_turn(CELL, 1, TURN)
        journal.add_turn(CELL, 1, {**TURN, "number": 2, "kv_bytes": 4, "host_bytes": 9})
        journal.add_session(CELL, 1, gap=None, tokens=50, digest="d", seconds=1.5)
        journal.add_session(CELL, 1, gap=70, tokens=150, digest="e", seconds=2.5)
        journal.add_probe(measured("one"))
        assert not journal.results.is_finished(CELL, 1)
        journal.end_cell(CELL, 1)
        assert journal.results.is_finished(CELL, 1)
        journal.end_cell(CELL, 2, "too small")
    results = load_results(tmp_path / "new" / "folder")
    assert results.probes(CELL, 1) == [measured("one")]
    assert (results.is_finished(CELL, 1), results.is_finished(CELL, 3)) == (True, False)
    assert (results.refusal(CELL, 1), results.refusal(CELL, 2)) == (None, "too small")
    assert [turn["host_bytes"] for turn in results.turns[CELL, 1]] == [7, 9]
    assert results.sessions[CELL, 1, None]["tokens"] == 50
    assert results.sessions[CELL, 1, 70]["tokens"] == 150
    assert results.header["run"] == "one"


def test_each_line_is_there_as_soon_as_it_was_added(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        for number in (1, 2, 3):
            journal.add_probe(measured("one", number))
            assert len(lines_of(tmp_path)) == 1 + number


def test_a_second_try_replaces_the_unfinished_first(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        journal.add_probe(measured("one", 1))
        journal.add_probe(measured("one", 2))
    with Journal(tmp_path, header("two")) as journal:
        assert [each.number for each in journal.results.probes(CELL, 1)] == [1, 2]
        journal.add_probe(measured("two", 1))
        assert journal.results.probes(CELL, 1) == [measured("two", 1)]
    assert len(lines_of(tmp_path)) == 5
    assert load_results(tmp_path).probes(CELL, 1) == [measured("two", 1)]


def test_a_refused_cell_is_settled_for_the_run_that_refused_it_alone(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        journal.add_probe(measured("one", 1))
        journal.end_cell(CELL, 1, "the context is full")
        assert journal.results.is_finished(CELL, 1)
        assert journal.results.is_settled(CELL, 1, "one")
    with Journal(tmp_path, header("two")) as journal:
        assert not journal.results.is_settled(CELL, 1, "two")
        journal.add_probe(measured("two", 1))
        assert not journal.results.is_finished(CELL, 1)
        assert journal.results.probes(CELL, 1) == [measured("two", 1)]
        journal.end_cell(CELL, 1)
    assert load_results(tmp_path).is_settled(CELL, 1)


def test_turns_of_a_session_that_was_begun_anew_replace_those_of_the_first_try(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        for number in (1, 2, 3):
            journal.add_turn(CELL, 1, {**TURN, "number": number})
        journal.add_turn(CELL, 2, TURN)
    with Journal(tmp_path, header("two")) as journal:
        journal.add_turn(CELL, 1, {**TURN, "number": 3})
        journal.add_turn(CELL, 1, {**TURN, "number": 5})  # the line of 4 was lost in a kill
        turns = [(turn["number"], turn["run"]) for turn in journal.results.turns[CELL, 1]]
        assert turns == [(1, "one"), (2, "one"), (3, "two"), (5, "two")]
        journal.add_turn(CELL, 1, TURN)
        assert [(turn["number"], turn["run"]) for turn in journal.results.turns[CELL, 1]] == [(1, "two")]
    assert [turn["run"] for turn in load_results(tmp_path).turns[CELL, 2]] == ["one"]


def test_a_last_line_without_end_is_cut_off(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        journal.add_probe(measured("one"))
    path = tmp_path / "turns.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert load_results(tmp_path).probes(CELL, 1) == []
    with Journal(tmp_path, header("two")) as journal:
        assert journal.was_torn
        journal.add_probe(measured("two"))
    assert [line["type"] for line in lines_of(tmp_path)] == ["run", "run", "probe"]


@pytest.mark.parametrize("identity", [{"model_fingerprint": "bb"}, {"tokens": 101}, {"budget": 5}])
def test_results_of_another_model_or_length_are_not_mixed(tmp_path: Path, identity: dict[str, Any]) -> None:
    with Journal(tmp_path, header("one")):
        pass
    before = (tmp_path / "turns.jsonl").read_bytes()
    (what,) = identity
    with (
        pytest.raises(
            ConfigError, match=f"holds results with {what.replace('_', ' ')} .*give another folder"
        ),
        Journal(tmp_path, header("two", **identity)),
    ):
        pass
    assert (tmp_path / "turns.jsonl").read_bytes() == before
    with Journal(tmp_path, header("three")):  # and the file can be used again
        pass


def test_results_from_before_a_setting_was_one_go_on(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")):
        pass
    with Journal(tmp_path, header("two", specifications=8, between=0)) as journal:
        assert journal.results.header["identity"]["specifications"] == 8
    with pytest.raises(ConfigError, match="between 0, not 5"), Journal(tmp_path, header("t", between=5)):
        pass


def test_all_cells_must_read_the_same_session(tmp_path: Path) -> None:
    with Journal(tmp_path, header("one")) as journal:
        journal.add_session("alike/pace/-/2", 1, gap=None, tokens=50, digest="d", seconds=1)
        journal.add_session("alike/pace_focus/auto", 1, gap=None, tokens=50, digest="d", seconds=1)
        journal.add_session("alike/pace/-/2", 2, gap=None, tokens=60, digest="e", seconds=1)
        journal.add_session("alike/pace/-/2", 1, gap=9, tokens=65, digest="h", seconds=1)
        journal.add_session("unlike/pace/-/2", 1, gap=None, tokens=70, digest="f", seconds=1)
        with pytest.raises(FileError, match="has 51 tokens, and that of alike/pace/-/2 50 others"):
            journal.add_session("alike/h2o/-/1", 1, gap=None, tokens=51, digest="g", seconds=1)


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    with (
        Journal(tmp_path, header("one")),
        pytest.raises(StorageError, match="is being written by another process"),
        Journal(tmp_path, header("two")),
    ):
        pass


@pytest.mark.parametrize("line", ["{", "[]", '{"type": "probe"}', '{"type": "other"}', "{}"])
def test_what_are_no_results_is_refused_and_left_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(FileError, match=r"line 1 is no.* delete the file or give another folder"):
        load_results(tmp_path)
    with pytest.raises(FileError, match="line 1"), Journal(tmp_path, header("one")):
        pass
    assert path.read_text() == line + "\n"


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        load_results(tmp_path)
    with pytest.raises(FileError, match="run without --report-only first"):
        Results(()).header  # noqa: B018


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"), Journal(tmp_path / "file", header("one")):
        pass
