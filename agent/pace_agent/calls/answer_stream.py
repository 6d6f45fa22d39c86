"""An answer while it comes in, cut into what people read, what the model thinks, and calls."""

from __future__ import annotations

import re
from typing import Literal

from pace_agent.calls.formats import REASONING, CallFormat
from pace_local.fenced import fenced_blocks

Part = Literal["prose", "reasoning", "call"]

_IN_TEXT = re.compile(r'["\\]')
_OPENINGS = tuple(opening for opening, _ in REASONING)


class AnswerStream:
    """Takes text piece by piece. What may be the start of a mark is held back until that is known.

    A mark counts where it can be one: the end of a call not within a text of its JSON, and the start of
    reasoning not within a block of code.

    Args:
        form: how calls are written; None: there are none.
        is_reasoning: whether the answer begins within reasoning, which the template opened.
    """

    def __init__(self, form: CallFormat | None, *, is_reasoning: bool = False) -> None:
        self._form = form
        self._part: Part = "reasoning" if is_reasoning else "prose"
        self._closing = REASONING[0][1] if is_reasoning else ""  # of the reasoning at hand
        self._held = ""
        self._prose = ""  # all so far
        self._call: _CallEnd

    def add(self, text: str) -> list[tuple[Part, str]]:
        """New text; returns what is certain of it, in order."""
        self._held += text
        parts: list[tuple[Part, str]] = []
        while self._to_next(parts):
            pass
        return parts

    def finish(self) -> list[tuple[Part, str]]:
        """What was held back, once no more comes."""
        parts: list[tuple[Part, str]] = []
        self._give(parts, len(self._held))
        return parts

    def _give(self, parts: list[tuple[Part, str]], count: int) -> None:
        text, self._held = self._held[:count], self._held[count:]
        if self._part == "prose":
            self._prose += text
        if text:
            parts.append((self._part, text))

    def _to_next(self, parts: list[tuple[Part, str]]) -> bool:
        """Give what is certain of the part at hand; returns whether another has begun."""
        if self._part == "call":
            count, is_over = self._call.look(self._held)
            self._give(parts, count)
            self._part = "prose" if is_over else "call"
            return is_over
        if self._part == "reasoning":
            at = self._held.find(self._closing)
            if at >= 0:
                self._give(parts, at)
                self._held, self._part = self._held[len(self._closing) :], "prose"
                return True
            self._give(parts, len(self._held) - _uncertain(self._held, (self._closing,)))
            return False
        return self._prose_to_next(parts)

    def _prose_to_next(self, parts: list[tuple[Part, str]]) -> bool:
        marks = {opening: self._held.find(opening) for opening, _ in REASONING}
        for opening, at in marks.items():
            while at >= 0 and self._is_code(at):
                at = self._held.find(opening, at + 1)
            marks[opening] = at
        if self._form is not None:
            marks[self._form.opening] = self._held.find(self._form.opening)
        found = [(at, mark) for mark, at in marks.items() if at >= 0]
        if not found:
            self._give(parts, len(self._held) - _uncertain(self._held, tuple(marks)))
            return False
        at, mark = min(found)
        self._give(parts, at)
        closing = dict(REASONING).get(mark)
        if closing is not None:
            self._held, self._part, self._closing = self._held[len(mark) :], "reasoning", closing
        else:
            assert self._form is not None
            self._part, self._call = "call", _CallEnd(self._form)
        return True

    def _is_code(self, at: int) -> bool:
        """Whether a place of what is held is within a block of code."""
        blocks = fenced_blocks(self._prose + self._held[:at])
        return bool(blocks) and not blocks[-1].is_closed


class _CallEnd:
    """Finds the end of one call, whose text comes piece by piece."""

    def __init__(self, form: CallFormat) -> None:
        self._closing = form.closing
        self._opening = "" if form.starts_object else form.opening  # to be passed over
        self._marks = tuple(mark for mark in (form.closing, *_OPENINGS) if mark)
        self._longest = max(map(len, self._marks))
        self._depth = 0  # of objects and lists
        self._in_text = False

    def look(self, held: str) -> tuple[int, bool]:
        """How much of a text belongs to the call, and whether it ends there.

        Args:
            held: begins where the text before was taken to.
        """
        at, self._opening = len(self._opening), ""
        while at < len(held):
            if self._in_text:
                mark = _IN_TEXT.search(held, at)
                if mark is None:
                    return len(held), False
                if mark[0] == "\\" and mark.end() == len(held):
                    return mark.start(), False
                self._in_text = mark[0] == "\\"
                at = mark.end() + self._in_text
                continue
            if self._closing and held.startswith(self._closing, at):
                return at + len(self._closing), True
            if held.startswith(_OPENINGS, at):  # it was not closed
                return at, True
            last = held[at : at + self._longest]
            if at + len(last) == len(held) and any(mark.startswith(last) for mark in self._marks):
                return at, False  # it may be about to end
            at += 1
            if self._take(held[at - 1]):
                return at, True
        return at, False

    def _take(self, sign: str) -> bool:
        """Take a character outside of texts; returns whether the call ends with it."""
        if sign in "{[":
            self._depth += 1
        elif sign in "}]":
            self._depth -= 1
            return self._depth <= 0 and not self._closing
        elif sign == '"':
            self._in_text = self._depth > 0
        return False


def _uncertain(text: str, marks: tuple[str, ...]) -> int:
    """Length of the longest end of a text that a mark begins with, and is longer than."""
    longest = max((len(mark) for mark in marks), default=0)
    for length in range(min(longest - 1, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) and len(mark) > length for mark in marks):
            return length
    return 0
