"""The map from residents to token indices and positions, kept in step with the native cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import Attention, CacheView


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
        self._kind = np.zeros(capacity, dtype=np.int8)
        self._entity = np.zeros(capacity, dtype=np.bool_)
        self._prompt_mass = np.full(capacity, np.nan)
        self._columns: tuple[npt.NDArray[Any], ...] = (
            self._token_index,
            self._position,
            self._segment,
            self._turn,
            self._framing,
            self._kind,
            self._entity,
            self._prompt_mass,
        )

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

    @property
    def prompt_mass(self) -> npt.NDArray[np.float64]:
        """Attention mass from the end of the latest prompt, shape [n]; a view. NaN: not resident then."""
        return self._prompt_mass[: self._n]

    @property
    def entity(self) -> npt.NDArray[np.bool_]:
        """Whether a token is part of a name or constant, shape [n]; a view."""
        return self._entity[: self._n]

    def view(
        self,
        session_length: int,
        target: int,
        *,
        pinned: frozenset[int] = frozenset(),
        first_user: int | None = None,
        attention: Attention | None = None,
    ) -> CacheView:
        """What a policy sees."""
        n = self._n
        return CacheView(
            token_index=self._token_index[:n],
            segment=self._segment[:n],
            turn=self._turn[:n],
            framing=self._framing[:n],
            position=self._position[:n],
            kind=self._kind[:n],
            entity=self._entity[:n],
            session_length=session_length,
            target=target,
            pinned=pinned,
            first_user=first_user,
            attention=attention,
        )

    def append(
        self,
        count: int,
        first_index: int,
        *,
        segment: int,
        turn: int,
        framing: bool,
        kind: int,
        entity: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add ``count`` tokens behind all others, at the next positions; ``entity`` of None: none is."""
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
        self._kind[start:stop] = kind
        self._entity[start:stop] = False if entity is None else entity
        self._prompt_mass[start:stop] = np.nan
        self._n = stop

    def keep(self, ranks: npt.NDArray[np.uint32]) -> None:
        """Drop all but the given ranks, strictly increasing."""
        for column in self._columns:
            column[: len(ranks)] = column[ranks]
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
