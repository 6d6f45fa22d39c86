"""The one rule by which what a step reads becomes resident.

It was made from measurements, which docs/results/ has with their commands; see docs/how-it-works.md. Neither
the length of a text nor the speed of the machine is part of it: the means that cost less are good enough only
where they are chosen here, and where they are not, no speed makes up for wrong answers.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def choose_means(reads: Mapping[int, ReadFacts], asked: str = "auto") -> dict[int, Choice]:
    """Choose the means for each read of a step.

    Args:
        reads: segment id -> what is known of it.
        asked: a means that is to be used for all, or ``"auto"``.
    """
    if asked != "auto":
        return {segment: _forced(facts, asked) for segment, facts in reads.items()}
    if len(reads) > 1:
        # Texts that know nothing of each other get mixed up, unlike ones too.
        return dict.fromkeys(reads, Choice("together", "the step reads several texts, each behind the last"))
    return {segment: _choose(facts) for segment, facts in reads.items()}


def _choose(facts: ReadFacts) -> Choice:
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
