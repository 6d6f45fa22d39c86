"""The memory: the strip of blocks, the numbers beside it, and a table by segment."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import DataTable

from pace_tui.keys import bindings
from pace_tui.looks import Looks
from pace_tui.plain_text import count, counted, one_line, size_of
from pace_tui.session_state import SessionState
from pace_tui.widgets.memory_strip import MemoryStrip
from pace_tui.widgets.steady import Steady

_COLUMNS = (("segment", "segment"), ("tokens", "resident/all"), ("positions", "positions"), ("why", "why"))
_KINDS = ("system", "user", "file", "tool", "answer", "reasoning", "plan")
_UNCHANGEABLE = "framing"
_PARTS = (("keys", "K"), ("values", "V"), ("references", "references"))
_SAVED = (("saved_host", "in memory"), ("saved_disk", "on disk"))


class MemoryPanel(Vertical):
    """Draws the memory of a state, and asks for what its keys stand for."""

    BORDER_TITLE = "Memory"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("memory")]

    class Wanted(Message):
        """The user wants something done with a segment: inspect, pin, unpin, evict or recall."""

        def __init__(self, what: str, segment: str) -> None:
            super().__init__()
            self.what, self.segment = what, segment

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: dict[str, tuple[str, ...]] = {}
        self._segments: dict[str, dict[str, Any]] = {}
        self._looks = Looks()
        self._subtitle = ""

    def compose(self) -> ComposeResult:
        """Strip, numbers, table."""
        yield MemoryStrip()
        yield Steady(classes="legend")
        yield Steady(classes="chosen")
        yield Steady(classes="numbers")
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=False, cell_padding=1)
        for key, label in _COLUMNS:
            table.add_column(label, key=key)
        yield table

    @property
    def strip(self) -> MemoryStrip:
        """The blocks."""
        return self.query_one(MemoryStrip)

    @property
    def table(self) -> DataTable[Text]:
        """The segments."""
        return self.query_one(DataTable)

    @property
    def segment(self) -> str | None:
        """The one that the keys act on: the row that the cursor is on."""
        keys = list(self._rows)
        row = self.table.cursor_row
        return keys[row] if 0 <= row < len(keys) else None

    def show(self, state: SessionState, looks: Looks) -> None:
        """Draw it."""
        self._looks = looks
        self.strip.show({**state.view, "budget": state.budget}, looks)
        self.query_one(".legend", Steady).put(legend(looks))
        table = numbers(state, looks)
        self.query_one(".numbers", Steady).put(
            table, key=([list(each.cells) for each in table.columns], looks)
        )
        if state.last_memory != self._subtitle:  # setting it has the whole panel drawn
            self._subtitle = state.last_memory
            self.border_subtitle = Text(one_line(state.last_memory, 40))
        self._fill(state.view.get("segments", ()))
        self._tell_chosen()

    def _fill(self, segments: list[dict[str, Any]]) -> None:
        """Bring the table to these rows; only what differs is touched."""
        listed = [one for one in segments if one.get("kind") != _UNCHANGEABLE]
        listed.sort(key=lambda one: (not one.get("resident"), int(one.get("first_position") or 0)))
        self._segments = {str(one.get("name")): one for one in listed}
        rows = {name: _row(one) for name, one in self._segments.items()}
        table = self.table
        if list(rows) != list(self._rows):
            chosen = self.segment
            table.clear()
            for name, row in rows.items():
                table.add_row(*self._drawn(name, row), key=name)
            if chosen in rows:
                table.move_cursor(row=list(rows).index(chosen), animate=False)
        else:
            for name, row in rows.items():
                if row != self._rows[name]:
                    for (key, _), cell in zip(_COLUMNS, self._drawn(name, row), strict=True):
                        table.update_cell(name, key, cell)
        self._rows = rows

    def _drawn(self, name: str, row: tuple[str, ...]) -> list[Text]:
        kind = str(self._segments[name].get("kind", ""))
        style = self._looks.kind(kind) if self._segments[name].get("resident") else self._looks.faint
        return [Text(row[0], style, no_wrap=True), *(Text(cell, no_wrap=True) for cell in row[1:])]

    def _tell_chosen(self) -> None:
        line = Text(no_wrap=True, overflow="ellipsis")
        block = self.strip.block
        if block is not None:
            line.append(one_line(block.segment, 60), self._looks.kind(block.kind))
            line.append(f"  {block.tokens} tokens at {block.first_position}–{block.last_position}")
            line.append(
                f"  {one_line(block.reason)}{', read by the step' if block.is_read else ''}",
                self._looks.faint,
            )
        else:
            line.append("← → choose a block; Enter shows its text", self._looks.faint)
        self.query_one(".chosen", Steady).put(line, layout=False)

    @on(MemoryStrip.Chosen)
    def _chosen(self, event: MemoryStrip.Chosen) -> None:
        event.stop()
        names = list(self._rows)
        if event.block.segment in self._rows:
            self.table.move_cursor(row=names.index(event.block.segment), animate=False)
        self._tell_chosen()

    @on(DataTable.RowHighlighted)
    def _highlighted(self, event: DataTable.RowHighlighted) -> None:
        event.stop()
        name = self.segment
        block = self.strip.block
        if name is not None and self.table.has_focus and (block is None or block.segment != name):
            self.strip.choose_segment(name)
            self._tell_chosen()

    @on(DataTable.RowSelected)
    def _selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.action_inspect()

    @on(MemoryStrip.Opened)
    def _opened(self, event: MemoryStrip.Opened) -> None:
        event.stop()
        self.post_message(self.Wanted("inspect", event.block.segment))

    def action_move(self, step: int) -> None:
        """Choose the block before or after."""
        self.strip.move(step)

    def _want(self, what: str) -> None:
        name = self.segment
        if name is not None:
            self.post_message(self.Wanted(what, name))

    def action_inspect(self) -> None:
        """Show the text of the segment."""
        self._want("inspect")

    def action_pin(self) -> None:
        """Pin the segment, or let it go."""
        name = self.segment
        is_pinned = name is not None and bool(self._segments[name].get("pinned"))
        self._want("unpin" if is_pinned else "pin")

    def action_evict(self) -> None:
        """Evict the segment."""
        self._want("evict")

    def action_recall(self) -> None:
        """Recall the segment."""
        self._want("recall")


def _row(segment: dict[str, Any]) -> tuple[str, ...]:
    resident, tokens = int(segment.get("resident") or 0), int(segment.get("tokens") or 0)
    first, last = segment.get("first_position"), segment.get("last_position")
    marks = ("⚑" if segment.get("pinned") else "") + ("◦" if segment.get("isolated") else "")
    return (
        f"{one_line(str(segment.get('name', '')), 40)} {marks}".rstrip(),
        f"{count(resident)}/{count(tokens)}",
        f"{first}–{last}" if first is not None and resident else "",
        one_line(str(segment.get("why") or ""), 60),
    )


def legend(looks: Looks) -> Text:
    """Which colour stands for what."""
    text = Text()
    for kind in _KINDS:
        text.append("█", looks.kind(kind)).append(f"{kind} ", looks.faint)
    return text.append("▔", looks.style("warning", bold=True)).append("read by the step", looks.faint)


def numbers(state: SessionState, looks: Looks) -> Table:
    """The numbers, one kind a row."""
    held = {name: size_of(int(value or 0)) for name, value in state.view.get("bytes", {}).items()}
    cap = count(state.position_cap) if state.position_cap else "no cap"
    evicted = f"{state.evictions} ({count(state.evicted_tokens)} tokens)"
    reused = f"{count(state.reused)} reused, {count(state.decoded)} decoded"
    rows = [
        ("budget", f"{count(state.residents)} of {count(state.budget)} tokens"),
        ("positions", f"0–{max(state.next_position - 1, 0)} of {cap}"),
        ("evictions", f"{evicted}, {counted(state.renumberings, 'renumbering')}"),
        ("recalls", f"{state.recalls}, {counted(state.misses, 'plan miss', 'plan misses')}"),
        ("tokens", f"{reused}, {count(state.decoded_again)} again"),
        ("speed", f"{state.speed:.1f} tokens/s"),
    ]
    if held:
        rows += [
            ("cache", ", ".join(f"{short} {held[name]}" for name, short in _PARTS if name in held)),
            ("held by", ", ".join(f"{name} {held[name]}" for name in ("host", "device") if name in held)),
            ("saved", ", ".join(f"{held[name]} {where}" for name, where in _SAVED if name in held)),
        ]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style=looks.faint, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, Text(value))
    return grid
