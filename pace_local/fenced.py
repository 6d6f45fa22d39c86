"""Blocks between fences, in the Markdown that models write."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")
_OPENING = re.compile(r"^([ \t]*(?:(?:[-*+] |\d+[.)] )[ \t]*)*)(`{3,}|~{3,})[ \t]*([^`]*)$")
_MARKDOWN = frozenset({"markdown", "md", "mdx"})
_DEEPER = 4
"""Columns that a fence is indented more than the one that opened the block, to be part of it."""


@dataclass(frozen=True)
class Fenced:
    """A block between fences."""

    info: str
    """What stands behind the opening fence."""
    text: str
    """Its lines, each ended by a line feed, without the indentation of the opening fence."""
    is_closed: bool
    before: str
    """What stands between the block before, or the beginning, and this one."""

    @property
    def tag(self) -> str:
        """The first word of ``info``: by custom the language; folded, and without braces and dots."""
        return self.info.split()[0].strip("{}.").casefold() if self.info.strip() else ""


def fenced_blocks(text: str) -> list[Fenced]:
    """The blocks of a text, in order.

    Forgiving where models are careless: the last block may be open, a block that was not closed ends where
    one with a language begins, a fence may close at the end of the last line of code, and blocks may stand
    in lists. Within a block of Markdown, blocks with a language are a part of it; so is, within any block,
    a fence that is shorter, of the other kind, or indented by four columns more.
    """
    return _Reader().read(_LINE_END.split(text))


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Fenced] = []
        self.mark = ""
        self.info = ""
        self.indent = 0
        self.depth = 0  # of open blocks within a block of Markdown
        self.lines: list[str] = []
        self.outside: list[str] = []

    def read(self, lines: list[str]) -> list[Fenced]:
        for line in lines:
            opening = _OPENING.match(line)
            if not self.mark:
                if opening is None:
                    self.outside.append(line)
                else:
                    self._open(opening)
            elif not self._is_inside(line, opening):
                self._fence(line, opening)
            else:
                self.lines.append(self._unindented(line))
        if self.mark:
            if self.lines and not self.lines[-1]:
                self.lines.pop()  # what follows the text's last line end
            self._close(is_closed=False)
        return self.blocks

    def _is_inside(self, line: str, opening: re.Match[str] | None) -> bool:
        if opening is None:
            return not line.strip().endswith(self.mark)
        return not opening[2].startswith(self.mark) or _width(line) >= self.indent + _DEEPER

    def _fence(self, line: str, opening: re.Match[str] | None) -> None:
        is_opening = opening is not None and bool(opening[3])
        if self.info.split(" ")[0].casefold() in _MARKDOWN:
            if is_opening or self.depth:
                self.depth += 1 if is_opening else -1
                self.lines.append(self._unindented(line))
            else:
                self._close(is_closed=True)
        elif opening is not None and is_opening:
            self._close(is_closed=False)
            self._open(opening)
        else:
            code = line.rstrip().rstrip(self.mark[0])
            if code.strip():  # closed on the last line of the code
                self.lines.append(self._unindented(code))
            self._close(is_closed=True)

    def _open(self, opening: re.Match[str]) -> None:
        self.mark, self.info = opening[2], opening[3].strip()
        self.indent, self.depth = len(opening[1].expandtabs(4)), 0

    def _close(self, *, is_closed: bool) -> None:
        text = "".join(f"{line}\n" for line in self.lines)
        self.blocks.append(Fenced(self.info, text, is_closed, "\n".join(self.outside)))
        self.mark, self.lines, self.outside = "", [], []

    def _unindented(self, line: str) -> str:
        count = 0
        while (
            count < len(line) and line[count] in " \t" and len(line[: count + 1].expandtabs(4)) <= self.indent
        ):
            count += 1
        return line[count:]


def _width(line: str) -> int:
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())
