"""A real terminal for tests: a shell in tmux, on a server of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 90.0
"""Seconds after which what should have come long ago is given up."""

_PAUSE = 0.05
_STATE = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{keypad_cursor_flag}"


class Terminal:
    """A shell in a terminal of a size.

    Args:
        folder: where the shell is, and where the server's socket lies.
        environ: what the shell's environment has beside this process's.
        width: in columns.
        height: in rows.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *, width: int = 120, height: int = 40
    ) -> None:
        self._socket = folder / "tmux"
        given = [word for name, value in environ.items() for word in ("-e", f"{name}={value}")]
        self._tmux(
            "-f", os.devnull, "new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder),
            *given, "env PS1='ready> ' sh",
        )  # fmt: skip
        self.wait_for("ready>")
        self.device, shell = self._tmux("display-message", "-p", "#{pane_tty} #{pane_pid}").split()
        self.shell = int(shell)
        """The process of the shell."""
        self.before = ("", "")
        """How the terminal was set before what is tested."""

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            check=True,
            capture_output=True,
            text=True,
            env={name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")},
        )
        return done.stdout

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def state(self) -> str:
        """How the terminal is set: alternate screen, cursor, mouse, keypad, cursor keys."""
        return self._tmux("display-message", "-p", _STATE).strip()

    def type(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def run(self, *words: str) -> None:
        """Have the shell run a command."""
        self.type(shlex.join(words))
        self.press("Enter")

    def resize(self, width: int, height: int) -> None:
        """Change the terminal's size."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, what: str | Callable[[str], bool], *, gone: bool = False) -> str:
        """Wait until something is on the screen, or is not any more; returns the screen."""
        is_there = what if callable(what) else lambda text: what in text
        end = time.monotonic() + PATIENCE
        while is_there(text := self.text) is gone:
            assert time.monotonic() < end, f"{what!r} is {'still' if gone else 'not'} on the screen:\n{text}"
            time.sleep(_PAUSE)
        return text

    def close(self) -> None:
        """End the server, and all that runs in it."""
        self._tmux("kill-server")
