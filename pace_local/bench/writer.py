"""An answer that is written block by block, as a user's loop would take it."""

from __future__ import annotations

import time
from collections.abc import Generator

from pace_local.errors import PaceError
from pace_local.events import Text
from pace_local.session import Session


class Writer:
    """Runs ``session.generate`` and stops in it after each block.

    The session's model must be endless. Close the writer, or use up all its tokens, before the session
    does anything else.

    Args:
        session: whose answer it is.
        prompt: as for ``Session.generate``.
        max_tokens: longest answer.
    """

    def __init__(self, session: Session, prompt: str | None, max_tokens: int) -> None:
        events = session.generate(prompt, max_tokens=max_tokens)
        assert isinstance(events, Generator)
        self._events = events
        self._written = 0
        self.text = ""

    def write(self, count: int) -> tuple[int, float]:
        """Write ``count`` tokens, a few more if the last ones are no whole character yet.

        Returns:
            Tokens written and seconds taken.

        Raises:
            PaceError: if the answer ended before.
        """
        before, began = self._written, time.perf_counter()
        for event in self._events:
            self.text += event.text
            if isinstance(event, Text):
                self._written = event.tokens
                if self._written >= before + count:
                    return self._written - before, time.perf_counter() - began
        raise PaceError(f"the answer ended after {self._written} tokens; {before + count} were asked for")

    def close(self) -> None:
        """End the answer here."""
        self._events.close()

    def finish(self) -> None:
        """Let the answer run to its end."""
        for event in self._events:
            self.text += event.text
