"""Sessions of the repository, to go on with one of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from pace_tui.looks import Looks
from pace_tui.plain_text import one_line
from pace_tui.sources import KeptSession


class SessionsScreen(ModalScreen[str]):
    """A list of sessions; Enter gives the name of one, Esc none.

    Args:
        sessions: in the order in which they are listed.
        current: name of the one that goes on.
        looks: colours.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "close")]

    def __init__(self, sessions: Sequence[KeptSession], current: str, looks: Looks) -> None:
        super().__init__()
        self._sessions, self._current, self._looks = sessions, current, looks

    def compose(self) -> ComposeResult:
        """The list, or that there is none."""
        with Vertical(id="sessions") as frame:
            frame.border_title = "Sessions"
            frame.border_subtitle = "Enter goes on with one; Esc closes"
            if self._sessions:
                yield OptionList(*map(self._option, self._sessions), id="sessions-list")
            else:
                yield Static("there is no session of this repository yet", markup=False)

    def _option(self, session: KeptSession) -> Option:
        is_current = session.name == self._current
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append("● " if is_current else "  ", self._looks.style("success"))
        line.append(one_line(session.name, 60), self._looks.style("primary", bold=True))
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.last_used))
        prompts = f"{session.prompts} {'prompt' if session.prompts == 1 else 'prompts'}"
        line.append(f"  {used}, {prompts}\n", self._looks.faint)
        if session.problem and not is_current:
            line.append(f"  {one_line(session.problem)}", self._looks.style("warning"))
        else:
            line.append(f"  {one_line(session.first_prompt) or 'nothing was asked yet'}")
        return Option(line, disabled=bool(session.problem) or is_current)

    def on_mount(self) -> None:
        """Keys work at once."""
        if self._sessions:
            self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._sessions[event.option_index].name)

    def action_close(self) -> None:
        """None of them."""
        self.dismiss(None)
