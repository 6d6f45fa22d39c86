"""What the user is asked, one after the other, in the order in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import App

from pace_tui.looks import Looks
from pace_tui.wire import Command, Received

if TYPE_CHECKING:
    from pace_tui.screens.approval import ApprovalScreen, Reply


class Approvals:
    """Keeps what is asked, and has a screen for the first of it.

    Args:
        app: shows the screen.
        tell: sends the answers.
        looks: the colours at the time.
        grace: seconds without a key before an approval's keys count.
    """

    def __init__(
        self, app: App[int], tell: Callable[[Command], object], looks: Callable[[], Looks], grace: float
    ) -> None:
        self._app, self._tell, self._looks, self._grace = app, tell, looks, grace
        self._asked: deque[Received] = deque()

    def ask(self, asked: Received) -> None:
        """Ask the user, behind what is asked already."""
        self._asked.append(asked)
        screen = self._screen
        if screen is None:
            self._show_next()
        else:
            screen.tell_waiting(len(self._asked) - 1)

    def forget(self, call: object = None) -> None:
        """What was asked is settled: one call, or all."""
        kept = [each for each in self._asked if call is not None and each.get("id") != call]
        if len(kept) == len(self._asked):
            return
        screen = self._screen
        self._asked = deque(kept)
        if screen is not None and screen.asked not in kept:
            screen.withdraw()
        elif screen is not None:
            screen.tell_waiting(len(kept) - 1)

    @property
    def _screen(self) -> ApprovalScreen | None:
        from pace_tui.screens.approval import ApprovalScreen

        return next((each for each in self._app.screen_stack if isinstance(each, ApprovalScreen)), None)

    def _show_next(self) -> None:
        from pace_tui.screens.approval import ApprovalScreen

        screen = self._screen
        if not self._asked or (screen is not None and screen.asked is self._asked[0]):
            return
        asked = self._asked[0]

        def answered(reply: Reply | None) -> None:
            if self._asked and self._asked[0] is asked:
                self._asked.popleft()
                if reply is not None:
                    self._answer(asked, reply)
            self._app.call_later(self._show_next)

        waiting = len(self._asked) - 1
        screen = ApprovalScreen(asked, self._looks(), waiting=waiting, grace=self._grace)
        self._app.push_screen(screen, answered)

    def _answer(self, asked: Received, reply: Reply) -> None:
        self._tell({"type": "answer", "id": asked.get("id"), "scope": reply.scope, "message": reply.message})
        if reply.is_interrupt:
            self._tell({"type": "cancel"})
