"""Taking what is to be read, as long as it fits into a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pace_agent.planning.wanted_reads import Wanted
from pace_agent.repository.file_outline import outline_text
from pace_agent.repository.index import RepositoryIndex
from pace_local.excerpts.layout import split_lines

_MOST_FOR_LINES = 3
_FREE = 100
"""A segment takes the place of lines that it holds if it has at most so many times their tokens, and so many
more: it costs no reading, but room."""
_CHARACTERS_PER_TOKEN = 3.0
_LEAST_OUTLINE = 120  # characters; less says nothing
_MOST_CHARACTERS = 16
"""For each token of the budget: a text of more is too large without being counted."""


@dataclass(frozen=True)
class Known:
    """A segment that the session holds, resident or not."""

    segment: str
    path: str = ""
    """Of the file that it is an excerpt of; empty if it is none."""
    first: int = 0
    """First line, 1-based; 0: the outline of the file."""
    last: int = 0
    stale: bool = False
    """Whether the file has changed, so that it is not read any more."""
    tokens: int = 0
    """Its size; 0: that of its lines in the file."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file that a step needs and that no segment holds."""

    path: str
    first: int
    """1-based."""
    last: int
    """Inclusive."""
    symbol: str
    """The definition that they are; empty for other lines."""
    why: str
    is_outline: bool = False
    """Whether only the outline of these lines is to be shown, as ``file_outline.outline_text`` makes it."""
    tokens: int = 0
    """Of the text, as it was counted."""
    most_characters: int = 0
    """Of an outline."""

    @property
    def name(self) -> str:
        """Such as ``shop/orders.py:10-42``."""
        return f"{self.path}:{self.first}-{self.last}"


class Chooser:
    """Takes reads as long as they fit.

    Args:
        index: of the repository.
        known: segments that the session holds.
        budget: tokens of all that is taken.
        count: tokens of a text.
    """

    def __init__(
        self, index: RepositoryIndex, known: Sequence[Known], budget: int, count: Callable[[str], int]
    ) -> None:
        self._index = index
        self._known = [one for one in known if not one.stale]
        self._budget = budget
        self._count = count
        self.spent = 0
        """Tokens of what was taken."""
        self.segments: dict[str, str] = {}
        """Segments that were taken, with the reason."""
        self.missing: list[Excerpt] = []
        self.taken: list[Wanted] = []
        """What is read whole."""

    @property
    def left(self) -> int:
        """Tokens that are left."""
        return self._budget - self.spent

    @property
    def reasons(self) -> dict[str, str]:
        """Why each is read."""
        return {**self.segments, **{one.name: one.why for one in self.missing}}

    def take(self, wanted: Wanted, room: int) -> bool:
        """Read something whole if it takes no more than some tokens; what is there already costs nothing."""
        if wanted.segment:
            found = [one for one in self._known if one.segment == wanted.segment]
            return bool(found) and self._take_segments(found, wanted, room)
        if self._covers(wanted):
            self._mark(wanted)
            return True
        if self.is_too_large(wanted):
            return self._take_outline(wanted, room)
        text = self._index.lines_of(wanted.path, wanted.first, wanted.last)
        covering = self._covering(wanted)
        most = min(room, _MOST_FOR_LINES * self._count(text) + _FREE) if covering else 0
        if covering and self._take_segments(covering, wanted, most):
            return True
        return bool(text) and self._add(wanted, text, room)

    def is_too_large(self, wanted: Wanted) -> bool:
        """Whether it is a file of which only the outline is read."""
        if wanted.kind != "file":
            return False
        return self._lines_tokens(wanted.path, wanted.first, wanted.last) > self._budget // 4

    def _has_part_of(self, wanted: Wanted) -> bool:
        """Whether some of its lines are read already."""
        return any(
            one.path == wanted.path and one.first <= wanted.last and wanted.first <= one.last
            for one in self._shown()
        )

    def take_used(self, wanted: Wanted) -> None:
        """Read something that is used, if it fits and no part of it is there; a large type in outline."""
        most = self._budget // 8
        is_type = wanted.kind in ("type", "module")
        if self._has_part_of(wanted):
            return
        if is_type and self._lines_tokens(wanted.path, wanted.first, wanted.last) > most:
            self._take_outline(wanted, min(self.left, most))
        else:
            self.take(wanted, self.left)

    def take_part(self, wanted: Wanted) -> bool:
        """Read as much as is left of what did not fit: an outline, or the first lines."""
        if wanted.segment:
            return False
        room = self.left
        if wanted.kind in ("type", "module", "file"):
            return self._take_outline(wanted, room)
        lines = split_lines(self._index.lines_of(wanted.path, wanted.first, wanted.last))
        low, high = 0, len(lines)
        while low < high:  # the most lines that fit
            middle = (low + high + 1) // 2
            fits = self._count("".join(lines[:middle])) <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        if low == 0:
            return False
        part = Wanted(
            wanted.path,
            wanted.first,
            wanted.first + low - 1,
            wanted.symbol,
            f"{wanted.why}; cut",
            wanted.kind,
        )
        return self._add(part, "".join(lines[:low]), room)

    def _shown(self) -> Iterator[Known]:
        """Lines that are among the reads by now."""
        yield from (one for one in self._known if one.segment in self.segments and one.path and one.first)
        for one in self.missing:
            if not one.is_outline:
                yield Known("", one.path, one.first, one.last)

    def _covers(self, wanted: Wanted) -> bool:
        """Whether all of its lines are read already."""
        reached = wanted.first
        for first, last in sorted((one.first, one.last) for one in self._shown() if one.path == wanted.path):
            if first <= reached:
                reached = max(reached, last + 1)
        return reached > wanted.last

    def _covering(self, wanted: Wanted) -> list[Known]:
        """The segments that together hold some lines: the smallest that does, or the fewest."""
        here = [one for one in self._known if one.path == wanted.path and one.first]
        whole = [one for one in here if one.first <= wanted.first and wanted.last <= one.last]
        if whole:
            return [min(whole, key=lambda one: one.last - one.first)]
        found: list[Known] = []
        reached = wanted.first
        while reached <= wanted.last:
            nexts = [one for one in here if one.first <= reached <= one.last]
            if not nexts:
                return []
            found.append(max(nexts, key=lambda one: one.last))
            reached = found[-1].last + 1
        return found

    def _take_segments(self, found: Sequence[Known], wanted: Wanted, room: int) -> bool:
        new = [one for one in found if one.segment not in self.segments]
        cost = sum(self._tokens(one) for one in new)
        if cost > room:
            return False
        self.spent += cost
        for one in new:
            self.segments[one.segment] = wanted.why
        self._mark(wanted)
        return True

    def _tokens(self, one: Known) -> int:
        if one.tokens or not one.path:
            return one.tokens
        if one.first == 0:
            text = self._index.text_of(one.path) or ""
            return self._count(outline_text(text, one.path, int(self._budget // 4 * _CHARACTERS_PER_TOKEN)))
        return self._lines_tokens(one.path, one.first, one.last)

    def _lines_tokens(self, path: str, first: int, last: int) -> int:
        text = self._index.lines_of(path, first, last)
        return self._count(text) if len(text) <= _MOST_CHARACTERS * self._budget else self._budget + 1

    def _take_outline(self, wanted: Wanted, room: int) -> bool:
        known = next((one for one in self._known if one.path == wanted.path and one.first == 0), None)
        if known is not None and wanted.kind == "file" and self._take_segments([known], wanted, room):
            self.taken.remove(wanted)
            return True
        text = self._index.text_of(wanted.path)
        if text is None or any(one.is_outline and one.path == wanted.path for one in self.missing):
            return text is not None
        limit = min(room, self._budget // 4)
        most = int(limit * _CHARACTERS_PER_TOKEN)
        while most >= _LEAST_OUTLINE:
            shown = outline_text(text, wanted.path, most, first=wanted.first, last=wanted.last)
            if shown and self._count(shown) <= limit:
                return self._add(wanted, shown, room, most_characters=most)
            most = most * 3 // 4
        return False

    def _add(self, wanted: Wanted, text: str, room: int, *, most_characters: int = 0) -> bool:
        if len(text) > _MOST_CHARACTERS * room:
            return False
        tokens = self._count(text)
        if tokens > room:
            return False
        self.spent += tokens
        why = f"{wanted.why}; in outline" if most_characters else wanted.why
        self.missing.append(
            Excerpt(
                wanted.path,
                wanted.first,
                wanted.last,
                wanted.symbol,
                why,
                bool(most_characters),
                tokens,
                most_characters,
            )
        )
        if not most_characters:
            self._mark(wanted)
        return True

    def _mark(self, wanted: Wanted) -> None:
        if wanted not in self.taken:
            self.taken.append(wanted)
