"""The runner: the same session for all cells, fair plans, ceilings, and going on after a stop."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from eval_runs import SETTINGS, Watch, measure, outcome, steady
from session_pair import TALKER

from pace_local import Model
from pace_local.errors import CancelledError, ConfigError
from pace_local.eval.askers import trial_of
from pace_local.eval.cells import CEILING, Cell, EvalSettings
from pace_local.eval.journal import Results
from pace_local.eval.plans import plan_of
from pace_local.eval.play import Play
from pace_local.eval.stage import Stage
from pace_local.eval.summary import summarise
from pace_local.eval.tasks import KINDS
from pace_local.eval.trial import SYSTEM_PROMPT
from pace_local.eval.workload import make_workload
from pace_local.session import Session
from pace_local.terminal import Stop
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Watch, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return *measure(model, SETTINGS, folder), folder


def lines_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "turns.jsonl").read_text("ascii").splitlines())
    return [line for line in lines if line["type"] == kind]


# Cells and settings


def test_ceilings_come_first_and_only_a_policy_that_focuses_takes_means() -> None:
    settings = EvalSettings(policies=("streaming", "pace_focus"), means=("auto", "reread"), reads=(1, 2))
    keys = [cell.key for cell in settings.cells()]
    assert keys[:4] == [f"{specs}/ceiling/-/{k}" for specs in ("alike", "unlike") for k in (1, 2)]
    assert keys[4:10] == [
        *("alike/streaming/-/1", "alike/streaming/-/2"),
        *("alike/pace_focus/auto/1", "alike/pace_focus/auto/2"),
        *("alike/pace_focus/reread/1", "alike/pace_focus/reread/2"),
    ]
    assert len(keys) == len(set(keys)) == 16
    stages = [[cell.key for cell in stage] for stage in settings.stages()]
    assert [len(stage) for stage in stages] == [1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 2, 2]
    assert [key for stage in stages for key in stage] == keys


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokens": -1}, "--tokens -1 is out of range"),
        ({"seeds": 0}, "--seeds 0 is out of range; use 1 to 1000"),
        ({"reads": (9,)}, "--reads 9 is out of range for 8 alike specifications; use 1 to 8"),
        ({"reads": ()}, "--reads '': give at least one, each once"),
        ({"reads": (1, 1)}, "--reads '1,1': give at least one, each once"),
        ({"means": ("auto", "kept")}, "--means 'kept' is not one of auto, spliced"),
        ({"specs": ("like",)}, "--specs 'like' is not one of alike, unlike"),
        ({"policies": ("pacee",)}, "pacee"),
        ({"budget": 1}, "budget 1 is too small"),
        ({"between": -1}, "--between -1 is out of range"),
        ({"specifications": 17}, f"17 unlike specifications are out of range; use 1 to {len(KINDS)}"),
        ({"gaps": (-1,)}, "--gaps -1 is out of range"),
        ({"gaps": (7, 7)}, "--gaps '7,7': give at least one, each once"),
        ({"gaps": (7,), "between": 1}, "leave --between out"),
        ({"errors": (101,)}, "--errors 101 is out of range; use 0 to 100"),
        ({"specs": ("facts",), "reads": (2,)}, "--reads 2 is out of range for 8 facts probes; use 1 to 1"),
        ({"specifications": 21, "specs": ("alike",)}, "21 alike specifications are out of range"),
        (
            {"specifications": 4, "reads": (5,)},
            "--reads 5 is out of range for 4 alike specifications; use 1 to 4",
        ),
        ({"answer_tokens": 0}, "--answer-tokens 0 is out of range"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        EvalSettings(**settings)


@pytest.mark.parametrize(("reads", "sizes"), [(1, 8), (2, 4), (3, 2), (4, 2), (5, 1), (8, 1)])
def test_an_incomplete_last_group_is_dropped(model: Model, reads: int, sizes: int) -> None:
    trial = trial_of(model, dataclasses.replace(SETTINGS, tokens=0), "unlike", 1, reads)
    probes = trial.probes
    assert len(probes) == sizes == Cell("unlike", "pace", None, reads).n_probes(8)
    assert all(len(probe.reads) == reads for probe in probes)


# The session


def test_every_cell_reads_the_same_tokens(model: Model, whole: tuple[Results, Watch, Path]) -> None:
    """Whatever the policy, the means and the number of reads; and they are those of the script."""
    *_, folder = whole
    sessions = lines_of(folder, "session")
    assert {line["stage"] for line in sessions} == {
        *("alike/pace/-/3", "alike/pace/-/4", "alike/pace_focus/auto", "alike/pace_focus/reread")
    }
    assert len({line["digest"] for line in sessions}) == len({line["tokens"] for line in sessions}) == 1
    trial = trial_of(model, SETTINGS, "alike", 1, 1)
    with Session(model, budget=20_000, position_cap=21_000, policy="none", threads=1) as session:
        for entry in (*trial.told, *trial.work):
            session.append(entry.text, kind=entry.kind)
        play = object.__new__(Play)
        play.session = session
        assert play.digest() == sessions[0]["digest"]
        assert session.session_length == sessions[0]["tokens"]


def test_the_session_is_longer_than_the_budget_and_has_filler(whole: tuple[Results, Watch, Path]) -> None:
    *_, folder = whole
    turns = [line for line in lines_of(folder, "turn") if line["stage"] == "alike/pace/-/3"]
    assert [turn["part"] for turn in turns][:9] == ["system"] + ["told"] * 8
    assert {turn["part"] for turn in turns[9:]} == {"filler"}
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    assert sum(turn["evicted"] for turn in turns) > 0
    assert max(turn["residents"] for turn in turns) <= SETTINGS.budget
    assert turns[-1]["session_tokens"] == sum(turn["tokens"] for turn in turns) > SETTINGS.budget


def test_a_stage_is_read_once(whole: tuple[Results, Watch, Path]) -> None:
    _, watch, _ = whole
    a_session = watch.turns.count("alike/pace/-/3 1")
    assert {watch.turns.count(stage) for stage in set(watch.turns)} == {a_session}
    assert len(set(watch.turns)) == 4


def test_a_cell_is_the_same_in_a_session_of_its_own(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path
) -> None:
    """What starts from a checkpoint of the shared session answers as what read all of it itself."""
    results, *_ = whole
    alone, _ = measure(model, dataclasses.replace(SETTINGS, policies=("pace_focus",), reads=(4,)), tmp_path)
    for means in SETTINGS.means:
        key = f"alike/pace_focus/{means}/4"
        found = [steady(probe) for probe in alone.probes(key, 1)]
        assert found == [steady(probe) for probe in results.probes(key, 1)]
        assert len(found) == 2


def test_user_turns_are_talk_and_files_are_isolated(model: Model) -> None:
    """A name would make a user's turn one that is read in isolation."""
    trial = trial_of(model, SETTINGS, "alike", 1, 1)
    config = SETTINGS.session_config(Cell("alike", "pace_focus", "auto", 1))
    with Play(model, config, Stop()) as play:
        play.read([*trial.told, *trial.work], lambda _turn: None)
        isolated = {segment.kind for segment in play.session.segments if segment.isolated}
        assert isolated == {"file"}
        assert all(each.name in play.session.segments for each in trial.workload.told)


# Plans and probes


def test_the_plan_names_every_probe_after_the_other_work(model: Model) -> None:
    probes = trial_of(model, SETTINGS, "alike", 1, 4).probes
    plan = plan_of(probes, after_other_work=True)
    assert [step.reads for step in plan] == [(), *(probe.reads for probe in probes)]
    assert [step.reads for step in plan_of(probes, after_other_work=False)] == [p.reads for p in probes]


def test_other_work_between_probes_is_a_step_of_its_own(model: Model, tmp_path: Path) -> None:
    settings = dataclasses.replace(
        SETTINGS, policies=("pace", "pace_focus"), means=("auto",), reads=(1,), specifications=3, between=3500
    )
    asked = trial_of(model, settings, "alike", 1, 1).probes
    plan = plan_of(asked, after_other_work=True, between=True)
    assert [bool(step.reads) for step in plan] == [False, True] * 3
    results, _ = measure(model, settings, tmp_path)
    stages = ("alike/pace/-/1", "alike/pace_focus/auto")
    assert len({results.sessions[stage, 1, None]["digest"] for stage in stages}) == 1
    lengths = []
    for cell in ("alike/pace/-/1", "alike/pace_focus/auto/1"):
        probes = results.probes(cell, 1)
        assert [read.name for probe in probes for read in probe.reads] == [probe.reads[0] for probe in asked]
        assert all(probe.residency == 1 for probe in probes)
        lengths.append([probe.session_tokens for probe in probes])
        steps = [after - before for before, after in itertools.pairwise(lengths[-1])]
        assert min(steps) > 1000  # more than question and answer
        assert [probe.work_seconds > 0 for probe in probes] == [False, True, True]
        (summary,) = (each for each in summarise(results) if each.cell.key == cell)
        assert summary.wall_seconds > summary.read_seconds + summary.probe_seconds
    assert lengths[0] == lengths[1]


def test_each_probe_is_the_current_step_and_its_reads_are_measured(
    whole: tuple[Results, Watch, Path],
) -> None:
    results, *_ = whole
    names = [each.name for each in make_workload("alike", 8, 1).told]
    for cell in SETTINGS.cells():
        probes = results.probes(cell.key, 1)
        asked = [read.name.partition("#")[0] for probe in probes for read in probe.reads]
        assert asked == names[: cell.reads * cell.n_probes(8)], cell.key
        for probe in probes:
            assert [len(checks) for checks in probe.checks] == [5] * cell.reads
            assert probe.facts_total == 3 * cell.reads
            assert (probe.finish, probe.generated_tokens) == ("length", 4 * cell.reads)
            assert probe.broke is not None


def test_how_each_read_came_back_is_noted(whole: tuple[Results, Watch, Path]) -> None:
    results, *_ = whole
    # The first of a sequence was saved as it is by itself, and those behind it were not.
    for means, expected in (("auto", ("spliced", "together", "together")), ("reread", ("reread",) * 3)):
        for probe in results.probes(f"alike/pace_focus/{means}/3", 1):
            assert tuple(read.means for read in probe.reads) == expected
            assert all(read.reason for read in probe.reads)
            assert probe.focus_seconds > 0
    assert {read.means for probe in results.probes("alike/pace/-/3", 1) for read in probe.reads} <= {
        *("spliced", None)
    }


def test_a_ceiling_has_all_and_nothing_else(model: Model, whole: tuple[Results, Watch, Path]) -> None:
    results, *_ = whole
    system = len(model.tokenize(SYSTEM_PROMPT))
    for reads in SETTINGS.reads:
        asked = trial_of(model, SETTINGS, "alike", 1, reads).probes
        for entry, probe in zip(asked, results.probes(f"alike/{CEILING}/-/{reads}", 1), strict=True):
            assert probe.residency == 1
            # Its session is the system prompt, what it reads, the question and the answer: all still there.
            assert probe.residents == probe.session_tokens
            assert (probe.farthest or 0) < probe.session_tokens
            told = sum(read.tokens for read in probe.reads)
            rest = probe.session_tokens - system - told - len(model.tokenize(entry.text))
            assert 0 < rest - probe.generated_tokens < 64 * (reads + 3)  # role markers


def test_a_policy_that_cannot_hold_it_is_refused_and_tried_again_by_the_next_run(
    model: Model, tmp_path: Path
) -> None:
    settings = dataclasses.replace(SETTINGS, policies=("pace",), reads=(4,), budget=200, position_cap=900)
    results, watch = measure(model, settings, tmp_path)
    assert "can be pinned in a budget of 200" in (results.refusal("alike/pace/-/4", 1) or "")
    assert watch.cells == ["alike/ceiling/-/4 1", "alike/pace/-/4 1"]
    results, again = measure(model, settings, tmp_path, run="two")
    assert (again.probes, again.cells) == ([], ["alike/pace/-/4 1"])
    assert "can be pinned in a budget of 200" in (results.refusal("alike/pace/-/4", 1) or "")


def test_a_cell_for_which_there_was_no_memory_is_measured_by_a_run_that_has_it(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(SETTINGS, policies=("pace",), reads=(8,), tokens=0)
    key = "alike/pace/-/8"
    with monkeypatch.context() as short:
        short.setattr(Stage, "_open", Mock(side_effect=ConfigError("5 GB are needed, and 1 GB is free")))
        results, _ = measure(model, settings, tmp_path)
    assert results.refusal(key, 1) == "5 GB are needed, and 1 GB is free"
    results, again = measure(model, settings, tmp_path, run="two")
    assert (again.cells, results.refusal(key, 1)) == ([f"{key} 1"], None)
    assert len(results.probes(key, 1)) == 1
    _, third = measure(model, settings, tmp_path, run="three")
    assert third.cells == []


def test_seeds_make_other_sessions(model: Model, tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, policies=("pace",), reads=(8,), tokens=0, seeds=2)
    results, _ = measure(model, settings, tmp_path)
    one, two = (results.sessions["alike/pace/-/8", seed, None]["digest"] for seed in (1, 2))
    assert one != two
    summary = outcome(results)["alike/pace/-/8"]
    assert (summary["checks_total"], summary["facts_total"], summary["seeds_done"]) == (80, 48, 2)


# Going on


@pytest.mark.parametrize(
    ("sessions", "probes", "done"),
    [(0, 3, 1), (1, 5, 2), (3, 11, 5)],
    ids=["a ceiling", "a first probe", "the second cell of a stage"],
)
def test_a_run_that_was_stopped_comes_to_the_same_summary(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path, sessions: int, probes: int, done: int
) -> None:
    """Two probes a cell: stopped after so many sessions were read and so many probes answered."""
    settings = dataclasses.replace(SETTINGS, means=("auto",))
    turns = whole[1].turns.count("alike/pace/-/3 1")
    with pytest.raises(CancelledError):
        measure(model, settings, tmp_path, after=sessions * turns + probes)
    assert (len(lines_of(tmp_path, "probe")), len(lines_of(tmp_path, "done"))) == (probes, done)
    resumed, rest = measure(model, settings, tmp_path, run="two")
    assert len(rest.cells) == len(settings.cells()) - done
    reference = outcome(whole[0])
    assert outcome(resumed) == {cell.key: reference[cell.key] for cell in settings.cells()}
    for cell in settings.cells():
        found = [steady(probe) for probe in resumed.probes(cell.key, 1)]
        assert found == [steady(probe) for probe in whole[0].probes(cell.key, 1)]


def test_a_finished_run_measures_nothing_again_and_more_can_be_asked_for(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path
) -> None:
    few = dataclasses.replace(SETTINGS, policies=("pace",), reads=(4,))
    measure(model, few, tmp_path)
    _, again = measure(model, few, tmp_path, run="two")
    assert (again.turns, again.probes, again.cells) == ([], [], [])
    results, more = measure(model, SETTINGS, tmp_path, run="three")
    assert len(more.cells) == len(SETTINGS.cells()) - 2
    assert outcome(results) == outcome(whole[0])
