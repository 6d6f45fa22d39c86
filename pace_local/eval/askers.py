"""Probes in sessions of their own: the ceiling, and documents that lie far off by position alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from pace_local.config import SessionConfig
from pace_local.eval.cells import Cell, EvalSettings
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.plans import plan_of
from pace_local.eval.play import Play
from pace_local.eval.trial import Entry, Trial, build_trial
from pace_local.eval.workload import make_workload
from pace_local.model import Model
from pace_local.session import Session
from pace_local.terminal import Stop

_FRAMING_TOKENS = 64
"""More than any chat template puts around a turn."""

SHORT_WORK = 1000
"""Most tokens of other work between documents and probe where positions alone lie between them."""


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
        make_workload(specs, settings.specifications, seed, reads),
        seed=seed,
        count=count,
        filler_tokens=0 if settings.gaps else settings.tokens,
        gaps=settings.gaps,
        between=settings.between,
    )


def roomy(
    model: Model, config: SessionConfig, entries: Sequence[Entry], answers: int, positions: int = 0
) -> SessionConfig:
    """Settings of a session that evicts nothing, with room for all that will be read and written.

    Args:
        model: counts tokens.
        config: its other settings; its budget is the least.
        entries: what will be read, and asked.
        answers: tokens of all answers.
        positions: that are left out.
    """
    needed = sum(len(model.tokenize(entry.text)) + _FRAMING_TOKENS for entry in entries)
    budget = max(config.budget, needed + answers)
    cap = max(config.position_cap, budget + config.headroom + positions)
    return config.replace(budget=budget, position_cap=cap, recent=0)


class FreshSessions:
    """Asks each probe in a fresh session that holds the system prompt and what the probe reads.

    Where a cell lies apart by positions, a short turn of other work follows, and that, the question and the
    answer are as many positions farther away.

    Args:
        model: must stay open.
        settings: of the run.
        stop: ends it soon after it was asked to.
    """

    def __init__(self, model: Model, settings: EvalSettings, stop: Stop) -> None:
        self._model, self._stop = model, stop
        self._settings = dataclasses.replace(settings, tokens=SHORT_WORK, gaps=(), between=0)

    def probes(self, cell: Cell, seed: int, run: str, done: Callable[[ProbeMeasure], None]) -> None:
        """Ask every probe of a cell.

        Raises:
            CancelledError, TimeLimitError: after a request to stop.
            NativeError: if the cache fails.
        """
        trial = trial_of(self._model, self._settings, cell.specs, seed, cell.reads, self._stop)
        work = trial.work if cell.apart == "positions" else ()
        positions = cell.gap or 0
        for number, probe in enumerate(trial.probes, 1):
            told = [entry for entry in trial.told if entry.part == "system" or entry.name in probe.reads]
            longest = self._settings.answer_tokens * cell.reads
            config = self._settings.session_config(cell)
            config = roomy(self._model, config, [*told, *work, probe], longest, positions)
            with Play(self._model, config, self._stop) as play:
                play.read(told, lambda _turn: None)
                first = len(play.session.segments)
                play.read(work, lambda _turn: None)
                if work:
                    move_apart(play.session, first, positions)
                play.session.plan = plan_of([probe], after_other_work=False)
                done(play.ask(probe, longest, run=run, cell=cell.key, seed=seed, number=number))


def move_apart(session: Session, segment: int, positions: int) -> None:
    """Move a segment's turn, and all that comes after it, so many positions farther from what is before.

    Args:
        session: all of it is resident.
        segment: id of the first that moves.
        positions: 0 or more.

    Raises:
        NativeError: if the cache fails.
    """
    turn = next(each.turn for each in session.segments.from_id(segment) if each.kind != "framing")
    first = min(each.start for each in session.segments if each.turn == turn)
    residents = session.residents
    moved = residents.position + np.where(residents.token_index >= first, positions, 0)
    session._cache.place(moved.astype(np.int32))
