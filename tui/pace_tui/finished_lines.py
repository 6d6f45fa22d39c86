"""Lines as the terminal gets them, kept: what was drawn once need not be turned into bytes again."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

_MOST = 2000
"""Lines that are kept: some dozens of screens."""


class FinishedLines:
    """Keeps the finished strip of a line for as long as it is made of the same one.

    Textual keeps with each strip what it was cut into and its bytes: the same object costs next to nothing.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Strip, int, Strip]] = {}

    def get(
        self, place: int, within: int, line: int, strip: Strip, finish: Callable[[Strip, int], Strip]
    ) -> Strip:
        """The finished strip.

        Args:
            place: of the entry.
            within: the line within it.
            line: the same from the start of all.
            strip: what it is made of.
            finish: makes it, of the strip and ``line``.
        """
        kept = self._kept.get((place, within))
        if kept is not None and kept[0] is strip and kept[1] == line:
            return kept[2]
        finished = finish(strip, line)
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[place, within] = strip, line, finished
        return finished

    def clear(self) -> None:
        """Forget all: they would look otherwise now."""
        self._kept.clear()


def merged(before: list[Strip], after: list[Strip]) -> tuple[list[Strip], int, int]:
    """The lines of an entry that has changed, with the old strips where they say the same.

    Returns:
        The lines; the first that differs; the one after the last that does. Where the number of lines
        differs, that is the end of the longer.
    """
    lines = [old if old is new or old == new else new for old, new in zip(before, after, strict=False)]
    lines += after[len(lines) :]
    differing = [index for index, (old, new) in enumerate(zip(before, lines, strict=False)) if old is not new]
    if len(before) != len(after):
        first = differing[0] if differing else min(len(before), len(after))
        return lines, first, max(len(before), len(after))
    return (lines, differing[0], differing[-1] + 1) if differing else (lines, 0, 0)


def finished(widget: Widget, strip: Strip, line: int, base: Style, width: int) -> Strip:
    """A line as the terminal gets it: in the widget's width and colours, with its margins and filters.

    Args:
        widget: that it is a line of.
        strip: its content.
        line: which it is from the start of all, for what is selected with the mouse.
        base: the widget's own style.
        width: columns between the margins.
    """
    gutter = widget.gutter
    strip = strip.adjust_cell_length(width).apply_style(base).apply_offsets(0, line)
    left, right = ([Segment(" " * each, base)] if each else [] for each in (gutter.left, gutter.right))
    strip = Strip([*left, *strip, *right], strip.cell_length + gutter.width)
    for each in widget.get_line_filters():
        strip = strip.apply_filter(each, widget.background_colors[1])
    return strip
