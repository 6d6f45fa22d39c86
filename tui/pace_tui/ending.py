"""Giving the terminal back whatever ends the screen."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from textual.app import App


def end_on_signals(app: App[int]) -> None:
    """Have an app end as by its own doing when its process is told to, or its terminal is gone.

    For its loop's thread; where signals cannot be taken, such as in another thread than the main one, nothing
    changes.

    Args:
        app: returns 128 and the signal's number, as a shell has it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, app.exit, 128 + number)
