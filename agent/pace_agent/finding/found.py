"""What a search has found, and the text in which a model is shown it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pace_agent.repository.walk import shown
from pace_agent.shell.output import settled

LONGEST_LINE = 200
"""Characters of a matching line that are kept."""

LEAST_SHOWN = 200
"""Characters that :meth:`Found.shown` needs to say anything."""

_BEFORE = 60
"""Characters of a long line that are kept before the match."""
_NAMED = 3
"""Files that are named where more was left out."""


@dataclass(frozen=True)
class Match:
    """A line that matches."""

    path: str
    """From the repository, with ``/``; absolute in another folder."""

    line: int
    """From 1."""

    text: str
    """The line without its end; a long one is cut around the match, with ``…`` where it goes on."""

    def __str__(self) -> str:
        """As a model is shown it, on one line."""
        return f"{shown(self.path)}:{self.line}: {settled(self.text)}"


def match_of(path: str, text: str, line: int, start: int, end: int) -> Match:
    """A match in a line.

    Args:
        path: of the file.
        text: the line without its end.
        line: its number from 1.
        start: of the match, in characters.
        end: of the match.
    """
    if len(text) <= LONGEST_LINE:
        return Match(path, line, text)
    first = max(0, min(start - _BEFORE, len(text) - LONGEST_LINE))
    last = first + LONGEST_LINE
    return Match(path, line, ("…" if first else "") + text[first:last] + ("…" if last < len(text) else ""))


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    pattern: str
    matches: tuple[Match, ...] = ()
    """In the order of their files, a file's together."""

    notes: tuple[str, ...] = ()
    """What was searched otherwise than asked, or not at all; a sentence each."""

    more: Mapping[str, int] = field(default_factory=dict)
    """File -> further lines in it that match and were not kept."""

    is_cut_short: bool = False
    """Whether the search ended before all was searched; a note says why."""

    @property
    def count(self) -> int:
        """Lines that match, those that were not kept included."""
        return len(self.matches) + sum(self.more.values())

    @property
    def left_out(self) -> int:
        """Matching lines that were not kept."""
        return sum(self.more.values())

    def noting(self, note: str) -> Found:
        """The same, with a note before the others."""
        return replace(self, notes=(note, *self.notes))

    def shown(self, limit: int = 4_000) -> str:
        """A text for a model: how much was found, the lines as ``path:line: text``, and what is missing.

        Where not all lines fit, each file gets its first before any gets its second.

        Args:
            limit: characters; of less than :data:`LEAST_SHOWN` it makes that many.
        """
        limit = max(limit, LEAST_SHOWN)
        files = {match.path for match in self.matches} | self.more.keys()
        name = _cut(shown(self.pattern), 60)
        if not files:
            return _cut("\n".join([f"no line matches {name!r}", *self.notes]), limit)
        at_least = "at least " if self.is_cut_short else ""
        head = f"{at_least}{_counted(self.count, 'line')} in {_counted(len(files), 'file')} match {name!r}:"
        notes = _cut("\n".join(self.notes), limit // 3)
        texts = [str(match) for match in self.matches]
        # The room for a line that says what is missing is taken before it is known to be needed.
        whole = [head, *texts, *([self._missing(set())] if self.more else []), *([notes] if notes else [])]
        if sum(len(line) + 1 for line in whole) <= limit + 1:
            return "\n".join(whole)
        room = limit - len(head) - len(notes) - 2 - min(160, limit // 3)
        chosen: set[int] = set()
        for index in self._turns():
            if len(texts[index]) + 1 > room:
                break
            room -= len(texts[index]) + 1
            chosen.add(index)
        missing = self._missing({i for i in range(len(texts)) if i not in chosen})
        lines = [head, *(texts[i] for i in sorted(chosen)), _cut(missing, min(160, limit // 3) - 1)]
        return "\n".join([*lines, notes] if notes else lines)

    def _turns(self) -> list[int]:
        """Indices of matches: each file's first, then each file's second, and so on."""
        turns: dict[str, int] = {}
        order = []
        for index, match in enumerate(self.matches):
            turns[match.path] = turns.get(match.path, 0) + 1
            order.append((turns[match.path], index))
        return [index for _, index in sorted(order)]

    def _missing(self, not_shown: set[int]) -> str:
        """Says where the lines are that are not shown."""
        by_file = dict(self.more)
        for index in not_shown:
            path = self.matches[index].path
            by_file[path] = by_file.get(path, 0) + 1
        most = sorted(by_file.items(), key=lambda one: (-one[1], one[0]))
        named = ", ".join(f"{_cut(shown(path), 40)} ({count})" for path, count in most[:_NAMED])
        others = f" and {_counted(len(most) - _NAMED, 'other file')}" if len(most) > _NAMED else ""
        return f"… {_counted(sum(by_file.values()), 'more line')}: {named}{others}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
