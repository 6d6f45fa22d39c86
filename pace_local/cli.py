"""The command ``pace``."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_local import __version__
from pace_local.errors import PaceError, StorageError

if TYPE_CHECKING:
    from pace_local.models import Device

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or start-up, 124 time limit, 130 cancelled.
Results go to stdout, everything else to stderr."""


@dataclass(frozen=True)
class Command:
    """One command of the command line."""

    name: str
    summary: str
    """What it is for. It stands here too, so that ``pace --help`` imports no command."""

    module: str
    """Path of the module whose ``add_parser(actions)`` adds it; imported when its options are needed."""

    asks_for_accelerators: bool = False
    """Whether ``add_parser`` also takes what finds this machine's accelerators."""


COMMANDS = (
    Command("ask", "ask about files that are longer than the budget", "pace_local.commands.ask"),
    Command("inspect", "show what a recorded session keeps, and why", "pace_local.commands.inspect"),
    Command(
        "tune",
        "measure how much a policy's parameters matter on a recorded session",
        "pace_local.commands.tune",
    ),
    Command(
        "sessions", "list, show and delete sessions that are kept on disk", "pace_local.commands.sessions"
    ),
    Command("eval", "measure with hidden tests how well early text is used late", "pace_local.commands.eval"),
    Command(
        "models",
        "list, fetch, check and delete models",
        "pace_local.commands.models",
        asks_for_accelerators=True,
    ),
    Command("doctor", "check the installation, and what will fit into memory", "pace_local.commands.doctor"),
)
"""The library's own commands."""

_VERBOSE = "show the native library's log on stderr"


def build_parser(*names: str, more: Sequence[Command] = ()) -> argparse.ArgumentParser:
    """The parser of the command line; every action sets ``handler``.

    Args:
        names: commands whose options are needed, since their modules take half a second to import; all of
            them if none is named. The others have their names and summaries alone.
        more: commands beside the library's own; they come first.
    """
    parser = argparse.ArgumentParser(
        prog="pace",
        description="Long sessions with a local model, in a fixed KV budget, with positions that stay near.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pace {__version__}")
    parser.add_argument("--verbose", action="store_true", help=_VERBOSE)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (*more, *COMMANDS):
        if not names or command.name in names:
            _add(command, actions)
            # Also after the command's name; if it is not there, what stood before the name holds.
            actions.choices[command.name].add_argument(
                "--verbose", action="store_true", default=argparse.SUPPRESS, help=_VERBOSE
            )
        else:
            actions.add_parser(command.name, help=command.summary)
    return parser


def _add(command: Command, actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_parser = importlib.import_module(command.module).add_parser
    if command.asks_for_accelerators:
        add_parser(actions, _accelerators)
    else:
        add_parser(actions)


def _accelerators() -> list[Device]:
    from pace_local.terminal import accelerators

    return accelerators()


def main(argv: Sequence[str] | None = None, more: Sequence[Command] = ()) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: words after the program's name; None: those that the process was started with.
        more: commands beside the library's own.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    return guarded(lambda: _run(words, more))


def guarded(work: Callable[[], int]) -> int:
    """Do the work of a command; what goes wrong is said in a line on stderr.

    Args:
        work: returns an exit code.

    Returns:
        The exit code.
    """
    # An answer or a path may hold what the terminal's encoding lacks.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except PaceError as error:
        print(f"pace: {' '.join(str(error).splitlines())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("pace: cancelled", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away.
        _drop_output()
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print("pace: no room is left where the output goes; free some", file=sys.stderr)
        _drop_output()
        return StorageError.exit_code


def _run(words: list[str], more: Sequence[Command]) -> int:
    # The first word that is no option names the command: no option before it takes a value.
    named = next((word for word in words if not word.startswith("-")), "")
    arguments = build_parser(named, more=more).parse_args(words)
    if arguments.verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        # Not at the root, where libraries that nobody asked about would be heard too.
        for package in {command.module.partition(".")[0] for command in (*more, *COMMANDS)}:
            logging.getLogger(package).addHandler(handler)
            logging.getLogger(package).setLevel(logging.DEBUG)
    return int(arguments.handler(arguments))


def _drop_output() -> None:
    """Let Python's own flush at exit succeed, which would complain once more."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
