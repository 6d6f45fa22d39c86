"""One session as plain data, the same for every policy: definitions first, other work, then probes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pace_local.errors import ConfigError
from pace_local.eval.filler import FillerTurn, filler_turns
from pace_local.eval.specification import Question, Specification, joint_question
from pace_local.segments import Kind

Part = Literal["system", "specification", "filler", "probe"]

SYSTEM_PROMPT = (
    "You are a careful programmer. You are given specifications and source files, and answer questions about "
    "them. When you are asked for code, you write short, plain Python without comments that does exactly "
    "what the specification says, and nothing else."
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
    """Names of the specifications that a probe needs."""

    question: Question | None = None
    """How a probe's answer is graded; None for all other entries."""


@dataclass(frozen=True)
class Trial:
    """A session's script."""

    seed: int
    specifications: tuple[Specification, ...]
    entries: tuple[Entry, ...]
    filler_tokens: int
    """Tokens of filler that it holds, without the marks of chat turns."""

    @property
    def probes(self) -> tuple[Entry, ...]:
        """The entries that are asked, in order."""
        return tuple(entry for entry in self.entries if entry.part == "probe")


def build_trial(
    specifications: Sequence[Specification],
    *,
    seed: int,
    filler_tokens: int,
    count: Callable[[str], int],
    reads: int = 1,
    between: int = 0,
    shuffle: bool = False,
    system: str = SYSTEM_PROMPT,
) -> Trial:
    """The script of one session.

    Args:
        specifications: told first, in this order.
        seed: of the filler, and of the order of probes.
        filler_tokens: the most tokens of other work between the last specification and the first probe; what
            fits is used up to the length of a short turn.
        count: gives the tokens of a text. The same function must count for every policy.
        reads: specifications that each probe needs. Every specification is asked for once; the last probe
            reads what is left.
        between: as ``filler_tokens``, between one probe and the next.
        shuffle: whether probes come in an order of the seed rather than that of the specifications.
        system: the first turn.

    Raises:
        ConfigError: without specifications, for two of one name, or a number out of range.
    """
    names = [specification.name for specification in specifications]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"specifications {names!r}: give at least one, each with a name of its own")
    if not 1 <= reads <= len(names):
        raise ConfigError(f"{reads} reads a probe are out of range; use 1 to {len(names)}")
    for what, tokens in (("filler tokens", filler_tokens), ("tokens between probes", between)):
        if tokens < 0:
            raise ConfigError(f"{what} {tokens} are out of range; use 0 or more")
    filler = _Filler(seed, count)
    entries = [Entry("system", "system", "system", system)]
    entries += [Entry("specification", each.name, "file", each.text) for each in specifications]
    entries += filler.take(filler_tokens)
    for number, question in enumerate(_questions(specifications, reads, seed if shuffle else None), 1):
        if number > 1:
            entries += filler.take(between)
        name = f"probe:{number}"
        entries.append(Entry("probe", name, "user", question.question, question.reads, question))
    return Trial(seed, tuple(specifications), tuple(entries), filler.taken)


def _questions(specifications: Sequence[Specification], reads: int, seed: int | None) -> Iterator[Question]:
    order = list(specifications)
    if seed is not None:
        random.Random(f"probes:{seed}").shuffle(order)
    for start in range(0, len(order), reads):
        together = order[start : start + reads]
        yield together[0] if len(together) == 1 else joint_question(together)


class _Filler:
    """Takes turns until a number of tokens is reached; never the same turn twice."""

    def __init__(self, seed: int, count: Callable[[str], int]) -> None:
        self.taken = 0
        self._turns = filler_turns(seed)
        self._count = count

    def take(self, tokens: int) -> Iterator[Entry]:
        left, refused = tokens, 0
        while left > 0 and refused < _TRIES:
            turn = next(self._turns)
            length = sum(map(self._count, (turn.text, turn.prompt, turn.answer)))
            if length > left:
                refused += 1
                continue
            refused = 0
            left -= length
            self.taken += length
            yield from _entries(turn)


def _entries(turn: FillerTurn) -> Iterator[Entry]:
    yield Entry("filler", turn.name, "file", turn.text)
    yield Entry("filler", f"{turn.name} question", "user", turn.prompt)
    yield Entry("filler", f"{turn.name} answer", "answer", turn.answer)
