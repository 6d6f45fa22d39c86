"""``policies``: what each retention policy costs in one session of 16,384 tokens, against keeping everything.

One session for each policy, and one under ``none`` with a budget that holds all, go through the same tokens
in turns: each reads a text and then writes an answer that is given to it, the same for all. They take turns
with every text, so that the state of the machine is the same for all, and the one that begins changes.

``latency_overhead.NAME`` is the time of the whole session against that under ``none``, as a share added; the
extremes are those of single turns. Keeping everything costs time too: attention to all of it.
``kv_ratio.NAME`` is the KV state as allocated, with references and what is measured of attention, against
that of ``none``. ``plan_ms.NAME`` is the median time to choose who stays, at one eviction from 2,048
residents; merging, which ``merge`` does besides, is in its latency alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from pace_local.bench.filler import Filler
from pace_local.bench.report import Row, median_row
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.events import Event, Evicted
from pace_local.model import Model
from pace_local.models import Say
from pace_local.plan import Plan, Step
from pace_local.policies import POLICIES
from pace_local.session import Session

PLAN_LIMIT = 2.0
BASELINE = "none"


@dataclass(frozen=True)
class PolicySizes:
    """Sizes in tokens."""

    session: int = 16_384
    text: int = 960
    """Read in each turn."""
    answer: int = 24
    """Written in each turn."""
    budget: int = 2048
    headroom: int = 512

    @property
    def turns(self) -> int:
        """Turns of the session."""
        return max(1, self.session // (self.text + self.answer))


@dataclass
class Contestant:
    """One session, what its turns took, and what its evictions did."""

    name: str
    session: Session
    seconds: list[float] = field(default_factory=list)
    planning: list[float] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Note what an eviction took. A listener of the session."""
        if isinstance(event, Evicted):
            self.planning.append(event.planning_seconds)

    def turn(self, text: str, answer: Sequence[int]) -> None:
        """Read a text, and write an answer."""
        began = perf_counter()
        self.session.append(text, kind="file")
        self.session.write(answer)
        self.seconds.append(perf_counter() - began)


def measure_policies(
    subject: Subject,
    *,
    threads: int | None,
    say: Say,
    sizes: PolicySizes | None = None,
    names: Sequence[str] = tuple(POLICIES),
) -> list[Row]:
    """Rows ``latency_overhead``, ``kv_ratio`` and ``plan_ms`` of each policy.

    Args:
        subject: the model.
        threads: None: the physical cores.
        say: takes lines of progress.
        sizes: None: the defaults.
        names: policies besides ``none``.
    """
    sizes = sizes or PolicySizes()
    with subject.loaded() as model:
        every: list[Contestant] = []
        try:
            for name in (BASELINE, *(name for name in names if name != BASELINE)):
                every.append(_contestant(model, name, sizes, threads))
            _run(model, every, sizes, say)
            return [row for one in every for row in _rows(one, every[0])]
        finally:
            for one in every:
                one.session.close()


def _contestant(model: Model, name: str, sizes: PolicySizes, threads: int | None) -> Contestant:
    budget = sizes.budget if name != BASELINE else sizes.session + 64 * (sizes.turns + 2)
    config = SessionConfig(
        policy=name,
        budget=budget,
        headroom=sizes.headroom,
        position_cap=max(8192, budget + sizes.headroom),
        threads=threads,
    )
    one = Contestant(name, None)  # type: ignore[arg-type]
    one.session = Session(model, config=config, listener=one.take)
    return one


def _run(model: Model, every: list[Contestant], sizes: PolicySizes, say: Say) -> None:
    filler, written = Filler(model), Filler(model, seed=1)
    fact = filler.take(sizes.text // 4)
    for one in every:
        one.session.append(fact, name="fact", kind="file")
        one.session.plan = Plan([Step("use the fact", reads=["fact"])])
    began = perf_counter()
    for number in range(sizes.turns):
        text = filler.take(sizes.text)
        answer = model.tokenize(written.take(sizes.answer))
        first = number % len(every)
        for one in every[first:] + every[:first]:
            one.turn(text, answer)
        left = (perf_counter() - began) / (number + 1) * (sizes.turns - number - 1)
        say(f"policies: turn {number + 1} of {sizes.turns}, {len(every)} sessions, {left:.0f} s left")


def _rows(one: Contestant, baseline: Contestant) -> list[Row]:
    turns = [ours / theirs - 1.0 for ours, theirs in zip(one.seconds, baseline.seconds, strict=True)]
    overhead = sum(one.seconds) / sum(baseline.seconds) - 1.0
    rows = [
        Row(f"latency_overhead.{one.name}", overhead, "share", "lower", len(turns), min(turns), max(turns)),
        median_row(f"kv_ratio.{one.name}", [_bytes(one) / _bytes(baseline)], "x", "lower"),
    ]
    if one.planning:
        milliseconds = [seconds * 1e3 for seconds in one.planning]
        rows.append(median_row(f"plan_ms.{one.name}", milliseconds, "ms", "lower", limit=PLAN_LIMIT))
    return rows


def _bytes(one: Contestant) -> int:
    assert one.session.engine.cache is not None
    held = one.session.engine.cache.bytes_held()
    return held.keys + held.values + held.references + held.attention
