"""The memory of a session that another process has, live: the screen's Memory view alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import PurePath
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.filter import NoColor
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from pace_agent.events import as_dict
from pace_agent.reporting.memory_text import state_words
from pace_agent.sessions.events import TimedEvent
from pace_agent.sessions.following import SessionFollower
from pace_tui.ending import end_on_signals
from pace_tui.looks import Looks
from pace_tui.plain_text import one_line
from pace_tui.screens.memory import MemoryScreen
from pace_tui.session_state import SessionState
from pace_tui.widgets.memory_panel import MemoryPanel

_PAUSE = 0.25
"""Seconds between two looks."""

_MOST = 5_000
"""Events of one look, so that a long session's log does not hold the keys up."""


class TopScreen(MemoryScreen):
    """The Memory view with a line below that says whose it is and whether that still works."""

    class Composed(Message):
        """It can be drawn on."""

    DEFAULT_CSS = "TopScreen #top-state { dock: bottom; height: 1; padding: 0 1; background: $panel; }"

    def compose(self) -> ComposeResult:
        """View and line."""
        yield from super().compose()
        yield Static(id="top-state", markup=False)

    def on_mount(self) -> None:
        """Say so."""
        self.post_message(self.Composed())

    def tell_state(self, line: Text) -> None:
        """Show the line."""
        self.query_one("#top-state", Static).update(line)

    def action_close(self) -> None:
        """There is nothing below it: quit."""
        self.app.exit(0)


class TopApp(App[int]):
    """Follows a session until the user quits.

    Args:
        follower: of the session; closed by who made it.
        theme: one of Textual's; empty: the default.
        pause: seconds between two looks.
    """

    TITLE = "pace top"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["styles/main.tcss", "styles/screens.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "quit", "quit", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, follower: SessionFollower, *, theme: str = "", pause: float = _PAUSE) -> None:
        super().__init__()
        self.animation_level = "none"
        if self.no_color:
            self._filters.append(NoColor())
        if theme and theme in self.available_themes:
            self.theme = theme
        self.state = SessionState()
        self.looks = Looks()
        self._follower = follower
        self._pause_seconds = pause
        self._files = 0
        self._viewed_at: float | None = None
        self._drawn: object = None

    def on_load(self) -> None:
        """Before the terminal is taken."""
        end_on_signals(self)

    def get_default_screen(self) -> Screen[Any]:
        """The view."""
        return TopScreen(self.state, self.looks)

    @on(TopScreen.Composed)
    def _begin(self) -> None:
        """Begin to follow; before, there is nothing to draw on."""
        self.theme_changed_signal.subscribe(self, lambda _theme: self._take_looks())
        self._take_looks()
        self.run_worker(self._follow(), exclusive=True)

    def _take_looks(self) -> None:
        self.looks = Looks(self.theme_variables, self.current_theme.dark)
        self._drawn = None

    async def _follow(self) -> None:
        while True:
            # In a thread: a disk may be slow, and a log long.
            news = await asyncio.to_thread(self._follower.look, _MOST)
            self._take(news)
            self._draw()
            if len(news) < _MOST:
                await asyncio.sleep(self._pause_seconds)

    def _take(self, news: list[TimedEvent]) -> None:
        follower, view = self._follower, self._follower.view
        if follower.files != self._files:
            self._files, self._viewed_at = follower.files, None
            self.state = SessionState()
        if self._viewed_at is None and view is not None:
            # Turns from before are drawn with the bytes of now: they stay what they were from the start.
            self.state.view = {"bytes": vars(view.view.bytes)}
        for _, event in news:
            self.state.take(as_dict(event))
        is_up_to_date = len(news) < _MOST
        if view is not None and is_up_to_date and (news or view.at != self._viewed_at):
            self._viewed_at = view.at
            self.state.take({"type": "memory_view", **view.view.as_dict()})
        if follower.holder is None:
            self.state.began = self.state.reading = None

    def _draw(self) -> None:
        """Draw what differs from the last time."""
        state = self.state
        line = self._state_line()
        drawn = (
            self._files,
            self._viewed_at,
            state.session_tokens,
            len(state.history),
            state.last_memory,
            line,
        )
        screen = self.screen
        if drawn == self._drawn or not isinstance(screen, TopScreen):
            return
        self._drawn = drawn
        screen.show(state, self.looks)
        screen.tell_state(line)

    def _state_line(self) -> Text:
        follower = self._follower
        is_over = follower.is_gone or follower.holder is None
        words = f"the session is over: {state_words(follower)}" if is_over else state_words(follower)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(one_line(follower.folder.name, 60), self.looks.style("primary", bold=True))
        looks = self.looks.style("warning" if is_over else "foreground", bold=is_over)
        line.append("  ").append(one_line(words, 120), looks)
        line.append("  q quits", self.looks.faint)
        if self._viewed_at is not None:
            looked = time.strftime("  looked at %H:%M:%S", time.localtime(self._viewed_at))
            line.append(looked, self.looks.faint)
        return line

    @on(MemoryPanel.Wanted)
    def _wanted(self, event: MemoryPanel.Wanted) -> None:
        event.stop()
        self.notify(f"{event.what}: `pace top` only looks on; `pace` itself can do that")

    async def action_quit(self) -> None:
        """Quit."""
        self.exit(0)
