"""What the keys do that count anywhere."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import ClassVar

from textual import on
from textual.app import App, SuspendNotSupported
from textual.binding import BindingType

from pace_tui.keys import bindings
from pace_tui.looks import Looks
from pace_tui.screens.main import MainScreen
from pace_tui.session_state import MODES, SessionState
from pace_tui.turns import Turns
from pace_tui.widgets.prompt_input import PromptInput
from pace_tui.wire import Command

_QUIT_PAUSE = 2.0
"""Seconds in which a second Ctrl+C quits."""


class KeyActions(App[int]):
    """The part of the app that keys act on."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("anywhere")]

    state: SessionState
    looks: Looks
    turns: Turns
    editor: str
    _cleared_at = float("-inf")

    @property
    @abstractmethod
    def main(self) -> MainScreen:
        """The main screen, whatever lies over it."""

    @abstractmethod
    def tell(self, command: Command) -> bool:
        """Send something to the process; returns whether there is one."""

    @abstractmethod
    def set_mode(self, mode: str) -> None:
        """How much is done without asking."""

    @abstractmethod
    def draw(self) -> None:
        """Draw the panels now."""

    @abstractmethod
    def draw_soon(self) -> None:
        """Draw them within a moment."""

    @abstractmethod
    def warn(self, problem: str) -> None:
        """Say what went wrong beside the session."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys that scroll to what lies over the transcript."""
        if action in ("page", "follow"):
            return self.screen is self.main
        return super().check_action(action, parameters)

    def action_interrupt(self) -> None:
        """Close what lies over the transcript, else stop the run, else forget what waits."""
        if self.main.input.dismiss() or self.main.hide_over():
            return
        if self.state.is_busy:
            self.tell({"type": "cancel"})
        elif self.turns:
            self.turns.drop()
            self.draw_soon()

    def action_clear_or_quit(self) -> None:
        """Copy what is selected, else clear the prompt, else quit at the second time."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            return
        now = time.monotonic()
        if now - self._cleared_at < _QUIT_PAUSE:
            self.action_leave()
            return
        self._cleared_at = now
        self.main.input.put("")
        self.notify("Ctrl+C again quits", timeout=_QUIT_PAUSE)

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)

    def action_next_mode(self) -> None:
        """The mode after this one."""
        place = MODES.index(self.state.mode) if self.state.mode in MODES else 0
        self.set_mode(MODES[(place + 1) % len(MODES)])

    def action_toggle_output(self) -> None:
        """Show or fold the output of tools."""
        self.main.transcript.open_all(not self.main.transcript.is_open)

    def _toggle(self, name: str) -> None:
        self.main.toggle_panel(name)
        self.draw()

    def action_toggle_plan(self) -> None:
        """Show or hide the plan."""
        self._toggle("plan")

    def action_toggle_memory(self) -> None:
        """Show or hide the memory panel."""
        self._toggle("memory")

    def action_toggle_watch(self) -> None:
        """Show or hide changed files."""
        self._toggle("watch")

    def action_memory_screen(self) -> None:
        """The memory on a whole screen, or back from it."""
        from pace_tui.screens.memory import MemoryScreen

        if isinstance(self.screen, MemoryScreen):
            self.screen.dismiss(None)
        elif self.screen is self.main:
            self.push_screen(MemoryScreen(self.state, self.looks))

    def action_help(self) -> None:
        """Keys and commands, or back from them."""
        from pace_tui.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss(None)
        else:
            self.push_screen(HelpScreen(self.looks))

    def action_next_part(self) -> None:
        """Focus the next part."""
        self.screen.focus_next()

    def action_follow(self) -> None:
        """Go to the end of the transcript."""
        self.main.transcript.action_follow()

    def action_page(self, step: int) -> None:
        """Scroll the transcript by a page."""
        transcript = self.main.transcript
        transcript.scroll_relative(y=step * max(transcript.size.height - 2, 1), animate=False)

    @on(PromptInput.FollowRequested)
    def _follow_requested(self) -> None:
        self.action_follow()

    @on(PromptInput.EditorRequested)
    def _edit_outside(self, event: PromptInput.EditorRequested) -> None:
        self.run_worker(self._edit(event.text))

    async def _edit(self, text: str) -> None:
        """Lend the terminal to the editor; what comes meanwhile is drawn behind it."""
        from pace_tui.editor import edit_text

        problem, ended = "", None
        try:
            with self.batch_update(), self.suspend():
                try:
                    text, problem = await edit_text(text, self.editor)
                except asyncio.CancelledError as error:  # the screen ends, which needs the terminal as it was
                    ended = error
        except SuspendNotSupported:
            problem = "this terminal cannot be lent to an editor"
        if ended is not None:
            raise ended
        if problem:
            self.warn(problem)
        self.main.input.text = text
        self.refresh(layout=True)
