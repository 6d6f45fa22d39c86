"""What a terminal would show of the bytes written to it: the letters, without their colours.

It knows what Textual writes, not all that a terminal does: the cursor is placed, moved down and returned,
text overwrites, lines are erased. All else, colours above all, is passed over.
"""

from __future__ import annotations

import codecs
import re

from rich.cells import cell_len

_SEQUENCE = re.compile(
    r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])"  # a control sequence: parameters, final byte
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # an operating system command
    r"|\x1b[P_^X][^\x1b]*\x1b\\"  # strings of other kinds
    r"|\x1b[ -/]*[0-~]"  # two or three characters
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:<=>?]*[ -/]*|\][^\x07\x1b]*\x1b?|[P_^X][^\x1b]*\x1b?|[ -/]*)?\Z")
_NEVER = ""
"""A cell that nothing was written to."""


class Grid:
    """Cells of letters; :meth:`feed` takes bytes as they come.

    Args:
        columns: of the terminal.
        rows: of the terminal.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[_NEVER] * columns for _ in range(rows)]
        self._unwritten = columns * rows
        self._row = self._column = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self.is_asleep = False
        """Whether what is fed is passed over."""

    @property
    def is_full(self) -> bool:
        """Whether every cell was written to since the screen was last cleared."""
        return self._unwritten == 0

    def feed(self, written: bytes) -> None:
        """Show more; a sequence may be cut anywhere."""
        if self.is_asleep:
            return
        text = self._rest + self._decoder.decode(written)
        unfinished = _UNFINISHED.search(text)
        end = len(text) if unfinished is None else unfinished.start()
        self._rest = text[end:]
        at = 0
        for found in _SEQUENCE.finditer(text, 0, end):
            self._write(text[at : found.start()])
            at = found.end()
            if found[2] is not None:
                self._control(found[1], found[2])
        self._write(text[at:end])

    def _control(self, parameters: str, final: str) -> None:
        if parameters[:1] in ("?", "<", "=", ">"):
            if parameters == "?1049" and final == "h":
                self._clear()
            return
        numbers = [int(each) if each.isdigit() else 0 for each in parameters.split(";")]
        if final in "Hf":
            row, column = (*numbers, 0)[:2]
            self._row, self._column = min(max(row, 1), self.rows) - 1, min(max(column, 1), self.columns) - 1
        elif final == "K":
            self._put(" " * (self.columns - self._column), is_moving=False)
        elif final == "J" and numbers[0] == 2:
            self._clear()
        elif final in "AB":
            step = max(numbers[0], 1) * (-1 if final == "A" else 1)
            self._row = min(max(self._row + step, 0), self.rows - 1)
        elif final in "CD":
            step = max(numbers[0], 1) * (-1 if final == "D" else 1)
            self._column = min(max(self._column + step, 0), self.columns - 1)

    def _clear(self) -> None:
        self._cells = [[_NEVER] * self.columns for _ in range(self.rows)]
        self._unwritten = self.columns * self.rows

    def _write(self, text: str) -> None:
        for part in re.split("([\r\n\b])", text):
            if part == "\r":
                self._column = 0
            elif part == "\n":
                self._row = min(self._row + 1, self.rows - 1)
            elif part == "\b":
                self._column = max(self._column - 1, 0)
            elif part:
                self._put(part)

    def _put(self, text: str, *, is_moving: bool = True) -> None:
        line, column = self._cells[self._row], self._column
        for letter in text:
            width = 1 if letter.isascii() else cell_len(letter)
            for place in range(column, min(column + width, self.columns)):
                if line[place] == _NEVER:
                    self._unwritten -= 1
                line[place] = letter if place == column else "\0"
            column += width
        if is_moving:
            self._column = min(column, self.columns)

    def lines(self) -> list[str]:
        """The rows from the top, without the blanks at their ends."""
        return ["".join(each or " " for each in line).replace("\0", "").rstrip() for line in self._cells]

    def shows(self, text: str) -> bool:
        """Whether a text stands in one of the rows."""
        return any(text in line for line in self.lines())
