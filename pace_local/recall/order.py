"""In which order blocks have to leave a tier: what is needed last goes first."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable

Key = tuple[float, int, int]

REFRESHED = 8
"""Blocks whose next use is asked again at each pick, whether or not they look like the next to go."""
MOST_TRIES = 32
"""Blocks that a pick finds needed sooner than it thought, before it takes the best that it has seen."""
_LEAST_HEAP = 64


class DropOrder:
    """Blocks of one tier, ordered by the farthest next use, then by the least recent use, then by id.

    How far the next use is changes with the plan, without a word to this class. So the order is kept
    approximately, at a cost that does not grow with the number of blocks (but for the heap's logarithm):

    - A heap holds each block with the key that it had when it was last looked at.
    - The block at the top is looked at again before it is taken. If it is needed sooner now, it goes back
      with its new key and the next one is tried, ``MOST_TRIES`` times at most.
    - A block that is needed later now would never come to the top by that. So each pick looks at
      ``REFRESHED`` further blocks, in turn; after a change of plan, as many picks as there are blocks divided
      by ``REFRESHED`` have put everything right. Up to ``REFRESHED`` blocks, the order is exact.

    Args:
        next_use: of a block's id, how many steps away it is needed; infinity if that is not known.
        last_used: of a block's id, a number that grows with each use of any block.
    """

    def __init__(self, next_use: Callable[[int], float], last_used: Callable[[int], int]) -> None:
        self._next_use = next_use
        self._last_used = last_used
        self._heap: list[Key] = []
        self._keys: OrderedDict[int, Key] = OrderedDict()
        """Each block's valid key, those looked at longest ago first; other keys in the heap are old."""

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self._keys)

    def __contains__(self, block: object) -> bool:
        """Whether a block is in this tier."""
        return block in self._keys

    def add(self, block: int) -> None:
        """Add a block, or look at it again."""
        self._put(block, self._key(block))

    def discard(self, block: int) -> None:
        """Take a block out, if it is there."""
        self._keys.pop(block, None)
        self._compact()

    def pick(self) -> int | None:
        """Take out the block that is needed last; None if there is none."""
        for _ in range(min(REFRESHED, len(self._keys))):
            block, old = self._keys.popitem(last=False)
            key = self._key(block)
            self._keys[block] = key
            if key != old:
                heapq.heappush(self._heap, key)
        tries = 0
        while self._keys:
            key = self._heap[0]
            block = key[2]
            if self._keys.get(block) != key:
                heapq.heappop(self._heap)
                continue
            now = self._key(block) if tries < MOST_TRIES else key
            if now <= key:
                heapq.heappop(self._heap)
                del self._keys[block]
                self._compact()
                return block
            tries += 1
            heapq.heapreplace(self._heap, now)
            self._keys[block] = now
        return None

    def _key(self, block: int) -> Key:
        steps = float(self._next_use(block))
        return (-math.inf if math.isnan(steps) else -steps), self._last_used(block), block

    def _put(self, block: int, key: Key) -> None:
        if self._keys.get(block) != key:
            heapq.heappush(self._heap, key)
        self._keys[block] = key
        self._keys.move_to_end(block)
        self._compact()

    def _compact(self) -> None:
        if len(self._heap) > _LEAST_HEAP + 2 * len(self._keys):
            self._heap = list(self._keys.values())
            heapq.heapify(self._heap)
