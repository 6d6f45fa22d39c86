"""An explanation as lines for people, in 80 columns or more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pace_local.wording import columns, cut_middle, cut_start, in_one_line, score_words, wrapped

if TYPE_CHECKING:
    from pace_local.explain import EvictedSegment, Explanation, Part, PoolPart, ResidentSegment

_GAP = "…"
"""Between texts that are not neighbours."""
_TEXT_COLUMN = 39
"""Where texts start, behind the longest reason but long ranges of scores."""
_LEAST_ROOM = 36
"""Columns that a text needs to be shown behind its reason."""


def explanation_lines(told: Explanation, width: int, full_text: bool) -> Iterator[str]:
    """What is resident by segment, what the last eviction took, and the pool."""
    yield from wrapped(
        f"{told.residents:,} of {told.session_tokens:,} tokens are resident; policy {told.policy}, budget "
        f"{told.budget:,}, next position {told.next_position:,}",
        width,
    )
    markers = 0
    for segment in told.segments:
        if _is_marker(segment):
            markers += segment.resident
            continue
        yield ""
        yield _title(segment, width)
        if segment.arrived is not None:
            yield from wrapped(f"  {segment.arrived}", width)
        yield from _rows(segment.parts, width, full_text)
    if markers:
        yield ""
        yield f"role markers of these turns: {markers:,} tokens"
    yield ""
    if told.evicted_at is None:
        yield "nothing was evicted yet"
    else:
        tokens = sum(gone.tokens for gone in told.evicted)
        yield f"evicted last, at {told.evicted_at:,} tokens of session: {tokens:,} tokens"
        for gone in told.evicted:
            yield from _gone_lines(gone, width, full_text)
    if told.pool:
        yield ""
        yield f"pool: {sum(held.last_index - held.first_index + 1 for held in told.pool):,} tokens"
        for held in told.pool:
            yield from _pool_lines(held, width, full_text)


def _is_marker(segment: ResidentSegment) -> bool:
    """Whether a segment is there for the sake of others alone; the first ones are sinks."""
    return segment.kind == "framing" and all(part.reason != "sink" for part in segment.parts)


def _title(segment: ResidentSegment, width: int) -> str:
    first, last = segment.parts[0].first_position, segment.parts[-1].last_position
    figures = (
        f" · {segment.kind}{' · pinned' * segment.pinned}{' · isolated' * segment.isolated}"
        f" · {segment.resident:,} of {segment.tokens:,} tokens"
        f"{f', which stand for {segment.stands_for:,}' * (segment.stands_for > segment.resident)}"
        f" · positions {first:,}–{last:,}"
    )
    return cut_start(segment.name, width - len(figures)) + figures


def _rows(parts: Sequence[Part], width: int, full_text: bool) -> Iterator[str]:
    """A row for all parts in a row that are kept for the same reason, whatever their scores."""
    for _, group in itertools.groupby(parts, lambda part: "score" if _is_scored(part) else part.reason):
        same = list(group)
        reason = same[0].reason
        if _is_scored(same[0]):
            lows = [part.lowest_score for part in same if part.lowest_score is not None]
            highs = [part.highest_score for part in same if part.highest_score is not None]
            reason = score_words(min(lows), max(highs))
        tokens = sum(part.tokens for part in same)
        yield from _entry(tokens, reason, _joined(same), width, full_text)


def _is_scored(part: Part) -> bool:
    return part.reason.startswith("score ")


def _joined(parts: Sequence[Part]) -> str:
    texts = [parts[0].text]
    for before, part in itertools.pairwise(parts):
        texts += [_GAP] * (part.first_index != before.last_index + 1) + [part.text]
    return "".join(texts)


def _gone_lines(gone: EvictedSegment, width: int, full_text: bool) -> Iterator[str]:
    reason = f": {gone.reason}"
    label = f"  {gone.tokens:>6,}  "
    room = width - len(label) - len(reason)
    if room < 9:  # as much as a name needs
        yield label + cut_start(gone.segment, width - len(label) - 1) + ":"
        yield from (" " * len(label) + line for line in wrapped(gone.reason, width - len(label)))
    else:
        yield label + cut_start(gone.segment, room) + reason
    if gone.kind != "framing":
        yield from _text_lines(gone.text, " " * len(label), width, full_text)


def _pool_lines(held: PoolPart, width: int, full_text: bool) -> Iterator[str]:
    label = f"{score_words(held.lowest_score, held.highest_score)}, {cut_start(held.segment, 24)}"
    yield from _entry(held.last_index - held.first_index + 1, label, held.text, width, full_text)


def _entry(tokens: int, label: str, text: str, width: int, full_text: bool) -> Iterator[str]:
    """Tokens, a label, and a text behind it, or below it if there is too little room."""
    head = f"  {tokens:>6,}  {label}"
    padded = head + " " * max(0, _TEXT_COLUMN - 2 - columns(head)) + "  "
    if full_text or width - columns(padded) - 2 < _LEAST_ROOM:
        yield from wrapped(head, width)
        yield from _text_lines(text, " " * 10, width, full_text)
    else:
        yield from _text_lines(text, padded, width, full_text)


def _text_lines(text: str, indent: str, width: int, full_text: bool) -> Iterator[str]:
    """A text behind what is its indentation: cut in the middle, or whole over several lines."""
    if full_text:
        yield from (f"{indent}│ {line}" for line in wrapped(text, width - len(indent) - 2))
    else:
        yield f"{indent}“{cut_middle(in_one_line(text), width - columns(indent) - 2)}”"
