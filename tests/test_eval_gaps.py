"""Probes at gaps of one session, or with nothing but positions in between, and plans that are wrong."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eval_runs import SETTINGS, Watch, measure, outcome, steady
from session_pair import TALKER

from pace_local import Model, Session
from pace_local.config import SessionConfig
from pace_local.errors import CancelledError
from pace_local.eval.askers import move_apart, trial_of
from pace_local.eval.cells import CEILING, Cell, EvalSettings
from pace_local.eval.journal import Results
from pace_local.eval.plans import n_wrong, plan_of, wrong_reads
from pace_local.eval.report import report
from pace_local.eval.stage import SESSIONS, goes_on_exactly
from pace_local.eval.summary import asked_cells, summarise
from pace_local.eval.workload import MOST_QUESTIONS, SPECIFICATION_SETS, make_workload
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec

GAPS = dataclasses.replace(
    SETTINGS,
    policies=("h2o", "pace", "pace_focus"),
    means=("auto",),
    specifications=4,
    reads=(2,),
    gaps=(0, 1200, 2400),
    budget=3800,  # all four documents, a long turn and the recent window
)
KEYS = ("alike/h2o/-/2", "alike/pace/-/2", "alike/pace_focus/auto/2")


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Watch, Path]:
    folder = tmp_path_factory.mktemp("gaps")
    return *measure(model, GAPS, folder), folder


# Gaps of one session


def test_each_policy_reads_one_session_for_all_gaps(whole: tuple[Results, Watch, Path]) -> None:
    results, watch, folder = whole
    cells = [cell.key for cell in GAPS.cells()]
    assert cells == [f"alike/{CEILING}/-/2", *(f"{key}@{gap}" for key in KEYS for gap in (0, 1200, 2400))]
    assert [len(stage) for stage in GAPS.stages()] == [1, 3, 3, 3]
    turns = [watch.turns.count(f"{key.removesuffix('/2') if 'auto' in key else key} 1") for key in KEYS]
    assert len(set(turns)) == 1
    assert turns[0] == len(results.turns["alike/pace/-/2", 1])
    assert not (folder / SESSIONS).exists()


def test_gaps_are_what_they_say(model: Model, whole: tuple[Results, Watch, Path]) -> None:
    results, *_ = whole
    trial = trial_of(model, GAPS, "alike", 1, 2)
    for stage in ("alike/h2o/-/2", "alike/pace/-/2", "alike/pace_focus/auto"):
        lengths = [results.sessions[stage, 1, gap]["tokens"] for gap in (0, 1200, 2400)]
        told = lengths[0]
        for gap, length in zip((0, 1200, 2400), lengths, strict=True):
            work = sum(len(model.tokenize(entry.text)) for entry in trial.work[: trial.points[gap]])
            assert gap <= work <= length - told < 1.2 * work + 1


def test_a_probe_leaves_nothing_behind_for_those_at_later_gaps(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path
) -> None:
    results, *_ = whole
    alone, _ = measure(model, dataclasses.replace(GAPS, gaps=(2400,)), tmp_path)
    for key in KEYS:
        found = [steady(probe) for probe in alone.probes(f"{key}@2400", 1)]
        assert found == [steady(probe) for probe in results.probes(f"{key}@2400", 1)]
        assert len(found) == 2


def test_all_policies_read_the_same_at_every_gap(whole: tuple[Results, Watch, Path]) -> None:
    results, *_ = whole
    for gap in (0, 1200, 2400):
        digests = {session["digest"] for (_, _, at), session in results.sessions.items() if at == gap}
        assert len(digests) == 1


def test_each_turn_says_what_is_resident_of_what_the_probes_need(whole: tuple[Results, Watch, Path]) -> None:
    results, *_ = whole
    seen = {}
    for key in KEYS[:2]:
        turns = results.turns[key, 1]
        assert all(turn["needed_residency"] is None for turn in turns if turn["part"] != "filler")
        shares = [turn["needed_residency"] for turn in turns if turn["part"] == "filler"]
        seen[key] = shares
        assert all(0 <= share <= 1 for share in shares)
        for turn in turns:
            assert (turn["needed_distance"] or 0) <= turn["next_position"]
    assert set(seen["alike/pace/-/2"]) == {1.0}
    assert min(seen["alike/h2o/-/2"]) < 1
    last = results.turns["alike/h2o/-/2", 1][-1]
    first = results.probes("alike/h2o/-/2@2400", 1)[0]
    assert first.session_tokens > last["session_tokens"]


# Going on in the midst of a session


def turns_of(folder: Path, stage: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "turns.jsonl").read_text("ascii").splitlines())
    return [line for line in lines if line["type"] == "turn" and line["stage"] == stage]


@pytest.mark.parametrize("after", [6, 15, 21])
def test_stopped_at_any_turn_it_goes_on_to_the_same_summary(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path, after: int
) -> None:
    with pytest.raises(CancelledError):
        measure(model, GAPS, tmp_path, after=after)
    resumed, watch = measure(model, GAPS, tmp_path, run="two")
    assert outcome(resumed) == outcome(whole[0])
    for cell in GAPS.cells():
        found = [steady(probe) for probe in resumed.probes(cell.key, 1)]
        assert found == [steady(probe) for probe in whole[0].probes(cell.key, 1)]
    for stage in ("alike/h2o/-/2", "alike/pace/-/2", "alike/pace_focus/auto"):
        numbers = [turn["number"] for turn in turns_of(tmp_path, stage)]
        assert numbers == list(range(1, len(numbers) + 1))  # none was read twice
    assert len(watch.went_on) == 1
    assert not (tmp_path / SESSIONS).exists()


def test_a_session_of_other_settings_is_not_gone_on_with(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path
) -> None:
    with pytest.raises(CancelledError):
        measure(model, GAPS, tmp_path, after=9)
    kept = list((tmp_path / SESSIONS).iterdir())
    assert len(kept) == 1
    other = dataclasses.replace(GAPS, budget=3700, policies=("h2o",))
    shutil.copytree(tmp_path / SESSIONS, tmp_path / "other" / SESSIONS)
    results, watch = measure(model, other, tmp_path / "other")
    assert watch.went_on == []
    assert len(results.probes("alike/h2o/-/2@2400", 1)) == 2
    assert max(turn["residents"] for turn in results.turns["alike/h2o/-/2", 1]) <= 3700


def test_a_session_that_was_read_past_a_gap_asked_for_later_is_not_gone_on_with(
    model: Model, whole: tuple[Results, Watch, Path], tmp_path: Path
) -> None:
    pace = dataclasses.replace(GAPS, policies=("pace",))
    trial = trial_of(model, GAPS, "alike", 1, 2)
    past = 2 + len(trial.told) + 2 + trial.points[1200] + 1  # two probes each of the ceiling and at gap 0
    assert trial.points[2400] > trial.points[1200] + 1
    with pytest.raises(CancelledError):
        measure(model, dataclasses.replace(pace, gaps=(0, 2400)), tmp_path, after=past)
    results, watch = measure(model, pace, tmp_path, run="two")
    assert watch.went_on == []
    for gap in (1200, 2400):
        found = [steady(probe) for probe in results.probes(f"alike/pace/-/2@{gap}", 1)]
        assert found == [steady(probe) for probe in whole[0].probes(f"alike/pace/-/2@{gap}", 1)]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_policies_that_cannot_go_on_exactly_begin_anew(policy: str) -> None:
    assert goes_on_exactly(SessionConfig(policy=policy)) == (policy not in {"merge", "attention", "snapkv"})


@pytest.mark.parametrize("policy", ["merge", "attention"])
def test_and_come_to_the_same_summary_too(model: Model, tmp_path: Path, policy: str) -> None:
    settings = dataclasses.replace(GAPS, policies=(policy,), gaps=(1200,))
    first, _ = measure(model, settings, tmp_path / "whole")
    with pytest.raises(CancelledError):
        measure(model, settings, tmp_path / "part", after=9)
    assert not (tmp_path / "part" / SESSIONS).exists()
    resumed, watch = measure(model, settings, tmp_path / "part", run="two")
    assert (outcome(resumed), watch.went_on) == (outcome(first), [])
    assert len(resumed.turns[f"alike/{policy}/-/2", 1]) == len(first.turns[f"alike/{policy}/-/2", 1])


# Keeping everything


def test_policy_none_keeps_everything_however_long_the_session_is(model: Model, tmp_path: Path) -> None:
    settings = dataclasses.replace(GAPS, policies=("none", "pace"), gaps=(), tokens=2400, budget=2500)
    results, _ = measure(model, settings, tmp_path)
    for probe in results.probes("alike/none/-/2", 1):
        assert probe.residents == probe.session_tokens > 4000
        assert probe.residency == 1
    kept = {policy: max(probe.kv_bytes for probe in results.probes(f"alike/{policy}/-/2", 1)) for policy in
            ("none", "pace")}  # fmt: skip
    assert kept["none"] > 1.5 * kept["pace"]


@pytest.fixture(scope="module")
def both(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Other work, and then positions alone, in one folder."""
    settings = dataclasses.replace(
        GAPS, policies=("none", "pace"), gaps=(0, 4800), reads=(1,), specifications=2
    )
    folder = tmp_path_factory.mktemp("both")
    measure(model, settings, folder)
    positions = dataclasses.replace(settings, apart="positions", gaps=(700, 4800))
    return measure(model, positions, folder, run="two")[0]


def test_memory_is_saved_against_what_the_session_needs_at_each_gap(both: Results) -> None:
    cells = {each.cell.key: each for each in summarise(both)}
    evicting = cells["alike/pace/-/1@4800"]
    of_one = evicting.kv_bytes_peak / (evicting.probes[0].n_cells or 0)
    short, long = (cells[f"alike/none/-/1@{gap}"] for gap in (0, 4800))
    assert max(probe.residents for probe in short.probes) < GAPS.budget
    assert short.kv_bytes_peak == evicting.kv_bytes_peak
    most = max(probe.residents for probe in long.probes)
    assert most > GAPS.budget
    spare = long.kv_bytes_peak / of_one - most - SessionConfig.headroom
    assert 0 <= spare < 256  # caches are made in blocks
    assert long.probes[0].n_cells == cells["alike/none/-/1@0"].probes[0].n_cells > most + 1000
    # What keeps everything needs no references, and is counted without.
    for each in (short, long):
        probe = each.probes[0]
        references = each.kv_bytes_peak * (probe.reference_bytes or 0) // probe.kv_bytes
        assert each.kv_bytes_peak > references == each.kv_bytes_peak - each.unreferenced_bytes_peak > 0
    table = report(both).partition("### Peak memory")[2].splitlines()[2:6]
    (row,) = (line for line in table if line.startswith("| pace"))
    for each in (short, long):
        saved = 100 * (1 - evicting.kv_bytes_peak / each.unreferenced_bytes_peak)
        assert f"| {saved:.0f} %; " in row
    assert evicting.kv_bytes_peak > short.unreferenced_bytes_peak
    assert " | 0 %; +0 %; " in next(line for line in table if line.startswith("| none"))


def test_results_from_before_the_cells_were_kept_say_nothing_of_memory_saved(both: Results) -> None:
    lines = [dict(line) for line in both.runs.values()]
    for cell in asked_cells(both):
        lines += [{"type": "probe", **probe.as_document()} for probe in both.probes(cell.key, 1)]
    for line in lines:
        line.pop("n_cells", None)
    table = report(Results(lines)).partition("### Peak memory")[2].splitlines()[2:6]
    assert next(line for line in table if line.startswith("| pace")).startswith("| pace | ? %; ")


def test_one_folder_has_both_kinds_of_gap(both: Results) -> None:
    text = report(both)
    heads = [line for line in text.splitlines() if line.startswith("| | 0 tokens")]
    words = ("0 tokens", "4,800 tokens", "700 positions", "4,800 positions")
    assert heads[0] == f"| | {' | '.join(f'{column} (2 probes)' for column in words)} |"
    cells = {each.cell.key: each for each in summarise(both)}
    moved = cells["alike/none/-/1@+4800"]
    assert moved.read_seconds == 0
    assert cells["alike/none/-/1@4800"].read_seconds > 0
    assert moved.host_bytes_peak == max(probe.host_bytes for probe in moved.probes)


# Positions alone

APART = dataclasses.replace(GAPS, apart="positions", gaps=(0, 700, 40_000), reads=(1,), specifications=2)


def test_positions_alone_move_what_is_read_away_and_nothing_else(model: Model, tmp_path: Path) -> None:
    results, watch = measure(model, APART, tmp_path)
    assert watch.turns == []
    assert [cell.key for cell in APART.cells()] == [
        "alike/ceiling/-/1", *(f"alike/none/-/1@+{gap}" for gap in APART.gaps)
    ]  # fmt: skip
    near, middle, far = (results.probes(f"alike/none/-/1@+{gap}", 1) for gap in APART.gaps)
    for first, second, third in zip(near, middle, far, strict=True):
        assert first.residency == second.residency == third.residency == 1
        assert second.farthest == (first.farthest or 0) + 700
        assert third.farthest == (first.farthest or 0) + 40_000, "farther than it was trained for"
        assert first.residents == second.residents == third.residents
        assert second.next_position == first.next_position + 700


def keys_of(session: Session) -> list[Any]:
    cache = session.engine.cache
    assert cache is not None
    return [cache.read_rows("key", layer) for layer in range(session.engine.capabilities.n_layers)]


def test_what_moves_is_a_turn_with_its_markers_and_all_after_it(model: Model) -> None:
    with Session(model, policy="none", budget=900, position_cap=9000, threads=1) as session:
        session.append("be brief", kind="system")
        session.append("the RATE is 53", name="spec")
        first = len(session.segments)
        session.append("other work", name="work")
        session.append("more of it", name="more")
        before, keys = session.residents.position.copy(), keys_of(session)
        move_apart(session, first, 5000)
        moved = session.residents.position - before
        work = session.segments.named("work")
        start = min(each.start for each in session.segments if each.turn == work.turn)
        assert session.text_of(session.segments.at(start)).strip() != ""
        assert np.array_equal(np.flatnonzero(moved), np.arange(start, session.session_length))
        assert set(moved.tolist()) == {0, 5000}
        session.check()
        for old, new in zip(keys, keys_of(session), strict=True):
            assert np.array_equal(old[:start], new[:start])
            assert not np.allclose(old[start:], new[start:], atol=1e-3)
        session.append("and on", name="on")
        assert session.next_position == session.session_length + 5000


# Plans that are wrong

NEEDED = [(f"spec:{letter}",) for letter in "abcdefghijklmnopqrst"]
TOLD = [name for names in NEEDED for name in names]


@pytest.mark.parametrize("percent", [0, 10, 25, 50, 99])
def test_so_many_percent_of_the_reads_are_wrong(percent: int) -> None:
    for seed in range(9):
        said = wrong_reads(NEEDED, TOLD, percent, seed)
        wrong = [number for number, (needed, names) in enumerate(zip(NEEDED, said, strict=True))
                 if needed[0] not in names]  # fmt: skip
        assert len(wrong) == round(percent * 20 / 100)
        assert all(name in TOLD for names in said for name in names)


def test_more_than_no_percent_is_at_least_one_read() -> None:
    assert [n_wrong(percent, 5) for percent in (0, 1, 10, 30, 50, 99)] == [0, 1, 1, 2, 2, 5]
    assert [n_wrong(10, n) for n in (0, 1, 8, 20)] == [0, 1, 1, 2]
    assert wrong_reads(NEEDED[:5], TOLD, 10, 1) != wrong_reads(NEEDED[:5], TOLD, 0, 1)


def test_reads_are_wrong_in_three_ways() -> None:
    said = wrong_reads(NEEDED, TOLD, 50, 1)
    replaced = [i for i, names in enumerate(said) if names and names[0] != NEEDED[i][0] and len(names) == 1]
    late = [i for i, names in enumerate(said) if NEEDED[i - 1][0] in {*names} - {*said[i - 1]} and i]
    missing = [i for i, names in enumerate(said) if not names]
    assert replaced
    assert late
    assert missing


@pytest.mark.parametrize("specs", sorted(MOST_QUESTIONS))
@pytest.mark.parametrize("percent", [25, 50, 99, 100])
def test_so_many_percent_are_wrong_where_steps_have_several_reads_in_common(specs: str, percent: int) -> None:
    for seed in range(1, 6):
        workload = make_workload(specs, 8, seed, 2 if specs in SPECIFICATION_SETS else 1)
        needed = [question.reads for question in workload.questions]
        said = wrong_reads(needed, [each.name for each in workload.told], percent, seed)
        gone = sum(len({*names} - {*told}) for names, told in zip(needed, said, strict=True))
        assert gone == round(percent * sum(map(len, needed)) / 100)


def test_wrong_plans_come_again_by_seed_and_grow() -> None:
    assert wrong_reads(NEEDED, TOLD, 50, 1) == wrong_reads(NEEDED, TOLD, 50, 1)
    assert wrong_reads(NEEDED, TOLD, 50, 1) != wrong_reads(NEEDED, TOLD, 50, 2)
    for seed in range(9):
        wrong = []
        for percent in (10, 25, 50, 75):
            said = wrong_reads(NEEDED, TOLD, percent, seed)
            wrong.append({i for i in range(20) if NEEDED[i][0] not in said[i]})
        assert all(fewer < more for fewer, more in itertools.pairwise(wrong))


def test_a_plan_of_one_document_has_no_other_to_name() -> None:
    for seed in range(6):
        assert wrong_reads([("a",)], ["a"], 100, seed) == [()]


def test_reads_that_are_there_twice_stand_once() -> None:
    for seed in range(20):
        said = wrong_reads([("a", "b"), ("b", "c"), ("c", "a")], ["a", "b", "c"], 60, seed)
        assert all(len(set(names)) == len(names) for names in said)


def test_wrong_plans_are_told_and_what_was_needed_is_measured(model: Model, tmp_path: Path) -> None:
    settings = dataclasses.replace(
        SETTINGS,
        policies=("pace",),
        reads=(1,),
        errors=(0, 50, 100),
        tokens=4500,
        budget=3800,
        specifications=4,
    )
    results, _ = measure(model, settings, tmp_path)
    assert [cell.key for cell in settings.cells()][1:] == [f"alike/pace/-/1~{e}" for e in (0, 50, 100)]
    trial = trial_of(model, settings, "alike", 1, 1)
    for errors in (0, 50, 100):
        probes = results.probes(f"alike/pace/-/1~{errors}", 1)
        assert [probe.reads[0].name for probe in probes] == [entry.reads[0] for entry in trial.probes]
    shares = [results.turns[f"alike/pace/-/1~{errors}", 1][-1]["needed_residency"] for errors in (0, 50, 100)]
    assert shares[0] > shares[1] > shares[2]


def test_the_plan_says_what_it_is_told_to(model: Model) -> None:
    probes = trial_of(model, SETTINGS, "alike", 1, 4).probes
    plan = plan_of(probes, after_other_work=False, reads=[(), ("spec:x",)])
    assert [step.reads for step in plan] == [(), ("spec:x",)]


def test_keys_and_columns_tell_cells_apart() -> None:
    settings = EvalSettings(gaps=(5, 3), errors=(0, 10), policies=("pace",), reads=(1, 2), specs=("alike",))
    cells = settings.cells()
    assert len({cell.key for cell in cells}) == len(cells) == 2 + 8
    assert len({cell.column for cell in cells}) == 2 + 8
    assert Cell("alike", "pace", None, 1, 40_000).key == "alike/pace/-/1@40000"
    assert Cell("alike", "none", None, 1, 40_000, "positions").key == "alike/none/-/1@+40000"
    assert Cell("alike", "pace_focus", "auto", 2, None, "work", 25).key == "alike/pace_focus/auto/2~25"
    assert Cell("alike", "pace_focus", "auto", 2, None, "work", 25).stage == "alike/pace_focus/auto~25"
