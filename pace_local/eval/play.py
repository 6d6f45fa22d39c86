"""One session of a trial, played turn by turn, and its probes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from pace_local.config import SessionConfig
from pace_local.eval.grading import grade
from pace_local.eval.measures import ProbeMeasure, ReadMeasure, Share, where_it_broke
from pace_local.eval.trial import Entry
from pace_local.events import Event, Evicted, Finished, Focused, Recalled, Renumbered
from pace_local.model import Model
from pace_local.plan import Plan, Step
from pace_local.session import Session
from pace_local.terminal import Stop

OTHER_WORK = "other work"
"""The step between reading the specifications and a probe."""


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


def plan_of(probes: Sequence[Entry], *, after_other_work: bool, between: bool = False) -> Plan:
    """One step for each probe, in order.

    Args:
        probes: of one session.
        after_other_work: whether a step comes first that reads nothing of them.
        between: whether such a step comes between one probe and the next.
    """
    other = Step(OTHER_WORK)
    steps = [other] if after_other_work else []
    for number, probe in enumerate(probes):
        if between and number:
            steps.append(other)
        steps.append(Step(probe.text, reads=probe.reads))
    return Plan(steps)


class Play:
    """A session that is being played. Use it as a context manager.

    Args:
        model: must stay open.
        config: settings of the session.
        stop: ends it soon after it was asked to.
    """

    def __init__(self, model: Model, config: SessionConfig, stop: Stop) -> None:
        self._stop = stop
        self._n_ctx_train = model.shape.n_ctx_train
        self._events: list[Event] = []
        self._n_turns = 0
        self.session = Session(model, config=config, listener=self._listen)
        self._calling = stop.calling(self.session.cancel)

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

    def read(self, entries: Sequence[Entry], on_turn: Callable[[TurnMeasure], None]) -> None:
        """Read some turns as they are, answers too.

        Raises:
            ContextFullError: if the policy evicts nothing and a turn does not fit.
            CancelledError, TimeLimitError: after a request to stop.
            NativeError: if the cache fails.
        """
        for entry in entries:
            self._stop.raise_if_asked()
            self._events.clear()
            self._n_turns += 1
            began, length = time.perf_counter(), self.session.session_length
            # A name would make a user's turn one that a plan may read, to be read in isolation.
            name = entry.name if entry.kind == "file" else None
            self.session.append(entry.text, name=name, kind=entry.kind)
            seconds = time.perf_counter() - began
            stats = self.session.stats
            on_turn(
                TurnMeasure(
                    number=self._n_turns,
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
                )
            )

    def digest(self) -> str:
        """A hash of all tokens of the session so far, the same on every machine."""
        return hashlib.sha256(",".join(map(str, self.session.tokens)).encode()).hexdigest()

    def start(self, probe: Entry) -> None:
        """Make the step of a probe the current one, if other work comes before it in the plan."""
        if next(iter(self.session.plan)).text != probe.text:
            self.session.step_done()
        assert next(iter(self.session.plan)).text == probe.text

    def ask(
        self, probe: Entry, max_tokens: int, *, run: str, cell: str, seed: int, number: int
    ) -> ProbeMeasure:
        """Ask a probe, greedily, and grade the answer. Its step must be the current one.

        Raises:
            As :meth:`read`.
        """
        question = probe.question
        assert question is not None
        self._stop.raise_if_asked()
        self._events.clear()
        reads: tuple[ReadMeasure, ...] | None = None
        finished: Finished | None = None
        began = time.perf_counter()
        for event in self.session.generate(probe.text, max_tokens=max_tokens):
            if event.text and reads is None:
                reads = self._reads()
            if isinstance(event, Finished):
                finished = event
        seconds = time.perf_counter() - began
        self._stop.raise_if_asked()
        assert finished is not None
        reads = self._reads() if reads is None else reads
        graded, stats = grade(question, finished.answer), finished.stats
        passed = [outcome.passed for outcome in graded.outcomes]
        each = len(passed) // len(probe.reads)
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
            prompt_tokens=stats.prompt_tokens,
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
        )

    def _reads(self) -> tuple[ReadMeasure, ...]:
        """What the current step reads, as it stands now."""
        means: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for event in self._events:
            if isinstance(event, Focused):
                means.update(event.reads)
            elif isinstance(event, Recalled):
                means[event.segment], reasons[event.segment] = event.means, event.reason
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
            for read in self.session.stats.reads
            if read.step == 0
        )

    def _listen(self, event: Event) -> None:
        self._events.append(event)
        if self._stop.reason is not None:
            self.session.cancel()
