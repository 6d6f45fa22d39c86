"""The map from residents to token indices and positions, kept in step with the native cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import Attention, CacheView

NO_PIECE = -1
CHANGED = -2
"""As a piece: what is cached of the token is not what it was when it came in, and no piece holds it."""
BEHIND = -3
"""As a piece: the token was read again behind the other reads of a step, and no piece holds it."""
NO_STAY = -1


@dataclass(frozen=True)
class Rows:
    """What the map knows of some tokens, but for their positions; arrays of shape [n]."""

    token_index: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int32]
    turn: npt.NDArray[np.int32]
    framing: npt.NDArray[np.bool_]
    kind: npt.NDArray[np.int8]
    entity: npt.NDArray[np.bool_]
    piece: npt.NDArray[np.int64]
    """The saved piece that holds the token's keys and values as they are cached; ``NO_PIECE``: none."""
    stay: npt.NDArray[np.int64]
    """A number for each time that a token came into the cache; ``NO_STAY``: it is not there."""

    def take(self, ranks: npt.NDArray[np.int64]) -> Rows:
        """Some of them."""
        return Rows(*(column[ranks] for column in vars(self).values()))

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.token_index)


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
        self._piece = np.full(capacity, NO_PIECE, dtype=np.int64)
        self._stay = np.zeros(capacity, dtype=np.int64)
        self._next_stay = 0
        self._columns: tuple[npt.NDArray[Any], ...] = (
            self._token_index,
            self._position,
            self._segment,
            self._turn,
            self._framing,
            self._kind,
            self._entity,
            self._piece,
            self._stay,
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
    def piece(self) -> npt.NDArray[np.int64]:
        """The saved piece that holds each resident as it is cached, shape [n]; a view."""
        return self._piece[: self._n]

    @property
    def stay(self) -> npt.NDArray[np.int64]:
        """Number of each resident's stay in the cache, shape [n]; a view."""
        return self._stay[: self._n]

    @property
    def turn(self) -> npt.NDArray[np.int32]:
        """Numbers of chat turns, shape [n]; a view."""
        return self._turn[: self._n]

    @property
    def framing(self) -> npt.NDArray[np.bool_]:
        """Whether a token is a role marker, shape [n]; a view."""
        return self._framing[: self._n]

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
        self._piece[start:stop] = NO_PIECE
        self._stay[start:stop] = self._stays(count)
        self._n = stop

    def _stays(self, count: int) -> range:
        self._next_stay += count
        return range(self._next_stay - count, self._next_stay)

    def change(self) -> None:
        """What is cached of all residents has changed: no piece holds it, and their stays are new."""
        self.piece[:] = CHANGED
        self.stay[:] = self._stays(self._n)

    def rows(self, ranks: npt.NDArray[np.int64]) -> Rows:
        """A copy of what is known of some residents."""
        return Rows(
            self._token_index[ranks],
            self._segment[ranks],
            self._turn[ranks],
            self._framing[ranks],
            self._kind[ranks],
            self._entity[ranks],
            self._piece[ranks],
            self._stay[ranks],
        )

    def insert(self, rows: Rows, positions: npt.NDArray[np.int32]) -> None:
        """Add tokens in the order of their token indices, at given positions, shape [n]."""
        start, stop = self._n, self._n + len(rows)
        self._token_index[start:stop] = rows.token_index
        self._position[start:stop] = positions
        self._segment[start:stop] = rows.segment
        self._turn[start:stop] = rows.turn
        self._framing[start:stop] = rows.framing
        self._kind[start:stop] = rows.kind
        self._entity[start:stop] = rows.entity
        self._prompt_mass[start:stop] = np.nan
        self._piece[start:stop] = rows.piece
        is_new = rows.stay == NO_STAY
        self._stay[start:stop] = np.where(is_new, self._next_stay + np.cumsum(is_new) - 1, rows.stay)
        self._next_stay += int(np.count_nonzero(is_new))
        self._n = stop
        order = np.argsort(self._token_index[:stop], kind="stable")
        for column in self._columns:
            column[:stop] = column[order]

    def place(self, positions: npt.NDArray[np.int32]) -> None:
        """Give residents positions, shape [n], strictly increasing."""
        self._position[: self._n] = positions

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
