"""What can be typed after a slash: a table of name, arguments, help and what it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pace_tui.session_state import MODES
from pace_tui.wire import Command

Completes = Literal["", "mode", "segment", "theme", "model", "policy", "budget", "session"]


class Does(Protocol):
    """What commands can have done; the app is one."""

    def tell(self, command: Command) -> object:
        """Send something to the process."""

    def restart(self, **options: str) -> None:
        """Start another process that goes on with this session."""

    def do(self, action: str, argument: str = "") -> None:
        """Do something on the screen."""


@dataclass(frozen=True)
class Slash:
    """One command."""

    name: str
    arguments: str
    """As the help shows them; ``[…]`` may be left out."""
    help: str
    run: Callable[[Does, str], None]
    completes: Completes = ""

    @property
    def needs_argument(self) -> bool:
        """Whether it cannot be run without."""
        return bool(self.arguments) and not self.arguments.startswith("[")

    @property
    def usage(self) -> str:
        """As it is typed."""
        return f"/{self.name} {self.arguments}".rstrip()


class UsageError(Exception):
    """What was typed cannot be done; the message says what to type."""


def _shown(action: str) -> Callable[[Does, str], None]:
    return lambda app, argument: app.do(action, argument)


def _segment(kind: str) -> Callable[[Does, str], None]:
    def send(app: Does, argument: str) -> None:
        app.tell({"type": kind, "segment": argument})

    return send


def _started_again(option: str) -> Callable[[Does, str], None]:
    return lambda app, argument: app.restart(**{option: argument})


def _mode(app: Does, argument: str) -> None:
    if argument not in MODES:
        raise UsageError(f"mode {argument!r} is not one of {', '.join(MODES)}")
    app.do("mode", argument)


def _budget(app: Does, argument: str) -> None:
    if not argument.replace(",", "").isdecimal() or int(argument.replace(",", "")) < 1:
        raise UsageError(f"a budget of {argument!r} is no number of tokens; say for example /budget 4096")
    app.restart(budget=argument.replace(",", ""))


def _note(app: Does, argument: str) -> None:
    app.tell({"type": "note", "text": argument})


def _plan(app: Does, argument: str) -> None:
    if not argument:
        app.do("plan")
        return
    steps = [_step(each) for each in argument.split(";") if each.strip()]
    if not steps:
        raise UsageError("a plan needs steps: /plan fix total @shop/cart.py; run the tests")
    app.tell({"type": "plan", "steps": steps})


def _step(text: str) -> list[object]:
    names = [word[1:] for word in text.split() if word.startswith("@") and len(word) > 1]
    return [" ".join(word.removeprefix("@") for word in text.split()), names]


COMMANDS: tuple[Slash, ...] = (
    Slash("help", "", "keys and commands", _shown("help")),
    Slash("model", "NAME", "go on with another model: a name or a path", _started_again("model"), "model"),
    Slash("mode", "MODE", "plan, ask, accept-edits or auto", _mode, "mode"),
    Slash("plan", "[STEP @FILE; STEP …]", "show the plan, or give one of yours", _plan),
    Slash("pin", "SEGMENT", "keep a segment resident, always", _segment("pin"), "segment"),
    Slash("unpin", "SEGMENT", "let a pinned segment go", _segment("unpin"), "segment"),
    Slash("evict", "SEGMENT", "evict a segment now", _segment("evict"), "segment"),
    Slash("recall", "SEGMENT", "bring a segment back", _segment("recall"), "segment"),
    Slash("inspect", "SEGMENT", "show the text of a segment", _shown("inspect"), "segment"),
    Slash("memory", "", "the memory view, full screen", _shown("memory")),
    Slash("policy", "NAME", "go on with another policy", _started_again("policy"), "policy"),
    Slash("budget", "TOKENS", "go on with another budget", _budget, "budget"),
    Slash("note", "TEXT", "tell the model something before its next turn",
          _note),
    Slash("undo", "", "take back the last prompt: files, conversation, cache", _shown("undo")),
    Slash("sessions", "", "sessions of this repository, to go on with one", _shown("sessions")),
    Slash("resume", "[SESSION]", "go on with a session; none named: this one, in a new process",
          lambda app, argument: app.restart(**({"resume": argument} if argument else {})), "session"),
    Slash("clear", "", "begin a new session", _shown("clear")),
    Slash("export", "[FILE]", "write the transcript to a file, as Markdown", _shown("export")),
    Slash("theme", "[NAME]", "other colours; none named: a list", _shown("theme"), "theme"),
    Slash("quit", "", "end it", _shown("quit")),
)  # fmt: skip

BY_NAME = {each.name: each for each in COMMANDS}


_COMMAND = re.compile(r"/[^\s/]*([^\S\n].*)?")


def is_command(text: str) -> bool:
    """Whether a text is one line that begins with a slash and a word; ``/usr/bin is …`` is a prompt."""
    return _COMMAND.fullmatch(text.strip()) is not None


def run_command(app: Does, line: str) -> None:
    """Do what a line that starts with a slash says.

    Raises:
        UsageError: if there is no such command, or something is missing.
    """
    name, _, argument = line.removeprefix("/").partition(" ")
    argument = argument.strip()
    command = BY_NAME.get(name)
    if command is None:
        raise UsageError(f"there is no command {'/' + name!r}; /help lists them")
    if command.needs_argument and not argument:
        raise UsageError(f"it is {command.usage}")
    command.run(app, argument)
