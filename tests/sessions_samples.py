"""Sessions played by hand, and their records; the plainest model of what a log must come to."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pace_local.plan import Plan, Step
from pace_local.segments import Segment
from pace_local.sessions import (
    Header,
    SessionState,
    StoredSegment,
    StoredSession,
    TurnRecord,
    encode_ranges,
    encode_runs,
)

HEADER = Header(
    pace_version="0.1.0",
    build={"llama_cpp": "0.3.36", "patch": "abc123"},
    model_name="tiny",
    model_path="/models/tiny.gguf",
    model_fingerprint="ab" * 32,
    config={"budget": 1024, "policy": "plan", "policy_options": {}},
    created="2026-01-31T12:00:00+00:00",
)


@dataclass
class Facts:
    """All that a session holds, in lists."""

    tokens: list[int] = field(default_factory=list)
    segments: list[StoredSegment] = field(default_factory=list)
    residents: list[tuple[int, int]] = field(default_factory=list)
    """Token index and position."""
    role: str | None = None
    prompt: int | None = None
    pending: list[int] = field(default_factory=list)
    n_turns: int = 0
    plan: Plan = field(default_factory=Plan)
    evicted: int = 0

    def copy(self) -> Facts:
        """As it is now."""
        return dataclasses.replace(
            self,
            tokens=[*self.tokens],
            segments=[*self.segments],
            residents=[*self.residents],
            pending=[*self.pending],
        )


class Story:
    """A session without a model: :meth:`step` does something at random and returns the record of it."""

    def __init__(self, seed: int = 0) -> None:
        self.facts = Facts()
        self._random = random.Random(seed)
        self._checkpoints = [self.facts.copy()]
        self._written = self.facts.copy()
        self._lowest = 0
        self._evictions: list[list[int]] = []
        self._n_names = 0

    def step(self) -> TurnRecord:
        for act in self._random.choices(
            [self.read, self.pin, self.evict, self.undo, self.read_nothing, self.plan],
            weights=[6, 2, 3, 2, 1, 1],
            k=self._random.randint(1, 3),
        ):
            act()
        return self.record()

    def read(self, count: int | None = None) -> None:
        """A turn: role markers, a text, and role markers."""
        facts = self.facts
        facts.n_turns += 1
        self._add(2, "framing")
        kind = self._random.choice(["user", "file", "answer"])
        self._add(self._random.randint(0, 40) if count is None else count, kind)
        facts.role = "assistant" if kind == "answer" else "user"
        facts.pending = [7, 8] if kind == "answer" else []
        if kind == "user":
            facts.prompt = len(facts.segments) - 1
        self._checkpoints.append(facts.copy())

    def read_nothing(self) -> None:
        self.read(0)

    def pin(self) -> None:
        if self.facts.segments:
            number = self._random.randrange(len(self.facts.segments))
            stored = self.facts.segments[number]
            values = {**vars(stored.segment), "pinned": not stored.segment.pinned}
            self.facts.segments[number] = StoredSegment(Segment(**values), stored.extra)

    def evict(self) -> None:
        facts = self.facts
        gone = {place for place in facts.residents if self._random.random() < 0.3}
        if gone:
            self._evictions.append(sorted(index for index, _ in gone))
            facts.evicted += len(gone)
            kept = [place for place in facts.residents if place not in gone]
            is_renumbered = self._random.random() < 0.5
            facts.residents = [(i, rank) for rank, (i, _) in enumerate(kept)] if is_renumbered else kept

    def undo(self) -> None:
        """Back to a checkpoint, which is somewhere before this."""
        facts = self._random.choice(self._checkpoints[-5:])
        self._checkpoints = [point for point in self._checkpoints if len(point.tokens) <= len(facts.tokens)]
        self._lowest = min(self._lowest, len(facts.tokens))
        self.facts = facts.copy()

    def plan(self) -> None:
        names = [stored.segment.name for stored in self.facts.segments]
        reads = self._random.sample(names, min(2, len(names)))
        self.facts.plan = Plan([Step("write it", reads, "Write it."), Step("and then")])

    def record(self) -> TurnRecord:
        """What has changed since the last record."""
        facts, before = self.facts, self._written
        record = TurnRecord(
            tokens=facts.tokens[self._lowest :],
            n_tokens=len(facts.tokens),
            segments=[
                stored
                for number, stored in enumerate(facts.segments)
                if stored.segment.end > self._lowest
                or number >= len(before.segments)
                or before.segments[number] != stored
            ],
            n_segments=len(facts.segments),
            role=facts.role,
            prompt=facts.prompt,
            pending=facts.pending,
            n_turns=facts.n_turns,
            plan=facts.plan,
            residents=encode_runs(*(zip(*facts.residents, strict=True) if facts.residents else ([], []))),
            counters={"evicted": facts.evicted, "prompt_seconds": facts.evicted / 3},
            policy_state={"seen": len(facts.tokens)},
            evictions=[encode_ranges(eviction) for eviction in self._evictions],
            events=[{"type": "progress", "done": 1, "total": 2, "text": "naïve \ud800"}],
        )
        self._written, self._lowest, self._evictions = facts.copy(), len(facts.tokens), []
        return record

    def _add(self, count: int, kind: str) -> None:
        facts, start = self.facts, len(self.facts.tokens)
        position = facts.residents[-1][1] + 1 if facts.residents else 0
        facts.tokens += [self._random.randrange(50_000) for _ in range(count)]
        facts.residents += [(start + number, position + number) for number in range(count)]
        self._n_names += 1
        segment = Segment(
            len(facts.segments),
            f"{kind}:{self._n_names}",
            kind,  # type: ignore[arg-type]
            start,
            start + count,
            facts.n_turns - 1,
        )
        facts.segments.append(StoredSegment(segment, {"n": self._n_names} if kind == "file" else {}))


def facts_of(state: SessionState) -> Facts:
    """What a state holds, for comparison."""
    return Facts(
        tokens=list(state.tokens),
        segments=list(state.segments),
        residents=[(first + i, place + i) for first, place, count in state.residents for i in range(count)],
        role=state.role,
        prompt=state.prompt,
        pending=list(state.pending),
        n_turns=state.n_turns,
        plan=state.plan,
        evicted=int(state.counters.get("evicted", 0)),
    )


def store(folder: Path, n_records: int = 5, seed: int = 0, **settings: Any) -> list[Facts]:
    """Store a session in a folder; returns what it held at first and after each record."""
    story, held = Story(seed), [Facts()]
    with StoredSession.create(folder, HEADER, **settings) as stored:
        for _ in range(n_records):
            stored.append(story.step())
            held.append(story.facts.copy())
    return held


def turn_record(**changes: Any) -> TurnRecord:
    """A first turn of one segment of three tokens."""
    values: dict[str, Any] = {
        "tokens": range(3),
        "n_tokens": 3,
        "segments": [StoredSegment(Segment(0, "user:0", "user", 0, 3, 0))],
        "n_segments": 1,
        "role": "user",
        "prompt": 0,
        "pending": [],
        "n_turns": 1,
    }
    return TurnRecord(**{**values, **changes})


@contextlib.contextmanager
def without_rights(path: Path) -> Iterator[None]:
    """While inside, this process may neither read nor write a file or folder, also if it runs as root."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)
