"""What is resident as text and why, what was evicted last and why, and what the policy's pool holds.

:func:`explain` takes everything from the session as it stands and from the record of its last eviction. It
changes nothing, and its time follows the residents and those evicted last, not the session.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pace_local.explain_lines import explanation_lines
from pace_local.memory import Read, Reason
from pace_local.segments import Segment, SegmentTable
from pace_local.wording import jsonable, number_words, score_words

if TYPE_CHECKING:
    from pace_local.session_cache import Eviction
    from pace_local.session_view import SessionView

_WORDS = {
    Reason.SINK: "sink",
    Reason.PINNED: "pinned",
    Reason.RECENT: "recent",
    Reason.FRAMING: "role marker",
}
_NEW = -1
"""In place of a reason: came in after the last eviction."""
_UNJUDGED = -2
"""In place of a reason: nothing was evicted yet."""


@dataclass(frozen=True)
class Part:
    """Residents that are neighbours in the session, in one segment, and kept for one reason."""

    segment: str
    kind: str
    first_index: int
    last_index: int
    """Token indices."""
    first_position: int
    last_position: int
    tokens: int
    stands_for: int
    """Tokens that its entries stand for in the layer where they are merged most; else as many as it has."""
    text: str
    """Where it begins or ends within a character, that character is a replacement character."""
    reason: str
    lowest_score: float | None
    highest_score: float | None
    """The policy's scores at the last eviction; None for what it has not judged."""


@dataclass(frozen=True)
class ResidentSegment:
    """A segment of which something is resident."""

    name: str
    kind: str
    pinned: bool
    tokens: int
    """Of the whole segment, resident or not."""
    parts: tuple[Part, ...]
    isolated: bool = False
    """Whether it was read seeing only the pinned prefix and itself."""
    arrived: str | None = None
    """How the step that reads it got it, and why so; None: it has been here since it was read."""

    @property
    def resident(self) -> int:
        """Tokens that are resident."""
        return sum(part.tokens for part in self.parts)

    @property
    def stands_for(self) -> int:
        """Tokens that they stand for, with those merged into them."""
        return sum(part.stands_for for part in self.parts)


@dataclass(frozen=True)
class EvictedSegment:
    """What a segment lost at the last eviction."""

    segment: str
    kind: str
    tokens: int
    text: str
    """Of the evicted tokens; ``…`` stands where some between them stayed or were gone before."""
    highest_score: float
    reason: str


@dataclass(frozen=True)
class PoolPart:
    """Neighbours in the session that the policy's pool holds."""

    segment: str
    first_index: int
    last_index: int
    text: str
    lowest_score: float
    highest_score: float


@dataclass(frozen=True)
class Explanation:
    """What a session holds, and why. Units are tokens."""

    policy: str
    parameters: dict[str, Any]
    budget: int
    soft_budget: int
    """What an eviction leaves, at most."""
    session_tokens: int
    residents: int
    next_position: int
    segments: tuple[ResidentSegment, ...]
    """In order of the session."""
    evicted_at: int | None
    """Length of the session at the last eviction; None before the first."""
    needed_score: float | None
    """Lowest score that something was kept for at the last eviction; None if nothing was."""
    evicted: tuple[EvictedSegment, ...]
    """By the last eviction."""
    pool: tuple[PoolPart, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts in order."""
        return tuple(part for segment in self.segments for part in segment.parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that it lacks (infinities) are None."""
        document: dict[str, Any] = jsonable(dataclasses.asdict(self))
        return document

    def lines(self, width: int = 100, full_text: bool = False) -> Iterator[str]:
        """For people.

        Args:
            width: columns of the longest line; below 80 counts as 80.
            full_text: whether long texts are shown whole, over several lines, instead of cut in the middle.
        """
        return explanation_lines(self, max(80, width), full_text)


def explain(session: SessionView) -> Explanation:
    """Say what a session holds and why; the session stays as it is."""
    residents, eviction = session.residents, session.last_eviction
    judged = Judged(eviction, residents.token_index, session.segments)
    evicted, needed = _evicted(session, eviction) if eviction else ((), None)
    return Explanation(
        policy=session.policy.name,
        parameters=session.policy.parameters(),
        budget=session.config.budget,
        soft_budget=session.config.soft_budget,
        session_tokens=session.session_length,
        residents=len(residents),
        next_position=session.next_position,
        segments=tuple(_segments(session, judged)),
        evicted_at=eviction.session_length if eviction else None,
        needed_score=needed,
        evicted=evicted,
        pool=tuple(_pool(session)),
    )


class Judged:
    """What the last eviction said about those who are resident now.

    Args:
        eviction: the last one; None: there was none.
        token_index: of the residents, shape [n].
        segments: of the session.
    """

    def __init__(
        self, eviction: Eviction | None, token_index: npt.NDArray[np.int64], segments: SegmentTable
    ) -> None:
        n = len(token_index)
        self.scores = np.full(n, np.nan)
        if eviction is None:
            self.reasons = np.full(n, _UNJUDGED, dtype=np.int64)
            self._steps: dict[int, str] = {}
            return
        self._steps = _step_words(eviction.reads, segments)
        self.reasons = np.full(n, _NEW, dtype=np.int64)
        kept = eviction.token_index[eviction.plan.keep]
        at = np.searchsorted(kept, token_index)
        known = (at < len(kept)) & (token_index < eviction.session_length)
        known[known] = kept[at[known]] == token_index[known]
        ranks = eviction.plan.keep[at[known]]
        self.reasons[known] = eviction.plan.reasons[ranks]
        self.scores[known] = eviction.plan.scores[ranks]

    def words(self, reason: int, segment: int, scores: npt.NDArray[np.float64]) -> str:
        """Why a part is kept, as words."""
        if reason == _UNJUDGED:
            return "everything fits"
        if reason == _NEW:
            return "new since the last eviction"
        if reason == Reason.READ:
            return self._steps[segment]
        if reason == Reason.SCORE:
            return score_words(float(scores.min()), float(scores.max()))
        return _WORDS[Reason(reason)]


def _step_words(reads: Sequence[Read], segments: SegmentTable) -> dict[int, str]:
    """By segment, who reads it: the user's prompt, or a step of the plan; for people steps count from 1."""
    words: dict[int, str] = {}
    for number, read in enumerate(reads):
        # What the user asked for last comes before all that the plan reads. It may be withdrawn by now.
        is_asked = number == read.step == 0 and read.segment < len(segments)
        is_asked = is_asked and segments[read.segment].kind == "user"
        words.setdefault(read.segment, "asked now" if is_asked else f"plan step {read.step + 1}")
    return words


def neighbours(*columns: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """First rank and end of each run of neighbours: the first column counts on, the others stay the same."""
    n = len(columns[0])
    if not n:
        return
    breaks = np.diff(columns[0]) != 1
    for column in columns[1:]:
        breaks |= np.diff(column) != 0
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), n]
    yield from itertools.pairwise(edges)


def _segments(session: SessionView, judged: Judged) -> Iterator[ResidentSegment]:
    residents = session.residents
    index, position, segment_ids = residents.token_index, residents.position, residents.segment
    merged = session.merged.largest() if session.merged is not None else {}
    parts: dict[int, list[Part]] = {}
    for first, end in neighbours(index, segment_ids, judged.reasons):
        segment = session.segments[int(segment_ids[first])]
        scores = judged.scores[first:end]
        is_judged = int(judged.reasons[first]) >= 0
        parts.setdefault(segment.id, []).append(
            Part(
                segment=segment.name,
                kind=segment.kind,
                first_index=int(index[first]),
                last_index=int(index[end - 1]),
                first_position=int(position[first]),
                last_position=int(position[end - 1]),
                tokens=end - first,
                stands_for=sum(merged.get(i, 1) for i in index[first:end].tolist())
                if merged
                else end - first,
                text=_text(session, segment, int(index[first]), int(index[end - 1]) + 1),
                reason=judged.words(int(judged.reasons[first]), segment.id, scores),
                lowest_score=float(scores.min()) if is_judged else None,
                highest_score=float(scores.max()) if is_judged else None,
            )
        )
    for segment_id, own in parts.items():
        segment = session.segments[segment_id]
        yield ResidentSegment(
            segment.name,
            segment.kind,
            segment.pinned,
            len(segment),
            tuple(own),
            segment.isolated,
            session.arrivals.get(segment.id),
        )


def _text(session: SessionView, segment: Segment, start: int, end: int) -> str:
    """Text of some tokens of a segment. Its cost follows these, not the whole segment."""
    return session.text_of(dataclasses.replace(segment, start=start, end=end))


def _evicted(session: SessionView, eviction: Eviction) -> tuple[tuple[EvictedSegment, ...], float | None]:
    """What the last eviction took, by segment, and the lowest score that it kept something for."""
    plan = eviction.plan
    by_score = plan.scores[plan.reasons == Reason.SCORE]
    needed = float(by_score.min()) if len(by_score) else None
    # What was withdrawn since is no part of the session any more.
    lost = (plan.reasons == Reason.EVICTED) & (
        eviction.token_index < min(eviction.session_length, session.session_length)
    )
    index, scores = eviction.token_index[lost], plan.scores[lost]
    gone: list[EvictedSegment] = []
    first = 0
    while first < len(index):
        segment = session.segments.at(int(index[first]))
        end = int(np.searchsorted(index, segment.end))
        texts = [
            _text(session, segment, int(index[first + a]), int(index[first + b - 1]) + 1)
            for a, b in neighbours(index[first:end])
        ]
        highest = float(scores[first:end].max())
        reason = _why_gone(segment, highest, needed)
        gone.append(EvictedSegment(segment.name, segment.kind, end - first, "…".join(texts), highest, reason))
        first = end
    return tuple(gone), needed


def _why_gone(segment: Segment, highest: float, needed: float | None) -> str:
    if segment.kind == "framing":
        return "role marker of a turn of which nothing stayed"
    if highest == -math.inf:
        return "the policy has no use for it"
    score = score_words(highest, highest)
    if needed is None:
        return f"{score}, and no room was left for what is kept by score"
    if highest < needed:
        return f"{score}, and {number_words(needed)} was needed"
    return f"{score}, and newer tokens with the same score had the room"


def _pool(session: SessionView) -> Iterator[PoolPart]:
    held = sorted((i, score) for i, score in session.policy.pool().items() if i < session.session_length)
    index = np.array([i for i, _ in held], dtype=np.int64)
    scores = np.array([score for _, score in held], dtype=np.float64)
    owner = np.array([session.segments.at(i).id for i, _ in held], dtype=np.int64)
    for first, end in neighbours(index, owner):
        segment = session.segments[int(owner[first])]
        start, last = int(index[first]), int(index[end - 1])
        yield PoolPart(
            segment=segment.name,
            first_index=start,
            last_index=last,
            text=_text(session, segment, start, last + 1),
            lowest_score=float(scores[first:end].min()),
            highest_score=float(scores[first:end].max()),
        )
