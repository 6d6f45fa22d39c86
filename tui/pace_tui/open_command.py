"""``pace open``, and ``pace`` with options alone: opens the screen."""

from __future__ import annotations

import argparse

from pace_agent.commands import opening
from pace_tui.launch import Launch, open_screen

_OPTIONS = ("model", "policy", "budget", "mode", "style", "check")
"""Options that a later start may change."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``open``."""
    parser = commands.add_parser(
        "open",
        help="open the screen in this repository",
        description="Opens the screen in this repository: the agent, and what the model's memory holds.",
    )
    opening.add_options(parser)
    parser.add_argument("--script", metavar="FILE", help=argparse.SUPPRESS)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Open the screen; returns the exit code.

    Raises:
        ConfigError: if there is no terminal.
        FileError, StorageError: if there is no such repository, or no session to go on with.
    """
    repository = opening.repository_of(arguments)
    session = opening.session_of(arguments, repository)
    words = [word for folder in arguments.add_dir for word in ("--add-dir", folder)]
    if arguments.script is not None:
        words += ["--script", arguments.script]
    options = {name: str(value) for name in _OPTIONS if (value := getattr(arguments, name)) is not None}
    return open_screen(
        Launch(
            repository,
            words=tuple(words),
            options=options if not session else {**options, "resume": session},
            is_kept=session != "",
            is_trusting=arguments.trust,
        )
    )
