"""The app: takes what is received to those who draw it, and what the user says to the process."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar

from textual import on
from textual.app import SystemCommand
from textual.filter import NoColor
from textual.screen import Screen

from pace_tui.approvals import Approvals
from pace_tui.commands import COMMANDS, is_command
from pace_tui.ending import end_on_signals
from pace_tui.grace import GRACE
from pace_tui.key_actions import KeyActions
from pace_tui.looks import Looks
from pace_tui.names import KnownNames
from pace_tui.screen_commands import ScreenCommands
from pace_tui.screens.main import MainScreen
from pace_tui.session_life import SessionLife
from pace_tui.session_state import SessionState
from pace_tui.sources import History, Prepared, Sources
from pace_tui.threads import call_soon, in_thread
from pace_tui.turns import Turns
from pace_tui.widgets.memory_panel import MemoryPanel
from pace_tui.widgets.prompt_input import PromptInput
from pace_tui.widgets.transcript import Transcript
from pace_tui.wire import Command, Connect, Inbox, Options, Received

_DRAW_PAUSE = 0.2
"""Seconds between two drawings of the panels."""
_TEXT = frozenset(("wrote", "thought", "output"))
"""What changes nothing in the panels."""


class PaceApp(KeyActions):
    """The terminal front end.

    Args:
        connect: starts the process; called in a thread.
        options: of its first start.
        sources: names and sessions of the repository.
        prepare: says what is to be known before the process is started; called in a thread.
        history: of prompts.
        theme: one of Textual's; empty: the default.
        editor: for Ctrl+G; empty: ``$VISUAL`` or ``$EDITOR``.
        grace: seconds without a key before an approval's keys count.
    """

    TITLE = "pace"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["styles/main.tcss", "styles/screens.tcss"]
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        connect: Connect,
        *,
        options: Options | None = None,
        sources: Sources | None = None,
        prepare: Callable[[], Prepared] | None = None,
        history: History | None = None,
        theme: str = "",
        editor: str = "",
        grace: float = GRACE,
    ) -> None:
        super().__init__()
        self.animation_level = "none"  # ssh and busy machines: nothing moves for its own sake
        if self.no_color:
            self._filters.append(NoColor())  # Textual's own way leaves shades of grey
        if theme and theme in self.available_themes:
            self.theme = theme
        self.state = SessionState()
        self.looks = Looks()
        self.editor = editor
        self.grace = grace
        self.turns = Turns(self)
        self._history = history
        sources = sources or Sources()
        self._inbox = Inbox(partial(call_soon, self, self.take_all))
        self.life = SessionLife(self, connect, options or {}, self._inbox, sources.past, prepare)
        self.commands = ScreenCommands(self, sources.sessions)
        self.approvals = Approvals(self, self.tell, lambda: self.looks, grace)
        self.names = KnownNames(self, sources, lambda: self.state, self._names_came, self.warn)
        self._is_drawing_soon = False

    # Start and end

    def get_default_screen(self) -> Screen[Any]:
        """The main screen."""
        return MainScreen(self.names)

    @property
    def main(self) -> MainScreen:
        """The main screen, whatever lies over it."""
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def on_load(self) -> None:
        """Before the terminal is taken."""
        end_on_signals(self)

    @on(MainScreen.Composed)
    def _main_is_there(self) -> None:
        """Start the process once the first paint is out."""
        self.theme_changed_signal.subscribe(self, lambda theme: self._take_looks())
        self._take_looks()
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        gc.freeze()  # what is there now stays: looking at it again and again would only delay keys
        gc.enable()
        if self._history is not None:
            in_thread(self, self._history.read, self.main.input.remember_before, self.warn)
        self.life.begin()

    def forget_session(self) -> None:
        """Another session comes: nothing of this one stays on the screen."""
        self.main.transcript.clear()
        self.main.scribe.forget_expected()
        self.turns.forget()
        self.state = SessionState(mode=self.state.mode)

    def on_unmount(self) -> None:
        """End the process with the screen."""
        self.life.process.close()

    # From the process

    def take_all(self) -> None:
        """Take what has come."""
        if self.life.is_past_coming:
            return  # it is called when that is there
        taken = self._inbox.take()
        for place, received in enumerate(taken):
            if self.life.has_past(received):
                self._inbox.put_back(taken[place:])
                self.life.read_past(str(received["session"]))
                return
            self._take(received)
        if any(received.get("type") not in _TEXT for received in taken):
            self.draw_soon()

    def _take(self, received: Received) -> None:
        self.state.take(received)
        if self.commands.take(received):
            return
        self.main.scribe.take(received)
        self.life.take(received)
        kind = received.get("type")
        if kind in ("ready", "ended"):
            self.approvals.forget()
            self.names.forget("file", "session")
        elif kind == "asked":
            self.approvals.ask(received)
        elif kind == "decided":
            self.approvals.forget(received.get("id"))
        self.turns.take(received)

    # To the process

    def tell(self, command: Command) -> bool:
        """Send something; where there is no process, it says so, and the result is False."""
        is_told = self.life.process.tell(command)
        if not is_told:
            self.warn("the agent is not running; /resume starts it")
        return is_told

    def set_mode(self, mode: str) -> None:
        """How much is done without asking, from now on, in this process and in later ones."""
        self.state.take({"type": "mode", "mode": mode})
        self.life.process.options["mode"] = mode
        self.tell({"type": "mode", "mode": mode})
        self.draw_soon()

    @on(PromptInput.Submitted)
    def _submitted(self, event: PromptInput.Submitted) -> None:
        text = event.text
        self.main.transcript.action_follow()
        if is_command(text):
            self.commands.run(text.strip())
        elif text.startswith("!") and text[1:].strip():
            self.turns.put({"type": "shell", "command": text[1:].strip()}, text)
        else:
            if self._history is not None:
                in_thread(self, partial(self._history.add, text), lambda _: None, self.warn)
            self.turns.put({"type": "prompt", "prompt": text}, text)
        self.draw_soon()

    @on(MemoryPanel.Wanted)
    def _wanted(self, event: MemoryPanel.Wanted) -> None:
        if event.what == "inspect":
            self.commands.do("inspect", event.segment)
        else:
            self.tell({"type": event.what, "segment": event.segment})

    def warn(self, problem: str) -> None:
        """Say what went wrong beside the session."""
        self.main.scribe.note(problem, "warning", sign="!")

    # Drawing

    def _take_looks(self) -> None:
        self.looks = Looks(self.theme_variables, self.current_theme.dark)
        self.main.transcript.take_looks(self.looks)
        self.draw_soon()

    def draw_soon(self) -> None:
        """Draw the panels within a moment."""
        if not self._is_drawing_soon:
            self._is_drawing_soon = True
            self.set_timer(_DRAW_PAUSE, self.draw)

    def draw(self) -> None:
        """Draw the panels, and the screen that lies over them if it shows the state."""
        self._is_drawing_soon = False
        if not self.screen_stack:
            return  # it was about to draw when it was told to quit
        self.main.draw(self.state, self.looks, waiting=len(self.turns))
        screen = self.screen
        if screen is not self.main and screen.is_mounted and hasattr(screen, "show"):
            screen.show(self.state, self.looks)

    def _tick(self) -> None:
        if self.state.is_running and self.screen_stack:
            self.main.draw_status(self.state, self.looks, waiting=len(self.turns))

    def on_resize(self) -> None:
        """The status line has other room."""
        self.draw_soon()

    @on(Transcript.Followed)
    def _followed(self) -> None:
        self.draw_soon()

    def show_panel(self, name: str) -> None:
        """Have a panel on the screen."""
        self.main.show_panel(name)
        self.draw()

    def _names_came(self) -> None:
        self.main.input.refresh_proposals()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The slash commands, in the palette; those that take something are put into the prompt."""
        for command in COMMANDS:
            does = partial(self.commands.run_from_palette, command.name)
            yield SystemCommand(command.usage, command.help, does)
