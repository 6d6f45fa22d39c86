"""Where prompts are written: many lines, a history, and proposals for commands and files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from pace_local.harmless_text import harmless
from pace_tui.completion import Names, Proposals, propose
from pace_tui.keys import bindings
from pace_tui.plain_text import drawable

_LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")


class PromptArea(TextArea):
    """The text itself; keys that mean something go up to :class:`PromptInput`."""

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            theme="css",
            soft_wrap=True,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Say what to do.  / commands  @ files  ! shell  F1 help",
        )

    async def _on_key(self, event: events.Key) -> None:
        owner = self.parent
        if isinstance(owner, PromptInput) and await owner.take_key(event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        if result := self._replace_via_keyboard(_cleaned(event.text), *self.selection):
            self.move_cursor(result.end_location)


class PromptInput(Vertical):
    """A text of up to ten lines in view, with what fits above it.

    Args:
        names: for proposals.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("input")]

    class Submitted(Message):
        """The user sends a text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class FollowRequested(Message):
        """The user wants to see the end of the transcript."""

    class EditorRequested(Message):
        """The user wants to write in their editor."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, names: Names, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names = names
        self.history: list[str] = []
        """Earlier prompts, oldest first."""
        self._place: int | None = None
        """In the history; None: in the draft."""
        self._draft = ""
        self._proposals: Proposals | None = None
        self._dismissed: str | None = None
        """The text for which the list was closed."""

    def compose(self) -> ComposeResult:
        """The list, hidden, and the text."""
        proposals = OptionList(id="proposals")
        proposals.can_focus = False
        yield proposals
        yield PromptArea()

    @property
    def area(self) -> PromptArea:
        """The text area."""
        return self.query_one(PromptArea)

    @property
    def text(self) -> str:
        """What is written; a text of anybody is made harmless when it is put here."""
        return self.area.text

    @text.setter
    def text(self, text: str) -> None:
        self.area.text = _cleaned(text)
        self.area.move_cursor(self.area.document.end)

    def put(self, text: str) -> None:
        """Write something in the place of what is written; ↑ brings that back."""
        self.remember(self.text)
        self.text = text

    def remember(self, prompt: str) -> None:
        """Put a prompt into the history."""
        if prompt.strip() and (not self.history or self.history[-1] != prompt):
            self.history.append(prompt)
        self._place = None

    def remember_before(self, prompts: Sequence[str]) -> None:
        """Put earlier prompts in front of the history."""
        known = set(self.history)
        earlier = [prompt for prompt in prompts if prompt not in known]
        self.history[:0] = earlier
        if self._place is not None:
            self._place += len(earlier)

    # Proposals

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _look(self) -> None:
        self.refresh_proposals()

    def refresh_proposals(self) -> None:
        """Propose what fits now."""
        if not self.is_mounted:
            return
        row, column = self.area.cursor_location
        line = self.area.document.get_line(row)
        found = None
        if self._dismissed is not None and self._dismissed != self.text:
            self._dismissed = None
        if (
            self.area.has_focus
            and self._dismissed is None
            and not line[column:].strip()
            and self._place is None
        ):
            found = propose(line[:column], row == 0, self._names)
        if found == self._proposals:
            return
        self._proposals = found
        options = self.query_one("#proposals", OptionList)
        options.display = found is not None
        options.clear_options()
        if found is not None:
            options.add_options([Option(_shown(each.shown, each.help)) for each in found.all])
            options.highlighted = 0

    @property
    def is_proposing(self) -> bool:
        """Whether the list is open."""
        return self._proposals is not None

    def dismiss(self) -> bool:
        """Close the list until something is typed; returns whether it was open."""
        self.refresh_proposals()
        was_open = self.is_proposing
        self._dismissed = self.text
        self.refresh_proposals()
        return was_open

    def _take(self) -> None:
        proposals, chosen = self._proposals, self.query_one("#proposals", OptionList).highlighted
        if proposals is None:
            return
        row, column = self.area.cursor_location
        inserted = _cleaned(proposals.all[chosen or 0].inserted)
        self.area.replace(inserted, (row, proposals.start), (row, column))
        self.area.move_cursor((row, proposals.start + len(inserted)))

    @on(OptionList.OptionSelected, "#proposals")
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take()
        self.area.focus()

    # Keys

    async def take_key(self, key: str) -> bool:
        """Do what a key is bound to, here or in the text area; returns whether it is bound.

        Called when the text area gets round to the key. Of keys that come in one go, Textual itself does one
        that is bound before letters that were typed earlier, or after letters that were typed later.
        """
        if key in self._bindings.key_to_bindings:
            self.refresh_proposals()  # for what was typed last
        for node in (self, self.area):
            for binding in node._bindings.key_to_bindings.get(key, ()):
                if await self.app.run_action(binding.action, node):
                    return True
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a key to the text area where it means what it always means."""
        if action in ("complete", "close_proposals"):
            return self.is_proposing
        if action == "back":
            return self.is_proposing or self.area.cursor_at_first_line
        if action == "forward":
            return self.is_proposing or (self.area.cursor_at_last_line and self._place is not None)
        if action == "end_or_follow":
            return self.area.cursor_at_end_of_line
        return True

    def action_submit(self) -> None:
        """Send, or take what is proposed unless it is there already."""
        if self._proposals is not None:
            chosen = self.query_one("#proposals", OptionList).highlighted or 0
            row, column = self.area.cursor_location
            typed = self.area.document.get_line(row)[self._proposals.start : column]
            if self._proposals.all[chosen].inserted.strip() != typed.strip():
                self._take()
                return
        text = self.text
        if not text.strip():
            return
        self.remember(text)
        self.text = ""
        self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        """A new line at the cursor."""
        result = self.area.replace("\n", *self.area.selection)
        self.area.move_cursor(result.end_location)

    def action_complete(self) -> None:
        """Take what is proposed."""
        self._take()

    def action_close_proposals(self) -> None:
        """Close the list until something is typed."""
        self.dismiss()

    def action_back(self) -> None:
        """The proposal above, or an earlier prompt."""
        if self.is_proposing:
            self.query_one("#proposals", OptionList).action_cursor_up()
        elif self.history and self._place != 0:
            if self._place is None:
                self._draft = self.text
            self._go_to(len(self.history) - 1 if self._place is None else self._place - 1)
            self.area.move_cursor((0, 0))

    def action_forward(self) -> None:
        """The proposal below, or a later prompt."""
        if self.is_proposing:
            self.query_one("#proposals", OptionList).action_cursor_down()
        elif self._place is not None:
            self._go_to(self._place + 1)

    def _go_to(self, place: int) -> None:
        self._place = place if place < len(self.history) else None
        self.text = self._draft if self._place is None else self.history[place]

    def action_end_or_follow(self) -> None:
        """The cursor is at the end of its line already."""
        self.post_message(self.FollowRequested())

    def action_edit_outside(self) -> None:
        """Write it in an editor."""
        self.post_message(self.EditorRequested(self.text))


def _cleaned(text: str) -> str:
    return harmless(_LINE_ENDS.sub("\n", text))


def _shown(name: str, help: str) -> Text:
    shown = Text(drawable(name), no_wrap=True, overflow="ellipsis")
    return shown.append(f"  {help}", "dim") if help else shown
