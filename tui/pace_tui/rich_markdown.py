"""Markdown as Rich draws it, but for two things: headings stand at the left, and HTML is text.

Imported when the first text is drawn: it brings the highlighter of code with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement

from pace_tui.plain_text import drawable

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class PlainMarkdown(Markdown):
    """A text as Markdown.

    Args:
        text: what a model wrote.
        code_theme: one of Pygments', or ``ansi_dark`` or ``ansi_light``.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _LeftHeading}

    def __init__(self, text: str, code_theme: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.markup, self.parsed = text, _PARSER.parse(text)
        _make_drawable(self.parsed)


def _make_drawable(tokens: Iterable[Token]) -> None:
    """Take out what was written as an entity, such as ``&#x202e;``, and came to be when it was read."""
    for token in tokens:
        token.content, token.info = drawable(token.content), drawable(token.info)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = drawable(value)
        _make_drawable(token.children or ())
