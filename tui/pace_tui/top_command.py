"""``pace top``: what the memory of a running session holds; on a terminal live, else once as text."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from pace_agent.reporting.memory_text import HEADS, as_document, facts, notes, segment_rows
from pace_agent.sessions.following import SessionFollower, choose_session
from pace_local.errors import ConfigError, FileError
from pace_local.wording import in_one_line, print_table

_DESCRIPTION = """\
Shows what the memory of a session holds that another process works on, be it `pace`, `pace run` or
`pace watch`: each segment with its resident tokens, positions and why they are kept; the budget, positions
against their cap, bytes, evictions, recalls. Nothing of the session is changed. On a terminal it follows the
session; where stdout is no terminal, or with --once, it prints once."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``top``."""
    parser = commands.add_parser(
        "top",
        help="show what the memory of a running session holds, live",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="one that `pace history` lists, running or not; default: the running one of this repository, or "
        "else the one of any other that was used last",
    )
    parser.add_argument("--repo", metavar="FOLDER", help="the running session of this repository only")
    parser.add_argument("--once", action="store_true", help="print once and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object and end")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the memory; returns the exit code.

    Raises:
        ConfigError, FileError: if there is no such session, or none is running.
        StorageError: if sessions may not be read.
    """
    folder = choose_session(arguments.session, _repository(arguments.repo), elsewhere=arguments.repo is None)
    with SessionFollower(folder) as follower:
        if arguments.json:
            follower.look()
            print(json.dumps(as_document(follower), indent=1))
        elif arguments.once or not _is_terminal():
            follower.look()
            print_once(follower)
        else:
            return _open(follower)
    return 0


def _repository(option: str | None) -> Path:
    folder = Path(os.path.expanduser(option or "."))
    if option is not None and not folder.is_dir():
        raise FileError(f"the repository {option!r} is not there; give a folder with --repo")
    return Path(os.path.realpath(folder))


def _is_terminal() -> bool:
    streams = (sys.stdout, sys.__stdin__, sys.__stderr__)
    return all(stream is not None and stream.isatty() for stream in streams)


def print_once(follower: SessionFollower) -> None:
    """Print what was learnt at the last look."""
    for name, value in facts(follower):
        print(f"{name:<9}  {in_one_line(value)}")
    if follower.view is not None:
        print()
        print_table(HEADS, segment_rows(follower.view.view))
        for line in notes(follower.view.view):
            print(line)


def _open(follower: SessionFollower) -> int:
    # Here, since they take long to import.
    from pace_agent.settings.config_file import load_config
    from pace_tui.launch import exit_code
    from pace_tui.top import TopApp

    try:
        theme = load_config(Path(follower.head.repository), is_trusted=False).config.theme
    except ConfigError:  # the agent says so; who looks on can do without
        theme = ""
    app = TopApp(follower, theme=theme)
    return exit_code(app, app.run())
