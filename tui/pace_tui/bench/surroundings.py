"""What children of the benchmark are given: an environment, and the words that start them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

REPLAY_RATE = 30.0
"""Tokens a second: what a small model writes on a CPU, and faster than people read."""


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment of a child on a terminal.

    Modules come from where this process has them. Bytecode is written in any case: without it a start
    measures the compiler. Sessions are kept in the folder, and whatever the user has set of the screen or the
    agent does not count.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PACE_", "TEXTUAL", "PYTHONDONTWRITE", "NO_COLOR", "COLORTERM"))
        or name in ("PACE_CACHE_DIR", "PACE_MODELS_DIR")
    }
    if sys.dont_write_bytecode:
        kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    places = [os.path.abspath(place) for place in sys.path]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(places),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "PACE_AGENTS_DIR": str(folder / "sessions"),
        **changes,
    }


def replay_words(rate: float, entries: int) -> list[str]:
    """The process that says what a worker would."""
    return [sys.executable, "-m", "pace_tui.bench.replay", str(rate), str(entries)]


def stage_words(program: list[str], notes: int = 0) -> list[str]:
    """The app, connected to a program."""
    return [sys.executable, "-m", "pace_tui.bench.stage", str(notes), *program]
