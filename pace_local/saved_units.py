"""What is saved of a session: its segments as they are by themselves, and as they are behind others.

A *unit* is a segment with the role markers of its turn: they are saved and brought back together.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_local._native import Block
from pace_local.config import SessionConfig
from pace_local.errors import NativeError, StorageError
from pace_local.recall import Piece, Store
from pace_local.residents import BEHIND, CHANGED, NO_PIECE
from pace_local.segments import Segment, SegmentTable
from pace_local.session_cache import SessionCache

TokenIndex = npt.NDArray[np.int64]

_MIXED = -1
"""What segments are saved under that were isolated once and then decoded again among others; groups have
lower ids."""


@dataclass(frozen=True)
class SavedRows:
    """Rows of one saved piece that are to be loaded."""

    piece: int
    token_index: TokenIndex
    rows: npt.NDArray[np.uint32]
    block: Block


class SavedUnits:
    """Saves units of a session in a store, what is about to be evicted among them, and finds them there.

    Args:
        cache: the session's.
        segments: the session's.
        config: the session's.
        store: where saved keys and values go.
    """

    def __init__(
        self, cache: SessionCache, segments: SegmentTable, config: SessionConfig, store: Store
    ) -> None:
        self._cache = cache
        self._segments = segments
        self._config = config
        self.store = store
        self._groups: dict[tuple[int, ...], int] = {}
        """Segments that were read one behind the other -> the id that the last is saved under."""
        self._lowest = _MIXED
        """The lowest id of a group so far. None is given again: residents of a forgotten one may have it."""
        self._group_of_piece: dict[int, int] = {}
        """Piece -> the id that its group is saved under."""
        self.kept: set[int] | None = None
        """Ids of pieces that the disk keeps for a session that lies there; None: the session does not."""
        self.saves_leaving = True
        """Whether what is evicted is saved first."""
        cache.before_leaving.append(self._save_leaving)

    def unit(self, segment_id: int) -> TokenIndex:
        """Token indices of a segment and the role markers of its turn.

        Reasoning has those of its turn only until there is an answer behind it, which has them then.
        """
        segment = self._segments[segment_id]
        if segment.kind == "reasoning" and self._owner(segment) != segment_id:
            return np.arange(segment.start, segment.end, dtype=np.int64)
        parts = [
            part for part in self._segments.of_turn(segment) if part.kind == "framing" or part is segment
        ]
        return np.concatenate([np.arange(part.start, part.end, dtype=np.int64) for part in parts])

    def missing(self, segment_id: int) -> TokenIndex:
        """Token indices of a unit that are not resident."""
        return np.setdiff1d(self.unit(segment_id), self._cache.map.token_index, assume_unique=True)

    def whole(self) -> set[int]:
        """Segments of which every token is resident."""
        ids, counts = np.unique(self._cache.map.segment, return_counts=True)
        return {int(i) for i, n in zip(ids, counts, strict=True) if n == len(self._segments[int(i)])}

    def resident_ranks(self, segment_id: int) -> npt.NDArray[np.int64]:
        """Ranks of what is resident of a unit."""
        return np.flatnonzero(np.isin(self._cache.map.token_index, self.unit(segment_id)))

    def _owner(self, turn_segment: Segment) -> int:
        """The segment of a turn that its role markers are saved with: the first that has content.

        Not reasoning, if there is an answer behind it: that one is what comes back.
        """
        content = [part for part in self._segments.of_turn(turn_segment) if part.kind != "framing"]
        lasting = [part for part in content if part.kind != "reasoning"]
        return next((part.id for part in (*lasting, *content)), turn_segment.id)

    def save(self, ranks: npt.NDArray[np.int64], owner: int) -> Piece:
        """Save residents as one piece of a segment."""
        residents = self._cache.map
        block = self._cache.native.save(ranks.astype(np.uint32), len(residents), self._cache.engine.identity)
        piece = self.store.put(owner, residents.token_index[ranks], block, keep=self.kept is not None)
        if self.kept is not None:
            self.kept.add(piece.id)
        if owner < 0:
            self._group_of_piece[piece.id] = owner
        if owner < 0 or piece.where != "gone":
            residents.piece[ranks] = piece.id
        return piece

    def _save_leaving(self, leaving: npt.NDArray[np.int64]) -> None:
        """Save every unit that is whole now and is about to lose tokens, unless it is saved already."""
        if not self.saves_leaving:
            return
        residents = self._cache.map
        for owner in self._owners(leaving[~self._is_saved(leaving)]):
            if owner < 0:  # of what was read together: it can be again
                continue
            ranks = self.resident_ranks(owner)
            ranks = ranks[~self._is_saved(ranks)]
            is_whole = np.count_nonzero(residents.segment == owner) == len(self._segments[owner])
            if len(ranks) and (is_whole or self._config.save_parts or len(self.store.pieces_of(owner))):
                with suppress(NativeError, MemoryError):  # then its text is left
                    self.save(ranks, owner)

    def _owners(self, ranks: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[np.int64]]:
        """Residents by the segment, or the group, that they are saved with."""
        residents = self._cache.map
        owners = np.array(
            [self._group_of_piece.get(piece, 0) for piece in residents.piece[ranks].tolist()], dtype=np.int64
        )
        for segment_id in np.unique(residents.segment[ranks[owners == 0]]).tolist():
            segment = self._segments[segment_id]
            owner = self._owner(segment) if segment.kind == "framing" else segment_id
            own = (owners == 0) & (residents.segment[ranks] == segment_id)
            owners[own] = owner
            owners[own & (residents.piece[ranks] == BEHIND)] = _MIXED
            if self._segments[owner].isolated:
                # Read again after a device had failed: among others, and no more what it was.
                owners[own & (residents.piece[ranks] == CHANGED)] = _MIXED
        return {int(owner): ranks[owners == owner] for owner in np.unique(owners)}

    def _is_saved(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether residents are in a piece that the store still has, shape [n]."""
        pieces = self._cache.map.piece[ranks]
        lost = [piece for piece in np.unique(pieces).tolist() if piece < 0 or not self._has(piece)]
        return ~np.isin(pieces, lost)

    def _has(self, piece: int) -> bool:
        try:
            self.store.piece(piece)
        except StorageError:
            return False
        return True

    def unsaved(self) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Residents that no piece holds, as the segment to save them with and their ranks."""
        ranks = np.arange(len(self._cache.map))
        return list(self._owners(ranks[~self._is_saved(ranks)]).items())

    def is_own(self, segment: int) -> bool:
        """Whether what is resident of a segment is as it was when it was read by itself."""
        pieces = np.unique(self._cache.map.piece[self.resident_ranks(segment)]).tolist()
        strange = {BEHIND, CHANGED} if self._segments[segment].isolated else {BEHIND}
        return not any(piece in self._group_of_piece or piece in strange for piece in pieces)

    def _locate(self, owner: int, missing: TokenIndex) -> list[SavedRows] | None:
        """Pieces that hold all of these tokens, newest first; None if there are none."""
        parts, left = [], missing
        for piece in reversed(self.store.pieces_of(owner)):
            found = np.isin(left, piece.token_index, assume_unique=True)
            if not found.any():
                continue
            block = self.fetch(piece)
            if block is None:
                continue
            rows = np.searchsorted(piece.token_index, left[found]).astype(np.uint32)
            parts.append(SavedRows(piece.id, left[found], rows, block))
            left = left[~found]
        return None if len(left) else parts

    def _locate_standing(self, owner: int, missing: TokenIndex) -> list[SavedRows] | None:
        """As :meth:`_locate`, without what was saved of a segment that was not read in isolation."""
        if owner >= 0 and len(missing) and not self._segments[owner].isolated:
            return None
        return self._locate(owner, missing)

    def fetch(self, piece: Piece) -> Block | None:
        """The block of a piece, if it is right in every way and its tokens are the session's."""
        try:
            block = self.store.get(piece.id)
            held = self._cache.native.read_block(block, self._cache.engine.identity)
        except (StorageError, NativeError):
            return None
        tokens = np.frombuffer(self._cache.tokens, dtype=np.int32)[piece.token_index]
        return block if np.array_equal(held["token"][: len(tokens)], tokens) else None

    def _is_held_by(self, owner: int, ranks: npt.NDArray[np.int64]) -> bool:
        """Whether residents are as they were saved under an owner."""
        if owner >= 0:
            return self._segments[owner].isolated and self.is_own(owner)
        pieces = np.unique(self._cache.map.piece[ranks]).tolist()
        return all(self._group_of_piece.get(piece) == owner for piece in pieces)

    def _owner_behind(self, before: tuple[int, ...], segment: int) -> int:
        """What a segment is saved under as it is behind others: ids of their own, below those of segments."""
        if not before:
            return segment
        group = (*before, segment)
        if group not in self._groups:
            self._lowest -= 1
            self._groups[group] = self._lowest
        return self._groups[group]

    def sequence_ids(self, segments: Sequence[int]) -> list[int]:
        """What is saved of segments as they are behind each other, if they were read so."""
        members = sorted(segments)
        keys = (tuple(members[: end + 1]) for end in range(1, len(members)))
        return [self._groups[key] for key in keys if key in self._groups]

    def groups(self) -> list[list[int]]:
        """Segments that were saved as read together: the id that they are saved under, then theirs.

        Those of which nothing is left, here or in the cache, are forgotten.
        """
        saved = self.store.segments()
        resident = {self._group_of_piece.get(piece) for piece in np.unique(self._cache.map.piece).tolist()}
        self._groups = {
            group: owner for group, owner in self._groups.items() if owner in saved or owner in resident
        }
        return [[owner, *group] for group, owner in self._groups.items() if owner in saved]

    def restore_groups(self, groups: Sequence[Sequence[int]]) -> None:
        """Know again what :meth:`groups` said.

        The store may also hold pieces of groups that a killed process had not written down: no other group
        may take them for its own.
        """
        self._groups = {tuple(group): owner for owner, *group in groups}
        self._group_of_piece = {piece.id: piece.segment for piece in self.store.pieces() if piece.segment < 0}
        self._lowest = min((_MIXED, *self._groups.values(), *self._group_of_piece.values()))

    def sequences(self) -> frozenset[int]:
        """What segments are saved under as they are behind others."""
        return frozenset(self._groups.values())

    def forget_sequences_but(self, kept: frozenset[int]) -> None:
        """Forget what was read behind others, but what is saved under these ids."""
        for key, owner in list(self._groups.items()):
            if owner not in kept:
                del self._groups[key]
                self.store.drop(owner)

    def forget_from(self, n_segments: int) -> None:
        """Segments from this id on are no more, nor is what was read together with them."""
        self._groups = {group: owner for group, owner in self._groups.items() if group[-1] < n_segments}

    def move_to(self, store: Store) -> None:
        """Have all that is saved in another store, which is empty and on the disk, under new ids."""
        ids: dict[int, int] = {}
        for piece in self.store.pieces():
            with suppress(StorageError):  # lost meanwhile
                block = self.store.get(piece.id)
                ids[piece.id] = store.put(piece.segment, piece.token_index, block, keep=True).id
        held = self._cache.map.piece
        for piece in np.unique(held[held >= 0]).tolist():
            ids.setdefault(piece, BEHIND if piece in self._group_of_piece else NO_PIECE)
        held[:] = [ids.get(piece, piece) for piece in held.tolist()]
        self._group_of_piece = {
            ids[piece]: owner
            for piece, owner in self._group_of_piece.items()
            if ids.get(piece, NO_PIECE) >= 0
        }
        self.store = store
