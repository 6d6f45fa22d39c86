"""The command ``pace`` with the agent's commands beside the library's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pace_local import cli
from pace_local.cli import Command

COMMANDS = (
    Command("run", "give the agent a task in this repository, without a screen", "pace_agent.commands.run"),
    Command(
        "watch",
        "do what comments that end in AI! ask for, and answer AI? ones, as they are saved",
        "pace_agent.commands.watch",
    ),
    Command("history", "list, show and delete the agent's sessions", "pace_agent.commands.history"),
    Command("config", "show the agent's settings and where they come from", "pace_agent.commands.config"),
)
"""The agent's commands."""


def main(argv: Sequence[str] | None = None, more: Sequence[Command] = ()) -> int:
    """Run the command line and return its exit code; see :func:`pace_local.cli.main`.

    Args:
        argv: words after the program's name; None: those that the process was started with.
        more: commands beside the agent's and the library's; they come first.
    """
    return cli.main(argv, more=(*more, *COMMANDS))


if __name__ == "__main__":
    sys.exit(main())
