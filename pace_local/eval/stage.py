"""A session that the cells of a stage share: read once, kept on disk while it is read, probed aside."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pace_local.config import SessionConfig
from pace_local.eval.askers import roomy, trial_of
from pace_local.eval.cells import NO_PLAN, Cell, EvalSettings
from pace_local.eval.journal import Journal
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.plans import plan_of, wrong_reads
from pace_local.eval.play import Play, TurnMeasure
from pace_local.eval.trial import Entry, Trial
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.policies import policy_named
from pace_local.terminal import Stop

SESSIONS = "sessions"
"""Folder for sessions that are not read to their end yet."""


class TurnWatcher(Protocol):
    """Is told of the turns of a stage."""

    def turn(self, stage: str, seed: int, tokens: int) -> None:
        """A turn of so many tokens before the probes was read."""
        ...

    def found(self, stage: str, seed: int, tokens: int) -> None:
        """So many tokens had been read by an earlier run."""
        ...


def goes_on_exactly(config: SessionConfig) -> bool:
    """Whether a session that is opened from disk goes on as it would have, bit for bit.

    What was merged cannot be kept, and a window of the last steps of attention starts anew.
    """
    policy = policy_named(config.policy, config.policy_options)
    return policy.merging is None and not policy.looks_at_steps


class Stage:
    """Asks the probes of the cells of one stage. Use it as a context manager.

    The session is read as far as the cell at hand needs it, kept on disk meanwhile, and removed at the end. A
    run that was killed goes on from the last turn.

    Args:
        model: must stay open.
        settings: of the run.
        stop: ends it soon after it was asked to.
        cells: of the stage that are left to measure, in the order in which the session reaches them.
        seed: of the trial.
        journal: takes turns and sessions.
        watcher: is told of every turn.
    """

    def __init__(
        self,
        model: Model,
        settings: EvalSettings,
        stop: Stop,
        cells: Sequence[Cell],
        seed: int,
        journal: Journal,
        watcher: TurnWatcher,
    ) -> None:
        self._model, self._settings, self._stop = model, settings, stop
        self._first, self._seed = cells[0], seed
        self._name = cells[0].stage
        self._journal, self._watcher = journal, watcher
        self._play: Play | None = None
        self._trials: dict[int, Trial] = {}

    def __enter__(self) -> Stage:
        """The stage itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the session, and remove what is kept of it unless it is to be gone on with."""
        if self._play is not None:
            self._play.__exit__(None, None, None)
        if kind is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._folder.parent.rmdir()  # if no other is kept

    def probes(self, cell: Cell, seed: int, run: str, done: Callable[[ProbeMeasure], None]) -> None:
        """Ask every probe of a cell, aside.

        Raises:
            ContextFullError: if the policy evicts nothing and the session does not fit.
            CancelledError, TimeLimitError: after a request to stop.
            FileError: if the session has other tokens than those of cells measured earlier.
            NativeError: if the cache fails.
        """
        assert (cell.stage, seed) == (self._name, self._seed)
        trial = self._trial(cell.reads)
        play = self._play or self._open(cell, trial)
        self._read_to(play, cell, trial)
        longest = self._settings.answer_tokens * cell.reads
        with play.session.aside():
            play.session.plan = self._plan(cell, trial)
            for number, (probe, work) in enumerate(zip(trial.probes, trial.between, strict=True), 1):
                turns: list[TurnMeasure] = []
                play.read(work, turns.append)
                play.start(probe)
                done(
                    play.ask(
                        probe,
                        longest,
                        run=run,
                        cell=cell.key,
                        seed=seed,
                        number=number,
                        work_seconds=sum(turn.seconds for turn in turns),
                    )
                )
                play.session.step_done()

    def _open(self, cell: Cell, trial: Trial) -> Play:
        config = self._settings.session_config(cell)
        if not policy_named(config.policy).evicts:
            between = itertools.chain.from_iterable(trial.between)
            every = [*trial.told, *trial.work, *between, *trial.probes]
            answers = self._settings.answer_tokens * cell.reads * len(trial.probes)
            config = roomy(self._model, config, every, answers)
        folder = self._folder if goes_on_exactly(config) else None
        # One that was read farther than this cell needs is of no use to it.
        play = Play(self._model, config, self._stop, folder=folder, script=_before_probes(trial, cell.gap))
        self._play = play.__enter__()
        if play.n_turns:
            self._watcher.found(self._name, self._seed, play.session.session_length)
        return play

    def _read_to(self, play: Play, cell: Cell, trial: Trial) -> None:
        """Read what is not read yet of the documents and of the other work before a cell's probes."""
        script = _before_probes(trial, cell.gap)
        play.read(script[play.n_turns : len(trial.told)], self._turn)
        if play.n_turns == len(trial.told):
            play.session.plan = self._plan(self._first, self._trial(self._first.reads))
        needed = list(dict.fromkeys(name for probe in trial.probes for name in probe.reads))
        play.read(script[play.n_turns :], self._turn, needed)
        turns = self._journal.results.turns.get((self._name, self._seed), [])
        self._journal.add_session(
            self._name,
            self._seed,
            gap=cell.gap,
            tokens=play.session.session_length,
            digest=play.digest(),
            seconds=sum(float(turn["seconds"]) for turn in turns),
        )

    def _trial(self, reads: int) -> Trial:
        """The script for a number of reads; counting the tokens of a long one takes its time."""
        if reads not in self._trials:
            specs = self._first.specs
            self._trials[reads] = trial_of(self._model, self._settings, specs, self._seed, reads, self._stop)
        return self._trials[reads]

    def _plan(self, cell: Cell, trial: Trial) -> Plan:
        """What the policy is told of the probes, as right as the cell has it."""
        if cell.errors == NO_PLAN:
            return Plan()
        reads = None
        if cell.errors:
            told = [each.name for each in trial.workload.told]
            reads = wrong_reads([probe.reads for probe in trial.probes], told, cell.errors, self._seed)
        between = self._settings.between > 0
        return plan_of(trial.probes, after_other_work=True, between=between, reads=reads)

    def _turn(self, turn: TurnMeasure) -> None:
        measured: dict[str, Any] = dataclasses.asdict(turn)
        self._journal.add_turn(self._name, self._seed, measured)
        self._watcher.turn(self._name, self._seed, turn.tokens)

    @property
    def _folder(self) -> Path:
        name = re.sub(r"[^a-z0-9_-]+", ".", self._name)
        return self._journal.folder / SESSIONS / f"{name}.{self._seed}"


def _before_probes(trial: Trial, gap: int | None) -> list[Entry]:
    """All that is read before the probes at a gap, or before the only ones."""
    return [*trial.told, *trial.work[: None if gap is None else trial.points[gap]]]
