"""From the start of the process to the first full screen; see :mod:`pace_tui.bench.measure`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.models import Say
from pace_tui.bench.bare import READY
from pace_tui.bench.surroundings import environment
from pace_tui.bench.terminal import Terminal

LIMIT_MS, AIM_MS = 500.0, 300.0
PROMPT = "Say what to do."
"""How the empty prompt begins."""
_PATIENCE = 60.0
_WHOLE = 2.0
"""Seconds in which all that belongs to a start was written."""


def measure_first_paint(*, model: Path, samples: int, folder: Path, say: Say) -> list[Row]:
    """Rows of the first paint, and of a bare app's.

    ``pace`` without arguments, in an empty folder and with its real process behind it, and a bare app are
    started in turns; one pair is thrown away, after which files are in memory and bytecode is there.
    """
    environ = environment(folder, PACE_MODEL=str(model))
    bare_words = [sys.executable, "-m", "pace_tui.bench.bare"]
    app_words = [sys.executable, "-m", "pace_tui.cli"]
    bare, app = [], []
    with tempfile.TemporaryDirectory(dir=folder) as repository:
        for number in range(samples + 1):
            say(f"first paint {number} of {samples}")
            bare.append(_paint(bare_words, environ, Path(repository), READY))
            app.append(_paint(app_words, environ, Path(repository), PROMPT))
    (bare_ms, bare_cpu, _), (app_ms, app_cpu, sizes) = (
        list(zip(*each[1:], strict=True)) for each in (bare, app)
    )
    return [
        median_row("first_paint_ms", app_ms, "ms", "lower", limit=LIMIT_MS, aim=AIM_MS),
        median_row("first_paint_cpu_ms", app_cpu, "ms", "lower"),
        median_row("bare_paint_ms", bare_ms, "ms", "lower"),
        median_row("bare_paint_cpu_ms", bare_cpu, "ms", "lower"),
        median_row("first_paint_ratio", pair_ratios(app_ms, bare_ms), "x", "lower"),
        median_row("first_paint_bytes", sizes, "B", "lower"),
    ]


def _paint(
    words: Sequence[str], environ: Mapping[str, str], repository: Path, text: str
) -> tuple[float, float, int]:
    """Milliseconds until it is painted, those of them on a processor, and bytes of the whole start."""
    with Terminal(words, environ, folder=repository) as terminal:
        at = terminal.read_until(lambda grid: grid.is_full and grid.shows(text), _PATIENCE, repr(text))
        took, cpu = at - terminal.began, terminal.cpu_seconds()
        terminal.read_for(max(_WHOLE - took, 0.2))
        return 1e3 * took, 1e3 * cpu, terminal.bytes
