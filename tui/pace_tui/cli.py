"""The command ``pace``: without a command it opens the screen; the others are the agent's and the library's.

What is imported here is imported before the first paint.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from pace_local.cli import Command, guarded

COMMANDS = (
    Command(
        "open",
        "open the screen in this repository; `pace` without a command does that too",
        "pace_tui.open_command",
    ),
    Command("top", "show what the memory of a running session holds, live", "pace_tui.top_command"),
)
"""The screen's commands."""

_BEFORE_A_COMMAND = frozenset(("-h", "--help", "--version", "--verbose"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; see :func:`pace_local.cli.main`."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        return guarded(_open_here)
    from pace_agent import cli

    return cli.main(with_command(words), more=COMMANDS)


def with_command(words: Sequence[str]) -> list[str]:
    """Words as the parser takes them: options alone are those of ``open``, which may be left out."""
    is_named = bool(words) and (not words[0].startswith("-") or words[0] in _BEFORE_A_COMMAND)
    return list(words) if is_named else ["open", *words]


def _open_here() -> int:
    gc.disable()  # until the first paint; looking for garbage, of which there is none, takes a tenth of it
    # Not by way of the options, whose modules take long to import.
    from pace_tui.launch import Launch, open_screen

    return open_screen(Launch())


if __name__ == "__main__":
    sys.exit(main())
