"""Markdown as Rich draws it, but for two things: headings stand at the left, and HTML is text.

Imported when the first text is drawn: it brings the highlighter of code with it.
"""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement

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
