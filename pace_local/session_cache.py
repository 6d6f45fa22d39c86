"""The cache of a session: decodes, evicts and renumbers, and keeps its map in step with the native side."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pace_local._native import Block, NativeCache
from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.errors import CacheLostError, CancelledError, ContextFullError, PaceError
from pace_local.events import Event, Evicted, ReadsOverBudget, Rebuilt, Renumbered
from pace_local.memory import KeepPlan, Read, plan_keep
from pace_local.merging import Merger
from pace_local.model import Model
from pace_local.observing import Observer
from pace_local.policies import CacheView, Observation, Policy
from pace_local.residents import CHANGED, NO_PIECE, NO_STAY, ResidentMap, Rows
from pace_local.segments import KINDS, Segment, SegmentTable
from pace_local.stats import Counters


@dataclass(frozen=True)
class Eviction:
    """One eviction: who was resident before it, and who stayed and why."""

    token_index: npt.NDArray[np.int64]
    """Residents before it, shape [n]."""

    plan: KeepPlan
    reads: tuple[Read, ...]
    """What the steps read then, nearest first."""

    session_length: int
    """Tokens of the session then."""

    position: npt.NDArray[np.int32]
    """Positions before it, shape [n]."""


class SessionCache:
    """All tokens of a session, and which of them are resident and where.

    Args:
        model: must stay open while this lives.
        config: budget, cap and types.
        policy: scores residents.
        segments: the session's; extended as tokens are decoded.
        reads: what the plan's steps read now, nearest step first.
        emit: takes every event.
    """

    def __init__(
        self,
        model: Model,
        config: SessionConfig,
        policy: Policy,
        segments: SegmentTable,
        *,
        reads: Callable[[], list[Read]],
        emit: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._policy = policy
        self._segments = segments
        self._reads = reads
        self._emit = emit
        self.engine = Engine(model, config)
        self.tokens = array("i")
        self.map = ResidentMap(self.engine.capabilities.n_cells)
        self.counters = Counters()
        asked = policy.observes or (Observation() if config.observe else None)
        self._observer: Observer | None = None
        if asked is not None and self.engine.cache is not None:
            self._observer = Observer(self.engine.cache, asked)
        self.merger: Merger | None = None
        if policy.merging is not None and self.engine.cache is not None:
            self.merger = Merger(self.engine.cache, self.engine.capabilities.n_layers, policy.merging)
        self.is_answering = False
        """Whether what is decoded is an answer; else it is part of a prompt."""
        self.last_eviction: Eviction | None = None
        self.since_eviction = 0
        """Tokens that were decoded since the last eviction."""
        self._marks = bytearray()
        """Of each token of the session: 1 if it is part of a name or constant."""
        self.before_leaving: list[Callable[[npt.NDArray[np.int64]], None]] = []
        """Each is called with the ranks of residents that are about to be evicted."""
        self.is_alone = False
        """Whether residents are set aside while a text is read in isolation: nothing is evicted then."""
        self.told: set[tuple[int, int, int]] = set()
        """Reads over the budget that were reported already: segment, step, tokens kept."""

    @property
    def bounds_positions(self) -> bool:
        """Whether residents are renumbered before positions reach the cap."""
        asked = self._config.bound_positions
        return self._policy.bounds_positions if asked is None else asked

    def withdraw(self, n_tokens: int) -> None:
        """Forget all tokens of the session but the first so many, and what the map does not know of yet."""
        rank = self.map.rank_of_index(n_tokens)
        self.map.truncate(rank)
        self.engine.remove_from(self.map.next_position)
        self._forget(n_tokens)
        del self.tokens[n_tokens:], self._marks[n_tokens:]

    def _forget(self, n_tokens: int) -> None:
        """Tokens from this index on are no more, and others will get their indices."""
        self._policy.forget(n_tokens)
        if self.merger is not None:
            self.merger.entries.forget(n_tokens)
        if self.last_eviction is not None and n_tokens < self.last_eviction.session_length:
            self.last_eviction = replace(self.last_eviction, session_length=n_tokens)

    def decode(
        self, tokens: Sequence[int], segment: Segment, entity: npt.NDArray[np.bool_] | None = None
    ) -> None:
        """Decode up to one micro-batch of a segment; residents are within the budget before and after.

        Args:
            tokens: the next of the session.
            segment: the last one, which they belong to.
            entity: which of them are part of a name or constant; None: none.
        """
        n, length = len(tokens), len(self.tokens)
        self._make_room(n)
        position = self.map.next_position
        try:
            self.engine.decode(tokens, position)
            self.map.append(
                n,
                length,
                segment=segment.id,
                turn=segment.turn,
                framing=segment.kind == "framing",
                kind=KINDS.index(segment.kind),
                entity=entity,
            )
            self.tokens.extend(tokens)
            self._marks.extend(bytes(n) if entity is None else entity.tobytes())
            self._segments.extend(segment.id, length + n)
            self.counters.highest_position = max(self.counters.highest_position, position + n - 1)
            if self._is_time_to_evict(n):
                self.evict()
        except BaseException:  # an interrupt too, which comes as soon as the tokens are in the cache
            self.withdraw(length)
            self._segments.extend(segment.id, length)
            raise
        if self._config.check:
            self.check()

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

    def marks(self, start: int, end: int) -> npt.NDArray[np.bool_]:
        """Which tokens from one index to another are part of a name or constant, shape [end - start]."""
        return np.frombuffer(bytes(self._marks[start:end]), dtype=np.bool_)

    def take_marks(self, marks: npt.NDArray[np.bool_]) -> None:
        """Know again which tokens of the session are part of a name or constant, shape [session length]."""
        self._marks = bytearray(marks.tobytes())

    def attention_state(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """What residents have received in all and from the latest prompt, shape [n]; None: not measured."""
        if self._observer is None:
            return None
        return self.native.attention("total"), self.map.prompt_mass.copy()

    def take_attention(self, total: npt.NDArray[np.float64], prompt: npt.NDArray[np.float64]) -> None:
        """Know again what :meth:`attention_state` said of the same residents."""
        self.native.write_attention(total)
        self.map.prompt_mass[:] = prompt

    def add_attention(
        self,
        token_index: npt.NDArray[np.int64],
        total: npt.NDArray[np.float64],
        prompt: npt.NDArray[np.float64],
    ) -> None:
        """Give residents back what they had received before they were set aside, shape [n] each."""
        ranks = np.searchsorted(self.map.token_index, token_index)
        now = self.native.attention("total")
        now[ranks] = total
        self.native.write_attention(now)
        self.map.prompt_mass[ranks] = prompt

    @property
    def is_observing(self) -> bool:
        """Whether attention is measured."""
        return self._observer is not None

    @property
    def sinks(self) -> int:
        """First tokens of the session that always stay."""
        return self._policy.sinks

    def _make_room(self, n: int) -> None:
        if len(self.map) + n > self._config.budget:
            self.require_evictions()
        if self.bounds_positions and self.map.next_position + n > self._config.position_cap:
            self.renumber(np.arange(len(self.map), dtype=np.int32))

    def require_evictions(self) -> None:
        """Refuse to go on with a full cache under a policy that evicts nothing.

        Raises:
            ContextFullError: with what to do.
        """
        if not self._policy.evicts:
            raise ContextFullError(
                f"policy 'none' evicts nothing and the budget of {self._config.budget} tokens is full; "
                "raise the budget or choose another policy"
            )

    def view(self) -> CacheView:
        """What a policy sees now; the arrays change with the cache."""
        attention = self._observer.attention(self.map) if self._observer is not None else None
        return self.map.view(
            len(self.tokens),
            self._config.soft_budget,
            pinned=self._segments.pinned,
            first_user=self._segments.first_user,
            attention=attention,
        )

    def begin_answer(self) -> None:
        """The prompt has been read to its end."""
        self.is_answering = True
        if self._observer is not None:
            self._observer.note_prompt(self.map)

    def mark_entities(self, segment: Segment, marks: npt.NDArray[np.bool_]) -> None:
        """Note which tokens of a segment are part of a name or constant, as far as they are resident."""
        ranks = np.flatnonzero(self.map.segment == segment.id)
        self.map.entity[ranks] = marks[self.map.token_index[ranks] - segment.start]
        self._marks[segment.start : segment.end] = marks.tobytes()

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

    def _is_time_to_evict(self, n: int) -> bool:
        """Whether to evict after ``n`` more tokens: over the budget, or over the target for long enough."""
        if self.is_alone:
            return False
        self.since_eviction += n
        if len(self.map) > self._config.budget:
            return True
        every = self._config.evict_every
        return (
            every is not None
            and self._policy.evicts
            and self.since_eviction >= every
            and len(self.map) > self._config.soft_budget
        )

    def evict(self, target: int | None = None) -> None:
        """Evict by policy, down to a target; None: the soft budget."""
        self.since_eviction = 0
        began = time.perf_counter()
        reads = self._reads()
        if self._observer is not None and not self.is_answering:
            self._observer.note_prompt(self.map)
        view = self.view() if target is None else replace(self.view(), target=target)
        plan = plan_keep(view, self._policy, recent=self._config.recent_tokens, reads=reads)
        planned = time.perf_counter() - began
        if self.merger is not None:
            self._merge(view, plan)
        self.leave_only(view, plan, tuple(reads), began, planned)

    def leave_only(
        self, view: CacheView, plan: KeepPlan, reads: tuple[Read, ...], began: float, planned: float
    ) -> None:
        """Evict all that a plan does not keep.

        Args:
            view: the residents that the plan was made from.
            plan: who stays.
            reads: what it was made for.
            began: when, by ``time.perf_counter``.
            planned: seconds that the planning took.
        """
        n = len(view)
        leaving = np.delete(np.arange(n), plan.keep)
        self.announce(leaving)
        eviction = Eviction(view.token_index.copy(), plan, reads, len(self.tokens), view.position.copy())
        ids, counts = np.unique(view.segment[leaving], return_counts=True)
        self._retain(plan.keep)
        if self.merger is not None:
            self.merger.entries.keep(eviction.token_index[plan.keep])
        self.last_eviction = eviction
        if self._policy.closes_gaps:
            try:
                self.engine.close_gaps(self.map.position)
            finally:
                self.map.place(self.native.residents()["position"])
        seconds = time.perf_counter() - began
        self.counters.evicted += len(leaving)
        self.counters.evictions += 1
        self.counters.planning_seconds += planned
        self.counters.eviction_seconds += seconds
        lost = {self._segments[int(i)].name: int(count) for i, count in zip(ids, counts, strict=True)}
        self._emit(Evicted(len(leaving), len(self.map), lost, seconds, planned))
        self._tell_partial_reads(plan)

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

    def _tell_partial_reads(self, plan: KeepPlan) -> None:
        for part in plan.over_budget:
            told = (part.segment, part.step, part.kept)
            if told not in self.told:
                self.told.add(told)
                self._emit(
                    ReadsOverBudget(part.step, self._segments[part.segment].name, part.kept, part.resident)
                )

    def _merge(self, view: CacheView, plan: KeepPlan) -> None:
        assert self.merger is not None
        try:
            self.merger.merge(view, plan)
        except CacheLostError as error:
            self.rebuild(str(error))
        finally:
            self.map.change()

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

    def announce(self, leaving: npt.NDArray[np.int64]) -> None:
        """Tell all who save what leaves, before it does."""
        for save in self.before_leaving if len(leaving) else ():
            save(leaving)

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

    @property
    def native(self) -> NativeCache:
        """The native operations of the open session."""
        assert self.engine.cache is not None
        return self.engine.cache

    def place(self, positions: npt.NDArray[np.int32]) -> None:
        """As :meth:`move`, with all residents."""
        self.move(np.arange(len(self.map), dtype=np.uint32), positions)

    def tidy(self) -> None:
        """Bring the cells into the order of positions, without holes.

        Attention adds up in the order of cells, so that two caches with the same residents give the same bits
        only if these lie alike, and what comes next will. Cheap if nothing has to move.
        """
        self.place(self.map.position.copy())

    def rebuild(self, reason: str | None) -> None:
        """Decode the residents again, compactly.

        Args:
            reason: what has happened, for the event; None: whoever calls tells it.
        """
        self.engine.remove_from(0)
        tokens = np.frombuffer(self.tokens, dtype=np.int32)[self.map.token_index]
        self.map.renumber()
        self.map.change()
        if self.merger is not None:
            self.merger.entries.clear()
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
