"""Where lines of a file are after an edit elsewhere in it."""

from __future__ import annotations

from typing import NamedTuple

from pace_local.excerpts.layout import split_lines


class LineMove(NamedTuple):
    """Lines that an edit put others in the place of."""

    first: int
    """First of them, 1-based, as they were counted before."""
    last: int
    """Last of them, inclusive; one less than ``first`` if lines were only put in before it."""
    more: int
    """How many more lines the file has since, negative if it has fewer."""

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """Where lines are now; what was put in between them is among them."""
        if self.last < first:
            return first + self.more, last + self.more
        if self.first > last:
            return first, last
        return min(first, self.first), max(min(first, self.first), max(last, self.last) + self.more)

    def line(self, line: int) -> int:
        """Where a line is now; of one that was replaced, where its replacement begins."""
        return line + self.more if self.last < line else min(line, self.first)


def line_move(before: str, after: str) -> LineMove:
    """What an edit did to a file's lines: those between what is the same at its start and at its end.

    Args:
        before: the text of the file.
        after: the same after the edit.
    """
    old, new = split_lines(before), split_lines(after)
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - start
    end = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    return LineMove(start + 1, len(old) - end, len(new) - len(old))
