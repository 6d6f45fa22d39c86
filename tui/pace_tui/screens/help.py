"""Keys and commands, made from their tables."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from pace_tui.commands import COMMANDS
from pace_tui.keys import KEYS, PLACES
from pace_tui.looks import Looks


class HelpScreen(ModalScreen[None]):
    """Shows :func:`help_text`; Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "close", "close")]

    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self._looks = looks

    def compose(self) -> ComposeResult:
        """The text, scrolled."""
        with VerticalScroll(id="help") as scroll:
            scroll.border_title = "Help"
            scroll.border_subtitle = "Esc closes"
            yield Static(help_text(self._looks), id="help-text")

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)


def help_text(looks: Looks) -> Text:
    """All keys by place, and all commands."""
    text = Text()
    for place, title in PLACES.items():
        text.append(f"{title}\n", looks.style("primary", bold=True))
        for key in KEYS:
            if key.place == place:
                text.append(f"  {key.shown:<24}", looks.style("accent")).append(f"{key.help}\n")
        text.append("\n")
    text.append("Commands\n", looks.style("primary", bold=True))
    for command in COMMANDS:
        text.append(f"  {command.usage:<24}", looks.style("accent"))
        text.append(" " if len(command.usage) >= 24 else "").append(f"{command.help}\n")
    text.append("\n@FILE names a file for the model; !COMMAND runs a command of yours.", looks.faint)
    return text
