"""Text as the screen draws it: harmless, with stops for tabs; and numbers as people read them."""

from __future__ import annotations

from pace_local.harmless_text import harmless

_TAB = 4
"""Columns to the next stop."""


def drawable(text: str) -> str:
    """A text that no terminal obeys (:func:`~pace_local.harmless_text.harmless`), with spaces for tabs."""
    text = harmless(text)
    return "\n".join(line.expandtabs(_TAB) for line in text.split("\n")) if "\t" in text else text


def one_line(text: str, room: int = 200) -> str:
    """The text without line ends, and cut after ``room`` characters."""
    line = " ".join(drawable(text[: 4 * room]).split())
    return line if len(line) <= room else line[: room - 1] + "…"


def count(number: float) -> str:
    """A number as people read it at a glance: 950, 12.3k, 4.56M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * (10 if unit == "k" else 1):
            return f"{number / size:.1f}{unit}"
    return f"{number:,.0f}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things: 1 turn, 2 turns."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size_of(number: float) -> str:
    """Bytes with a unit: 12.3 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.2f} GiB"


def duration(seconds: float) -> str:
    """A time as people read it: 0.42 s, 12 s, 3:05, 1:02:03."""
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
