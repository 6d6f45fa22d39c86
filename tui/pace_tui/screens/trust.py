"""The user is asked once a repository whether its own settings and instructions are to be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from pace_tui.looks import Looks
from pace_tui.plain_text import one_line
from pace_tui.screens.question import QuestionScreen


class TrustScreen(QuestionScreen[bool]):
    """Gives whether the user trusts the repository.

    Args:
        files: that would be used.
        looks: colours.
        grace: seconds without a key before keys count.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
    ]
    ANSWER_KEYS: ClassVar[frozenset[str]] = frozenset(("y", "n", "escape"))

    def __init__(self, files: Sequence[str], looks: Looks, *, grace: float) -> None:
        super().__init__(grace=grace)
        self._files, self._looks = files, looks

    def compose(self) -> ComposeResult:
        """Question, files, keys."""
        text = Text("This repository has files that tell the agent what to do:\n\n", overflow="fold")
        for name in self._files:
            text.append(f"  {one_line(name)}\n", self._looks.style("warning", bold=True))
        text.append("\nUse them, now and later? Say yes only if you trust who wrote them.\n\n")
        for key, name in (("y", "yes"), ("n", "no, work without them")):
            text.append(f" {key} ", self._looks.style("primary", bold=True)).append(f"{name} ")
        with Vertical(id="trust"):
            yield Static(text, markup=False)

    def action_answer(self, is_trusted: bool) -> None:
        """Answer."""
        self.dismiss(is_trusted)
