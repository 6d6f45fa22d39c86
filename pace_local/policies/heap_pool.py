"""A pool of fixed size that keeps the best tokens it was ever offered."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from types import MappingProxyType


class HeapPool:
    """Holds at most ``capacity`` tokens: those with the greatest scores, of equal ones the newer.

    A min-heap of (score, token index), so that the next to go is at the top. Pushing costs O(log capacity);
    removing marks an entry dead in O(1), and it is swept out when it reaches the top or when dead entries
    fill half of the heap, so that each is paid for by the push that brought it in.

    Args:
        capacity: most tokens held, 0 or more.
    """

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self.operations = 0
        """Heap operations so far, each of O(log capacity)."""
        self._heap: list[tuple[float, int]] = []
        self._scores: dict[int, float] = {}

    def __len__(self) -> int:
        """Number of tokens held."""
        return len(self._scores)

    def __contains__(self, index: object) -> bool:
        """Whether a token is held."""
        return index in self._scores

    @property
    def scores(self) -> Mapping[int, float]:
        """Token index to score of all that are held; read-only, follows changes."""
        return MappingProxyType(self._scores)

    def push(self, index: int, score: float) -> int | None:
        """Offer a token, or give one that is held a new score.

        Returns:
            The token that lost: the one offered, or the one that gave way; None if there was room.
        """
        self._scores.pop(index, None)
        if len(self._scores) < self.capacity:
            self._add(index, score)
            return None
        if not self.capacity:
            return index
        self._sweep_top()
        if (score, index) < self._heap[0]:
            return index
        self.operations += 1
        _, loser = heapq.heapreplace(self._heap, (score, index))
        del self._scores[loser]
        self._scores[index] = score
        return loser

    def remove(self, indices: Iterable[int]) -> None:
        """Forget tokens; those that are not held are passed over."""
        for index in indices:
            self._scores.pop(index, None)

    def resize(self, capacity: int) -> None:
        """Change the capacity; the lowest go if there are too many."""
        self.capacity = capacity
        while len(self._scores) > capacity:
            self._sweep_top()
            self.operations += 1
            del self._scores[heapq.heappop(self._heap)[1]]

    def _add(self, index: int, score: float) -> None:
        if len(self._heap) >= 2 * self.capacity:
            self._heap = [(held, i) for i, held in self._scores.items()]
            heapq.heapify(self._heap)
        self.operations += 1
        heapq.heappush(self._heap, (score, index))
        self._scores[index] = score

    def _sweep_top(self) -> None:
        while self._scores.get(self._heap[0][1]) != self._heap[0][0]:
            self.operations += 1
            heapq.heappop(self._heap)
