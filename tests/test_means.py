"""The rule by which what a step reads becomes resident."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from pace_local.config import MEANS
from pace_local.events import Means
from pace_local.recall.means import ALIKE, Choice, ReadFacts, choose_means

EVERY = [ReadFacts(*flags) for flags in itertools.product((False, True), repeat=4)]


def facts(
    *, whole: bool = False, saved: bool = False, isolated: bool = False, crowded: bool = False
) -> ReadFacts:
    return ReadFacts(whole, saved, isolated, crowded)


CASES = [
    (facts(whole=True, saved=True), "kept", "it is resident"),
    (facts(whole=True), "kept", "it is resident"),
    (facts(saved=True), "spliced", "it was saved"),
    (facts(saved=True, isolated=True), "spliced", "it was saved"),
    (facts(), "recomputed", "it was not saved, or what was saved is gone"),
    (facts(isolated=True), "recomputed", "it was not saved, or what was saved is gone"),
    (
        facts(whole=True, saved=True, crowded=True),
        "recomputed",
        "texts like it were resident when it was first read",
    ),
    (facts(saved=True, crowded=True), "recomputed", "texts like it were resident when it was first read"),
    (facts(saved=True, crowded=True, isolated=True), "spliced", "it was saved"),
    (facts(whole=True, saved=True, crowded=True, isolated=True), "kept", "it is resident"),
]


@pytest.mark.parametrize(("known", "means", "reason"), CASES)
def test_one_read(known: ReadFacts, means: Means, reason: str) -> None:
    assert choose_means({7: known}) == {7: Choice(means, reason)}


@pytest.mark.parametrize("known", EVERY)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_several_reads_are_read_together_whatever_is_known_of_them(known: ReadFacts, count: int) -> None:
    """However cheap the others are: a text that knows nothing of those before it is mixed up with them."""
    reads = {8: known, 3: facts(whole=True, saved=True), 5: facts(saved=True), 1: facts(), 9: known}
    reads = dict(list(reads.items())[:count])
    choices = choose_means(reads)
    assert list(choices) == list(reads)
    assert {choice.means for choice in choices.values()} == {"together"}
    assert {choice.reason for choice in choices.values()} == {
        "the step reads several texts, each behind the last"
    }


@pytest.mark.parametrize("known", EVERY)
@pytest.mark.parametrize("asked", [means for means in MEANS if means != "auto"])
def test_what_was_asked_for_is_done_where_it_can_be(known: ReadFacts, asked: str) -> None:
    (choice,) = choose_means({1: known}, asked).values()
    assert choice.reason == "asked for by the setting 'means'"
    assert choose_means({1: known, 2: known}, asked) == {1: choice, 2: choice}, "one by one"
    if asked == "spliced":
        expected = "kept" if known.is_whole else "spliced" if known.is_saved else "recomputed"
        assert choice.means == expected
    else:
        assert choice.means == asked


@pytest.mark.parametrize("known", EVERY)
def test_it_never_counts_on_what_is_not_there(known: ReadFacts) -> None:
    for asked in MEANS:
        (choice,) = choose_means({1: known}, asked).values()
        assert choice.means in get_args(Means)
        assert choice.reason
        if choice.means == "kept":
            assert known.is_whole
        if choice.means == "spliced":
            assert known.is_saved


def test_no_reads() -> None:
    assert choose_means({}) == {}


def test_alike_lies_between_what_was_measured() -> None:
    """Of eight specifications of one form 0.52 at least, of unlike texts 0.06 at most."""
    assert 0.06 * 2 < ALIKE < 0.52
