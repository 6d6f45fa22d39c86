"""Work off the screen's thread; what comes of it is taken on that thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from textual.app import App

T = TypeVar("T")


def call_soon(app: App[Any], call: Callable[..., object], *arguments: Any) -> None:
    """Have something called on the screen's thread, from any thread; not at all once the screen is gone."""
    with suppress(RuntimeError):  # its loop was closed a moment ago
        app.call_later(call, *arguments)


def in_thread(
    app: App[Any], work: Callable[[], T], then: Callable[[T], object], failed: Callable[[str], object]
) -> None:
    """Do work in a thread of its own, and take its result, or the words of what it raised, on the screen's.

    The thread holds nothing up: it ends with the process.
    """

    def run() -> None:
        try:
            found = work()
        except Exception as error:  # whatever it is, it is the user's to know
            call_soon(app, failed, str(error) or repr(error))
        else:
            call_soon(app, then, found)

    threading.Thread(target=run, daemon=True).start()
