"""One session as plain data, the same for every policy: documents first, other work, then probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pace_local.errors import ConfigError
from pace_local.eval.filler import FillerTurn, filler_turns
from pace_local.eval.specification import Question
from pace_local.eval.workload import Workload
from pace_local.segments import Kind

Part = Literal["system", "told", "filler", "probe"]

SYSTEM_PROMPT = (
    "You are a careful programmer. You are given specifications and source files, and answer questions about "
    "them. When you are asked for code, you write short, plain Python without comments that does exactly "
    "what the specification says, and nothing else."
)
TEXT_PROMPT = (
    "You are a careful assistant. You are given documents and source files, and answer questions about them. "
    "You answer with exactly what the documents say, in the form that is asked for, and nothing else."
)
_TRIES = 12
"""Filler turns that may be left out in a row because they are too long for what is left."""


@dataclass(frozen=True)
class Entry:
    """One chat turn to read, or, for a probe, to ask and have answered by the model."""

    part: Part
    name: str
    """Of the segment."""

    kind: Kind
    """Of the segment; a probe is a user's turn."""

    text: str
    reads: tuple[str, ...] = ()
    """Names of the documents that a probe needs."""

    question: Question | None = None
    """How a probe's answer is graded; None for all other entries."""


@dataclass(frozen=True)
class Trial:
    """A session's script."""

    seed: int
    workload: Workload
    told: tuple[Entry, ...]
    """The system prompt and the documents."""

    work: tuple[Entry, ...]
    """Other work before the first probe."""

    probes: tuple[Entry, ...]
    """What is asked, in order."""

    between: tuple[tuple[Entry, ...], ...]
    """Other work before each probe; none before the first."""

    filler_tokens: int
    """Tokens of all other work, without the marks of chat turns."""

    points: dict[int, int]
    """Gap -> how many entries of ``work`` come before the probes that are asked at it."""


def build_trial(
    workload: Workload,
    *,
    seed: int,
    count: Callable[[str], int],
    filler_tokens: int = 0,
    gaps: tuple[int, ...] = (),
    between: int = 0,
    system: str | None = None,
) -> Trial:
    """The script of one session.

    Args:
        workload: what it is about.
        seed: of the filler.
        count: gives the tokens of a text. The same function must count for every policy.
        filler_tokens: the most tokens of other work between the last document and the first probe; what fits
            is used up to the length of a short turn.
        gaps: instead, the least tokens of other work, at each of which the probes are asked. One session has
            them all, and its work does not depend on which gaps are asked for.
        between: as ``filler_tokens``, between one probe and the next.
        system: the first turn; None: one that fits the answers that are asked for.

    Raises:
        ConfigError: for a number out of range, or both kinds of length.
    """
    for what, tokens in (("filler tokens", filler_tokens), ("tokens between probes", between)):
        if tokens < 0:
            raise ConfigError(f"{what} {tokens} are out of range; use 0 or more")
    if gaps and (filler_tokens or between):
        raise ConfigError("a session with gaps has no other length; leave filler tokens and between at 0")
    filler = _Filler(seed, count)
    if system is None:
        writes_code = any(question.answers_with == "code" for question in workload.questions)
        system = SYSTEM_PROMPT if writes_code else TEXT_PROMPT
    told = [Entry("system", "system", "system", system)]
    told += [Entry("told", each.name, "file", each.text) for each in workload.told]
    work: list[Entry] = list(filler.take(filler_tokens))
    points = {}
    for gap in sorted(gaps):
        work += filler.reach(gap)
        points[gap] = len(work)
    probes, breaks = [], []
    for number, question in enumerate(workload.questions, 1):
        breaks.append(tuple(filler.take(between)) if number > 1 else ())
        name = f"probe:{number}"
        probes.append(Entry("probe", name, "user", question.question, question.reads, question))
    return Trial(seed, workload, tuple(told), tuple(work), tuple(probes), tuple(breaks), filler.taken, points)


class _Filler:
    """Takes turns until a number of tokens is reached; never the same turn twice."""

    def __init__(self, seed: int, count: Callable[[str], int]) -> None:
        self.taken = 0
        self._turns = filler_turns(seed)
        self._count = count

    def take(self, tokens: int) -> Iterator[Entry]:
        """At most so many tokens; turns that are too long for what is left are passed over."""
        left, refused = tokens, 0
        while left > 0 and refused < _TRIES:
            turn = next(self._turns)
            length = self._length(turn)
            if length > left:
                refused += 1
                continue
            refused = 0
            left -= length
            self.taken += length
            yield from _entries(turn)

    def reach(self, tokens: int) -> Iterator[Entry]:
        """Until at least so many tokens were taken in all."""
        while self.taken < tokens:
            turn = next(self._turns)
            self.taken += self._length(turn)
            yield from _entries(turn)

    def _length(self, turn: FillerTurn) -> int:
        return sum(map(self._count, (turn.text, turn.prompt, turn.answer)))


def _entries(turn: FillerTurn) -> Iterator[Entry]:
    yield Entry("filler", turn.name, "file", turn.text)
    yield Entry("filler", f"{turn.name} question", "user", turn.prompt)
    yield Entry("filler", f"{turn.name} answer", "answer", turn.answer)
