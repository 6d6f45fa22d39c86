"""What slash commands, and the palette that names them, have done on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pace_tui.commands import BY_NAME, UsageError, run_command
from pace_tui.sources import KeptSession
from pace_tui.threads import in_thread
from pace_tui.wire import Command, Received

if TYPE_CHECKING:
    from pace_tui.app import PaceApp
    from pace_tui.screens.text import TextScreen

_NOBODY = "The agent is not running: there is nobody who has the text. /resume starts it."


class ScreenCommands:
    """Does them for an app; what belongs to the process is passed on."""

    def __init__(self, app: PaceApp, sessions: Callable[[], Sequence[KeptSession]]) -> None:
        self._app = app
        self._sessions = sessions
        self._inspections = 0
        self._text_id = ""
        self._text: TextScreen | None = None
        """The screen that shows, or waits for, the text of a segment."""
        self._does: dict[str, Callable[[str], object]] = {
            "help": lambda _: app.action_help(),
            "quit": lambda _: app.action_leave(),
            "memory": lambda _: app.action_memory_screen(),
            "mode": app.set_mode,
            "plan": lambda _: app.show_panel("plan"),
            "inspect": self._inspect,
            "undo": lambda _: app.turns.put({"type": "undo"}, "/undo"),
            "sessions": lambda _: self._list_sessions(),
            "clear": lambda _: self.restart(resume=""),
            "export": self._export,
            "theme": self._set_theme,
        }

    def run(self, line: str) -> None:
        """Do what a line says that begins with a slash, or say what to type instead."""
        try:
            run_command(self, line)
        except UsageError as error:
            self._app.main.scribe.note(str(error), "warning", sign="!")

    def run_from_palette(self, name: str) -> None:
        """Do a command; one that needs something is put into the prompt."""
        if BY_NAME[name].needs_argument:
            self._app.main.input.put(f"/{name} ")
            self._app.main.input.area.focus()
        else:
            self.run(f"/{name}")

    def tell(self, command: Command) -> bool:
        """Send something to the process; returns whether there is one."""
        return self._app.tell(command)

    def restart(self, **options: str) -> None:
        """Start another process.

        Raises:
            UsageError: if a run goes on that it would break off.
        """
        if self._app.state.is_running and options:
            raise UsageError("a run goes on; Esc stops it, and then this can be done")
        self._app.life.restart(**options)

    def do(self, action: str, argument: str = "") -> None:
        """Do something on the screen.

        Raises:
            UsageError: if it cannot be done.
        """
        self._does[action](argument)

    # Segments

    def _inspect(self, segment: str) -> None:
        from pace_tui.screens.text import TextScreen

        self._inspections += 1
        self._text = TextScreen(segment)
        self._text_id = f"inspect-{self._inspections}"
        self._app.push_screen(self._text)
        if not self.tell({"type": "inspect", "segment": segment, "id": self._text_id}):
            self._text.fill(_NOBODY)

    def take(self, received: Received) -> bool:
        """Whether an object answers what was asked here, and is dealt with."""
        screen = self._text
        if received.get("type") == "died" and screen is not None and screen.is_waiting:
            screen.fill(_NOBODY)
        if received.get("type") == "text":
            if screen is not None and screen.shown_title == received.get("segment"):
                screen.fill(str(received.get("text", "")))
            return True
        if received.get("type") != "reply" or not str(received.get("id")).startswith("inspect-"):
            return False
        if screen is not None and received.get("id") == self._text_id and not received.get("ok"):
            screen.fill(str(received.get("message", "")))
        return True

    # Sessions

    def _list_sessions(self) -> None:
        in_thread(self._app, self._sessions, self._show_sessions, self._app.warn)

    def _show_sessions(self, sessions: Sequence[KeptSession]) -> None:
        from pace_tui.screens.sessions import SessionsScreen

        def chosen(name: str | None) -> None:
            if name is not None:
                self.run(f"/resume {name}")

        self._app.push_screen(SessionsScreen(sessions, self._app.state.session, self._app.looks), chosen)

    # Files and colours

    def _export(self, argument: str) -> None:
        try:
            path = Path(argument or f"{self._app.state.session or 'session'}.md").expanduser()
        except RuntimeError:  # ~name of a user that there is not
            raise UsageError(f"no home folder is known for {argument!r}; name another file") from None
        text = self._app.main.transcript.as_markdown()
        in_thread(self._app, partial(_write_new, path, text), self._app.main.scribe.note, self._app.warn)

    def _set_theme(self, name: str) -> None:
        if not name:
            self._app.search_themes()
        elif name in self._app.available_themes:
            self._app.theme = name
        else:
            known = ", ".join(sorted(self._app.available_themes))
            raise UsageError(f"theme {name!r} is not one of {known}")


def _write_new(path: Path, text: str) -> str:
    """Write a file that is not there yet; returns what to say."""
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror}") from error
    return f"written to {path}"
