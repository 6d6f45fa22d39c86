"""The cache with its map: each operation that moves residents, and what the map then says of them."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pace_local._native import Block, NativeCache
from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.errors import CacheLostError, CancelledError, PaceError
from pace_local.events import Event, Rebuilt, Renumbered
from pace_local.model import Model
from pace_local.residents import CHANGED, NO_PIECE, NO_STAY, ResidentMap, Rows
from pace_local.segments import KINDS, Segment, SegmentTable
from pace_local.stats import Counters


class MappedCache:
    """The tokens of a session, which of them are resident and where; knows nothing of policies.

    Args:
        model: must stay open while this lives.
        config: budget, cap and types.
        segments: the session's.
        bounds_positions: whether residents are renumbered before positions reach the cap.
        emit: takes every event.
    """

    def __init__(
        self,
        model: Model,
        config: SessionConfig,
        segments: SegmentTable,
        *,
        bounds_positions: bool,
        emit: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._segments = segments
        self._emit = emit
        self.bounds_positions = bounds_positions
        self.engine = Engine(model, config)
        self.tokens = array("i")
        self.map = ResidentMap(self.engine.capabilities.n_cells)
        self.counters = Counters()
        self._marks = bytearray()
        """Of each token of the session: 1 if it is part of a name or constant."""
        self.before_leaving: list[Callable[[npt.NDArray[np.int64]], None]] = []
        """Each is called with the ranks of residents that are about to leave."""
        self.before_rebuild: list[Callable[[], None]] = []
        """Each is called when all residents are about to be decoded again."""

    @property
    def native(self) -> NativeCache:
        """The native operations of the open session."""
        assert self.engine.cache is not None
        return self.engine.cache

    def rows_of(self, token_index: npt.NDArray[np.int64], piece: int = NO_PIECE) -> Rows:
        """What the map would know of some tokens, shape [n], strictly increasing, in a saved piece."""
        n, first = len(token_index), 0
        segment, turn = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        framing, kind = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int8)
        while first < n:
            part = self._segments.at(int(token_index[first]))
            last = int(np.searchsorted(token_index, part.end))
            run = slice(first, last)
            segment[run], turn[run] = part.id, part.turn
            framing[run], kind[run] = part.kind == "framing", KINDS.index(part.kind)
            first = last
        marks = np.frombuffer(self._marks, dtype=np.bool_)[token_index]
        return Rows(
            token_index,
            segment,
            turn,
            framing,
            kind,
            marks,
            np.full(n, piece, dtype=np.int64),
            np.full(n, NO_STAY, dtype=np.int64),
        )

    def marks(self, start: int, end: int) -> npt.NDArray[np.bool_]:
        """Which tokens from one index to another are part of a name or constant, shape [end - start]."""
        return np.frombuffer(bytes(self._marks[start:end]), dtype=np.bool_)

    def take_marks(self, marks: npt.NDArray[np.bool_]) -> None:
        """Know again which tokens of the session are part of a name or constant, shape [session length]."""
        self._marks = bytearray(marks.tobytes())

    def mark_entities(self, segment: Segment, marks: npt.NDArray[np.bool_]) -> None:
        """Note which tokens of a segment are part of a name or constant, as far as they are resident."""
        ranks = np.flatnonzero(self.map.segment == segment.id)
        self.map.entity[ranks] = marks[self.map.token_index[ranks] - segment.start]
        self._marks[segment.start : segment.end] = marks.tobytes()

    def look_again(self) -> None:
        """Compute the logits behind the last resident as the cache is now; residents stay as they are.

        What was decoded last may have been another text, or may have seen other residents.
        """
        last = len(self.map) - 1
        token, position = self.tokens[int(self.map.token_index[last])], int(self.map.position[last])
        self.engine.look_again(token, position, int(self.map.position[last - 1]) if last else -1)

    def decode_again(self, token_index: npt.NDArray[np.int64], piece: int = NO_PIECE) -> None:
        """Decode tokens of the session again that are not resident, behind all that are.

        Meant for a cache in which no resident comes after them in the session.

        Args:
            token_index: shape [n], strictly increasing.
            piece: what the map is to say of where they are saved.
        """
        first = 0
        while first < len(token_index):
            # Micro-batches are cut as when the tokens were first read, so that the bits are the same.
            end = self._segments.at(int(token_index[first])).end
            last = min(int(np.searchsorted(token_index, end)), first + self.engine.n_batch)
            index, position, n = token_index[first:last], self.map.next_position, len(self.map)
            positions = np.arange(position, position + len(index), dtype=np.int32)
            try:
                self.engine.decode(np.frombuffer(self.tokens, dtype=np.int32)[index], position)
                self.map.insert(self.rows_of(index, piece), positions)
            except BaseException:
                self.map.truncate(n)
                self.engine.remove_from(position)
                raise
            first = last

    def complete(self, rows: Rows, positions: npt.NDArray[np.int32]) -> None:
        """Compute residents that are missing among those that were loaded, and all that come after them.

        Args:
            rows: what is missing, in the order of tokens.
            positions: where, shape [n], strictly increasing. If they do not follow on each other, residents
                get new ones, compactly.
        """
        behind = np.flatnonzero(self.map.position > positions[0])
        again, places = self.map.rows(behind), self.map.position[behind].copy()
        if len(behind):
            self.engine.remove_from(int(places[0]))
            self.map.truncate(int(behind[0]))
        index = np.union1d(rows.token_index, again.token_index)
        places = np.union1d(positions, places).astype(np.int32)
        if np.array_equal(places, self.map.next_position + np.arange(len(places))):
            # A text that was read in isolation sees its neighbours now, and what is behind sees another text.
            computed = self.rows_of(index)
            segments = [self._segments[segment] for segment in np.unique(computed.segment).tolist()]
            alone = [segment.turn for segment in segments if segment.isolated]
            mixed = np.cumsum(np.isin(computed.turn, alone)) > 0
            self.decode_again(index[~mixed])
            self.decode_again(index[mixed], CHANGED)
        else:
            self.map.insert(self.rows_of(index), places)
            self.rebuild(None)

    def announce(self, leaving: npt.NDArray[np.int64]) -> None:
        """Tell all who save what leaves, before it does."""
        for save in self.before_leaving if len(leaving) else ():
            save(leaving)

    def _retain(self, keep: npt.NDArray[np.uint32]) -> None:
        """Evict all but some ranks."""
        n, positions = len(self.map), self.map.position[keep]
        self.carry_out(lambda: self.native.retain(keep, n), lambda: self.map.keep(keep), positions)

    def carry_out(
        self, operation: Callable[[], object], note: Callable[[], None], positions: npt.NDArray[np.int32]
    ) -> None:
        """Run a native operation and note in the map what it did.

        An interrupt is raised as soon as the operation is over, before anything is noted. Whether it took
        place is seen then from where residents are.

        Args:
            operation: does all or nothing.
            note: makes the map what the cache is then.
            positions: of all residents then, shape [n].
        """
        try:
            operation()
        except PaceError:
            raise
        except BaseException:
            if np.array_equal(self.native.residents()["position"], positions):
                note()
            raise
        note()

    def drop(self, ranks: npt.NDArray[np.int64], *, saves: bool = True) -> None:
        """Take residents out of the cache without an event: they are about to come back otherwise.

        Args:
            ranks: of which, shape [n], strictly increasing.
            saves: whether those who save what leaves are told.
        """
        if len(ranks):
            if saves:
                self.announce(ranks)
            self._retain(np.delete(np.arange(len(self.map)), ranks).astype(np.uint32))

    def renumber(self, positions: npt.NDArray[np.int32]) -> None:
        """Give all residents new positions, shape [n], strictly increasing."""
        n, before = len(self.map), self.map.next_position
        if np.array_equal(positions, self.map.position):
            return
        began = time.perf_counter()
        self.place(positions)
        seconds = time.perf_counter() - began
        self.counters.renumberings += 1
        self.counters.renumbering_seconds += seconds
        self._emit(Renumbered(n, before, self.map.next_position, seconds))

    def move(self, keep: npt.NDArray[np.uint32], positions: npt.NDArray[np.int32]) -> None:
        """Keep residents of some ranks, at new positions; both strictly increasing, shape [n].

        If a device loses the cache meanwhile, those residents are decoded again first.
        """
        try:
            self._move(keep, positions)
        except CacheLostError as error:
            self.map.keep(keep)
            self.rebuild(str(error))
            if not np.array_equal(positions, self.map.position):
                self._move(np.arange(len(keep), dtype=np.uint32), positions)

    def _move(self, keep: npt.NDArray[np.uint32], positions: npt.NDArray[np.int32]) -> None:
        n = len(self.map)

        def note() -> None:
            self.map.keep(keep)
            self.map.place(positions)

        self.carry_out(lambda: self.native.place(keep, n, positions), note, positions)

    def place(self, positions: npt.NDArray[np.int32]) -> None:
        """As :meth:`move`, with all residents."""
        self.move(np.arange(len(self.map), dtype=np.uint32), positions)

    def tidy(self) -> None:
        """Bring the cells into the order of positions, without holes.

        Attention adds up in the order of cells, so that two caches with the same residents give the same bits
        only if these lie alike, and what comes next will. Cheap if nothing has to move.
        """
        self.place(self.map.position.copy())

    def load(
        self,
        block: Block,
        block_rows: npt.NDArray[np.uint32] | None,
        rows: Rows,
        positions: npt.NDArray[np.int32],
    ) -> None:
        """Load rows of a block at free positions; all arrays have shape [n], in the order of tokens.

        Args:
            block: saved from this session.
            block_rows: which of it; None: all.
            rows: what the map is to know of them.
            positions: strictly increasing.

        Raises:
            NativeError: as :meth:`~pace_local._native.NativeCache.load`; nothing has changed then.
        """
        n = len(self.map)
        self.carry_out(
            lambda: self.native.load(block, positions, n, self.engine.identity, block_rows),
            lambda: self.map.insert(rows, positions),
            np.union1d(self.map.position, positions).astype(np.int32),
        )

    def rebuild(self, reason: str | None) -> None:
        """Decode the residents again, compactly.

        Args:
            reason: what has happened, for the event; None: whoever calls tells it.
        """
        self.engine.remove_from(0)
        tokens = np.frombuffer(self.tokens, dtype=np.int32)[self.map.token_index]
        self.map.renumber()
        self.map.change()
        for prepare in self.before_rebuild:
            prepare()
        n, first, cancelled = len(self.map), 0, False
        while first < n:
            try:
                self.engine.decode(tokens[first : first + self.engine.n_batch], first)
            except CancelledError:
                # Stopping here would lose residents that the caller never asked to lose.
                cancelled = True
                self.engine.resume()
            except BaseException:
                self.map.truncate(first)
                self.engine.remove_from(first)
                raise
            else:
                first += self.engine.n_batch
        if cancelled:
            self.engine.cancel()
        if reason is not None:
            self._emit(Rebuilt(n, reason))

    def check(self) -> None:
        """Compare the map with the native cache and check every invariant.

        Raises:
            AssertionError: a fault of this package.
        """
        native, own = self.native.residents(), self.map
        assert len(native) == len(own), f"{len(native)} native residents, {len(own)} in the map"
        assert len(own) <= self._config.budget, f"{len(own)} residents over the budget"
        assert np.array_equal(native["position"], own.position), "positions differ"
        tokens = np.frombuffer(self.tokens, dtype=np.int32)[own.token_index] if len(own) else np.empty(0)
        assert np.array_equal(native["token"], tokens), "tokens differ"
        assert np.all(np.diff(own.position) > 0), "positions do not increase"
        assert np.all(np.diff(own.token_index) > 0), "token indices do not increase"
        if self.bounds_positions and len(own):
            assert own.position[-1] < self._config.position_cap, "a position reached the cap"
        assert len(np.unique(native["cell"])) == len(native), "two residents in one cell"
