"""What a step needs to read: what was named, and what that uses, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pace_agent.planning.read_chooser import Chooser, Excerpt, Known
from pace_agent.planning.wanted_reads import Wanted, of_place, wanted_reads
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.used_definitions import used_by

__all__ = ["Excerpt", "Known", "Reads", "complete_reads"]

_MOST_USED = 12
"""Definitions one hop away; each is a segment of its own, which costs its frame."""


@dataclass(frozen=True)
class Reads:
    """What a step reads."""

    segments: tuple[str, ...] = ()
    """Those that are there, what is always read first, then what matters most."""
    missing: tuple[Excerpt, ...] = ()
    """What has to be read first, in the order in which it matters."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Segment or name of an excerpt -> why it is read."""
    left_out: tuple[str, ...] = ()
    """What was named and did not fit, or is not there."""


def complete_reads(
    step_text: str,
    named: Sequence[str],
    index: RepositoryIndex,
    *,
    known: Sequence[Known] = (),
    always: Sequence[str] = (),
    budget_tokens: int,
    count: Callable[[str], int],
) -> Reads:
    """What a step reads: what was named, what that uses, and what is always read.

    First what the model listed, then what the step's text names; these may take half of the budget, the first
    of them all. Then definitions of the identifiers that these use, one hop away: those of the same file
    first, then of files that it imports, the smaller first. What was named and did not fit gets what is left
    over. A symbol stands for its definition; a file for all of it if it takes at most a quarter of the
    budget, else for its outline; a definition that does not fit, for its outline or its first lines.

    Args:
        step_text: what the step does.
        named: paths, symbols, ``path:symbol``, ``path:10-40``, names of segments.
        index: of the repository.
        known: segments that the session holds. One that holds the lines of a read takes its place.
        always: segments that are always read. They are not counted: take them off the budget before.
        budget_tokens: of all other reads together, known or missing.
        count: tokens of a text.
    """
    chooser = Chooser(index, known, budget_tokens, count)
    chooser.segments.update(dict.fromkeys(always, "always read"))
    with index.within():
        there = {one.segment for one in known if not one.stale}
        wanted, unknown = wanted_reads(step_text, named, index, there)
        wanted.sort(key=chooser.is_too_large)  # what is shown in outline alone comes last
        later: list[Wanted] = []
        for number, one in enumerate(wanted):
            share = budget_tokens if number == 0 else budget_tokens // 2
            if not chooser.take(one, share - chooser.spent):
                later.append(one)
        places = [one.place for one in chooser.taken if one.path and one.kind != "file"]
        for use in used_by(places, index, _MOST_USED):
            chooser.take_used(of_place(use.place, f"{use.by} uses it"))
        unknown += [
            one.name for one in later if not chooser.take(one, chooser.left) and not chooser.take_part(one)
        ]
    return Reads(tuple(chooser.segments), tuple(chooser.missing), chooser.reasons, tuple(unknown))
