"""Making a text fit into so many tokens, whole lines where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Count = Callable[[str], int]
"""Tokens of a text."""

_HEAD = 0.6
"""Share of the room that the beginning gets; the end gets the rest: errors stand there."""

_LONGEST_LINE = 400
"""Characters of a line that are shown where not all fits."""


def fit(text: str, tokens: int, count: Count) -> str:
    """The text, or its beginning and its end with a line between that says how much was left out.

    Args:
        text: any.
        tokens: that it may take, 16 or more.
        count: tokens of a text.
    """
    if len(text) <= tokens or count(text) <= tokens:  # a token is at least a character
        return text
    lines = [_short(line) for line in text.splitlines()]
    room = max(1, tokens - count(_gap(len(lines))) - 4)
    head = _taken(lines, int(room * _HEAD), count)
    tail = _taken(lines[head:][::-1], room - sum(_costs(lines[:head], count)), count)
    left_out = len(lines) - head - tail
    if not left_out:
        return "\n".join(lines)
    kept = [*lines[:head], _gap(left_out), *(lines[-tail:] if tail else [])]
    return "\n".join(kept)


def first_lines(lines: Sequence[str], tokens: int, count: Count) -> int:
    """How many of some lines, with their ends or without, fit from the first on; at least one."""
    return max(min(1, len(lines)), _taken(lines, tokens, count))


def _taken(lines: Sequence[str], room: int, count: Count) -> int:
    taken = 0
    for line in lines:
        room -= count(line if line.endswith(("\n", "\r")) else line + "\n")
        if room < 0:
            break
        taken += 1
    return taken


def _costs(lines: Sequence[str], count: Count) -> list[int]:
    return [count(line + "\n") for line in lines]


def _gap(lines: int) -> str:
    return f"… {lines} lines left out …"


def _short(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
