"""A diff on its own, as high as it is long."""

from __future__ import annotations

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from pace_tui.diff_lines import draw_diff
from pace_tui.looks import Looks, Pen


class DiffView(Widget):
    """Draws all of a diff; put it into something that scrolls."""

    def __init__(self, diff: str, path: str, looks: Looks, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.diff, self.path = diff, path
        self._looks = looks
        self._width = 0
        self._lines: list[Strip] = []

    def _laid_out(self, width: int) -> list[Strip]:
        if width != self._width:
            self._width, self._lines = width, draw_diff(self.diff, self.path, Pen(self._looks, width))
        return self._lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as it takes."""
        return len(self._laid_out(width))

    def render_line(self, y: int) -> Strip:
        """One of its lines."""
        width = self.size.width
        lines = self._laid_out(width)
        strip = lines[y] if y < len(lines) else Strip.blank(0)
        return strip.adjust_cell_length(width).apply_style(self.rich_style)
