"""One step as it is planned."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from pace_agent.editing.line_moves import LineMove


@dataclass(frozen=True)
class PlannedStep:
    """What a step does, and where."""

    text: str
    """What is to be done, for the model and for people."""
    files: tuple[str, ...] = ()
    """Files of the repository that it is about."""
    symbols: tuple[str, ...] = ()
    """Definitions that it is about, with their files: ``shop/orders.py:Orders.total``. Of a step that edits,
    these are what it changes, the likeliest first."""
    edits: bool = True
    """Whether it changes files."""
    reads: tuple[str, ...] = ()
    """What it needs and does not change: files, definitions, lines such as ``tests/test_x.py:10-20``."""
    old_name: str = ""
    """The name that its places use and are to use no more, if it is of a renaming."""
    at_lines: tuple[tuple[str, int], ...] = ()
    """Symbols that their file defines several times, each with a line, 1-based, of the one that is meant."""

    def moved(self, path: str, move: LineMove) -> PlannedStep:
        """The same step after an edit of a file: the lines that it names are where they are now.

        Args:
            path: of the file, from the repository.
            move: what the edit did to its lines.
        """
        reads = tuple(_moved(name, path, move) for name in self.reads)
        at_lines = tuple(
            (name, move.line(line) if name.rpartition(":")[0] == path else line)
            for name, line in self.at_lines
        )
        return dataclasses.replace(self, reads=reads, at_lines=at_lines)


def lines_in(name: str, path: str) -> tuple[int, int] | None:
    """The lines that a read such as ``shop/orders.py:10-20`` names in a file."""
    match = re.fullmatch(rf"{re.escape(path)}:(\d+)-(\d+)", name)
    return None if match is None else (int(match[1]), int(match[2]))


def _moved(name: str, path: str, move: LineMove) -> str:
    lines = lines_in(name, path)
    if lines is None:
        return name
    first, last = move.lines(*lines)
    return f"{path}:{first}-{last}"
