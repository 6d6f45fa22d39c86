"""A file's lines, and what was found in them before they are cut."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from pace_local.excerpts.excerpt import Definition

Style = Literal["grammar", "code", "settings", "prose"]
"""How a file was read: by a grammar, or by patterns as code, as a file of settings, or as prose."""

WEAKEST = 2_000
"""Level of a border that is used only when there is no other, such as before a closing bracket."""

PLAIN = 1_000
"""Lowest level of borders that were found without a grammar, in a file that has one."""

# Only what editors count as line ends: str.splitlines() also breaks at form feeds and others.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_CLOSING = re.compile(r"\s*(?:[)\]}>][)\]}>;,]*|end|fi|done|esac|</[\w.-]+>)\s*$")


def split_lines(text: str) -> list[str]:
    """The lines of a text, line ends included."""
    return _LINE.findall(text)


class Lines:
    """The lines of a text, with their offsets in characters and in UTF-8 bytes. Indices are 0-based."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = split_lines(text)
        self.starts = [0, *accumulate(map(len, self.lines))]
        """Offset of each line's first character, and of the text's end."""
        # A lone surrogate, which no file can hold but a caller's text may, becomes one byte.
        self.data = text.encode("utf-8", "replace")
        if text.isascii():
            self.byte_starts = self.starts
        else:
            self.byte_starts = [0, *accumulate(len(line.encode("utf-8", "replace")) for line in self.lines)]

    def __len__(self) -> int:
        return len(self.lines)

    def line_at(self, offset: int) -> int:
        """Index of the line that holds the character at ``offset``."""
        return bisect_right(self.starts, offset) - 1

    def line_at_byte(self, offset: int) -> int:
        """Index of the line that holds the byte at ``offset``."""
        return min(bisect_right(self.byte_starts, offset) - 1, len(self.lines) - 1)

    def byte_at(self, line: int, column: int) -> int:
        """Offset in bytes of the character at ``column`` of a line."""
        return self.byte_starts[line] + len(self.lines[line][:column].encode("utf-8", "replace"))

    def is_blank(self, line: int) -> bool:
        """Whether the line holds white space alone."""
        return not self.lines[line].strip()

    def indent(self, line: int) -> int:
        """Columns of white space before the line's first character; a tab goes to the next multiple of 4."""
        text = self.lines[line].expandtabs(4)
        return len(text) - len(text.lstrip())

    def closes(self, line: int) -> bool:
        """Whether the line does nothing but end what an earlier line began."""
        return _CLOSING.match(self.lines[line]) is not None


@dataclass(frozen=True)
class Found:
    """A definition before it is known which excerpt it falls in. Lines are 0-based."""

    name: str
    kind: str
    at: int
    """Offset of the name, in bytes."""
    first_line: int
    last_line: int
    signature: str
    """The text from its first line to its body, indented as in the file."""

    def definition(self) -> Definition:
        return Definition(self.name, self.kind, self.first_line + 1, self.last_line + 1)


@dataclass
class Layout:
    """Where a file can be cut, and what it defines."""

    levels: list[int]
    """For each line, how strong the border before it is: a range is cut at its lowest level first."""
    style: Style
    found: list[Found] = field(default_factory=list)
    """Definitions in order of ``at``."""
    identifiers: list[tuple[int, str]] = field(default_factory=list)
    """Offset in bytes and name of each identifier in code, in order; none for a text without a grammar."""
