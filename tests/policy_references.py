"""Policies made the slow way, in plain Python from the papers' definitions: one token after the other.

Rows of attention are lists of weights, one a resident, one row a query. None of this knows of roles, pins
or floors: it says what a paper would keep of a plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


def sums(rows: Sequence[Sequence[float]], n: int) -> list[float]:
    """What each of ``n`` residents got from all rows together."""
    total = [0.0] * n
    for row in rows:
        for rank, weight in enumerate(row):
            total[rank] += weight
    return total


def streaming(n: int, sinks: int, budget: int) -> list[int]:
    """StreamingLLM: when one too many is cached, the oldest that is no sink goes."""
    cache: list[int] = []
    for token in range(n):
        cache.append(token)
        if len(cache) > budget:
            cache.remove(min(cached for cached in cache if cached >= sinks))
    return cache


def h2o(rows: Sequence[Sequence[float]], n: int, budget: int, recent: int) -> list[int]:
    """H2O: when one too many is cached, the least attended goes, of those that are not recent.

    Sums are taken as they stand at the end: an eviction here is one of many tokens at a time.
    """
    total = sums(rows, n)
    cache: list[int] = []
    for token in range(n):
        cache.append(token)
        if len(cache) > budget:
            candidates = cache[: len(cache) - recent]
            cache.remove(min(candidates, key=lambda cached: (total[cached], cached)))
    return cache


def snapkv(
    rows: Sequence[Sequence[float]],
    index: Sequence[int],
    *,
    after: int,
    budget: int,
    kernel: int,
    pooling: str,
) -> list[int]:
    """SnapKV: ranks kept; ``rows`` are the observation window's, over all that was resident then.

    Args:
        rows: one a token of the window; each over the prompt's residents, window included.
        index: place in the text of all residents; ``after`` more of them than a row is long.
        after: residents that came in after the prompt.
        budget: how many stay.
        kernel: width of the pooling.
        pooling: "max" or "mean".
    """
    n_before = len(index) - after - len(rows)
    votes = sums([row[:n_before] for row in rows], n_before)
    pooled = []
    for rank in range(n_before):
        seen = [votes[rank]]
        for step in (-1, 1):
            for away in range(1, kernel // 2 + 1):
                neighbour = rank + step * away
                if not 0 <= neighbour < n_before or index[neighbour] != index[rank] + step * away:
                    break
                seen.append(votes[neighbour])
        pooled.append(max(seen) if pooling == "max" else sum(seen) / len(seen))
    by_vote = sorted(range(n_before), key=lambda rank: (pooled[rank], rank), reverse=True)
    stays_first = list(reversed(range(n_before, len(index))))
    return sorted((stays_first + by_vote)[:budget])


@dataclass
class HybridReference:
    """The hybrid's pool over a session, as a sorted list."""

    window: int
    size: int
    sinks: int
    pool: list[tuple[float, int]] = field(default_factory=list)
    """Score and token index."""
    offered: set[int] = field(default_factory=set)
    """Tokens that had their chance, as far as none of them is in the window again."""

    @property
    def members(self) -> set[int]:
        return {index for _, index in self.pool}

    def evict(self, worth: dict[int, float], length: int, markers: set[int]) -> None:
        """Let in what has left the window, given the worth of every resident."""
        self.pool = [(score, index) for score, index in self.pool if index in worth]
        for index in sorted(worth):
            if self.sinks <= index < length - self.window and index not in self.offered:
                self.offered.add(index)
                if index not in markers:
                    ranked = sorted([*self.pool, (worth[index], index)], reverse=True)
                    self.pool = ranked[: self.size]

    def forget(self, first: int, last_length: int) -> None:
        """Tokens from an index on are withdrawn; the last eviction was at a length of ``last_length``."""
        self.pool = [(score, index) for score, index in self.pool if index < first - self.window]
        if first < last_length:
            self.offered = self.members

    def keep(self, residents: list[int], length: int, target: int, rest: bool) -> list[int]:
        """Sinks, window, pool, and the newest of the rest if they may stay."""
        by_worth = [index for _, index in sorted(self.pool, reverse=True)]
        order = [index for index in residents if index < self.sinks]
        order += [index for index in reversed(residents) if index >= length - self.window]
        order += by_worth
        order += list(reversed(residents)) if rest else []
        kept: list[int] = []
        for index in order:
            if index not in kept and len(kept) < target:
                kept.append(index)
        return sorted(kept)
