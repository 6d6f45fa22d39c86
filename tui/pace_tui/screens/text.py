"""A text to read, such as that of a segment; it may come later than the screen."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from pace_tui.plain_text import drawable, one_line

_MOST = 200_000
"""Characters that are shown."""


class TextScreen(ModalScreen[None]):
    """Shows a text letter for letter; Esc closes it.

    Args:
        title: of what.
        text: None: it is still to come, see :meth:`fill`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "close", "close")]

    def __init__(self, title: str, text: str | None = None) -> None:
        super().__init__()
        self.shown_title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, scrolled."""
        with VerticalScroll(id="text"):
            yield Static(id="text-text", markup=False)

    def on_mount(self) -> None:
        """Show what there is."""
        scroll = self.query_one("#text")
        scroll.border_title = Text(one_line(self.shown_title, 80))
        scroll.focus()
        self._show()

    @property
    def is_waiting(self) -> bool:
        """Whether the text is still to come."""
        return self._text is None

    def fill(self, text: str) -> None:
        """It has come."""
        self._text = text
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        scroll, shown = self.query_one("#text"), self.query_one("#text-text", Static)
        if self._text is None:
            scroll.border_subtitle = "Esc closes"
            shown.update(Text("comes as soon as the agent is between two turns of the model …"))
            return
        left_out = len(self._text) - _MOST
        text = Text(drawable(self._text[:_MOST]), overflow="fold")
        if left_out > 0:
            text.append(f"\n\n⋯ {left_out:,} more characters ⋯")
        scroll.border_subtitle = f"{len(self._text):,} characters; Esc closes"
        shown.update(text)

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
