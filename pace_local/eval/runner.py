"""Measures all cells of a table that a folder does not have yet."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pace_local.config import SessionConfig
from pace_local.errors import ConfigError, ContextFullError
from pace_local.eval.cells import Cell, EvalSettings, specifications_of
from pace_local.eval.journal import Journal
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.play import Play, TurnMeasure, plan_of
from pace_local.eval.trial import Entry, Trial, build_trial
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.terminal import Stop

_FRAMING_TOKENS = 64
"""More than any chat template puts around a turn."""


class Watcher(Protocol):
    """Is told how far a run is."""

    def turn(self, stage: str, seed: int, tokens: int) -> None:
        """A turn of so many tokens before the probes was read."""
        ...

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
    """Measure every cell with every seed: the ceilings first, then row by row.

    Cells of one stage share a session up to the first probe: it is read once, and each cell starts from a
    checkpoint of it.

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
            left = [cell for cell in stage if not journal.results.is_finished(cell.key, seed)]
            if not left:
                continue
            if left[0].is_ceiling:
                for cell in left:
                    _measured(cell, seed, journal, watcher, on_cell, _Ceiling(model, settings, stop))
                continue
            with _Stage(model, settings, stop, left[0], seed, journal, watcher) as played:
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


def trial_of(
    model: Model, settings: EvalSettings, specs: str, seed: int, reads: int, stop: Stop | None = None
) -> Trial:
    """The script of one session; up to the first probe the same for every number of reads.

    Raises:
        CancelledError, TimeLimitError: after a request to stop.
    """

    def count(text: str) -> int:
        if stop is not None:
            stop.raise_if_asked()
        return len(model.tokenize(text))

    return build_trial(
        specifications_of(specs, settings.specifications, seed),
        seed=seed,
        filler_tokens=settings.tokens,
        count=count,
        reads=reads,
        between=settings.between,
    )


def whole_probes(trial: Trial, reads: int) -> list[Entry]:
    """Its probes but for a last one that reads fewer specifications than the others."""
    return [probe for probe in trial.probes if len(probe.reads) == reads]


class _Ceiling:
    """Asks each probe in a fresh session that holds the system prompt and what the probe reads."""

    def __init__(self, model: Model, settings: EvalSettings, stop: Stop) -> None:
        self._model, self._settings, self._stop = model, settings, stop

    def probes(self, cell: Cell, seed: int, run: str, done: Callable[[ProbeMeasure], None]) -> None:
        settings = dataclasses.replace(self._settings, tokens=0, between=0)
        trial = trial_of(self._model, settings, cell.specs, seed, cell.reads, self._stop)
        system = [entry for entry in trial.entries if entry.part == "system"]
        for number, probe in enumerate(whole_probes(trial, cell.reads), 1):
            reads = [entry for entry in trial.entries if entry.name in probe.reads]
            entries = [*system, *reads]
            with Play(self._model, self._config(cell, [*entries, probe]), self._stop) as play:
                play.read(entries, lambda _turn: None)
                play.session.plan = plan_of([probe], after_other_work=False)
                longest = settings.answer_tokens * cell.reads
                done(play.ask(probe, longest, run=run, cell=cell.key, seed=seed, number=number))

    def _config(self, cell: Cell, entries: Sequence[Entry]) -> SessionConfig:
        """With room for all that will be read and written."""
        config = self._settings.session_config(cell)
        needed = sum(len(self._model.tokenize(entry.text)) + _FRAMING_TOKENS for entry in entries)
        budget = max(config.budget, needed + self._settings.answer_tokens * cell.reads)
        return config.replace(
            budget=budget, position_cap=max(config.position_cap, budget + config.headroom), recent=0
        )


class _Stage:
    """A session up to the first probe, from which each cell of a stage starts.

    It is read when the first cell asks for it, so that a policy that cannot hold it is refused as a cell.
    """

    def __init__(
        self,
        model: Model,
        settings: EvalSettings,
        stop: Stop,
        first: Cell,
        seed: int,
        journal: Journal,
        watcher: Watcher,
    ) -> None:
        self._model, self._settings, self._stop = model, settings, stop
        self._first, self._seed = first, seed
        self._journal, self._watcher = journal, watcher
        self._play: Play | None = None
        self._checkpoint: int | None = None

    def __enter__(self) -> _Stage:
        return self

    def __exit__(self, *_: object) -> None:
        if self._play is not None:
            self._play.__exit__(None, None, None)

    def probes(self, cell: Cell, seed: int, run: str, done: Callable[[ProbeMeasure], None]) -> None:
        assert (cell.stage, seed) == (self._first.stage, self._seed)
        trial = trial_of(self._model, self._settings, cell.specs, seed, cell.reads, self._stop)
        asked = whole_probes(trial, cell.reads)
        play = self._play or self._read(cell, trial, asked)
        if self._checkpoint is not None:
            play.session.restore(self._checkpoint)
            play.session.plan = self._plan(asked)
        number = 0
        for entry in itertools.dropwhile(lambda entry: entry.part != "probe", trial.entries):
            if number == len(asked):
                break
            if entry.part == "filler":
                play.read([entry], lambda _turn: None)
                continue
            number += 1
            play.start(entry)
            longest = self._settings.answer_tokens * cell.reads
            done(play.ask(entry, longest, run=run, cell=cell.key, seed=seed, number=number))
            play.session.step_done()

    def _plan(self, asked: Sequence[Entry]) -> Plan:
        return plan_of(asked, after_other_work=True, between=self._settings.between > 0)

    def _read(self, cell: Cell, trial: Trial, asked: Sequence[Entry]) -> Play:
        """Read the specifications, plan the probes, read the other work."""
        with contextlib.ExitStack() as undo:
            play = undo.enter_context(Play(self._model, self._settings.session_config(cell), self._stop))
            began = time.perf_counter()
            before = list(itertools.takewhile(lambda entry: entry.part != "probe", trial.entries))
            play.read([entry for entry in before if entry.part != "filler"], self._turn)
            play.session.plan = self._plan(asked)
            play.read([entry for entry in before if entry.part == "filler"], self._turn)
            self._journal.add_session(
                cell.stage,
                self._seed,
                tokens=play.session.session_length,
                digest=play.digest(),
                seconds=time.perf_counter() - began,
            )
            if cell.means is not None:
                self._checkpoint = play.session.checkpoint()
            undo.pop_all()
        self._play = play
        return play

    def _turn(self, turn: TurnMeasure) -> None:
        measured: dict[str, Any] = dataclasses.asdict(turn)
        self._journal.add_turn(self._first.stage, self._seed, measured)
        self._watcher.turn(self._first.stage, self._seed, turn.tokens)
