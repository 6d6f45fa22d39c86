"""Styles of what is drawn line by line, from the colours of the theme."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.style import Style
from rich.theme import Theme
from textual.color import Color, ColorParseError
from textual.strip import Strip

_KINDS = {
    "system": "secondary", "user": "primary", "file": "success", "tool": "warning",
    "reasoning": "error", "plan": "text-primary", "framing": "foreground", "text": "text-secondary",
}  # fmt: skip
"""Kind of segment -> the theme's colour."""
_MIXED = {"answer": ("primary", "error")}
"""Kinds with a colour between two: a theme's accent is often the same as another of its colours."""


@dataclass(frozen=True)
class Looks:
    """Styles by what they stand for; ``colours`` is ``App.theme_variables``."""

    colours: Mapping[str, str] = field(default_factory=dict)
    is_dark: bool = True

    def colour(self, name: str) -> Color | None:
        """A colour of the theme; None where it has none of this name."""
        try:
            colour = Color.parse(self.colours[name])
        except (KeyError, ColorParseError):
            return None
        return colour if colour.ansi is not None or colour.a > 0 else None

    def style(self, name: str, *, bold: bool = False) -> Style:
        """Letters in a colour of the theme."""
        colour = self.colour(name)
        return Style(color=None if colour is None else colour.rich_color, bold=bold or None)

    def over(self, name: str, share: float) -> Style:
        """A background: a colour of the theme, as much of it as ``share``, over the screen's own."""
        colour, below = self.colour(name), self.colour("background")
        if colour is None or below is None or colour.ansi is not None or below.ansi is not None:
            return Style()
        return Style(bgcolor=below.blend(colour, share, 1.0).rich_color)

    @property
    def faint(self) -> Style:
        """What is not read first."""
        front, below = self.colour("foreground"), self.colour("background")
        if front is None or below is None or front.ansi is not None or below.ansi is not None:
            return Style(dim=True)
        return Style(color=below.blend(front, 0.62, 1.0).rich_color)

    def kind(self, kind: str) -> Style:
        """Letters in the colour of a kind of segment."""
        if kind == "framing":
            return self.faint
        if kind in _MIXED:
            one, other = (self.colour(name) for name in _MIXED[kind])
            if one is None or other is None or one.ansi is not None or other.ansi is not None:
                return self.style("accent")
            return Style(color=one.blend(other, 0.5).rich_color)
        return self.style(_KINDS.get(kind, "foreground"))


class Pen:
    """Turns what Rich can draw into lines of a width."""

    def __init__(self, looks: Looks, width: int) -> None:
        self.looks = looks
        self.width = width
        self.console = Console(
            file=io.StringIO(),
            width=max(width, 1),
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
            emoji=False,
            markup=False,
            highlight=False,
            theme=Theme(_markdown_styles(looks)),
        )

    def lines(self, what: RenderableType, *, left: int = 0, gutter: Strip | None = None) -> list[Strip]:
        """The lines of something, ``left`` columns in; ``gutter`` stands before each."""
        from rich.segment import Segment

        room = max(self.width - left - (0 if gutter is None else gutter.cell_length), 1)
        options = self.console.options.update(width=room, height=None)
        before = [*(gutter or ()), *([Segment(" " * left)] if left else ())]
        return [
            Strip([*before, *segments]) for segments in self.console.render_lines(what, options, pad=False)
        ]


def _markdown_styles(looks: Looks) -> dict[str, Style]:
    strong, code, plain = (
        looks.style("primary", bold=True),
        looks.style("text-accent"),
        looks.style("primary"),
    )
    return {
        **{f"markdown.h{level}": strong for level in range(1, 7)},
        "markdown.code": code,
        "markdown.code_block": code,
        "markdown.block_quote": looks.faint,
        "markdown.item.bullet": plain,
        "markdown.item.number": plain,
        "markdown.link": looks.style("secondary"),
        "markdown.link_url": looks.faint,
        "markdown.hr": looks.faint,
        "markdown.table.border": looks.faint,
        "markdown.table.header": strong,
    }
