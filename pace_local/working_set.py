"""What is resident for the step at hand: brings back what is read, and reads in isolation.

What comes back takes its place in the order of token indices, and residents are renumbered compactly around
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_local._native import Block
from pace_local.config import SessionConfig
from pace_local.errors import NativeError
from pace_local.events import Event, Isolated, Means, ReadsOverBudget, Recalled
from pace_local.recall import Store
from pace_local.residents import BEHIND, NO_PIECE, Rows
from pace_local.saved_units import SavedRows, SavedUnits
from pace_local.segments import SegmentTable
from pace_local.session_cache import SessionCache


class WorkingSet(SavedUnits):
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
        super().__init__(cache, segments, config, store)
        self._emit = emit

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

    def _load(self, parts: Sequence[SavedRows]) -> None:
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

    def remove(self, segment: int) -> None:
        """Take a unit out of the cache."""
        self._cache.drop(self.resident_ranks(segment))

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


@dataclass
class _Aside:
    """What a reading in isolation set aside."""

    residents: int
    seconds: float
