"""Where the reasoning of an answer begins and ends, while its tokens come in."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Literal

Pairs = Sequence[tuple[str, str]]
"""Pairs of opening and closing texts of reasoning, such as ``[("<think>", "</think>")]``."""


class ReasoningSplit:
    """Follows one answer. Only reasoning that it begins with counts, white space before it aside.

    Args:
        pairs: opening and closing texts; empty: there is no reasoning.
        prefix: what the template wrote before the answer: some open the reasoning themselves.
    """

    def __init__(self, pairs: Pairs, prefix: str = "") -> None:
        self._pairs = tuple(pairs)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self._closing: str | None = None
        self._may_open = bool(self._pairs)
        opened = next((pair for pair in self._pairs if prefix.rstrip().endswith(pair[0])), None)
        self.is_reasoning = opened is not None
        """Whether the next token belongs to reasoning."""
        if opened is not None:
            self._may_open, self._closing = False, opened[1]

    def add(self, piece: bytes) -> Literal["opened", "closed"] | None:
        """Take the bytes of a token, and say whether reasoning begins with what was added so far, or ends.

        When it ends, the token that ends it still belongs to it.
        """
        if not self._may_open and self._closing is None:
            return None
        self._held += self._decoder.decode(piece)
        if self._closing is not None:
            return self._look_for_end()
        start = self._held.lstrip()
        for opening, closing in self._pairs:
            if start.startswith(opening):
                self._may_open, self._closing = False, closing
                self._held = start[len(opening) :]
                self.is_reasoning = True
                return self._look_for_end() or "opened"
        self._may_open = any(opening.startswith(start) for opening, _ in self._pairs)
        return None

    def _look_for_end(self) -> Literal["closed"] | None:
        assert self._closing is not None
        if self._closing in self._held:
            self._closing, self.is_reasoning = None, False
            return "closed"
        self._held = self._held[-len(self._closing) :]
        return None
