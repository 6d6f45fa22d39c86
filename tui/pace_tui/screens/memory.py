"""The memory on a whole screen, with its history along the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.screen import Screen
from textual_plotext import PlotextPlot

from pace_tui.looks import Looks
from pace_tui.screens.main import MainScreen
from pace_tui.session_state import Point, SessionState
from pace_tui.widgets.memory_panel import MemoryPanel

_PLOTS = (
    ("residents", "tokens resident, and the budget"),
    ("positions", "next position, and the cap"),
    ("bytes", "MiB of keys, values and references"),
    ("seconds", "seconds a turn"),
)


class MemoryScreen(Screen[None]):
    """Panel and plots; Esc goes back."""

    HORIZONTAL_BREAKPOINTS = MainScreen.HORIZONTAL_BREAKPOINTS
    AUTO_FOCUS = ""  # it would scroll the table into view, and the strip out of it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "back"),
        # Before the table has them: on a small terminal the plots are below it.
        Binding("pagedown", "page_down", "page down", priority=True),
        Binding("pageup", "page_up", "page up", priority=True),
    ]

    def __init__(self, state: SessionState, looks: Looks) -> None:
        super().__init__()
        self._state, self._looks = state, looks
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        """The panel above, four plots below."""
        yield MemoryPanel(id="memory-whole")
        with Grid(id="plots"):
            for name, _ in _PLOTS:
                yield PlotextPlot(id=f"plot-{name}")

    def on_mount(self) -> None:
        """Draw what is known."""
        self.show(self._state, self._looks)
        self.query_one(MemoryPanel).table.focus(scroll_visible=False)

    def show(self, state: SessionState, looks: Looks) -> None:
        """Draw it; the plots only if they look otherwise."""
        self._state, self._looks = state, looks
        self.query_one(MemoryPanel).show(state, looks)
        drawn = (len(state.history), state.history[-1:], state.budget, state.position_cap)
        if drawn != self._drawn:
            self._drawn = drawn
            for name, title in _PLOTS:
                self._plot(name, title, state)

    def _plot(self, name: str, title: str, state: SessionState) -> None:
        widget = self.query_one(f"#plot-{name}", PlotextPlot)
        xs, ys = series(name, state.history)
        plot = widget.plt
        plot.clear_data()
        plot.clear_figure()
        plot.title(title)
        plot.xlabel("tokens of the session")
        if xs:
            plot.plot(xs, ys, marker="braille")
            limit = {"residents": state.budget, "positions": state.position_cap}.get(name)
            if limit:
                plot.hline(limit)
                plot.ylim(0, max(limit, *ys) * 1.05)
            else:
                plot.ylim(0, max(*ys, 1e-9) * 1.05 if len(ys) > 1 else max(ys[0], 1e-9) * 1.05)
        widget.refresh()

    def action_close(self) -> None:
        """Back to the transcript."""
        self.dismiss(None)


def series(name: str, history: Sequence[Point]) -> tuple[list[float], list[float]]:
    """What a plot shows: tokens of the session, and the value at each turn."""
    values = {
        "residents": [float(point.residents) for point in history],
        "positions": [float(point.next_position) for point in history],
        "bytes": [(point.bytes or 0) / 2**20 for point in history],
        "seconds": [point.seconds for point in history],
    }[name]
    shown = [name != "bytes" or point.bytes is not None for point in history]
    xs = [float(point.session_tokens) for point in history]
    return (
        [x for x, is_known in zip(xs, shown, strict=True) if is_known],
        [value for value, is_known in zip(values, shown, strict=True) if is_known],
    )
