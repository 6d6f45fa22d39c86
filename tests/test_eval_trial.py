"""A trial: the same script for every policy, with the filler and the reads that were asked for."""

from __future__ import annotations

import itertools

import pytest

from pace_local.errors import ConfigError
from pace_local.eval.specifications import Specification, kinds, look_alikes
from pace_local.eval.trial import SYSTEM_PROMPT, Entry, Trial, build_trial
from pace_local.segments import KINDS

SPECIFICATIONS = look_alikes(8, 0)
LONGEST_LEFT = 450
"""Tokens that may stay unused: less than a usual turn."""


def count(text: str) -> int:
    return len(text) // 4


def build(
    specifications: list[Specification] | None = None,
    *,
    seed: int = 0,
    filler_tokens: int = 3000,
    reads: int = 1,
    between: int = 0,
    shuffle: bool = False,
) -> Trial:
    return build_trial(
        SPECIFICATIONS if specifications is None else specifications,
        seed=seed,
        filler_tokens=filler_tokens,
        count=count,
        reads=reads,
        between=between,
        shuffle=shuffle,
    )


def tokens(entries: tuple[Entry, ...]) -> int:
    return sum(count(entry.text) for entry in entries if entry.part == "filler")


def test_definitions_then_other_work_then_probes() -> None:
    trial = build()
    parts = [entry.part for entry in trial.entries]
    assert parts[:9] == ["system"] + ["specification"] * 8
    assert parts[-8:] == ["probe"] * 8
    assert set(parts[9:-8]) == {"filler"}
    assert trial.entries[0].text == SYSTEM_PROMPT
    assert [entry.text for entry in trial.entries[1:9]] == [each.text for each in SPECIFICATIONS]
    assert [entry.name for entry in trial.entries[1:9]] == [each.name for each in SPECIFICATIONS]


def test_filler_is_a_file_a_question_and_an_answer_each_time() -> None:
    filler = [entry for entry in build().entries if entry.part == "filler"]
    assert [entry.kind for entry in filler] == ["file", "user", "answer"] * (len(filler) // 3)
    assert len(filler) >= 9


@pytest.mark.parametrize("filler_tokens", [1000, 3000, 12_000])
def test_the_filler_has_the_length_that_was_asked_for(filler_tokens: int) -> None:
    trial = build(filler_tokens=filler_tokens)
    assert trial.filler_tokens == tokens(trial.entries)
    assert filler_tokens - LONGEST_LEFT <= trial.filler_tokens <= filler_tokens


def test_no_filler() -> None:
    assert all(entry.part != "filler" for entry in build(filler_tokens=0).entries)


def test_every_specification_is_asked_for_once_in_order() -> None:
    probes = build().probes
    assert [entry.reads for entry in probes] == [(each.name,) for each in SPECIFICATIONS]
    for entry, specification in zip(probes, SPECIFICATIONS, strict=True):
        assert entry.question == specification
        assert entry.text == specification.question
        assert entry.kind == "user"


@pytest.mark.parametrize(
    ("reads", "sizes"), [(2, [2, 2, 2, 2]), (3, [3, 3, 2]), (4, [4, 4]), (8, [8]), (7, [7, 1])]
)
def test_probes_that_read_several(reads: int, sizes: list[int]) -> None:
    probes = build(reads=reads, filler_tokens=0).probes
    assert [len(entry.reads) for entry in probes] == sizes
    assert [name for entry in probes for name in entry.reads] == [each.name for each in SPECIFICATIONS]
    for entry in probes:
        assert entry.question is not None
        assert entry.question.reads == entry.reads
        assert entry.question.question == entry.text


def test_filler_between_probes() -> None:
    trial = build(filler_tokens=1000, between=1500)
    places = [i for i, entry in enumerate(trial.entries) if entry.part == "probe"]
    for before, after in itertools.pairwise(places):
        assert 1500 - LONGEST_LEFT <= tokens(trial.entries[before:after]) <= 1500
    assert trial.filler_tokens == tokens(trial.entries)
    assert places[-1] == len(trial.entries) - 1


def test_shuffled_probes_depend_on_the_seed_alone() -> None:
    orders = [
        [entry.reads for entry in build(shuffle=True, seed=seed, filler_tokens=0).probes] for seed in range(6)
    ]
    assert len({tuple(order) for order in orders}) == 6
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert orders[2] == [entry.reads for entry in build(shuffle=True, seed=2, filler_tokens=0).probes]


def test_names_are_unique_and_kinds_are_known_to_sessions() -> None:
    entries = build(kinds(0), filler_tokens=12_000).entries
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.kind in KINDS for entry in entries)


def test_only_probes_have_reads_and_questions() -> None:
    for entry in build().entries:
        assert (entry.question is not None) == (entry.part == "probe") == bool(entry.reads)


def test_a_seed_reproduces_and_another_has_other_filler() -> None:
    assert build(seed=4) == build(seed=4)
    assert build(seed=4).entries[:9] == build(seed=5).entries[:9]
    assert build(seed=4).entries[9:-8] != build(seed=5).entries[9:-8]


def test_more_filler_begins_with_the_same() -> None:
    short = [entry for entry in build(filler_tokens=2000).entries if entry.part == "filler"]
    long = [entry for entry in build(filler_tokens=8000).entries if entry.part == "filler"]
    assert long[: len(short) - 3] == short[:-3]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reads": 0}, "0 reads a probe are out of range; use 1 to 8"),
        ({"reads": 9}, "9 reads a probe are out of range; use 1 to 8"),
        ({"filler_tokens": -1}, "filler tokens -1 are out of range; use 0 or more"),
        ({"between": -1}, "tokens between probes -1 are out of range"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(**settings)  # type: ignore[arg-type]


def test_no_specification_or_two_of_a_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="give at least one, each with a name of its own"):
        build([])
    with pytest.raises(ConfigError, match="each with a name of its own"):
        build([SPECIFICATIONS[0], SPECIFICATIONS[0]])
