"""Progress of a tuning on stderr, with an estimate of what is left."""

from __future__ import annotations

import sys
import time

from pace_local.terminal import say
from pace_local.tuning.grid import Grid
from pace_local.tuning.run import Outcome
from pace_local.tuning.table import describe

_SPARSE_SECONDS = 30.0
"""A log gets no further line about the same point sooner."""


class Progress:
    """Finished points on stderr, a line each, and how long the rest will take."""

    def __init__(self, grid: Grid, policy: str, *, quiet: bool) -> None:
        self._grid, self._policy, self._quiet = grid, policy, quiet
        self._terminal = sys.stderr.isatty()
        self._total = len(grid) + 1
        self._passed = 0
        self._took: list[float] = []
        self._began = self._shown = time.monotonic()
        self._line_open = False

    def turn(self, done: int, total: int) -> None:
        """A turn of the running point is over."""
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.2 if self._terminal else _SPARSE_SECONDS):
            return
        self._shown = now
        share = done / max(total, 1)
        each = sum(self._took) / len(self._took) if self._took else (now - self._began) / max(share, 1e-9)
        left = max(0.0, each * (self._total - self._passed) - (now - self._began))
        text = f"point {self._passed + 1} of {self._total}: {100 * share:.0f} %, {_duration(left)} left"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._line_open = True
        else:
            say(text)

    def point(self, number: int, outcome: Outcome, was_stored: bool) -> None:
        """A point is finished."""
        now = time.monotonic()
        self._passed += 1
        if outcome.measured is not None and not was_stored:
            self._took.append(now - self._began)
        self._began = self._shown = now
        if self._quiet:
            return
        what = "reference" if number < 0 else describe(self._grid.values(number), self._policy)
        found = (
            f"refused: {outcome.refused}"
            if outcome.measured is None
            else f"{outcome.measured.loss:.4f} nats" + (", measured before" if was_stored else "")
        )
        left = self._total - self._passed
        estimate = (
            f"; {_duration(left * sum(self._took) / len(self._took))} left" if self._took and left else ""
        )
        self.clear()
        say(f"{self._passed} of {self._total}, {what}: {found}{estimate}")

    def clear(self) -> None:
        """Take the progress line off the terminal."""
        if self._line_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._line_open = False


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
