"""Numbers and texts of a session in the form in which people and JSON get them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_SIGNS = {"\n": "↵", "\t": "→", "\r": "␍"}


def number_words(value: float) -> str:
    """A score with two or three digits; 100 and above, which count something, whole."""
    if not math.isfinite(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def score_words(lowest: float, highest: float) -> str:
    """A score, or a range of scores: ``score 0.83``, ``score 0.61–0.83``."""
    low, high = number_words(lowest), number_words(highest)
    return f"score {low}" if low == high else f"score {low}–{high}"


def columns(text: str) -> int:
    """Columns that a printable text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def in_one_line(text: str) -> str:
    """A text without anything that moves the cursor: signs stand for line ends and tabs, ``·`` for the rest.

    A text from a file may hold what a terminal obeys.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_SIGNS.get(c, c if c.isprintable() else "·") for c in text)


def cut_middle(text: str, room: int) -> str:
    """A text of one line in at most ``room`` columns, 36 or more: its middle gives way to a count."""
    if columns(text) <= room:
        return text
    # No count is longer than that of all characters.
    side = (room - len(f" … {len(text):,} characters … ")) // 2
    head, tail = _fitting(text, side), _fitting(text[::-1], side)[::-1]
    return f"{head} … {len(text) - len(head) - len(tail):,} characters … {tail}"


def cut_start(name: str, room: int) -> str:
    """A name in at most ``room`` columns, 9 or more: of a long one the end stays, where paths differ."""
    plain = in_one_line(name)
    if columns(plain) <= room:
        return plain
    return "…" + _fitting(plain[::-1], max(8, room - 1))[::-1]


def _fitting(text: str, room: int) -> str:
    taken = 0
    for number, character in enumerate(text):
        taken += _columns_of(character)
        if taken > room:
            return text[:number]
    return text


def wrapped(text: str, room: int) -> Iterator[str]:
    """A text whole, in lines of at most ``room`` columns: its own lines, cut where they must be."""
    for line in text.replace("\r\n", "\n").split("\n"):
        rest = in_one_line(line.expandtabs(4))
        while True:
            head = _fitting(rest, room) or rest[:1]
            yield head
            rest = rest[len(head) :]
            if not rest:
                break


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of cells below their heads; what may hold anything is made safe for a terminal."""
    lines = [heads, *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(columns, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = [cell + " " * (width - columns(cell)) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())


def jsonable(value: Any) -> Any:
    """A value made of what JSON has: tuples are lists, numbers that are not finite None."""
    if isinstance(value, dict):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
