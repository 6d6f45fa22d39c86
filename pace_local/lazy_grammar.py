"""A grammar that begins in the midst of an answer: prose is free, a call once begun is always well formed.

llama.cpp has lazy grammars of its own. They stay in force to the end of the answer, end the process when a
token runs past the trigger into what the grammar does not allow, and know no reasoning in which a trigger
does not count. So the trigger is looked for here, and the native grammar sees only what stands behind it.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.native_grammar import NativeGrammar
from pace_local.tokenizer import Tokenizer


@dataclass(frozen=True)
class _Free:
    """Where an answer stands while it is free."""

    held: str = ""
    """End of the text so far that a mark may begin with."""

    closing: str | None = None
    """What ends the passage in which no trigger counts; None: not in one."""


class LazyGrammar:
    """Where an answer stands that is free until a trigger, and again after what the grammar allows.

    The grammar ends as soon as it can end; it should end in a text of its own.

    Args:
        llama: the bindings.
        vocab: pointer to the native vocabulary, which must outlive this object.
        text: GBNF of what follows a trigger.
        triggers: texts behind which the grammar begins.
        quiet: opening and closing texts between which no trigger counts.

    Raises:
        ConfigError: as :class:`~pace_local.native_grammar.NativeGrammar`.
    """

    def __init__(
        self,
        llama: Any,
        vocab: Any,
        text: str,
        triggers: Sequence[str],
        quiet: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._tokenizer = Tokenizer(llama, vocab)
        self._grammar = NativeGrammar(llama, vocab, text)
        self._triggers = tuple(triggers)
        self._closing_of = dict(quiet)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._free = _Free()
        self._active = False

    def close(self) -> None:
        """Free the native grammar."""
        self._grammar.close()

    def reset(self) -> None:
        """Begin anew."""
        self._release(_Free())
        self._decoder.reset()

    def text(self, token: int) -> str:
        """The token's text."""
        return self._grammar.text(token)

    @property
    def is_active(self) -> bool:
        """Whether the answer is within what the grammar describes."""
        return self._active

    def allows(self, token: int) -> bool:
        """Whether the token may come next, so that accepting it is safe."""
        if self._active:
            return self._grammar.allows(token)
        if self._grammar.is_end(token):
            return True
        state = self._decoder.getstate()
        free = self._free
        try:
            fits = self._advance(self._decoded(token))
        finally:
            self._decoder.setstate(state)
            self._release(free)
        return fits

    def accept(self, token: int) -> None:
        """Advance by a token that :meth:`allows` allows."""
        if self._active:
            self._grammar.accept(token)
            if self._grammar.can_end:
                self._release(_Free())
        elif not self._grammar.is_end(token):
            self._advance(self._decoded(token))

    def filter(
        self, logits: npt.NDArray[np.float32], candidates: npt.NDArray[np.void]
    ) -> npt.NDArray[np.float32]:
        """A copy of the logits with those of tokens that may not come next at minus infinity.

        While the answer is free it is a plain copy: few tokens run past a trigger, and :meth:`allows` tells.
        """
        return self._grammar.filter(logits, candidates) if self._active else logits.copy()

    def _advance(self, text: str) -> bool:
        """Take a text while the answer is free; False if it runs past a trigger into what is not allowed."""
        while text:
            self._free, behind = self._scan(self._free, text)
            if behind is None:
                return True
            self._active, text = True, ""
            tokens = self._tokenizer.tokenize(behind, continues=True)
            for number, token in enumerate(tokens, 1):
                if not self._grammar.allows(token):
                    return False
                self._grammar.accept(token)
                if self._grammar.can_end:
                    self._release(_Free())
                    text = "".join(map(self._grammar.text, tokens[number:]))
                    break
        return True

    def _scan(self, free: _Free, text: str) -> tuple[_Free, str | None]:
        """Take a text while the answer is free.

        Returns:
            Where it stands then, and what comes behind the first trigger; None: there is none.
        """
        text = free.held + text
        while True:
            marks = (*self._triggers, *self._closing_of) if free.closing is None else (free.closing,)
            found = [(at + len(mark), -len(mark), mark) for mark in marks if (at := text.find(mark)) >= 0]
            if not found:
                return replace(free, held=_may_begin(text, marks)), None
            end, _, mark = min(found)
            text = text[end:]
            if free.closing is not None:
                free = _Free()
            elif mark in self._closing_of:
                free = _Free(closing=self._closing_of[mark])
            else:
                return _Free(), text

    def _release(self, free: _Free) -> None:
        if self._active:
            self._grammar.reset()
        self._active, self._free = False, free

    def _decoded(self, token: int) -> str:
        return self._decoder.decode(self._grammar.piece(token))


def _may_begin(text: str, marks: Sequence[str]) -> str:
    """The longest end of a text that one of the marks begins with, and is not all of it."""
    longest = max((len(mark) for mark in marks), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        end = text[-length:]
        if any(len(mark) > length and mark.startswith(end) for mark in marks):
            return end
    return ""
