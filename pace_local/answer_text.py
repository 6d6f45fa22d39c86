"""The text of an answer while its tokens come in: whole characters, and stop texts held back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class AnswerText:
    """Bytes of tokens, put together as text; holds back what may be the start of a stop text."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stop = stop
        self._held = ""
        self.text = ""

    def add(self, piece: bytes) -> tuple[str, bool]:
        """New text that is certain to belong to the answer, and whether a stop text was found."""
        self._held += self._decoder.decode(piece)
        found = [(at + len(stop), at) for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            # The one that is complete first, however the text was cut into tokens. Bytes after it are void.
            self._decoder.reset()
            return self._release(min(found)[1], forget=True), True
        kept = max((self._overlap(stop) for stop in self._stop), default=0)
        return self._release(len(self._held) - kept), False

    def finish(self) -> str:
        """What was held back, once no more comes."""
        self._held += self._decoder.decode(b"", final=True)
        return self._release(len(self._held))

    def _release(self, count: int, *, forget: bool = False) -> str:
        text, self._held = self._held[:count], "" if forget else self._held[count:]
        self.text += text
        return text

    def _overlap(self, stop: str) -> int:
        """Longest end of the held text that a stop text begins with."""
        for length in range(min(len(stop) - 1, len(self._held)), 0, -1):
            if self._held.endswith(stop[:length]):
                return length
        return 0
