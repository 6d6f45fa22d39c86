"""A trial: the same script for every policy, with the filler and the reads that were asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from pace_local.errors import ConfigError
from pace_local.eval.specifications import look_alikes
from pace_local.eval.trial import SYSTEM_PROMPT, TEXT_PROMPT, Entry, Trial, build_trial
from pace_local.eval.workload import make_workload
from pace_local.segments import KINDS

SPECIFICATIONS = look_alikes(8, 0)
LONGEST_LEFT = 450
"""Tokens that may stay unused: less than a usual turn."""


def count(text: str) -> int:
    return len(text) // 4


def build(name: str = "alike", *, number: int = 8, seed: int = 0, reads: int = 1, **lengths: Any) -> Trial:
    if not lengths.get("gaps"):
        lengths.setdefault("filler_tokens", 3000)
    return build_trial(make_workload(name, number, 0, reads), seed=seed, count=count, **lengths)


def tokens(entries: Iterable[Entry]) -> int:
    return sum(count(entry.text) for entry in entries)


def test_documents_then_other_work_then_probes() -> None:
    trial = build()
    assert [entry.part for entry in trial.told] == ["system"] + ["told"] * 8
    assert {entry.part for entry in trial.work} == {"filler"}
    assert [entry.part for entry in trial.probes] == ["probe"] * 8
    assert trial.told[0].text == SYSTEM_PROMPT
    assert [entry.text for entry in trial.told[1:]] == [each.text for each in SPECIFICATIONS]
    assert [entry.name for entry in trial.told[1:]] == [each.name for each in SPECIFICATIONS]


@pytest.mark.parametrize(("name", "system"), [("codegen", SYSTEM_PROMPT), ("dialogue", TEXT_PROMPT)])
def test_the_system_prompt_fits_the_answers(name: str, system: str) -> None:
    assert build(name, filler_tokens=0).told[0].text == system
    mine = build_trial(make_workload(name, 2, 0), seed=0, count=count, system="mine")
    assert mine.told[0].text == "mine"


def test_filler_is_a_file_a_question_and_an_answer_each_time() -> None:
    filler = build().work
    assert [entry.kind for entry in filler] == ["file", "user", "answer"] * (len(filler) // 3)
    assert len(filler) >= 9


@pytest.mark.parametrize("filler_tokens", [1000, 3000, 12_000])
def test_the_filler_has_the_length_that_was_asked_for(filler_tokens: int) -> None:
    trial = build(filler_tokens=filler_tokens)
    assert trial.filler_tokens == tokens(trial.work)
    assert filler_tokens - LONGEST_LEFT <= trial.filler_tokens <= filler_tokens


def test_no_filler() -> None:
    assert build(filler_tokens=0).work == ()


def test_every_specification_is_asked_for_once_in_order() -> None:
    probes = build().probes
    assert [entry.reads for entry in probes] == [(each.name,) for each in SPECIFICATIONS]
    for entry, specification in zip(probes, SPECIFICATIONS, strict=True):
        assert entry.question == specification
        assert entry.text == specification.question
        assert entry.kind == "user"


@pytest.mark.parametrize(
    ("reads", "sizes"), [(2, [2, 2, 2, 2]), (3, [3, 3]), (4, [4, 4]), (8, [8]), (7, [7])]
)
def test_probes_that_read_several(reads: int, sizes: list[int]) -> None:
    probes = build(reads=reads, filler_tokens=0).probes
    assert [len(entry.reads) for entry in probes] == sizes
    asked = [name for entry in probes for name in entry.reads]
    assert asked == [each.name for each in SPECIFICATIONS[: sum(sizes)]]
    for entry in probes:
        assert entry.question is not None
        assert entry.question.reads == entry.reads
        assert entry.question.question == entry.text


def test_filler_between_probes() -> None:
    trial = build(filler_tokens=1000, between=1500)
    assert trial.between[0] == ()
    for work in trial.between[1:]:
        assert 1500 - LONGEST_LEFT <= tokens(work) <= 1500
    assert trial.filler_tokens == tokens([*trial.work, *itertools.chain(*trial.between)])


def test_each_gap_is_reached_by_the_first_turn_that_does() -> None:
    trial = build(gaps=(4000, 500, 9000))
    assert list(trial.points) == [500, 4000, 9000]
    for gap, end in trial.points.items():
        assert end % 3 == 0
        assert tokens(trial.work[: end - 3]) < gap <= tokens(trial.work[:end])
    assert trial.points[9000] == len(trial.work)


def test_the_work_before_a_gap_is_the_same_whatever_others_are_asked_for() -> None:
    few, many = build(gaps=(4000,)), build(gaps=(0, 700, 2000, 4000, 6000))
    assert few.work == many.work[: many.points[4000]]
    assert many.points[0] == 0


def test_names_are_unique_and_kinds_are_known_to_sessions() -> None:
    trial = build("unlike", filler_tokens=12_000)
    entries = [*trial.told, *trial.work, *trial.probes]
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.kind in KINDS for entry in entries)


def test_only_probes_have_reads_and_questions() -> None:
    trial = build()
    for entry in (*trial.told, *trial.work, *trial.probes):
        assert (entry.question is not None) == (entry.part == "probe") == bool(entry.reads)


def test_a_seed_reproduces_and_another_has_other_filler() -> None:
    assert build(seed=4) == build(seed=4)
    assert build(seed=4).told == build(seed=5).told
    assert build(seed=4).work != build(seed=5).work


def test_more_filler_begins_with_the_same() -> None:
    short, long = build(filler_tokens=2000).work, build(filler_tokens=8000).work
    assert long[: len(short) - 3] == short[:-3]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reads": 0}, "--reads 0 is out of range for 8 alike specifications; use 1 to 8"),
        ({"reads": 9}, "--reads 9 is out of range"),
        ({"number": 0}, "0 alike specifications are out of range; use 1 to 20"),
        ({"name": "like"}, "'like' is none of the workloads alike, unlike"),
        ({"filler_tokens": -1}, "filler tokens -1 are out of range; use 0 or more"),
        ({"between": -1}, "tokens between probes -1 are out of range"),
        ({"gaps": (5,), "between": 7}, "a session with gaps has no other length"),
    ],
)
def test_what_cannot_be_made_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(**settings)
