"""An answer while it comes in, cut into what people read, what the model thinks, and calls."""

from __future__ import annotations

from typing import Literal

from pace_agent.calls.formats import REASONING, CallFormat

Part = Literal["prose", "reasoning", "call"]


class AnswerStream:
    """Takes text piece by piece. What may be the start of a mark is held back until that is known.

    Args:
        form: how calls are written; None: there are none.
        is_reasoning: whether the answer begins within reasoning, which the template opened.
    """

    def __init__(self, form: CallFormat | None, *, is_reasoning: bool = False) -> None:
        self._form = form
        self._part: Part = "reasoning" if is_reasoning else "prose"
        self._closing = REASONING[0][1] if is_reasoning else ""
        self._held = ""

    def add(self, text: str) -> list[tuple[Part, str]]:
        """New text; returns what is certain of it, in order."""
        self._held += text
        parts: list[tuple[Part, str]] = []
        while (found := self._next_mark()) is not None:
            at, mark, closing = found
            if self._part == "prose":
                self._give(parts, at)
                self._part = "call" if closing is None else "reasoning"
                self._closing = (self._form.closing if self._form else "") if closing is None else closing
                if closing is None:
                    self._give(parts, len(mark))
                else:
                    self._held = self._held[len(mark) :]
            elif self._part == "reasoning":
                self._give(parts, at)
                self._held, self._part = self._held[len(mark) :], "prose"
            else:
                self._give(parts, at + len(mark))
                self._part = "prose"
        self._give(parts, len(self._held) - self._uncertain())
        return parts

    def finish(self) -> list[tuple[Part, str]]:
        """What was held back, once no more comes."""
        parts: list[tuple[Part, str]] = []
        self._give(parts, len(self._held))
        return parts

    def _give(self, parts: list[tuple[Part, str]], count: int) -> None:
        text, self._held = self._held[:count], self._held[count:]
        if text:
            parts.append((self._part, text))

    def _marks(self) -> list[tuple[str, str | None]]:
        """Texts that end the part at hand, and what will end the next; None: it is a call."""
        if self._part == "prose":
            calls = [] if self._form is None else [(self._form.opening, None)]
            return [*REASONING, *calls]
        return [(self._closing, "")] if self._closing else []

    def _next_mark(self) -> tuple[int, str, str | None] | None:
        found = [(at, mark, closing) for mark, closing in self._marks() if (at := self._held.find(mark)) >= 0]
        return min(found, key=lambda each: each[0]) if found else None

    def _uncertain(self) -> int:
        """Length of the longest end of what is held that a mark begins with."""
        longest = max((len(mark) for mark, _ in self._marks()), default=0)
        for length in range(min(longest - 1, len(self._held)), 0, -1):
            if any(mark.startswith(self._held[-length:]) for mark, _ in self._marks()):
                return length
        return 0
