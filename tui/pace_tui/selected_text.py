"""What is selected of a line: how it looks, and its text."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip


def marked(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """A line in which some columns look selected; an end below 0 is that of the line."""
    start, end = span
    end = strip.cell_length if end < 0 else min(end, strip.cell_length)
    if start >= end:
        return strip
    chosen = Strip([Segment(each.text, (each.style or Style()) + style) for each in strip.crop(start, end)])
    return Strip.join([strip.crop(0, start), chosen, strip.crop(end, strip.cell_length)])


def between(text: str, span: tuple[int, int]) -> str:
    """The part of a line between two columns; an end below 0 is that of the line."""
    start, end = span
    strip = Strip([Segment(text)])
    return strip.crop(start, strip.cell_length if end < 0 else end).text


def text_of(selection: Selection, line_text: Callable[[int], str], lines: int) -> str:
    """What is selected of so many lines, without the blanks at their ends."""
    start = selection.start.y if selection.start is not None else 0
    end = selection.end.y if selection.end is not None else lines - 1
    found = []
    for line in range(max(start, 0), min(end + 1, lines)):
        span = selection.get_span(line)
        if span is not None:
            found.append(between(line_text(line), span).rstrip())
    return "\n".join(found)
