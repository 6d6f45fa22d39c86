"""A unified diff as lines with numbers and colours."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat, zip_longest

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from pace_tui.looks import Pen
from pace_tui.plain_text import drawable

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_MOST_HIGHLIGHTED = 400
"""Lines; a longer diff is shown without the colours of its language."""
SIDE_BY_SIDE = 130
"""Columns from which both sides are shown."""


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff."""

    sign: str
    """``+``, ``-``, a space, ``@`` for the head of a hunk, or ``\\`` for a remark."""
    text: str
    old: int | None = None
    new: int | None = None


def read_diff(diff: str) -> list[DiffLine]:
    """The lines of a unified diff; heads of files are left out."""
    return list(_read(drawable(diff).splitlines()))


def _read(lines: list[str]) -> Iterator[DiffLine]:
    old = new = 0
    is_in_hunk = False
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk:
            old, new, is_in_hunk = int(hunk[1]), int(hunk[2]), True
            yield DiffLine("@", hunk[3].strip())
        elif line.startswith(("--- ", "+++ ", "diff ", "index ")) and not is_in_hunk:
            continue
        elif line.startswith("+"):
            yield DiffLine("+", line[1:], None, new)
            new += 1
        elif line.startswith("-"):
            yield DiffLine("-", line[1:], old, None)
            old += 1
        elif line.startswith(" ") or not line:
            yield DiffLine(" ", line[1:], old, new)
            old, new = old + 1, new + 1
        else:
            yield DiffLine("\\", line)


def totals(diff: str) -> tuple[int, int]:
    """Lines added and lines removed."""
    lines = read_diff(diff)
    return sum(line.sign == "+" for line in lines), sum(line.sign == "-" for line in lines)


def draw_diff(diff: str, path: str, pen: Pen, *, is_wide: bool | None = None) -> list[Strip]:
    """All of a diff laid out; see :class:`DiffLayout`."""
    layout = DiffLayout(diff, path, pen, is_wide=is_wide)
    return [layout.row(y) for y in range(len(layout))]


class DiffLayout:
    """A diff laid out: side by side where there is room, else one line after the other.

    How high it is is known at once; its lines are drawn when they are asked for, and only those.

    Args:
        diff: unified.
        path: its ending says how the code is coloured.
        pen: with width and colours.
        is_wide: whether side by side; None: as the width allows.
    """

    def __init__(self, diff: str, path: str, pen: Pen, *, is_wide: bool | None = None) -> None:
        self._pen = pen
        self._is_wide = is_wide if is_wide is not None else pen.width >= SIDE_BY_SIDE
        self._width = (pen.width - 1) // 2 if self._is_wide else pen.width
        self._lines = lines = read_diff(diff)
        self._digits = max([2, *(len(str(max(line.old or 0, line.new or 0))) for line in lines)])
        self._room = max(self._width - self._digits - 4, 1)
        self._codes = _coloured(lines, path, pen)
        self._parts = list(_pairs(lines) if self._is_wide else zip(range(len(lines)), repeat(None)))
        """Lines that stand beside each other: left, right; not side by side, there is only a left one."""
        self._starts = list(accumulate((self._height(*part) for part in self._parts), initial=0))
        self._drawn: tuple[int, list[Strip]] = (-1, [])

    def __len__(self) -> int:
        """Rows."""
        return self._starts[-1]

    def row(self, y: int) -> Strip:
        """One of them."""
        place = bisect_right(self._starts, y) - 1
        if self._drawn[0] != place:
            self._drawn = (place, self._draw(*self._parts[place]))
        return self._drawn[1][y - self._starts[place]]

    def _height(self, left: int | None, right: int | None) -> int:
        return max(0 if index is None else self._height_of(index) for index in (left, right))

    def _height_of(self, index: int) -> int:
        line = self._lines[index]
        if line.sign in "@\\" or len(line.text) * 2 <= self._room:  # no letter is wider than two columns
            return 1
        return len(self._pieces(index))

    def _pieces(self, index: int) -> Sequence[Text]:
        """The code of a line, on as many lines as it takes."""
        code = self._codes.get(index) or Text(self._lines[index].text)
        if code.cell_len <= self._room:
            return [code]
        return list(code.wrap(self._pen.console, self._room, overflow="fold", tab_size=4)) or [Text()]

    def _draw(self, left: int | None, right: int | None) -> list[Strip]:
        if not self._is_wide:
            assert left is not None
            line = self._lines[left]
            return self._side(left, line.new if line.sign != "-" else line.old)
        sides = [
            self._side(left, self._lines[left].old) if left is not None else [],
            self._side(right, self._lines[right].new) if right is not None else [],
        ]
        bar = Strip(list(Text("│", self._pen.looks.faint).render(self._pen.console)))
        drawn = []
        for row in range(max(map(len, sides))):
            first, second = (side[row] if row < len(side) else Strip.blank(self._width) for side in sides)
            drawn.append(Strip.join([first.adjust_cell_length(self._width), bar, second]))
        return drawn

    def _side(self, index: int, number: int | None) -> list[Strip]:
        """One line of a diff, on more lines than one if it is long."""
        line, pen = self._lines[index], self._pen
        looks, back = pen.looks, _back(line.sign, pen)
        if line.sign in "@\\":
            remark = Text(f"  {'⋯' if line.sign == '@' else ''} {line.text}", looks.faint)
            return [Strip(list(remark.render(pen.console))).crop(0, self._width)]
        mark = {"+": looks.style("success"), "-": looks.style("error")}.get(line.sign, looks.faint)
        drawn = []
        for row, piece in enumerate(self._pieces(index)):
            shown = str(number) if row == 0 and number is not None else ""
            whole = Text.assemble((f"{shown:>{self._digits}} ", looks.faint), (f"{line.sign} ", mark), piece)
            strip = Strip(list(whole.render(pen.console))).adjust_cell_length(self._width)
            drawn.append(strip.apply_style(back) if back else strip)
        return drawn


def _back(sign: str, pen: Pen) -> Style:
    return pen.looks.over({"+": "success", "-": "error"}.get(sign, ""), 0.18)


def _pairs(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
    """Lines that stand beside each other: what was removed, and what was added in its place."""
    index = 0
    while index < len(lines):
        sign = lines[index].sign
        if sign not in "+-":
            yield index, None if sign in "@\\" else index
            index += 1
            continue
        gone = index
        while index < len(lines) and lines[index].sign == "-":
            index += 1
        come = index
        while index < len(lines) and lines[index].sign == "+":
            index += 1
        yield from zip_longest(range(gone, come), range(come, index))


def _coloured(lines: list[DiffLine], path: str, pen: Pen) -> dict[int, Text]:
    """The code of lines by their place, in the colours of its language: old and new sides are read apart."""
    if len(lines) > _MOST_HIGHLIGHTED or not path:
        return {}
    from rich.syntax import Syntax

    language = Syntax.guess_lexer(path)
    if language == "default":
        return {}
    coloured: dict[int, Text] = {}
    syntax = Syntax("", language, theme="ansi_dark" if pen.looks.is_dark else "ansi_light")
    for sides in ("- ", "+ "):
        chosen = [index for index, line in enumerate(lines) if line.sign in sides]
        code = syntax.highlight("\n".join(lines[index].text for index in chosen))
        for index, text in zip(chosen, code.split("\n", allow_blank=True), strict=False):
            if text.plain == lines[index].text:
                coloured[index] = text
    return coloured
