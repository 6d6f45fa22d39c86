"""The real app, connected to a process of the benchmark's choice.

``python -m pace_tui.bench.stage NOTES PROGRAM...``: ``NOTES`` is a descriptor to which a line goes for each
event of :data:`NOTED`, as JSON; 0: none. The program is what :mod:`pace_agent.worker` is otherwise.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from pace_tui.app import PaceApp
from pace_tui.wire import Connect, Options, Receive, Received, WorkerLike

NOTED = frozenset(("ready", "turned", "ended", "error", "died"))


def connect_to(program: Sequence[str], notes: int) -> Connect:
    """What starts the program, and notes what it says."""

    def connect(options: Options, receive: Receive) -> WorkerLike:
        from pace_agent.worker.client import Worker

        def hear(received: Received) -> None:
            receive(received)
            if notes and received["type"] in NOTED:
                os.write(notes, json.dumps(received).encode("ascii") + b"\n")

        worker = Worker(listener=hear, program=program)
        worker.start()
        return worker

    return connect


def main(arguments: Sequence[str]) -> int:
    """Run the app; returns its exit code."""
    notes, *program = arguments
    return PaceApp(connect_to(program, int(notes))).run() or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
