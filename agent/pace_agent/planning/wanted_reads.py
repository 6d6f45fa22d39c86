"""What a step's text and its lists name, as lines to be read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pace_agent.repository.index import Place, RepositoryIndex
from pace_agent.repository.references import references

_MOST_HOMONYMS = 3
"""Definitions of one name; of more, a name alone does not tell which is meant."""
_LINES = re.compile(r"(?P<path>.+?)(?::|#L)(?P<first>\d+)(?:(?:-L?|:)(?P<last>\d+))?")


@dataclass(frozen=True)
class Wanted:
    """Something to be read: lines of a file, or a segment."""

    path: str
    first: int
    last: int
    symbol: str
    why: str
    kind: str = "lines"
    """As of a :class:`Place`, or ``file`` for a whole one."""
    segment: str = ""
    """If it is a segment, its name; all else is empty then."""

    @property
    def place(self) -> Place:
        """The lines as a place."""
        return Place(self.path, self.symbol, self.first, self.last, self.kind)

    @property
    def name(self) -> str:
        """As plans name it."""
        if self.segment:
            return self.segment
        if self.kind == "file":
            return self.path
        return f"{self.path}:{self.symbol or f'{self.first}-{self.last}'}"


def wanted_reads(
    step_text: str, named: Sequence[str], index: RepositoryIndex, segments: Collection[str]
) -> tuple[list[Wanted], list[str]]:
    """What was listed, then what the text names, each once.

    Args:
        step_text: what the step does.
        named: what was listed: paths, symbols, ``path:symbol``, ``path:10-40``, names of segments.
        index: of the repository.
        segments: names of segments that are there.

    Returns:
        What is to be read, and what was listed and is not there.
    """
    found: dict[tuple[str, int, int], Wanted] = {}
    unknown: list[str] = []

    def add(one: Wanted) -> None:
        found.setdefault((one.path or one.segment, one.first, one.last), one)

    for text in dict.fromkeys(named):
        meant = list(_resolved(text, index, segments))
        if not meant:
            unknown.append(text)
        for one in meant:
            add(one)
    mentioned = references(step_text, index)
    why = "the step names it"
    for place in mentioned.symbols:
        add(of_place(place, why))
    listed = {one.path for one in found.values()}
    for path in mentioned.paths:
        if path not in listed:
            for one in _of_file(path, index, why):
                add(one)
    return list(found.values()), unknown


def _resolved(text: str, index: RepositoryIndex, segments: Collection[str]) -> Iterator[Wanted]:
    """What one listed name means."""
    why = "listed for this step"
    if text in segments:
        yield Wanted("", 0, 0, "", why, segment=text)
        return
    if match := _LINES.fullmatch(text.strip()):
        if paths := index.find_path(match["path"]):
            first = max(int(match["first"]), 1)
            facts = index.facts_of(paths[0])
            last = min(int(match["last"] or first), facts.lines if facts else first)
            around = index.definition_at(paths[0], first) if match["last"] is None else None
            if around is not None:
                yield of_place(around, why)
            elif first <= last:
                yield Wanted(paths[0], first, last, "", why)
        return
    places = index.definitions_of(text) if ":" in text or not index.find_path(text) else ()
    if places:
        yield from (of_place(place, why) for place in places[:_MOST_HOMONYMS])
    else:
        for path in index.find_path(text)[:1]:
            yield from _of_file(path, index, why)


def of_place(place: Place, why: str) -> Wanted:
    """The lines of a definition."""
    return Wanted(place.path, place.first, place.last, place.symbol, why, place.kind)


def _of_file(path: str, index: RepositoryIndex, why: str) -> Iterator[Wanted]:
    facts = index.facts_of(path)
    if facts is not None and facts.lines:
        yield Wanted(path, 1, facts.lines, "", why, "file")
