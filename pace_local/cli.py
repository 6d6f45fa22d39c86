"""The command ``pace``."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pace_local import __version__
from pace_local.errors import PaceError, StorageError

if TYPE_CHECKING:
    from pace_local.models import Device

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or start-up, 124 time limit, 130 cancelled.
Results go to stdout, everything else to stderr."""

_COMMANDS = {
    "ask": "ask about files that are longer than the budget",
    "inspect": "show what a recorded session keeps, and why",
    "tune": "measure how much a policy's parameters matter on a recorded session",
    "sessions": "list, show and delete sessions that are kept on disk",
    "eval": "measure with hidden tests how well early text is used late",
    "models": "list, fetch, check and delete models",
    "doctor": "check the installation, and what will fit into memory",
}
"""What each command is for. It stands here too, so that ``pace --help`` imports none of them."""

_VERBOSE = "show the native library's log on stderr"


def build_parser(*commands: str) -> argparse.ArgumentParser:
    """The parser of the command line; every action sets ``handler``.

    Args:
        commands: those whose options are needed, since their modules take half a second to import; all of
            them if none is named. The others have their names and summaries alone.
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
    for name, summary in _COMMANDS.items():
        if not commands or name in commands:
            _add(name, actions)
            # Also after the command's name; if it is not there, what stood before the name holds.
            actions.choices[name].add_argument(
                "--verbose", action="store_true", default=argparse.SUPPRESS, help=_VERBOSE
            )
        else:
            actions.add_parser(name, help=summary)
    return parser


def _add(name: str, actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    if name == "ask":
        from pace_local.commands import ask

        ask.add_parser(actions)
    elif name == "inspect":
        from pace_local.commands import inspect

        inspect.add_parser(actions)
    elif name == "tune":
        from pace_local.commands import tune

        tune.add_parser(actions)
    elif name == "sessions":
        from pace_local.commands import sessions

        sessions.add_parser(actions)
    elif name == "eval":
        from pace_local.commands import eval as evaluation

        evaluation.add_parser(actions)
    elif name == "models":
        from pace_local.commands import models

        models.add_parser(actions, _accelerators)
    else:
        from pace_local.commands import doctor

        doctor.add_parser(actions)


def _accelerators() -> list[Device]:
    from pace_local.terminal import accelerators

    return accelerators()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    # An answer or a path may hold what the terminal's encoding lacks.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(words)
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


def _run(words: list[str]) -> int:
    # The first word that is no option names the command: no option before it takes a value.
    named = next((word for word in words if not word.startswith("-")), "")
    arguments = build_parser(named).parse_args(words)
    if arguments.verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        # Not at the root, where libraries that nobody asked about would be heard too.
        logging.getLogger("pace_local").addHandler(handler)
        logging.getLogger("pace_local").setLevel(logging.DEBUG)
    return int(arguments.handler(arguments))


def _drop_output() -> None:
    """Let Python's own flush at exit succeed, which would complain once more."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
