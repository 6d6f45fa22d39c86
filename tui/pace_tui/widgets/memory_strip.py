"""The resident set as blocks in position order, coloured by kind, with the plan's reads marked."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from pace_tui.blocks import Block, blocks_of, cells_of
from pace_tui.looks import Looks

_ROWS = 3


class MemoryStrip(Widget):
    """Rows of cells, a budget long; a line below each marks what the step reads and what is chosen."""

    class Chosen(Message):
        """A block was chosen."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    class Opened(Message):
        """The text of a block is wanted."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.blocks: list[Block] = []
        self.budget = 0
        self.chosen: int | None = None
        self.looks = Looks()
        self._cells: list[int | None] = []
        self._drawn: object = None

    def show(self, view: dict[str, object], looks: Looks) -> None:
        """Draw a memory view; the segment that was chosen stays chosen."""
        before = self.block
        self.blocks, self.looks = blocks_of(view), looks
        self.budget = int(str(view.get("budget") or 0))
        self.chosen = None
        if before is not None:
            places = [i for i, block in enumerate(self.blocks) if block.segment == before.segment]
            if places:
                self.chosen = min(
                    places, key=lambda i: abs(self.blocks[i].first_position - before.first_position)
                )
        self._share_out()

    def _share_out(self) -> None:
        self._cells = cells_of(self.blocks, self.budget, self.size.width * _ROWS)
        drawn = (self._cells, self.blocks, self.chosen, self.looks)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_resize(self) -> None:
        """Share the new room out."""
        self._share_out()

    @property
    def block(self) -> Block | None:
        """The one that is chosen."""
        return None if self.chosen is None or self.chosen >= len(self.blocks) else self.blocks[self.chosen]

    def move(self, step: int) -> None:
        """Choose the block before or after."""
        if self.blocks:
            start = (-1 if step > 0 else len(self.blocks)) if self.chosen is None else self.chosen
            self._choose(max(0, min(start + step, len(self.blocks) - 1)))

    def choose_segment(self, name: str) -> None:
        """Choose the first block of a segment; none if it is not resident."""
        self.chosen = next((i for i, block in enumerate(self.blocks) if block.segment == name), None)
        self.refresh()

    def _choose(self, place: int) -> None:
        self.chosen = place
        self.refresh()
        self.post_message(self.Chosen(self.blocks[place]))

    def on_click(self, event: events.Click) -> None:
        """Choose the block under the pointer, and show its text."""
        cell = (event.y // 2) * self.size.width + event.x
        if 0 <= cell < len(self._cells) and (place := self._cells[cell]) is not None:
            self._choose(place)
            self.post_message(self.Opened(self.blocks[place]))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row of blocks and a row of marks, three times."""
        return 2 * _ROWS

    def render_line(self, y: int) -> Strip:
        """A row of blocks, or of marks."""
        width = self.size.width
        row, is_marks = divmod(y, 2)
        cells = self._cells[row * width : (row + 1) * width]
        base = self.rich_style
        segments = [
            self._mark(cell) if is_marks else self._cell(cell, place) for place, cell in enumerate(cells)
        ]
        return Strip(segments).adjust_cell_length(width).apply_style(base)

    def _cell(self, cell: int | None, place: int) -> Segment:
        if cell is None:
            return Segment("·", self.looks.faint)
        style = self.looks.kind(self.blocks[cell].kind)
        if cell == self.chosen:
            return Segment("█", self.looks.style("foreground"))
        return Segment("█" if cell % 2 == 0 else "▓", style)

    def _mark(self, cell: int | None) -> Segment:
        if cell is None:
            return Segment(" ")
        if cell == self.chosen:
            return Segment("▲", self.looks.style("foreground", bold=True))
        if self.blocks[cell].is_read:
            return Segment("▔", self.looks.style("warning", bold=True))
        return Segment(" ", Style())
