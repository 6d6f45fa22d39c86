"""Opens the screen in a terminal. What is imported here is imported before the first paint."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from textual.app import App

from pace_local.errors import ConfigError, FileError
from pace_tui.app import PaceApp
from pace_tui.connecting import connect_to
from pace_tui.prompt_history import PromptHistory
from pace_tui.repository import prepare, sources_of


@dataclass(frozen=True)
class Launch:
    """Where and how to start."""

    repository: Path | None = None
    """Resolved; None: the folder that the process is in."""

    words: Sequence[str] = ()
    """Options of the process behind the screen that stay the same at every start."""

    options: Mapping[str, str] = field(default_factory=dict)
    """Those that may change, by name; ``resume`` is the session to go on with."""

    is_kept: bool = True
    """Whether new sessions are kept."""

    is_trusting: bool = False
    """Whether the user trusts the repository from now on."""


def open_screen(launch: Launch) -> int:
    """Open the screen, until the user quits; returns the exit code.

    Raises:
        ConfigError: if there is no terminal.
        FileError: if the working folder is gone.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stderr__)):
        raise ConfigError("the screen needs a terminal; without one, use `pace run -p PROMPT`")
    try:
        repository = launch.repository or Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        raise FileError("the working folder is gone; go to one that is there") from None
    words = ["--repo", str(repository), *launch.words]
    options = dict(launch.options)
    if launch.is_trusting:
        options["trust"] = ""
    app = PaceApp(
        connect_to(words, is_kept=launch.is_kept),
        options=options,
        prepare=partial(prepare, repository, is_trusting=launch.is_trusting),
        sources=sources_of(repository),
        history=PromptHistory(repository),
    )
    return exit_code(app, app.run())


def exit_code(app: App[int], result: int | None) -> int:
    """Of a process whose app has run: what the app said, or that it failed.

    Args:
        app: has ended.
        result: what it gave; None: nothing, as after an error.
    """
    return (app.return_code or 0) if result is None else result
