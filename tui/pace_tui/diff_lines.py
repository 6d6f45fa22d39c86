"""A unified diff as lines with numbers and colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
    """A diff laid out: side by side where there is room, else one line after the other.

    Args:
        diff: unified.
        path: its ending says how the code is coloured.
        pen: with width and colours.
        is_wide: whether side by side; None: as the width allows.
    """
    lines = read_diff(diff)
    codes = _coloured(lines, path, pen)
    if is_wide if is_wide is not None else pen.width >= SIDE_BY_SIDE:
        return _both_sides(lines, codes, pen)
    digits = _digits(lines)
    drawn: list[Strip] = []
    for line, code in zip(lines, codes, strict=True):
        drawn.extend(_one(line, code, line.new if line.sign != "-" else line.old, digits, pen, pen.width))
    return drawn


def _digits(lines: list[DiffLine]) -> int:
    return max([2, *(len(str(max(line.old or 0, line.new or 0))) for line in lines)])


def _back(sign: str, pen: Pen) -> Style:
    return pen.looks.over({"+": "success", "-": "error"}.get(sign, ""), 0.18)


def _one(line: DiffLine, code: Text, number: int | None, digits: int, pen: Pen, width: int) -> list[Strip]:
    """One line of a diff, ``width`` columns wide, on more lines than one if it is long."""
    looks, back = pen.looks, _back(line.sign, pen)
    if line.sign in "@\\":
        return [
            Strip(
                list(
                    Text(f"  {'⋯' if line.sign == '@' else ''} {line.text}", looks.faint).render(pen.console)
                )
            ).crop(0, width)
        ]
    mark = {"+": looks.style("success"), "-": looks.style("error")}.get(line.sign, looks.faint)
    room = max(width - digits - 4, 1)
    pieces = code.wrap(pen.console, room, overflow="fold", tab_size=4) if code.cell_len > room else [code]
    drawn = []
    for index, piece in enumerate(pieces or [Text()]):
        shown = str(number) if index == 0 and number is not None else ""
        whole = Text.assemble((f"{shown:>{digits}} ", looks.faint), (f"{line.sign} ", mark), piece)
        strip = Strip(list(whole.render(pen.console))).adjust_cell_length(width)
        drawn.append(strip.apply_style(back) if back else strip)
    return drawn


def _both_sides(lines: list[DiffLine], codes: list[Text], pen: Pen) -> list[Strip]:
    half, digits = (pen.width - 1) // 2, _digits(lines)
    bar = Strip(list(Text("│", pen.looks.faint).render(pen.console)))
    drawn: list[Strip] = []

    def put(left: list[Strip], right: list[Strip]) -> None:
        for index in range(max(len(left), len(right))):
            sides = [side[index] if index < len(side) else Strip.blank(half) for side in (left, right)]
            drawn.append(Strip.join([sides[0].adjust_cell_length(half), bar, sides[1]]))

    index = 0
    while index < len(lines):
        sign = lines[index].sign
        if sign not in "+-":
            side = [
                _one(lines[index], codes[index], number, digits, pen, half)
                for number in (lines[index].old, lines[index].new)
            ]
            put(side[0], [] if sign in "@\\" else side[1])
            index += 1
            continue
        gone, come = [], []
        while index < len(lines) and lines[index].sign == "-":
            gone.append(index)
            index += 1
        while index < len(lines) and lines[index].sign == "+":
            come.append(index)
            index += 1
        for at in range(max(len(gone), len(come))):
            put(
                _one(lines[gone[at]], codes[gone[at]], lines[gone[at]].old, digits, pen, half)
                if at < len(gone)
                else [],
                _one(lines[come[at]], codes[come[at]], lines[come[at]].new, digits, pen, half)
                if at < len(come)
                else [],
            )
    return drawn


def _coloured(lines: list[DiffLine], path: str, pen: Pen) -> list[Text]:
    """The code of each line, in the colours of its language: old and new sides are read apart."""
    plain = [Text(line.text) for line in lines]
    if len(lines) > _MOST_HIGHLIGHTED or not path:
        return plain
    from rich.syntax import Syntax

    language = Syntax.guess_lexer(path)
    if language == "default":
        return plain
    syntax = Syntax("", language, theme="ansi_dark" if pen.looks.is_dark else "ansi_light")
    for sides in ("- ", "+ "):
        chosen = [index for index, line in enumerate(lines) if line.sign in sides]
        code = syntax.highlight("\n".join(lines[index].text for index in chosen))
        for index, text in zip(chosen, code.split("\n", allow_blank=True), strict=False):
            if text.plain == lines[index].text:
                plain[index] = text
    return plain
