"""What is resident for the step at hand: saves what leaves, brings back what is read, reads in isolation.

A *unit* is a segment with the role markers of its turn: they are saved and brought back together. What comes
back takes its place in the order of token indices, and residents are renumbered compactly around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_local._native import Block
from pace_local.config import SessionConfig
from pace_local.errors import NativeError, StorageError
from pace_local.events import Event, Isolated, Means, ReadsOverBudget, Recalled
from pace_local.recall import Piece, Store
from pace_local.residents import BEHIND, CHANGED, NO_PIECE, Rows
from pace_local.segments import Segment, SegmentTable
from pace_local.session_cache import SessionCache

TokenIndex = npt.NDArray[np.int64]

_MIXED = -1
"""What segments are saved under that were isolated once and then decoded again among others; groups have
lower ids."""


@dataclass(frozen=True)
class _Part:
    """Rows of one saved piece that are to be loaded."""

    piece: int
    token_index: TokenIndex
    rows: npt.NDArray[np.uint32]
    block: Block


class WorkingSet:
    """Moves units between the cache and a store.

    Args:
        cache: the session's.
        segments: the session's.
        config: for the budget.
        store: where saved keys and values go.
        emit: takes every event.
    """

    def __init__(
        self,
        cache: SessionCache,
        segments: SegmentTable,
        config: SessionConfig,
        store: Store,
        emit: Callable[[Event], None],
    ) -> None:
        self._cache = cache
        self._segments = segments
        self._config = config
        self._emit = emit
        self.store = store
        self._groups: dict[tuple[int, ...], int] = {}
        self._group_of_piece: dict[int, int] = {}
        """Piece -> the id that its group is saved under."""
        self.kept: set[int] | None = None
        """Ids of pieces that the disk keeps for a session that lies there; None: the session does not."""
        self.saves_leaving = True
        """Whether what is evicted is saved first."""
        cache.before_leaving.append(self._save_leaving)

    # Units

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

    def _owner(self, turn_segment: Segment) -> int:
        """The segment of a turn that its role markers are saved with: the first that has content.

        Not reasoning, if there is an answer behind it: that one is what comes back.
        """
        content = [part for part in self._segments.of_turn(turn_segment) if part.kind != "framing"]
        lasting = [part for part in content if part.kind != "reasoning"]
        return next((part.id for part in (*lasting, *content)), turn_segment.id)

    def resident_ranks(self, segment_id: int) -> npt.NDArray[np.int64]:
        """Ranks of what is resident of a unit."""
        return np.flatnonzero(np.isin(self._cache.map.token_index, self.unit(segment_id)))

    # Saving

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

    def groups(self) -> list[list[int]]:
        """Segments that were saved as read together: the id that they are saved under, then theirs."""
        return [[owner, *group] for group, owner in self._groups.items() if self.store.pieces_of(owner)]

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
        self.kept = {piece for piece in ids.values() if piece >= 0}
        self._group_of_piece = {
            ids[piece]: owner
            for piece, owner in self._group_of_piece.items()
            if ids.get(piece, NO_PIECE) >= 0
        }
        self.store = store

    def sequences(self) -> frozenset[int]:
        """What segments are saved under as they are behind others."""
        return frozenset(self._groups.values())

    def forget_sequences_but(self, kept: frozenset[int]) -> None:
        """Forget what was read behind others, but what is saved under these ids."""
        for key, owner in list(self._groups.items()):
            if owner not in kept:
                del self._groups[key]
                self.store.drop(owner)

    def restore_groups(self, groups: Sequence[Sequence[int]]) -> None:
        """Know again what :meth:`groups` said."""
        self._groups = {tuple(group): owner for owner, *group in groups}
        for owner in (_MIXED, *self._groups.values()):
            self._group_of_piece.update((piece.id, owner) for piece in self.store.pieces_of(owner))

    # Bringing back

    def bring(self, reasons: Mapping[int, str]) -> list[int]:
        """Load what is missing of some segments, in this order while there is room, and tell what came.

        Args:
            reasons: segment -> why it is wanted, for the event.

        Returns:
            Those of which something was not saved or is gone. What does not fit is told as
            :class:`~pace_local.events.ReadsOverBudget`.
        """
        began = time.perf_counter()
        wanted = {s: tokens for s in reasons if (tokens := len(self.missing(s)))}
        fitting = self.fitting(list(wanted))
        self._make_room_for(fitting)
        lost, parts = [], []
        for segment in wanted:
            if segment not in fitting:
                self.tell_over_budget(segment)
                continue
            found = self._locate(segment, self.missing(segment))
            if found is None:
                lost.append(segment)
            else:
                parts += found
        self._load(parts)
        seconds = time.perf_counter() - began
        for segment, tokens in wanted.items():
            if segment in fitting and segment not in lost:
                name = self._segments[segment].name
                self._emit(Recalled(name, "spliced", reasons[segment], tokens, seconds))
        return lost

    def fitting(self, wanted: Sequence[int]) -> list[int]:
        """Which of some segments can be resident together beside what always is, in this order."""
        left = self._room()
        result = []
        for segment in wanted:
            size = len(self.unit(segment))
            if size <= left:
                result.append(segment)
                left -= size
        return result

    def tell_over_budget(self, segment: int) -> None:
        """Say that a read does not fit, unless that was said."""
        unit, resident = len(self.unit(segment)), len(self.resident_ranks(segment))
        if (segment, 0, resident) not in self._cache.told:
            self._cache.told.add((segment, 0, resident))
            self._emit(ReadsOverBudget(0, self._segments[segment].name, resident, unit))

    def _room(self) -> int:
        """Tokens that can be resident beside what always is, with room for the newest."""
        return self._config.soft_budget - self._config.recent_tokens - self._fixed()

    def _fixed(self) -> int:
        """Residents that no eviction takes: sinks, and pinned segments with their role markers."""
        residents = self._cache.map
        pinned = list(self._segments.pinned)
        turns = [self._segments[segment].turn for segment in pinned]
        stays = np.isin(residents.segment, pinned) | (residents.framing & np.isin(residents.turn, turns))
        return int(np.count_nonzero(stays | (residents.token_index < self._cache.sinks)))

    def _make_room_for(self, segments: Sequence[int]) -> None:
        """Evict until what is missing of some segments fits; an eviction may take more of them."""
        while True:
            needed = sum(len(self.missing(segment)) for segment in segments)
            length = len(self._cache.map)
            if length + needed <= self._config.budget:
                return
            self._make_room(needed)
            if len(self._cache.map) == length:
                return

    def _make_room(self, needed: int) -> None:
        """Evict by policy until so many tokens fit beside the residents.

        Raises:
            ContextFullError: if the policy evicts nothing.
        """
        if needed and len(self._cache.map) + needed > self._config.budget:
            self._cache.require_evictions()
            self._cache.evict(self._config.budget - needed)

    def _locate(self, owner: int, missing: TokenIndex) -> list[_Part] | None:
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
            parts.append(_Part(piece.id, left[found], rows, block))
            left = left[~found]
        return None if len(left) else parts

    def fetch(self, piece: Piece) -> Block | None:
        """The block of a piece, if it is right in every way and its tokens are the session's."""
        try:
            block = self.store.get(piece.id)
            held = self._cache.native.read_block(block, self._cache.engine.identity)
        except (StorageError, NativeError):
            return None
        tokens = np.frombuffer(self._cache.tokens, dtype=np.int32)[piece.token_index]
        return block if np.array_equal(held["token"][: len(tokens)], tokens) else None

    def _load(self, parts: Sequence[_Part]) -> None:
        """Open gaps in the order of token indices, compactly, and fill them."""
        if not parts:
            return
        residents = self._cache.map
        incoming = np.concatenate([part.token_index for part in parts])
        order = np.union1d(residents.token_index, incoming)
        self._cache.renumber(np.searchsorted(order, residents.token_index).astype(np.int32))
        for part in parts:
            positions = np.searchsorted(order, part.token_index).astype(np.int32)
            rows = self._cache.rows_of(part.token_index, part.piece)
            self._cache.load(part.block, part.rows, rows, positions)

    # Isolation

    def prefix(self) -> int:
        """Length of what every isolated text sees: the pinned turns at the start of the session, or sinks."""
        end = 0
        for segment in self._segments:
            if segment.kind == "framing":
                continue
            if not segment.pinned:
                break
            end = self._segments.of_turn(segment)[-1].end
        return end or min(self._cache.sinks, len(self._cache.tokens))

    def fits_alone(self, n_tokens: int) -> bool:
        """Whether a text of so many tokens, role markers included, can be read in isolation."""
        return n_tokens <= self._room()

    @contextmanager
    def alone(self, n_tokens: int) -> Iterator[_Aside]:
        """Set all residents but the pinned prefix aside while something is read, then bring them back.

        What is read inside comes at the positions and cells right behind the prefix, whatever else was
        resident, so that its keys and values are the same bits each time.

        Args:
            n_tokens: that will be read; room is made for them first.
        """
        began = time.perf_counter()
        self._make_room(n_tokens)
        residents, native = self._cache.map, self._cache.native
        prefix = residents.rank_of_index(self.prefix())
        ranks = np.arange(prefix, len(residents))
        block = None
        aside = residents.rows(ranks)
        positions = residents.position[ranks].copy()
        attention = self._cache.attention_state()
        result = _Aside(len(ranks), 0.0)
        self._cache.is_alone = True
        try:
            if len(ranks):
                block = native.save(ranks.astype(np.uint32), len(residents), self._cache.engine.identity)
                self._cache.drop(ranks, saves=False)
            result.seconds = time.perf_counter() - began
            yield result
        finally:
            self._cache.is_alone = False
            began = time.perf_counter()
            if block is not None and not np.isin(aside.token_index, residents.token_index).any():
                self._reunite(block, aside, positions, prefix)
                if attention is not None:
                    self._cache.add_attention(aside.token_index, *(part[ranks] for part in attention))
            result.seconds += time.perf_counter() - began

    def _reunite(self, block: Block, aside: Rows, positions: npt.NDArray[np.int32], prefix: int) -> None:
        """Bring back what was set aside; what was read meanwhile takes its place in the order of indices."""
        residents = self._cache.map
        fresh = residents.token_index[prefix:]
        behind = len(fresh) == 0 or fresh[0] > aside.token_index[-1]
        first = int(positions[-1]) + 1
        if behind and (not self._cache.bounds_positions or first + len(fresh) <= self._config.position_cap):
            own = np.arange(first, first + len(fresh), dtype=np.int32)
        else:
            order = np.union1d(fresh, aside.token_index)
            positions = (prefix + np.searchsorted(order, aside.token_index)).astype(np.int32)
            own = (prefix + np.searchsorted(order, fresh)).astype(np.int32)
        try:
            self._cache.place(np.concatenate([np.arange(prefix, dtype=np.int32), own]))
            self._cache.load(block, None, aside, positions)
        except NativeError as error:
            residents.insert(aside, positions)
            self._cache.rebuild(str(error))

    def recompute(self, segment: int, reason: str | None = None) -> None:
        """Compute keys and values of a segment again, in isolation; they replace what was saved.

        Args:
            segment: its id.
            reason: why, for the event; None: whoever calls tells it.
        """
        began = time.perf_counter()
        self.store.drop(segment)
        self._read_sequence({segment: segment})
        if reason is not None:
            name, tokens = self._segments[segment].name, len(self.unit(segment))
            self._emit(Recalled(name, "recomputed", reason, tokens, time.perf_counter() - began))

    def bring_sequence(self, segments: Sequence[int]) -> dict[int, Means]:
        """Make segments resident as if they had been read one after the other, in isolation from all else.

        Each is saved as it is behind those before it, which are part of what its keys and values say: the
        first as it is by itself. So of another sequence that begins alike only the rest has to be computed.

        Args:
            segments: any order; they are read in that of the session.

        Returns:
            By what means each came: kept, spliced, or together where it was computed now.

        Raises:
            CancelledError, NativeError: if that fails.
        """
        members = sorted(segments)
        owners = {s: self._owner_behind(tuple(members[:i]), s) for i, s in enumerate(members)}
        for segment, owner in owners.items():
            ranks = self.resident_ranks(segment)
            if len(ranks) and not self._is_held_by(owner, ranks):
                self._cache.drop(ranks)
        self._make_room_for(members)
        missing = {segment: self.missing(segment) for segment in members}
        found = {s: self._locate_standing(owner, missing[s]) for s, owner in owners.items()}
        if all(parts is not None for parts in found.values()):
            self._load([part for parts in found.values() if parts for part in parts])
            return {s: "spliced" if len(missing[s]) else "kept" for s in members}
        return self._read_sequence(owners)

    def _read_sequence(self, owners: Mapping[int, int]) -> dict[int, Means]:
        """Read segments in isolation, one behind the other; what was saved just so is loaded."""
        means: dict[int, Means] = {}
        units = {segment: self.unit(segment) for segment in owners}
        self._cache.drop(
            np.flatnonzero(np.isin(self._cache.map.token_index, np.concatenate(list(units.values()))))
        )
        with self.alone(sum(map(len, units.values()))) as aside:
            for segment, owner in owners.items():
                parts = self._locate_standing(owner, units[segment])
                if parts is not None:
                    self._load(parts)
                    means[segment] = "spliced"
                    continue
                try:
                    self._cache.decode_again(units[segment], NO_PIECE if owner == segment else BEHIND)
                except BaseException:
                    self._cache.drop(self.resident_ranks(segment), saves=False)  # half of it is of no use
                    raise
                self.store.drop(owner)
                self.save(self.resident_ranks(segment), owner)
                if owner == segment:
                    self._segments.set_isolated(segment, True)
                means[segment] = "together"
        for segment, how in means.items():
            if how == "together":
                name = self._segments[segment].name
                self._emit(Isolated(name, len(units[segment]), aside.residents, aside.seconds))
        return means

    def _owner_behind(self, before: tuple[int, ...], segment: int) -> int:
        """What a segment is saved under as it is behind others: ids of their own, below those of segments."""
        if not before:
            return segment
        return self._groups.setdefault((*before, segment), self._new_owner())

    def _locate_standing(self, owner: int, missing: TokenIndex) -> list[_Part] | None:
        """As :meth:`_locate`, without what was saved of a segment that was not read in isolation."""
        if owner >= 0 and len(missing) and not self._segments[owner].isolated:
            return None
        return self._locate(owner, missing)

    def _is_held_by(self, owner: int, ranks: npt.NDArray[np.int64]) -> bool:
        """Whether residents are as they were saved under an owner."""
        if owner >= 0:
            return self._segments[owner].isolated and self.is_own(owner)
        pieces = np.unique(self._cache.map.piece[ranks]).tolist()
        return all(self._group_of_piece.get(piece) == owner for piece in pieces)

    def forget_from(self, n_segments: int) -> None:
        """Segments from this id on are no more, nor is what was read together with them."""
        self._groups = {group: owner for group, owner in self._groups.items() if group[-1] < n_segments}

    def remove(self, segment: int) -> None:
        """Take a unit out of the cache."""
        self._cache.drop(self.resident_ranks(segment))

    def sequence_ids(self, segments: Sequence[int]) -> list[int]:
        """What is saved of segments as they are behind each other, if they were read so."""
        members = sorted(segments)
        keys = (tuple(members[: end + 1]) for end in range(1, len(members)))
        return [self._groups[key] for key in keys if key in self._groups]

    def _new_owner(self) -> int:
        return min(self._groups.values(), default=_MIXED) - 1


@dataclass
class _Aside:
    """What a reading in isolation set aside."""

    residents: int
    seconds: float
