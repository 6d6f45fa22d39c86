"""One session of a trial, played turn by turn, and its probes."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pace_local.config import SessionConfig
from pace_local.eval.grading import grade
from pace_local.eval.measures import ProbeMeasure, ReadMeasure, Share, farthest, residency, where_it_broke
from pace_local.eval.trial import Entry
from pace_local.events import Event, Evicted, Finished, Focused, Rebuilt, Recalled, Renumbered
from pace_local.model import Model
from pace_local.session import Session
from pace_local.sessions import log_path
from pace_local.terminal import Stop
from pace_local.turn_stats import read_stats


@dataclass(frozen=True)
class TurnMeasure:
    """One turn that was read before the probes."""

    number: int
    """From 1."""
    part: str
    name: str
    tokens: int
    seconds: float
    evicted: int
    renumbered: int
    residents: int
    next_position: int
    session_tokens: int
    kv_bytes: int
    host_bytes: int
    device_bytes: int
    needed_residency: float | None
    """Share of the tokens that the probes will need that is resident now; None before all were told."""
    needed_distance: int | None
    """Positions from the next token to the farthest resident token of them."""


class Play:
    """A session that is being played. Use it as a context manager.

    Args:
        model: must stay open.
        config: settings of the session.
        stop: ends it soon after it was asked to.
        folder: keeps the session, so that another run can go on with it; None: it is not kept. A session that
            lies there is gone on with if it has the same settings and turns, and nothing of it has to be
            computed again; else it is removed.
        script: all turns that may be read, in order, so as to know those of a session that is gone on with.
    """

    def __init__(
        self,
        model: Model,
        config: SessionConfig,
        stop: Stop,
        *,
        folder: Path | None = None,
        script: Sequence[Entry] = (),
    ) -> None:
        self._stop = stop
        self._n_ctx_train = model.shape.n_ctx_train
        self._events: list[Event] = []
        self.session = self._open(model, config, folder, script)
        self.n_turns = self._turns_of(self.session)
        """Turns that were read so far."""
        self._calling = stop.calling(self.session.cancel)

    def _open(
        self, model: Model, config: SessionConfig, folder: Path | None, script: Sequence[Entry]
    ) -> Session:
        if folder is not None and log_path(folder).exists():
            session = Session.open(model, folder, listener=self._listen)
            as_it_was = not any(isinstance(event, Rebuilt) for event in self._events)
            if as_it_was and session.config == config and self._follows(session, script):
                return session
            session.close()
            self._events.clear()
            shutil.rmtree(folder)
        return Session(model, config=config, listener=self._listen, folder=folder)

    @staticmethod
    def _turns_of(session: Session) -> int:
        return sum(segment.kind != "framing" for segment in session.segments)

    @staticmethod
    def _follows(session: Session, script: Sequence[Entry]) -> bool:
        """Whether a session holds the first turns of a script and nothing else."""
        read = [segment for segment in session.segments if segment.kind != "framing"]
        return len(read) <= len(script) and all(
            segment.kind == entry.kind and session.text_of(segment).strip() == entry.text.strip()
            for segment, entry in zip(read, script, strict=False)
        )

    def __enter__(self) -> Play:
        """The play itself."""
        self._calling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self._calling.__exit__(kind, error, trace)
        self.session.close()

    def read(
        self,
        entries: Sequence[Entry],
        on_turn: Callable[[TurnMeasure], None],
        needed: Sequence[str] = (),
    ) -> None:
        """Read some turns as they are, answers too.

        Args:
            entries: the turns.
            on_turn: takes what was measured of each.
            needed: names of documents, all of them read, that the probes will need.

        Raises:
            ContextFullError: if the policy evicts nothing and a turn does not fit.
            CancelledError, TimeLimitError: after a request to stop.
            NativeError: if the cache fails.
        """
        for entry in entries:
            self._stop.raise_if_asked()
            self._events.clear()
            self.n_turns += 1
            began, length = time.perf_counter(), self.session.session_length
            # A name would make a user's turn one that a plan may read, to be read in isolation.
            name = entry.name if entry.kind == "file" else None
            self.session.append(entry.text, name=name, kind=entry.kind)
            seconds = time.perf_counter() - began
            stats = self.session.stats
            reads = self.measure_reads(needed)
            on_turn(
                TurnMeasure(
                    number=self.n_turns,
                    part=entry.part,
                    name=entry.name,
                    tokens=self.session.session_length - length,
                    seconds=seconds,
                    evicted=sum(event.count for event in self._events if isinstance(event, Evicted)),
                    renumbered=sum(isinstance(event, Renumbered) for event in self._events),
                    residents=stats.residents,
                    next_position=stats.next_position,
                    session_tokens=stats.session_tokens,
                    kv_bytes=stats.kv_bytes,
                    host_bytes=stats.host_bytes,
                    device_bytes=sum(stats.device_bytes.values()),
                    needed_residency=residency(reads) if needed else None,
                    needed_distance=farthest(reads),
                )
            )

    def digest(self) -> str:
        """A hash of all tokens of the session so far, the same on every machine."""
        return hashlib.sha256(",".join(map(str, self.session.tokens)).encode()).hexdigest()

    def start(self, probe: Entry) -> None:
        """Make the step of a probe the current one, if there is a plan and other work comes before it."""
        if not len(self.session.plan):
            return
        if next(iter(self.session.plan)).text != probe.text:
            self.session.step_done()
        assert next(iter(self.session.plan)).text == probe.text

    def ask(
        self,
        probe: Entry,
        max_tokens: int,
        *,
        run: str,
        cell: str,
        seed: int,
        number: int,
        work_seconds: float = 0.0,
    ) -> ProbeMeasure:
        """Ask a probe, greedily, and grade the answer. Its step must be the current one, if there is a plan.

        ``work_seconds`` are those that other work right before it took.

        Raises:
            As :meth:`read`.
        """
        question = probe.question
        assert question is not None
        self._stop.raise_if_asked()
        self._events.clear()
        reads: tuple[ReadMeasure, ...] | None = None
        finished: Finished | None = None
        began, before = time.perf_counter(), self.session.counters
        for event in self.session.generate(probe.text, max_tokens=max_tokens):
            if event.text and reads is None:
                reads = self.measure_reads(probe.reads)
            if isinstance(event, Finished):
                finished = event
        seconds = time.perf_counter() - began
        self._stop.raise_if_asked()
        assert finished is not None
        reads = self.measure_reads(probe.reads) if reads is None else reads
        graded, stats = grade(question, finished.answer), finished.stats
        passed = [outcome.passed for outcome in graded.outcomes]
        each = len(passed) // question.n_tasks
        checks = tuple(tuple(passed[first : first + each]) for first in range(0, len(passed), each))
        return ProbeMeasure(
            run=run,
            cell=cell,
            seed=seed,
            number=number,
            reads=reads,
            checks=checks,
            facts_recalled=graded.facts_recalled,
            facts_total=graded.facts_total,
            missing_facts=graded.missing_facts,
            failures=graded.failures,
            broke=where_it_broke(
                reads,
                Share(graded.checks_passed, graded.checks_total),
                Share(graded.facts_recalled, graded.facts_total),
                self._n_ctx_train,
            ),
            finish=finished.reason,
            prompt_tokens=self.session.counters.prompt_tokens - before.prompt_tokens,
            generated_tokens=stats.generated_tokens,
            seconds=seconds,
            focus_seconds=sum(event.seconds for event in self._events if isinstance(event, Focused)),
            residents=stats.residents,
            next_position=stats.next_position,
            session_tokens=stats.session_tokens,
            kv_bytes=stats.kv_bytes,
            host_bytes=stats.host_bytes,
            device_bytes=sum(stats.device_bytes.values()),
            answer=finished.answer,
            n_cells=self.session.engine.capabilities.n_cells,
            reference_bytes=stats.reference_bytes,
            saved_host_bytes=stats.saved_host_bytes,
            saved_disk_bytes=stats.saved_disk_bytes,
            work_seconds=work_seconds,
        )

    def measure_reads(self, names: Sequence[str]) -> tuple[ReadMeasure, ...]:
        """How documents stand in the cache now, and how they came there in this turn."""
        means: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for event in self._events:
            if isinstance(event, Focused):
                means.update(event.reads)
            elif isinstance(event, Recalled):
                means[event.segment], reasons[event.segment] = event.means, event.reason
        found = [read_stats(self.session, name) for name in names]
        return tuple(
            ReadMeasure(
                name=read.name,
                tokens=read.tokens,
                resident=read.resident,
                nearest=read.nearest,
                farthest=read.farthest,
                means=means.get(read.name),
                reason=reasons.get(read.name),
            )
            for read in found
        )

    def _listen(self, event: Event) -> None:
        self._events.append(event)
        if self._stop.reason is not None:
            self.session.cancel()
