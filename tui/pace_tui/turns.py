"""What the user sends, one after the other: prompts, commands of their own, and what takes a prompt back."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_tui.entries import PromptEntry, PromptState
from pace_tui.wire import Command, Received

if TYPE_CHECKING:
    from pace_tui.app import PaceApp


@dataclass(frozen=True, eq=False)
class _Waiting:
    command: Command
    entry: PromptEntry
    """In the transcript."""

    @property
    def kind(self) -> str:
        return str(self.command["type"])


class Turns:
    """Sends each as soon as it is its turn: there is a process that is ready, and no run goes on.

    Nothing overtakes what was sent before it: a command runs after the prompt that was typed before it, and
    what is taken back is that prompt.

    Args:
        app: has the state, the transcript, and the process.
    """

    def __init__(self, app: PaceApp) -> None:
        self._app = app
        self._waiting: deque[_Waiting] = deque()
        self._is_unread = False
        """Whether a prompt was sent that the agent has not read."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def _is_free(self) -> bool:
        return self._app.state.phase == "ready" and not self._app.state.is_running

    def put(self, command: Command, shown: str) -> None:
        """Send something in its turn.

        Args:
            command: ``prompt``, ``shell`` or ``undo``.
            shown: as the user typed it.
        """
        waits = bool(self._waiting) or not self._is_free
        one = _Waiting(command, PromptEntry(shown, "waits" if waits else ""))
        if waits or one.kind == "prompt":
            self._app.main.transcript.add(one.entry)
        self._waiting.append(one)
        if self._app.state.phase == "dead":
            self._app.warn("the agent is not running; /resume starts it")
        self.go_on()

    def go_on(self) -> None:
        """Send those whose turn it is."""
        while self._waiting and self._is_free:
            one = self._waiting.popleft()
            self._mark(one, "")
            if one.kind == "prompt":
                self._app.state.began = self._app.state.clock()
                self._is_unread = True
                self._app.main.scribe.expect(one.entry)
            elif one.kind == "shell":
                self._app.main.scribe.order(str(one.command["command"]))
            self._app.tell(one.command)

    def take(self, received: Received) -> None:
        """Learn from an object whose turn it is."""
        kind = received.get("type")
        if kind == "prompted":
            self._is_unread = False
        elif kind in ("ready", "ended"):
            self.break_off()
            self.go_on()

    def break_off(self) -> None:
        """The run is over; if its prompt was not read, what would take it back takes no earlier one."""
        if not self._is_unread:
            return
        self._is_unread = False
        kept: deque[_Waiting] = deque()
        while self._waiting and self._waiting[0].kind != "prompt":
            one = self._waiting.popleft()
            if one.kind == "undo":
                self._mark(one, "not sent")
            else:
                kept.append(one)
        self._waiting.extendleft(reversed(kept))

    def drop(self) -> None:
        """Nothing of what waits is sent."""
        for one in self._waiting:
            self._mark(one, "not sent")
        self._waiting.clear()

    def forget(self) -> None:
        """Another session comes."""
        self._waiting.clear()
        self._is_unread = False

    def _mark(self, one: _Waiting, state: PromptState) -> None:
        if one.entry.state != state:
            one.entry.state = state
            self._app.main.transcript.changed(one.entry)
