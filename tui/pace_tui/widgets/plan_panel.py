"""The plan: steps with their state, and what each reads, marked resident, recalled or missing."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from pace_tui.looks import Looks, Pen
from pace_tui.plain_text import counted, one_line
from pace_tui.session_state import SessionState
from pace_tui.widgets.steady import Steady

_STATES = {
    "waiting": ("○", "foreground"), "running": ("●", "accent"), "done": ("✓", "success"),
    "failed": ("✗", "error"), "skipped": ("–", "foreground"),
}  # fmt: skip
_READS = {"resident": ("■", "success"), "recalled": ("↺", "secondary"), "missing": ("□", "warning")}


class PlanPanel(VerticalScroll):
    """Draws the plan of a state."""

    BORDER_TITLE = "Plan"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._in_view: tuple[str, int, int] | None = None
        """The step that was brought into view, its line, and the width that the line counts for."""

    def compose(self) -> ComposeResult:
        """The text."""
        yield Steady(id="plan-text")

    def show(self, state: SessionState, looks: Looks) -> None:
        """Draw it; a step that has just begun is brought into view."""
        by = {"model": "by the model", "machine": "by the machine", "user": "yours"}
        if (subtitle := by.get(state.plan_by, "")) != (self.border_subtitle or ""):
            self.border_subtitle = subtitle
        text = plan_text(state, looks)
        self.query_one(Steady).put(text)
        self._bring_into_view(state, text, looks)

    def _bring_into_view(self, state: SessionState, text: Text, looks: Looks) -> None:
        running = next((each for each in state.steps if each.get("state") == "running"), None)
        width = self.scrollable_content_region.width
        if running is None or not width:
            return
        above = text[: max(text.plain.find(_STATES["running"][0]), 0)]
        line = len(Pen(looks, width).lines(above)) if above.plain else 0
        in_view = (str(running.get("text")), line, width)
        if in_view != self._in_view:  # else the user may be looking elsewhere
            self._in_view = in_view
            self.call_after_refresh(self.scroll_to, y=max(line - 2, 0), animate=False)


def plan_text(state: SessionState, looks: Looks) -> Text:
    """The plan as text."""
    text = Text(overflow="fold")
    if not state.steps:
        return text.append("no plan yet", looks.faint)
    for number, step in enumerate(state.steps, 1):
        sign, look = _STATES.get(str(step.get("state")), _STATES["waiting"])
        is_running = step.get("state") == "running"
        text.append(f"{sign} ", looks.style(look, bold=is_running))
        text.append(
            f"{number}. {one_line(str(step.get('text', '')))}\n", looks.style("foreground", bold=is_running)
        )
        if step.get("state") in ("done", "skipped"):
            continue
        for name in step.get("reads", ()):
            found = state.state_of_read(str(name))
            mark, look = _READS[found]
            text.append(f"  {mark} ", looks.style(look))
            text.append(one_line(str(name), 60), looks.faint)
            text.append(f"  {found}\n", looks.style(look))
        for name in step.get("wanted", ()):
            text.append("  □ ", looks.style("warning"))
            text.append(f"{one_line(str(name), 60)}  not read yet\n", looks.faint)
    if state.misses:
        misses = counted(state.misses, "plan miss", "plan misses")
        text.append(f"{misses}\n", looks.style("warning"))
    text.right_crop(1)
    return text
