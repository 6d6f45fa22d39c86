"""Starts the real process for the screen."""

from __future__ import annotations

from collections.abc import Sequence

from pace_tui.wire import Connect, Options, Receive, WorkerLike


def connect_to(words: Sequence[str] = (), *, is_kept: bool = True) -> Connect:
    """What starts :mod:`pace_agent.worker`, with the options of each start.

    Args:
        words: options that are the same at every start.
        is_kept: whether new sessions are kept.
    """

    def connect(options: Options, receive: Receive) -> WorkerLike:
        from pace_agent.worker.client import Worker  # after the first paint

        session = options.get("resume")
        kept = ["--resume", session] if session else [] if is_kept else ["--no-save"]
        # An empty value is that of a switch.
        flags = [
            f"--{name}={value}" if value else f"--{name}"
            for name, value in options.items()
            if name != "resume"
        ]
        worker = Worker([*words, *flags], kept=kept, listener=receive)
        worker.start()
        return worker

    return connect
