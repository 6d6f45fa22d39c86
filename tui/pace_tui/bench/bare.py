"""The least that a Textual app can be, against which the screen is measured.

``python -m pace_tui.bench.bare``; with the word ``typing`` it has a text area, and nothing else, to type in.
"""

from __future__ import annotations

import sys

from textual.app import App, ComposeResult
from textual.widgets import Static

READY = "bare and ready"


class BareApp(App[None]):
    """One line of text, or one to type in."""

    def compose(self) -> ComposeResult:
        """Its only widget."""
        if "typing" in sys.argv:
            from textual.widgets import TextArea

            yield TextArea(READY)
        else:
            yield Static(READY)


if __name__ == "__main__":
    BareApp().run()
