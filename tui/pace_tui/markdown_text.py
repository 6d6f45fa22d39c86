"""Markdown that grows: only the block that is being written is laid out again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textual.strip import Strip

from pace_tui.looks import Pen
from pace_tui.plain_text import drawable

if TYPE_CHECKING:
    from rich.markdown import Markdown

_FENCE = re.compile(r" {0,3}(```+|~~~+)(.*)")
_LIST = re.compile(r"([-*+]|\d{1,9}[.)])\s")
_MOST_CODE = 2500
"""Characters of code that are laid out at once while it grows."""
_MOST_IN_BLOCK = 20_000
"""Characters; a block that is longer is cut in two, so that its cost stays bounded."""


class MarkdownText:
    """A text with the blocks that are complete laid out once a width."""

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = []
        self._blocks: list[str] = []
        self._goes_on: list[bool] = []
        """Whether a block goes on with the code of the one before."""
        self._rest_goes_on = False
        self._laid_out: list[list[Strip]] = []
        self._pen: Pen | None = None
        self._fence = ""
        self._rest = ""
        """Lines of the block that is being written."""
        self._seen = 0
        """Characters of the rest that were looked at, up to a line's end."""
        self._length = 0
        self.append(text)

    @property
    def source(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def __len__(self) -> int:
        """Characters."""
        return self._length

    def append(self, text: str) -> None:
        """Add to the end."""
        text = drawable(text)
        self._pieces.append(text)
        self._rest += text
        self._length += len(text)
        while (end := self._rest.find("\n", self._seen)) >= 0:
            self._look_at(self._rest[self._seen : end], end + 1)

    def _look_at(self, line: str, after: int) -> None:
        start, self._seen = self._seen, after
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
                self._close(after)
            elif after > _MOST_CODE and line.strip() and self._rest[:start].rsplit("\n", 2)[-2].strip():
                # Between two lines that are not empty: those at the ends of a block are left out.
                marks, language = self._fence, self._rest.split("\n", 1)[0].lstrip(" `~")
                self._close(start, f"{marks}\n")
                self._rest = f"{marks}{language}\n" + self._rest
                self._seen = len(marks) + len(language) + 1 + after - start
                self._rest_goes_on = True
        elif fence:
            self._fence = fence[1]
            if self._rest[:start].strip() and not line.startswith(" "):
                self._close(start)
                self._seen = after - start
        elif self._is_boundary(line, start) or after > _MOST_IN_BLOCK:
            self._close(start)
            self._seen = after - start

    def _is_boundary(self, line: str, start: int) -> bool:
        """Whether a new block starts with this line."""
        before = self._rest[:start]
        if not before.endswith("\n\n") or not line.strip() or line[0] in " \t":
            return False
        return not (_LIST.match(line) and _LIST.match(before.lstrip()))

    def _close(self, end: int, last: str = "") -> None:
        self._blocks.append(self._rest[:end] + last)
        self._goes_on.append(self._rest_goes_on)
        self._rest_goes_on = False
        self._rest = self._rest[end:]
        self._seen = 0

    def lines(self, pen: Pen) -> list[Strip]:
        """All of it, laid out."""
        if pen is not self._pen:
            self._pen, self._laid_out = pen, []
        for block in self._blocks[len(self._laid_out) :]:
            self._laid_out.append(_lay_out(block, pen))
        parts = [*self._laid_out, *([_lay_out(self._rest, pen)] if self._rest.strip() else [])]
        lines: list[Strip] = []
        for part, goes_on in zip(parts, [*self._goes_on, self._rest_goes_on], strict=False):
            if lines and part and not goes_on:
                lines.append(Strip.blank(0))
            lines.extend(part)
        return lines


def _lay_out(block: str, pen: Pen) -> list[Strip]:
    lines = pen.lines(_markdown(block, pen.looks.is_dark))
    while lines and not lines[-1].text.strip():
        lines.pop()
    while lines and not lines[0].text.strip():
        lines.pop(0)
    return lines


def _markdown(text: str, is_dark: bool) -> Markdown:
    from pace_tui.rich_markdown import PlainMarkdown

    return PlainMarkdown(text, "ansi_dark" if is_dark else "ansi_light")
