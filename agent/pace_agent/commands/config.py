"""``pace config``: every setting with what it does, its value, and where that comes from."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pace_agent.commands import opening
from pace_agent.settings.config_file import load_config
from pace_agent.settings.config_help import config_help, config_template
from pace_agent.settings.trust import TrustStore
from pace_local.errors import FileError, StorageError
from pace_local.models.choose import config_path
from pace_local.terminal import say


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``config``."""
    summary = "show the agent's settings and where they come from"
    parser = commands.add_parser("config", help=summary, description=f"{summary.capitalize()}.")
    parser.set_defaults(handler=show)
    opening.add_repository(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--init",
        action="store_true",
        help="write a config file with every setting behind #, if there is none",
    )
    action.add_argument("--path", action="store_true", help="print where your config file is, or would be")


def show(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    if arguments.path:
        print(config_path())
    elif arguments.init:
        _write_template(config_path())
        print(config_path())
    else:
        repository = opening.repository_of(arguments)
        trusted = TrustStore()
        loaded = load_config(repository, is_trusted=trusted.is_trusted(repository))
        sys.stdout.write(config_help(loaded))
        for warning in trusted.warnings:
            say(f"warning: {warning}")
    return 0


def _write_template(path: Path) -> None:
    """Make the config file, readable by its user alone.

    Raises:
        FileError: if there is one.
        StorageError: if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(config_template())
    except OSError as error:
        if os.path.lexists(path):
            raise FileError(
                f"{path} is there already, and is left as it is; edit it, or move it away"
            ) from None
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
