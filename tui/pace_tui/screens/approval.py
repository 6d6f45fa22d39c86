"""The user is asked: the command or the diff whole, and one key for each answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from pace_tui.grace import GRACE
from pace_tui.keys import KEYS, bindings
from pace_tui.looks import Looks
from pace_tui.plain_text import drawable, one_line
from pace_tui.screens.question import QuestionScreen
from pace_tui.widgets.diff_view import DiffView

_AROUND = 8
"""Lines of border, title, keys and message."""


@dataclass(frozen=True)
class Reply:
    """What the user said."""

    scope: str
    """once, session, project or no."""
    message: str = ""
    is_interrupt: bool = False


class ApprovalScreen(QuestionScreen[Reply]):
    """Asks about one call.

    Args:
        asked: the event.
        looks: colours.
        waiting: how many more wait behind it.
        grace: see :data:`GRACE`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("approval")]
    ANSWER_KEYS: ClassVar[frozenset[str]] = frozenset(key.keys for key in KEYS if key.place == "approval")

    def __init__(
        self, asked: dict[str, Any], looks: Looks, *, waiting: int = 0, grace: float = GRACE
    ) -> None:
        super().__init__(grace=grace)
        self.asked = asked
        self._looks = looks
        self._waiting = waiting
        self._is_withdrawn = False
        self._field = Input(
            placeholder="what to do instead; Enter sends, Esc goes back",
            select_on_focus=False,  # a letter that brings the focus back would replace the text
            id="approval-message",
        )
        self._field.display = False

    def compose(self) -> ComposeResult:
        """Title, what it is about, the keys."""
        asked = self.asked
        with Vertical(id="approval"):
            yield Static(self._title(), id="approval-title")
            with VerticalScroll(id="approval-what"):
                yield Static(Text(drawable(str(asked.get("what", ""))), overflow="fold"), id="approval-text")
                if asked.get("diff"):
                    yield DiffView(str(asked["diff"]), str(asked.get("what", "")), self._looks)
            yield Static(self._keys(), id="approval-keys")
            yield self._field

    def on_mount(self) -> None:
        """Scroll keys work at once."""
        self.query_one("#approval-what").focus()

    def on_resize(self, event: events.Resize) -> None:
        """What it is about has the room that title and keys leave."""
        room = int(event.size.height * 0.9) - _AROUND
        self.query_one("#approval-what").styles.max_height = max(room, 3)

    def _title(self) -> Text:
        reason = one_line(str(self.asked.get("reason", "")))
        title = Text.assemble(
            (one_line(str(self.asked.get("tool", "")), 40), self._looks.style("warning", bold=True)),
            f"  {reason}",
        )
        if self._waiting:
            title.append(
                f"  ({self._waiting} more {'waits' if self._waiting == 1 else 'wait'})", self._looks.faint
            )
        return title

    def _keys(self) -> Text:
        offers = ", ".join(_offer(each) for each in self.asked.get("offers", ()))
        text = Text()
        for key, name in (
            ("y", "once"),
            ("a", "session"),
            ("p", "project"),
            ("n", "no"),
            ("t", "no, and say what"),
        ):
            if name in ("session", "project") and not offers:
                continue
            text.append(f" {key} ", self._looks.style("primary", bold=True)).append(f"{name} ")
        if offers:
            text.append(f"\n session and project cover: {offers}", self._looks.faint)
        return text

    def tell_waiting(self, waiting: int) -> None:
        """More have come, or some were answered otherwise."""
        self._waiting = waiting
        for title in self.query("#approval-title").results(Static):  # none before the first paint
            title.update(self._title())

    def withdraw(self) -> None:
        """It was settled elsewhere: go, as soon as nothing lies over it."""
        self._is_withdrawn = True
        if self.is_current:
            self.dismiss(None)

    def on_screen_resume(self) -> None:
        """It is on top again."""
        if self._is_withdrawn:
            self.dismiss(None)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a message is written, letters are letters, wherever the focus is."""
        if action in ("answer", "tell") and self._field.display:
            return False
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        """While a message is written, have letters go into it, wherever the focus is."""
        if not self._field.display:
            return  # what it is of then comes after this
        event.prevent_default()
        if event.is_printable and event.character is not None:
            event.stop()
            self._field.focus()
            self._field.insert_text_at_cursor(event.character)

    def action_answer(self, scope: str) -> None:
        """Answer; what covers more than this once only if it was offered."""
        if scope not in ("session", "project") or self.asked.get("offers"):
            self.dismiss(Reply(scope))

    def action_tell(self) -> None:
        """Write what to do instead."""
        self._field.display = True
        self._field.focus()

    @on(Input.Submitted, "#approval-message")
    def _told(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Reply("no", event.value))

    def action_interrupt(self) -> None:
        """No, and stop the run; in the field: back to the keys."""
        if self._field.display:
            self._field.display = False
            self.query_one("#approval-what").focus()
        else:
            self.dismiss(Reply("no", is_interrupt=True))


def _offer(offer: dict[str, Any]) -> str:
    prefix = " ".join(str(each) for each in offer.get("prefix", ()))
    return one_line(f"{prefix} …" if prefix else str(offer.get("tool", "")), 60)
