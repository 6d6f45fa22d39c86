"""A diff on its own, as high as it is long."""

from __future__ import annotations

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from pace_tui.diff_lines import DiffLayout
from pace_tui.looks import Looks, Pen


class DiffView(Widget):
    """Draws what is in view of a diff; put it into something that scrolls."""

    def __init__(self, diff: str, path: str, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.diff, self.path = diff, path
        self._looks = looks
        self._width = 0
        self._layout: DiffLayout | None = None

    def _laid_out(self, width: int) -> DiffLayout:
        if self._layout is None or width != self._width:
            self._width = width
            self._layout = DiffLayout(self.diff, self.path, Pen(self._looks, width))
        return self._layout

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as it takes."""
        return len(self._laid_out(width))

    def render_line(self, y: int) -> Strip:
        """One of its lines."""
        width = self.size.width
        layout = self._laid_out(width)
        strip = layout.row(y) if y < len(layout) else Strip.blank(0)
        return strip.adjust_cell_length(width).apply_style(self.rich_style)
