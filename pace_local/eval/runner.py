"""Measures all cells of a table that a folder does not have yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pace_local.errors import ConfigError, ContextFullError
from pace_local.eval.askers import FreshSessions
from pace_local.eval.cells import Cell, EvalSettings
from pace_local.eval.journal import Journal
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.stage import Stage, TurnWatcher
from pace_local.model import Model
from pace_local.terminal import Stop


class Watcher(TurnWatcher, Protocol):
    """Is told how far a run is."""

    def probe(self, probe: ProbeMeasure) -> None:
        """A probe was answered."""
        ...

    def cell(self, cell: Cell, seed: int, probes: Sequence[ProbeMeasure], refused: str | None) -> None:
        """A cell is finished, or cannot be measured."""
        ...


def measure_cells(
    model: Model,
    settings: EvalSettings,
    journal: Journal,
    *,
    stop: Stop,
    watcher: Watcher,
    on_cell: Callable[[], None] = lambda: None,
) -> None:
    """Measure every cell with every seed: the ceilings first, then stage by stage.

    Cells of one stage share a session: it is read once, and each cell asks its probes aside.

    Args:
        model: to be measured.
        settings: what is asked for.
        journal: open; cells that it has are left out.
        stop: ends it soon after it was asked to; finished cells are in the journal.
        watcher: is told how far it is.
        on_cell: called after each cell, when the journal has it.

    Raises:
        CancelledError, TimeLimitError: after a request to stop.
        FileError: if the session has other tokens than cells measured earlier.
        NativeError: if the cache fails.
    """
    for seed in range(1, settings.seeds + 1):
        for stage in settings.stages():
            left = [cell for cell in stage if not journal.results.is_settled(cell.key, seed, journal.run)]
            if not left:
                continue
            if left[0].is_ceiling or left[0].apart == "positions":
                for cell in left:
                    _measured(cell, seed, journal, watcher, on_cell, FreshSessions(model, settings, stop))
                continue
            with Stage(model, settings, stop, left, seed, journal, watcher) as played:
                for cell in left:
                    _measured(cell, seed, journal, watcher, on_cell, played)


class _Asker(Protocol):
    def probes(self, cell: Cell, seed: int, run: str, done: Callable[[ProbeMeasure], None]) -> None: ...


def _measured(
    cell: Cell,
    seed: int,
    journal: Journal,
    watcher: Watcher,
    on_cell: Callable[[], None],
    asker: _Asker,
) -> None:
    refused = None

    def done(probe: ProbeMeasure) -> None:
        journal.add_probe(probe)
        watcher.probe(probe)

    try:
        asker.probes(cell, seed, journal.run, done)
    except (ConfigError, ContextFullError) as error:
        refused = str(error)
    journal.end_cell(cell.key, seed, refused)
    watcher.cell(cell, seed, journal.results.probes(cell.key, seed), refused)
    on_cell()
