"""What was said in a session before: made ready for the transcript in a thread."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from pace_tui.entries import Entry, NoteEntry
from pace_tui.scribe import Scribe
from pace_tui.session_state import SessionState
from pace_tui.wire import Received

_AT_A_TIME = 50
"""Events between two pauses, in which the screen draws: threads of Python share one core."""
_PAUSE = 0.001


@dataclass
class Past:
    """A session up to now."""

    entries: list[Entry] = field(default_factory=list)
    state: SessionState = field(default_factory=SessionState)
    prompts: list[str] = field(default_factory=list)


class _Sheet:
    """Takes entries in a transcript's place."""

    def __init__(self, entries: list[Entry]) -> None:
        self.add = entries.append

    def changed(self, entry: Entry) -> None:
        """It will be laid out later."""


def read_past(events: Iterable[Received]) -> Past:
    """Make entries and a state of a session's events, oldest first; for a thread."""
    past = Past()
    scribe = Scribe(_Sheet(past.entries))
    for number, received in enumerate(events, 1):
        past.state.take(received)
        scribe.take(received)
        if received.get("type") == "prompted":
            past.prompts.append(str(received.get("prompt", "")))
        if number % _AT_A_TIME == 0:
            time.sleep(_PAUSE)
    scribe.restart()
    if past.entries:
        past.entries.append(NoteEntry("so far; the session goes on below", sign="─", gap=1))
    return past
