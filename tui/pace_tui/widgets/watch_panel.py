"""Files that were changed since they were read, newest first."""

from __future__ import annotations

import time

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from pace_tui.looks import Looks
from pace_tui.plain_text import one_line
from pace_tui.session_state import SessionState

_BY = {"agent": "agent", "user": "you", "shell": "a command"}


class WatchPanel(VerticalScroll):
    """Draws the changes of a state."""

    BORDER_TITLE = "Changed files"

    def compose(self) -> ComposeResult:
        """The text."""
        yield Static(id="watch-text", markup=False)

    def show(self, state: SessionState, looks: Looks) -> None:
        """Draw it."""
        self.query_one("#watch-text", Static).update(watch_text(state, looks))


def watch_text(state: SessionState, looks: Looks) -> Text:
    """The changes as text: one line a file, with the last change of each."""
    text = Text(overflow="fold")
    seen: set[str] = set()
    for change in reversed(state.changes):
        if change.path in seen:
            continue
        seen.add(change.path)
        clock = time.strftime("%H:%M:%S", time.localtime(change.at))
        text.append(f"{clock} ", looks.faint)
        text.append(one_line(change.path, 80), looks.style("foreground", bold=change.by == "user"))
        text.append(f"  {_BY.get(change.by, one_line(change.by, 20))}\n", looks.faint)
        for name in change.stale:
            text.append(f"  stale: {one_line(name, 60)}\n", looks.style("warning"))
    if not seen:
        return text.append("no file was changed", looks.faint)
    text.right_crop(1)
    return text
