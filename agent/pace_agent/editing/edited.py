"""What an edit of a text came to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pace_agent.errors import EditError

Rung = Literal["exact", "whitespace", "numbered", "whole", "definition"]
"""How the place was found: the text as it stands, with other white space, with line numbers before each line;
or the edit gave a whole file, or a whole definition."""

LINE_END = re.compile(r"\r\n|\r|\n")
"""Only what editors count as line ends."""


@dataclass(frozen=True)
class Edited:
    """A text after an edit."""

    text: str
    first_line: int
    """First line that changed, 1-based, as the lines are counted afterwards."""
    last_line: int
    """Last line that changed, inclusive; the line at the cut if lines were only taken out."""
    rung: Rung


def with_span(text: str, start: int, end: int, new: str, rung: Rung, *, path: str) -> Edited:
    """Put ``new`` in the place of ``text[start:end]``.

    Raises:
        EditError: if that changes nothing.
    """
    old = text[start:end]
    if new == old:
        raise EditError(
            f"nothing to change in {path}: line {line_of(text, start)} reads like the replacement already; "
            "give a replacement that differs, or go on to the next step"
        )
    same = _same_start(old, new)
    same_end = _same_start(old[same:][::-1], new[same:][::-1])
    result = text[:start] + new + text[end:]
    first = line_of(result, start + same)
    last = line_of(result, max(start + same, start + len(new) - same_end - 1))
    return Edited(result, first, last, rung)


def _same_start(a: str, b: str) -> int:
    """How many characters two texts have in common at their start."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))


def line_of(text: str, offset: int) -> int:
    """The line, 1-based, that holds the character at an offset; at the end of the text, the last line."""
    before = text[:offset]
    if before.endswith("\r") and text[offset : offset + 1] == "\n":
        before = before[:-1]
    line = 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
    is_behind = offset >= len(text) and before.endswith(("\n", "\r")) and line > 1
    return line - 1 if is_behind else line


def line_end_near(text: str, offset: int) -> str:
    """The line end of the line that holds an offset, else of the one before it, else a line feed."""
    if text[offset - 1 : offset + 1] == "\r\n":
        return "\r\n"
    match = LINE_END.search(text, offset)
    if match is None:
        before = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
        match = LINE_END.search(text, max(0, before - 1)) if before >= 0 else None
    return match[0] if match else "\n"


def with_line_ends(text: str, line_end: str) -> str:
    """The text with its line ends made ``line_end``.

    A carriage return alone is a character like any other, unless it is what ends the lines.
    """
    return re.sub(r"\r\n|\n", lambda _: line_end, text)


def check_storable(text: str, path: str) -> None:
    """Refuse what would make a text file unreadable.

    Raises:
        EditError: for a NUL character or half of a surrogate pair.
    """
    if "\0" in text:
        raise EditError(
            f"the new text for {path} holds a NUL character, which no text file has; leave it out"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EditError(
            f"the new text for {path} holds {text[error.start]!r} at character {error.start}, half of a "
            "character; write the whole character"
        ) from None
