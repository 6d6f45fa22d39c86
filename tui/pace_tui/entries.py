"""What a transcript holds: each entry lays itself out for a width; nothing here is a widget."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Literal

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from pace_tui.diff_lines import draw_diff, totals
from pace_tui.looks import Pen
from pace_tui.markdown_text import MarkdownText
from pace_tui.plain_text import counted, drawable, duration, one_line

_MOST_LINES = 400
"""Of an opened result; the middle of a longer one is left out."""
_MOST_CHARACTERS = 60_000
"""Of an output that is still growing."""


PromptState = Literal["", "waits", "not sent", "not read"]
"""Of what the user sent; empty: it is worked on, or was."""


class Entry(ABC):
    """One thing in the transcript."""

    gap = 0
    """Empty lines before it."""
    can_fold = False
    can_wait = False
    """Whether it still grows."""

    def __init__(self) -> None:
        self.is_folded = self.can_fold

    @abstractmethod
    def lay_out(self, pen: Pen) -> list[Strip]:
        """Its lines, without the gap."""

    def estimate(self, width: int) -> int:
        """About how many lines it has with its gap; cheap, for entries that are far away."""
        return self.gap + 1

    def lines(self, pen: Pen) -> list[Strip]:
        """Its lines, with the gap; never more than what fits the width."""
        drawn = [Strip.blank(0)] * self.gap + self.lay_out(pen)
        return [each if each.cell_length <= pen.width else each.crop(0, pen.width) for each in drawn]

    def as_markdown(self) -> str:
        """For a file; empty if it is not worth a line."""
        return ""


def _estimated(text: str, width: int) -> int:
    width = max(width, 1)
    return (
        sum(1 + len(line) // width for line in text.split("\n"))
        if len(text) < 5000
        else len(text) // width + 1
    )


class PromptEntry(Entry):
    """What the user said."""

    gap = 1

    def __init__(self, prompt: str, state: PromptState = "") -> None:
        super().__init__()
        self.prompt = drawable(prompt)
        self.state: PromptState = state

    def lay_out(self, pen: Pen) -> list[Strip]:
        """Behind a bar, letter for letter."""
        look = pen.looks.faint if self.state else Style(bold=True)
        bar = Strip(list(Text("▌ ", pen.looks.style("primary")).render(pen.console)))
        text = Text(self.prompt.rstrip("\n"), look, overflow="fold")
        if self.state:
            text.append(f"  ({self.state})", pen.looks.faint)
        return pen.lines(text, gutter=bar)

    def estimate(self, width: int) -> int:
        """By its length."""
        return 1 + _estimated(self.prompt, width - 2)

    def as_markdown(self) -> str:
        """As a quotation."""
        return "".join(f"> {line}\n" for line in self.prompt.split("\n"))


class AnswerEntry(Entry):
    """What the model wrote for people: Markdown that may still grow."""

    gap = 1

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = MarkdownText(text)

    def lay_out(self, pen: Pen) -> list[Strip]:
        """Its blocks."""
        return self.text.lines(pen)

    def estimate(self, width: int) -> int:
        """By its length."""
        return 1 + _estimated(self.text.source, width)

    def as_markdown(self) -> str:
        """As it was written."""
        return self.text.source.rstrip("\n") + "\n"


class FoldedEntry(Entry):
    """A line that opens."""

    can_fold = True

    @abstractmethod
    def title(self, pen: Pen) -> Text:
        """The line."""

    @abstractmethod
    def body(self, pen: Pen) -> list[Strip]:
        """What it opens to."""

    def lay_out(self, pen: Pen) -> list[Strip]:
        """The line, and what is below if it is open."""
        mark = Text("▸ " if self.is_folded else "▾ ", pen.looks.faint)
        line = Text.assemble(mark, self.title(pen))
        line.truncate(pen.width, overflow="ellipsis")
        first = Strip(list(line.render(pen.console)))
        return [first] if self.is_folded else [first, *self.body(pen)]

    def _middle_left_out(self, lines: list[Strip], pen: Pen) -> list[Strip]:
        left_out = len(lines) - _MOST_LINES
        if left_out <= 0:
            return lines
        half = _MOST_LINES // 2
        note = pen.lines(Text(f"⋯ {left_out} lines ⋯", pen.looks.faint), left=4)
        return [*lines[:half], *note, *lines[-half:]]


class ThoughtEntry(FoldedEntry):
    """The model's reasoning, folded."""

    gap = 1

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = drawable(text)

    def append(self, text: str) -> None:
        """Add to the end."""
        self.text += drawable(text)

    def title(self, pen: Pen) -> Text:
        """How much it thought."""
        words = counted(len(self.text.split()), "word")
        return Text(f"thought, {words}", pen.looks.faint + Style(italic=True))

    def body(self, pen: Pen) -> list[Strip]:
        """Letter for letter."""
        lines = pen.lines(Text(self.text.strip("\n"), pen.looks.faint, overflow="fold"), left=4)
        return self._middle_left_out(lines, pen)

    def estimate(self, width: int) -> int:
        """One line, or by its length."""
        return 2 if self.is_folded else 2 + min(_estimated(self.text, width - 4), _MOST_LINES)

    def as_markdown(self) -> str:
        """Folded, where that is known."""
        return f"<details><summary>Reasoning</summary>\n\n{_fenced(self.text)}\n</details>\n"


class CallEntry(FoldedEntry):
    """A call of a tool, with what it printed and returned."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.tool = one_line(tool, 40)
        self.arguments = arguments
        self.output = ""
        self.result: str | None = None
        self.state = "running"
        """running, asked, ok, failed, refused or stopped."""
        self.seconds = 0.0

    def print(self, written: str) -> None:
        """It printed something."""
        self.output = (self.output + drawable(written))[-_MOST_CHARACTERS:]

    def finish(self, ok: bool, result: str, seconds: float) -> None:
        """It is done."""
        if self.state != "refused":
            self.state = "ok" if ok else "failed"
        self.result, self.seconds = drawable(result), seconds

    @property
    def what(self) -> str:
        """Its arguments in a few words."""
        for name in ("command", "path", "pattern", "query", "symbol"):
            if name in self.arguments:
                rest = [
                    f"{key}={value}" for key, value in self.arguments.items()
                    if key != name and isinstance(value, int | float | bool) and value is not None
                ]  # fmt: skip
                return one_line(" ".join([str(self.arguments[name]), *rest]))
        return one_line(", ".join(f"{key}: {value}" for key, value in self.arguments.items()))

    def title(self, pen: Pen) -> Text:
        """State, tool and arguments."""
        looks = pen.looks
        sign, look = {
            "running": ("…", looks.style("primary")), "asked": ("?", looks.style("warning", bold=True)),
            "ok": ("✓", looks.style("success")), "failed": ("✗", looks.style("error")),
            "refused": ("⊘", looks.style("warning")), "stopped": ("■", looks.faint),
        }[self.state]  # fmt: skip
        line = Text.assemble((f"{sign} ", look), (self.tool, Style(bold=True)), " ", self.what)
        tail = {"asked": "waits for you", "refused": "refused", "stopped": "stopped"}.get(self.state, "")
        if self.state in ("ok", "failed") and self.seconds >= 0.05:
            tail = duration(self.seconds)
        if tail:
            line.append(f"  {tail}", looks.faint)
        return line

    def body(self, pen: Pen) -> list[Strip]:
        """Long arguments, then the result, or what was printed so far."""
        text = Text(overflow="fold")
        for name, value in self.arguments.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            if "\n" in shown or len(shown) > 60:
                text.append(f"{one_line(name)}:\n", pen.looks.faint)
                text.append(drawable(shown).rstrip("\n") + "\n")
        text.append(
            (self.output if self.result is None else self.result).strip("\n") or "(nothing)", pen.looks.faint
        )
        return self._middle_left_out(pen.lines(text, left=4), pen)

    def estimate(self, width: int) -> int:
        """One line, or by its length."""
        if self.is_folded:
            return 1
        return 1 + min(
            _estimated(self.output if self.result is None else self.result, width - 4), _MOST_LINES
        )

    def as_markdown(self) -> str:
        """A line, and the result."""
        sign = {"ok": "✓", "failed": "✗"}.get(self.state, self.state)
        return f"{sign} `{self.tool}` {_code(self.what)}\n\n{_fenced(self.result or self.output)}"


class DiffEntry(FoldedEntry):
    """A file was changed."""

    def __init__(self, path: str, diff: str, by: str) -> None:
        super().__init__()
        self.path, self.diff, self.by = one_line(path), diff, by
        self.added, self.removed = totals(diff)
        is_notice = bool(diff) and not self.added and not self.removed
        self._notice = one_line(diff.removeprefix(f"{path}: ")) if is_notice else ""
        """What stands in the place of a diff that is too long, or where there is none to show."""
        self.is_folded = by != "agent"

    def title(self, pen: Pen) -> Text:
        """The path, and how much."""
        by = {"agent": "", "user": "  you", "shell": "  a command"}.get(self.by, f"  {self.by}")
        name = Text.assemble(("± ", pen.looks.style("secondary")), (self.path, Style(bold=True)), " ")
        if self._notice:
            return name.append(self._notice, pen.looks.faint).append(by, pen.looks.faint)
        return Text.assemble(
            name, (f"+{self.added}", pen.looks.style("success")), " ",
            (f"−{self.removed}", pen.looks.style("error")), (by, pen.looks.faint),
        )  # fmt: skip

    def body(self, pen: Pen) -> list[Strip]:
        """The diff."""
        return self._middle_left_out(draw_diff(self.diff, self.path, pen), pen)

    def estimate(self, width: int) -> int:
        """By its lines."""
        return 1 if self.is_folded else 1 + min(self.diff.count("\n"), _MOST_LINES)

    def as_markdown(self) -> str:
        """In a block of code."""
        return _fenced(self.diff, "diff")


class NoteEntry(Entry):
    """A line about how it goes."""

    def __init__(self, text: str, look: str = "faint", *, sign: str = "·", gap: int = 0) -> None:
        super().__init__()
        self.text = drawable(text).strip()
        self.look, self.sign, self.gap = look, sign, gap

    def lay_out(self, pen: Pen) -> list[Strip]:
        """Letter for letter, in its look."""
        look = pen.looks.faint if self.look == "faint" else pen.looks.style(self.look)
        mark = f"{self.sign} "
        gutter = Strip(list(Text(mark, look).render(pen.console)), cell_len(mark))
        return pen.lines(Text(self.text, look, overflow="fold"), gutter=gutter)

    def estimate(self, width: int) -> int:
        """By its length."""
        return self.gap + _estimated(self.text, width - 2)

    def as_markdown(self) -> str:
        """As a paragraph."""
        return f"*{self.text}*\n" if self.look != "faint" and "\n" not in self.text else f"{self.text}\n"


def _fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`" if text else ""
