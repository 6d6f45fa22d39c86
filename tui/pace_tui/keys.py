"""All keys in one table: bindings and the help are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

Place = Literal["anywhere", "input", "transcript", "memory", "approval"]

PLACES: dict[Place, str] = {
    "anywhere": "Anywhere",
    "input": "Writing a prompt",
    "transcript": "In the transcript",
    "memory": "In the memory panel",
    "approval": "When you are asked",
}


@dataclass(frozen=True)
class Key:
    """One thing that a key does."""

    keys: str
    """As Textual names them, with commas between."""
    action: str
    help: str
    place: Place
    is_first: bool = False
    """Whether it counts before what has the focus sees it."""
    is_shown: bool = False
    """Whether the footer names it."""

    @property
    def shown(self) -> str:
        """For people."""
        return " or ".join(_shown(each) for each in self.keys.split(","))


_NAMES = {
    "escape": "Esc", "enter": "Enter", "question_mark": "?", "up": "↑", "down": "↓", "left": "←",
    "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End",
    "tab": "Tab", "space": "Space",
}  # fmt: skip


def _shown(key: str) -> str:
    *modifiers, last = key.split("+")
    last = _NAMES.get(last, last.upper() if len(last) > 1 or modifiers else last)
    return "+".join([*(each.capitalize() for each in modifiers), last])


KEYS: tuple[Key, ...] = (
    Key("escape", "interrupt", "stop the run, also while it reads", "anywhere"),
    Key("ctrl+c", "clear_or_quit", "copy the selection, or clear the prompt; twice: quit", "anywhere", True),
    Key("ctrl+q", "leave", "quit", "anywhere", True),
    Key("ctrl+z", "suspend_process", "to the shell; its `fg` comes back", "anywhere", True),
    Key("shift+tab", "next_mode", "next mode: plan, ask, accept-edits, auto", "anywhere", True, True),
    Key("ctrl+o", "toggle_output", "show or fold the output of tools", "anywhere", True, True),
    Key("ctrl+t", "toggle_plan", "show or hide the plan", "anywhere", True, True),
    Key("ctrl+k", "toggle_memory", "show or hide the memory panel", "anywhere", True, True),
    Key("f2", "memory_screen", "the memory view with its history, full screen", "anywhere", True),
    Key("f3", "toggle_watch", "show or hide files that were changed", "anywhere", True),
    Key("f1", "help", "this help", "anywhere", True, True),
    Key("ctrl+p", "command_palette", "all commands by name", "anywhere", True),
    Key("f6", "next_part", "go to the next part of the screen", "anywhere", True),
    Key("ctrl+end", "follow", "go to the end of the transcript and follow", "anywhere", True),
    Key("pageup", "page(-1)", "scroll the transcript up", "anywhere", True),
    Key("pagedown", "page(1)", "scroll the transcript down", "anywhere", True),
    Key("enter", "submit", "send, or take what is proposed", "input"),
    Key("shift+enter,ctrl+j", "newline", "new line", "input"),
    Key("tab", "complete", "take what is proposed", "input"),
    Key("escape", "close_proposals", "close what is proposed", "input"),
    Key("up", "back", "earlier prompt, from the first line", "input"),
    Key("down", "forward", "later prompt, from the last line", "input"),
    Key("end", "end_or_follow", "end of the line; there already: follow the transcript", "input"),
    Key("ctrl+g", "edit_outside", "write the prompt in your editor", "input"),
    Key("up,k", "select(-1)", "entry above", "transcript"),
    Key("down,j", "select(1)", "entry below", "transcript"),
    Key("enter,space", "open_or_fold", "open or fold the entry", "transcript"),
    Key("home", "start", "go to the start", "transcript"),
    Key("end", "follow", "go to the end and follow", "transcript"),
    Key("left", "move(-1)", "block before", "memory", True),
    Key("right", "move(1)", "block after", "memory", True),
    Key("enter", "inspect", "show the text of the segment", "memory"),
    Key("p", "pin", "pin the segment, or let it go", "memory"),
    Key("e", "evict", "evict the segment", "memory"),
    Key("r", "recall", "recall the segment", "memory"),
    Key("y", "answer('once')", "yes, once", "approval"),
    Key("a", "answer('session')", "yes, for the session", "approval"),
    Key("p", "answer('project')", "yes, for the project", "approval"),
    Key("n", "answer('no')", "no", "approval"),
    Key("t", "tell", "no, and say what to do instead", "approval"),
    Key("escape", "interrupt", "no, and stop the run", "approval"),
)  # fmt: skip


def bindings(place: Place) -> list[Binding]:
    """The bindings of a part of the screen."""
    return [
        Binding(
            key.keys,
            key.action,
            key.help,
            show=key.is_shown,
            priority=key.is_first,
        )
        for key in KEYS
        if key.place == place
    ]
