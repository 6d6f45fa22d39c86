"""What lies over the screen and asks the user something that a key answers."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events
from textual.screen import ModalScreen

from pace_tui.grace import Grace

T = TypeVar("T")


class QuestionScreen(ModalScreen[T]):
    """Has its keys count only once the question has been seen for a moment.

    Args:
        grace: seconds without a key before keys count.
    """

    ANSWER_KEYS: ClassVar[frozenset[str]]
    """Those that answer, as Textual names them; others make the wait begin again and do what they do."""

    def __init__(self, *, grace: float) -> None:
        super().__init__()
        self._grace = Grace(grace)

    def on_screen_resume(self) -> None:
        """It is on top, for the first time or again."""
        self.call_after_refresh(self._grace.begin)

    def on_key(self, event: events.Key) -> None:
        """Keep a key that was meant for something else from what it is bound to, which comes after this."""
        if self._grace.takes_key(event.time) and event.key in self.ANSWER_KEYS:
            event.stop()
            event.prevent_default()
