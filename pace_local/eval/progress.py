"""Progress of an evaluation on stderr, with an estimate of what is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from pace_local.eval.cells import CEILING, Cell, EvalSettings
from pace_local.eval.journal import Results
from pace_local.eval.measures import ProbeMeasure
from pace_local.terminal import say

_SPARSE_SECONDS = 30.0
"""A log gets no further line about the same cell sooner."""

_ANSWERED = 100
"""Tokens of a usual answer for one read."""

_WRITING = 8
"""Writing a token takes about as long as reading so many in a batch."""


class EvalProgress:
    """Finished cells on stderr, a line each, and how long the rest will take.

    Args:
        settings: of the run.
        results: what is there already.
        quiet: nothing is said.
    """

    def __init__(self, settings: EvalSettings, results: Results, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._line_open = False
        self._done = 0.0
        self._at: tuple[Cell | str, int] | None = None
        self._of_cell = 0
        self._passed = 0
        self._between = settings.between
        self._total = self._cells = 0.0
        for seed in range(1, settings.seeds + 1):
            for stage in settings.stages():
                left = [cell for cell in stage if not results.is_settled(cell.key, seed)]
                self._cells += len(left)
                if left and not left[0].is_ceiling and left[0].apart == "work":
                    self._total += max(cell.gap or settings.tokens for cell in left) + 2000
                self._total += sum(
                    cell.n_probes(settings.specifications)
                    * (self._work(cell.reads) + (0 if cell.is_ceiling else settings.between))
                    for cell in left
                )

    @property
    def n_cells(self) -> int:
        """Cells that are left, each seed counted."""
        return int(self._cells)

    @staticmethod
    def _work(reads: int) -> float:
        return reads * (_ANSWERED * _WRITING + 250)

    def turn(self, stage: str, seed: int, tokens: int) -> None:
        """A turn before the probes was read."""
        self._done += tokens
        self._show(f"{stage}, seed {seed}: reading")

    def found(self, stage: str, seed: int, tokens: int) -> None:
        """So many tokens had been read by an earlier run."""
        self._total -= tokens
        if not self._quiet:
            self.clear()
            say(f"{stage}, seed {seed}: going on after {tokens:,} tokens of an earlier run")

    def probe(self, probe: ProbeMeasure) -> None:
        """A probe was answered."""
        self._done += self._work(len(probe.reads)) + (0 if f"/{CEILING}/" in probe.cell else self._between)
        self._show(f"{probe.cell}, seed {probe.seed}: probe {probe.number}")

    def cell(self, cell: Cell, seed: int, probes: Sequence[ProbeMeasure], refused: str | None) -> None:
        """A cell is finished, or cannot be measured."""
        self._passed += 1
        if self._quiet:
            return
        if refused is not None:
            found = f"refused: {refused}"
        else:
            checks = sum(probe.check_share.passed for probe in probes)
            facts = sum(probe.facts_recalled for probe in probes)
            found = (
                f"{checks}/{sum(probe.check_share.total for probe in probes)} checks, "
                f"{facts}/{sum(probe.facts_total for probe in probes)} facts, "
                f"{sum(probe.seconds for probe in probes):.0f} s"
            )
        self.clear()
        self._shown = time.monotonic()
        say(f"{self._passed} of {self.n_cells}, {cell.key}, seed {seed}: {found}{self._left()}")

    def clear(self) -> None:
        """Take the progress line off the terminal."""
        if self._line_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._line_open = False

    def _show(self, what: str) -> None:
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.2 if self._terminal else _SPARSE_SECONDS):
            return
        self._shown = now
        text = f"cell {self._passed + 1} of {self.n_cells}, {what}{self._left()}"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._line_open = True
        else:
            say(text)

    def _left(self) -> str:
        share = self._done / max(self._total, 1.0)
        if share <= 0 or self._passed >= self.n_cells:
            return ""
        seconds = (time.monotonic() - self._began) * max(0.0, 1 - share) / share
        return f"; {duration(seconds)} left"


def duration(seconds: float) -> str:
    """About how long, for people."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
