"""The one rule by which what a step reads becomes resident.

It was made from measurements, which docs/results/ has with their commands; see docs/how-it-works.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace_local.events import Means

ALIKE = 0.35
"""Share of common shingles from which two texts can be taken for one another."""


@dataclass(frozen=True)
class ReadFacts:
    """What is known of one read when its step starts."""

    is_whole: bool
    """Whether all of it is resident, with keys and values of its own."""

    is_saved: bool
    """Whether all that is not resident of it was saved."""

    is_isolated: bool
    """Whether its keys and values were computed in isolation."""

    was_crowded: bool
    """Whether a text like it was resident when it was read, so that its own keys and values may refer to that
    one's."""


@dataclass(frozen=True)
class Choice:
    """By what means, and why."""

    means: Means
    reason: str


def choose_means(
    reads: Mapping[int, ReadFacts],
    alike: Sequence[Sequence[int]],
    asked: str = "auto",
) -> dict[int, Choice]:
    """Choose the means for each read of a step.

    Args:
        reads: segment id -> what is known of it.
        alike: groups of reads that are alike among themselves, two or more each.
        asked: a means that is to be used for all, or ``"auto"``.
    """
    return {
        segment: _forced(facts, asked) if asked != "auto" else _choose(segment, facts, alike)
        for segment, facts in reads.items()
    }


def _choose(segment: int, facts: ReadFacts, alike: Sequence[Sequence[int]]) -> Choice:
    if any(segment in group for group in alike):
        return Choice("together", "the step reads texts that are alike, which must be told apart")
    if facts.was_crowded and not facts.is_isolated:
        return Choice("recomputed", "texts like it were resident when it was first read")
    if facts.is_whole:
        return Choice("kept", "it is resident")
    if facts.is_saved:
        return Choice("spliced", "it was saved")
    return Choice("recomputed", "it was not saved, or what was saved is gone")


def _forced(facts: ReadFacts, asked: str) -> Choice:
    reason = "asked for by the setting 'means'"
    if asked == "together":
        return Choice("together", reason)
    if asked == "reread":
        return Choice("reread", reason)
    if asked == "recomputed" or not (facts.is_saved or facts.is_whole):
        return Choice("recomputed", reason)
    return Choice("kept" if facts.is_whole else "spliced", reason)
