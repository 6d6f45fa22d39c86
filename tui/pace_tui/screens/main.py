"""The main screen: transcript, prompt, side panels, status line."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen

from pace_tui.completion import Names
from pace_tui.looks import Looks
from pace_tui.scribe import Scribe
from pace_tui.session_state import SessionState
from pace_tui.widgets.memory_panel import MemoryPanel
from pace_tui.widgets.plan_panel import PlanPanel
from pace_tui.widgets.prompt_input import PromptInput
from pace_tui.widgets.status_line import StatusLine
from pace_tui.widgets.transcript import Transcript
from pace_tui.widgets.watch_panel import WatchPanel

NARROW = 100
"""Columns below which the side panels fold away."""
PANELS = ("plan", "memory", "watch")


class MainScreen(Screen[None]):
    """Lays the parts out; the side panels are shown beside the transcript, or over it if there is no room."""

    class Composed(Message):
        """All parts are there."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012 (as Textual declares it)

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names
        self.is_wanted = {"plan": True, "memory": True, "watch": False}
        """Which panels are shown where there is room."""
        self.over: str | None = None
        """The panel that is shown over the transcript where there is none."""

    def compose(self) -> ComposeResult:
        """All parts."""
        with Horizontal(id="body"):
            with Vertical(id="talk"):
                yield Transcript(id="transcript")
                yield PromptInput(self._names, id="input")
            with Vertical(id="side"):
                yield PlanPanel(id="plan", classes="panel")
                yield MemoryPanel(id="memory", classes="panel")
                yield WatchPanel(id="watch", classes="panel")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """The prompt is written at once."""
        self.scribe = Scribe(self.transcript)
        self._place_panels()
        self.input.area.focus()
        self.post_message(self.Composed())

    @property
    def transcript(self) -> Transcript:
        """The transcript."""
        return self.query_one(Transcript)

    @property
    def input(self) -> PromptInput:
        """The prompt."""
        return self.query_one(PromptInput)

    @property
    def is_narrow(self) -> bool:
        """Whether there is no room for the side panels."""
        return self.app.size.width < NARROW

    def toggle_panel(self, name: str) -> None:
        """Show or hide a panel."""
        if self.is_narrow:
            self.over = None if self.over == name else name
        else:
            self.is_wanted[name] = not self.is_wanted[name]
        self._place_panels()

    def show_panel(self, name: str) -> None:
        """Show a panel."""
        if not self.is_shown(name):
            self.toggle_panel(name)

    def is_shown(self, name: str) -> bool:
        """Whether a panel is on the screen."""
        return self.over == name if self.is_narrow else self.is_wanted[name]

    def hide_over(self) -> bool:
        """Fold away the panel that lies over the transcript; returns whether there was one."""
        was_shown = self.is_narrow and self.over is not None
        self.over = None
        self._place_panels()
        return was_shown

    def _place_panels(self) -> None:
        shown = [name for name in PANELS if self.is_shown(name)]
        for name in PANELS:
            self.query_one(f"#{name}").display = name in shown
        side = self.query_one("#side")
        side.display = bool(shown)
        self.query_one("#talk").display = not (self.is_narrow and shown)
        if not (self.is_narrow and shown) and (self.focused is None or not self.focused.is_on_screen):
            self.input.area.focus()

    def on_resize(self) -> None:
        """Panels fold away or come back."""
        self._place_panels()

    def draw(self, state: SessionState, looks: Looks, *, waiting: int) -> None:
        """Draw what is in view of the state."""
        if self.is_shown("plan"):
            self.query_one(PlanPanel).show(state, looks)
        if self.is_shown("memory"):
            self.query_one(MemoryPanel).show(state, looks)
        if self.is_shown("watch"):
            self.query_one(WatchPanel).show(state, looks)
        self.draw_status(state, looks, waiting=waiting)

    def draw_status(self, state: SessionState, looks: Looks, *, waiting: int) -> None:
        """Draw the status line alone."""
        status = self.query_one(StatusLine)
        status.show(state, looks, waiting=waiting, is_following=self.transcript.is_following)
