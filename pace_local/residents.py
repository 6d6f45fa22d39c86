"""The map from residents to token indices and positions, kept in step with the native cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import CacheView


class ResidentMap:
    """Residents in position order, in arrays of a fixed capacity.

    Args:
        capacity: most residents that there can be, in tokens.
    """

    def __init__(self, capacity: int) -> None:
        self._n = 0
        self._token_index = np.zeros(capacity, dtype=np.int64)
        self._position = np.zeros(capacity, dtype=np.int32)
        self._segment = np.zeros(capacity, dtype=np.int32)
        self._turn = np.zeros(capacity, dtype=np.int32)
        self._framing = np.zeros(capacity, dtype=np.bool_)

    def __len__(self) -> int:
        """Number of residents."""
        return self._n

    @property
    def token_index(self) -> npt.NDArray[np.int64]:
        """Token indices, shape [n], strictly increasing; a view."""
        return self._token_index[: self._n]

    @property
    def position(self) -> npt.NDArray[np.int32]:
        """Positions, shape [n], strictly increasing; a view."""
        return self._position[: self._n]

    @property
    def segment(self) -> npt.NDArray[np.int32]:
        """Ids of segments, shape [n]; a view."""
        return self._segment[: self._n]

    @property
    def next_position(self) -> int:
        """Position of the next token: the greatest and one, or 0."""
        return int(self._position[self._n - 1]) + 1 if self._n else 0

    def view(self, session_length: int) -> CacheView:
        """What a policy sees."""
        n = self._n
        return CacheView(
            self._token_index[:n], self._segment[:n], self._turn[:n], self._framing[:n], session_length
        )

    def append(self, count: int, first_index: int, *, segment: int, turn: int, framing: bool) -> None:
        """Add ``count`` tokens behind all others, at the next positions."""
        start, stop, position = self._n, self._n + count, self.next_position
        if count == 1:
            self._token_index[start] = first_index
            self._position[start] = position
        else:
            self._token_index[start:stop] = np.arange(first_index, first_index + count)
            self._position[start:stop] = np.arange(position, position + count)
        self._segment[start:stop] = segment
        self._turn[start:stop] = turn
        self._framing[start:stop] = framing
        self._n = stop

    def keep(self, ranks: npt.NDArray[np.uint32]) -> None:
        """Drop all but the given ranks, strictly increasing."""
        for array in (self._token_index, self._position, self._segment, self._turn, self._framing):
            array[: len(ranks)] = array[ranks]
        self._n = len(ranks)

    def renumber(self) -> None:
        """Give residents the positions from 0 on."""
        self._position[: self._n] = np.arange(self._n)

    def rank_of_index(self, token_index: int) -> int:
        """How many residents come before a token index."""
        return int(np.searchsorted(self.token_index, token_index))

    def truncate(self, count: int) -> None:
        """Drop all but the first ``count``."""
        self._n = count
