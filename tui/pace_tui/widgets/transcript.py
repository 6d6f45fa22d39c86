"""The transcript: thousands of entries, of which only those near the view are laid out."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from pace_tui.entries import CallEntry, Entry
from pace_tui.finished_lines import FinishedLines, finished, merged
from pace_tui.heights import Heights
from pace_tui.keys import bindings
from pace_tui.looks import Looks, Pen
from pace_tui.pauses import pause_after
from pace_tui.selected_text import marked, text_of

_MOST_KEPT = 300
"""Entries whose lines are kept."""
_EMPTY = Strip.blank(0)


class Transcript(ScrollView, can_focus=True):
    """Draws entries line by line.

    It follows the end until the user scrolls away from it, and again once they are back. Heights of entries
    that were never near the view are estimated; when they come near, what is in view stays where it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("transcript")]

    class Followed(Message):
        """It follows the end, or no longer."""

        def __init__(self, is_following: bool) -> None:
            super().__init__()
            self.is_following = is_following

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[Entry] = []
        self.is_following = True
        self.is_open = False
        """Whether the output of tools is shown."""
        self.selected: int | None = None
        """The entry that the keys act on."""
        self._heights = Heights()
        self._places: dict[int, int] = {}
        self._kept: OrderedDict[int, list[Strip]] = OrderedDict()
        self._finished = FinishedLines()
        self._dirty: set[int] = set()
        self._measured: set[int] = set()
        """Dirty ones that were laid out to be measured, and that nobody may have seen."""
        self._is_waiting = False
        self._pause = pause_after(0.0)
        self._is_settling = False
        self._pen = Pen(Looks(), 80)
        self._base: Style | None = None

    # Content

    def add(self, entry: Entry) -> None:
        """Put an entry at the end."""
        if isinstance(entry, CallEntry):
            entry.is_folded = not self.is_open
        self._places[id(entry)] = len(self.entries)
        self.entries.append(entry)
        self._heights.append(entry.estimate(self._pen.width))
        self._draw_soon(len(self.entries) - 1)

    def changed(self, entry: Entry) -> None:
        """An entry has grown or looks otherwise."""
        place = self._places.get(id(entry))
        if place is not None:
            self._draw_soon(place)

    def clear(self) -> None:
        """Forget all entries."""
        self.entries.clear()
        self._places.clear()
        self._forget_lines()
        self._dirty.clear()
        self._heights.clear()
        self.selected, self.is_following = None, True
        self._settle()
        self.refresh()

    @property
    def last(self) -> Entry | None:
        """The last entry."""
        return self.entries[-1] if self.entries else None

    def as_markdown(self) -> str:
        """All of it, for a file."""
        return "\n".join(filter(None, (entry.as_markdown() for entry in self.entries)))

    # Drawing

    def _draw_soon(self, place: int) -> None:
        self._dirty.add(place)
        if not self._is_waiting and self.is_attached:
            self._is_waiting = True
            self.set_timer(self._pause, self._draw_dirty)

    def _draw_dirty(self) -> None:
        self._is_waiting = False
        if not self._dirty:
            return
        anchor, before, began = self._anchor(), self.scroll_offset, time.thread_time()
        spans = [self._lay_out_again(place) for place in sorted(self._dirty)]
        self._pause = pause_after(time.thread_time() - began)
        self._dirty.clear()
        self._measured.clear()
        self._hold(anchor)
        self._settle()
        if self.scroll_offset != before:
            self.refresh()
            return
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        top, bottom = max(first - before.y, 0), min(last - before.y, self.size.height)
        if top < bottom:
            gutter = self.gutter
            self.refresh(Region(0, top + gutter.top, self.outer_size.width, bottom - top))

    def _lay_out_again(self, place: int) -> tuple[int, int]:
        """Lay an entry out if it was near the view.

        Returns:
            The first line that looks otherwise now, and the one after the last, from the start of all.
        """
        entry, height, top = self.entries[place], self._heights[place], self._heights.top(place)
        kept = self._kept.get(place)
        below = self.scroll_offset.y + self.size.height
        if kept is None or place in self._measured or not (self.is_following or top < below):
            self._kept.pop(place, None)
            self._heights[place] = entry.estimate(self._pen.width)
            return top, sys.maxsize
        lines, first, last = merged(kept, entry.lines(self._pen))
        self._kept[place] = lines
        self._heights[place] = len(lines)
        return top + first, top + last if len(lines) == height else sys.maxsize

    def _forget_lines(self) -> None:
        """All lines look otherwise now."""
        self._kept.clear()
        self._finished.clear()

    def _lines_of(self, place: int) -> list[Strip]:
        lines = self._kept.get(place)
        if lines is None:
            if place in self._dirty:
                self._measured.add(place)
            lines = self._kept[place] = self.entries[place].lines(self._pen)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(place)
        return lines

    @property
    def _room(self) -> int:
        """Columns of a line: Textual counts those of the scrollbar among the content's."""
        return max(self.size.width - self.scrollbar_gutter.width, 0)

    def _settle(self) -> None:
        """Measure what is near the view, and keep what is in view where it is."""
        if self._is_settling or not self.size.height:
            return
        self._is_settling = True
        try:
            if self.is_following:
                self._measure_end()
            shift = 0 if self.is_following else self._measure_around(self.scroll_offset.y)
            self._take_total()
            if self.is_following:
                self.scroll_to(y=self.max_scroll_y, animate=False)
            elif shift:
                self.scroll_to(y=self.scroll_offset.y + shift, animate=False)
        finally:
            self._is_settling = False

    def _take_total(self) -> None:
        size = Size(self._room, self._heights.total)
        if size != self.virtual_size:
            # Assigned, it would have the whole screen laid out anew; only the bar depends on it.
            self.set_reactive(ScrollView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height

    def _anchor(self) -> tuple[int, int]:
        """The entry at the top of the view, and the line within it."""
        return self._heights.at(self.scroll_offset.y) if self.entries else (0, 0)

    def _hold(self, anchor: tuple[int, int]) -> None:
        """Have what was at the top of the view there again, after heights have changed."""
        place, within = anchor
        if self.is_following or place >= len(self.entries):
            return
        self._is_settling = True
        try:
            self._take_total()
            self.scroll_to(y=self._heights.top(place) + within, animate=False)
        finally:
            self._is_settling = False

    def _measure_end(self) -> None:
        wanted = 2 * self.size.height
        place = len(self.entries) - 1
        while place >= 0 and wanted > 0:
            self._heights[place] = height = len(self._lines_of(place))
            wanted -= height
            place -= 1

    def _measure_around(self, top: int) -> int:
        """Returns by how many lines the entries above the first line in view have grown."""
        if not self.entries:
            return 0
        page = self.size.height
        seen, _ = self._heights.at(top)
        place, _ = self._heights.at(max(top - page, 0))
        above = top - self._heights.top(place)
        shift, wanted = 0, above + 2 * page
        while place < len(self.entries) and wanted > 0:
            before, after = self._heights[place], len(self._lines_of(place))
            if before != after:
                self._heights[place] = after
                if place < seen:
                    shift += after - before
                    wanted += after - before
            wanted -= after
            place += 1
        return shift

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines of the view with its margins; those that were drawn before are the same objects."""
        width = self._room + self.gutter.width
        strips = [self.render_line(y - self.gutter.top) for y in crop.line_range]
        return (
            strips if crop.column_span == (0, width) else [strip.crop(*crop.column_span) for strip in strips]
        )

    def render_line(self, y: int) -> Strip:
        """One line of the view, with the margins at its sides."""
        line = y + self.scroll_offset.y
        if not 0 <= y < self.size.height or line >= self._heights.total or not self.entries:
            return self._finished.get(-1, 0, 0, _EMPTY, self._finish)
        place, within = self._heights.at(line)
        lines = self._lines_of(place)
        strip = lines[within] if within < len(lines) else _EMPTY
        span = None if self.text_selection is None else self.text_selection.get_span(line)
        is_selected = place == self.selected and self.has_focus and within >= self.entries[place].gap
        if span is None and not is_selected:
            return self._finished.get(place, within, line, strip, self._finish)
        strip = strip.adjust_cell_length(self._room).apply_style(self._base_style)
        if is_selected:
            strip = strip.apply_style(self._pen.looks.over("primary", 0.2))
        if span is not None:
            strip = marked(strip, span, self.screen.get_component_rich_style("screen--selection"))
        return self._finish(strip, line)

    @property
    def _base_style(self) -> Style:
        if self._base is None:
            self._base = self.rich_style  # costly, and the same for every line
        return self._base

    def _finish(self, strip: Strip, line: int) -> Strip:
        return finished(self, strip, line, self._base_style, self._room)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that is selected."""
        return text_of(selection, self._text, self._heights.total), "\n"

    def _text(self, line: int) -> str:
        place, within = self._heights.at(line)
        lines = self._lines_of(place)
        return lines[within].text if within < len(lines) else ""

    def selection_updated(self, selection: Selection | None) -> None:
        """Show what is selected."""
        self.refresh()

    def notify_style_update(self) -> None:
        """The theme or a style has changed."""
        super().notify_style_update()
        self._base = None
        self._finished.clear()

    def take_looks(self, looks: Looks) -> None:
        """Draw in these colours from now on."""
        self._pen = Pen(looks, self._pen.width)
        self._forget_lines()
        self._settle()
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width; what is at the top of the view stays there."""
        width = self._room
        if width and width != self._pen.width:
            place, _ = self._anchor()
            self._pen = Pen(self._pen.looks, width)
            self._forget_lines()
            self._dirty.clear()
            for each, entry in enumerate(self.entries):
                self._heights[each] = entry.estimate(width)
            self._hold((place, 0))
        self._settle()
        self.refresh()

    # Scrolling

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Find out whether it is at the end, and measure what came near."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_settling:
            return
        self._set_following(round(new_value) >= self.max_scroll_y)
        self._settle()

    def _set_following(self, is_following: bool) -> None:
        if is_following != self.is_following:
            self.is_following = is_following
            self.post_message(self.Followed(is_following))

    def action_follow(self) -> None:
        """Go to the end, and stay there."""
        self._set_following(True)
        self.selected = None
        self._settle()
        self.refresh()

    def action_start(self) -> None:
        """Go to the start."""
        self.scroll_to(y=0, animate=False)

    # Opening and folding

    def open_all(self, is_open: bool) -> None:
        """Show or fold the output of all calls."""
        self.is_open = is_open
        for place, entry in enumerate(self.entries):
            if isinstance(entry, CallEntry) and entry.is_folded == is_open:
                entry.is_folded = not is_open
                self._kept.pop(place, None)
                self._heights[place] = entry.estimate(self._pen.width)
        self._settle()
        self.refresh()

    def toggle(self, place: int) -> None:
        """Open or fold an entry, if it can be."""
        entry = self.entries[place]
        if entry.can_fold:
            entry.is_folded = not entry.is_folded
            self._kept.pop(place, None)
            self._heights[place] = len(self._lines_of(place))
            if self.is_following and not entry.is_folded:
                self._set_following(False)  # the user is about to read it
            self._settle()
            self.refresh()

    def action_open_or_fold(self) -> None:
        """Open or fold the selected entry."""
        if self.selected is not None:
            self.toggle(self.selected)

    def action_select(self, step: int) -> None:
        """Go to the next entry that can be opened, up or down."""
        places = range(len(self.entries))
        start = (len(self.entries) if step < 0 else -1) if self.selected is None else self.selected
        place = start + step
        while place in places and not self.entries[place].can_fold:
            place += step
        if place not in places:
            self.scroll_relative(y=3 * step, animate=False)
            return
        self.selected = place
        top = self._heights.top(place)
        view = self.scroll_offset.y
        if not view <= top < view + self.size.height - 1:
            self.scroll_to(y=max(top - self.size.height // 3, 0), animate=False)
        self.refresh()

    async def on_click(self, event: events.Click) -> None:
        """Open or fold the entry whose line was clicked."""
        if not self.entries or self.text_selection is not None:
            return
        line = event.y + self.scroll_offset.y
        if line < self._heights.total:
            place, within = self._heights.at(line)
            if within == self.entries[place].gap:
                self.selected = place
                self.toggle(place)
