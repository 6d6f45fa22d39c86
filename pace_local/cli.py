"""The command ``pace``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from pace_local import __version__
from pace_local.errors import PaceError

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or start-up, 124 time limit, 130 cancelled.
Results go to stdout, everything else to stderr."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; every action sets ``handler``."""
    from pace_local.commands import ask, doctor, models
    from pace_local.terminal import accelerators

    parser = argparse.ArgumentParser(
        prog="pace",
        description="Long sessions with a local model, in a fixed KV budget, with positions that stay near.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pace {__version__}")
    parser.add_argument("--verbose", action="store_true", help="show the native library's log on stderr")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    ask.add_parser(commands)
    models.add_parser(commands, accelerators)
    doctor.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = build_parser().parse_args(argv)
    if arguments.verbose:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
    try:
        return int(arguments.handler(arguments))
    except PaceError as error:
        print(f"pace: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("pace: cancelled", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
