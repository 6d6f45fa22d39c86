"""The cache of a session: decodes, evicts and renumbers, and keeps its map in step with the native side."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.errors import CacheLostError, CancelledError, ContextFullError, NativeError, PaceError
from pace_local.events import Event, Evicted, ReadsOverBudget, Rebuilt, Renumbered
from pace_local.memory import KeepPlan, Read, plan_keep
from pace_local.merging import Merger
from pace_local.model import Model
from pace_local.observing import Observer
from pace_local.policies import CacheView, Observation, Policy
from pace_local.residents import ResidentMap
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
        self._since_eviction = 0
        self.told: set[tuple[int, int, int]] = set()
        """Reads over the budget that were reported already: segment, step, tokens kept."""

    @property
    def bounds_positions(self) -> bool:
        """Whether residents are renumbered before positions reach the cap."""
        asked = self._config.bound_positions
        return self._policy.bounds_positions if asked is None else asked

    def withdraw(self, n_tokens: int) -> None:
        """Forget all tokens of the session but the first so many."""
        rank = self.map.rank_of_index(n_tokens)
        if rank < len(self.map):
            self.engine.remove_from(int(self.map.position[rank]))
            self.map.truncate(rank)
        self._forget(n_tokens)
        del self.tokens[n_tokens:]

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
        n = len(tokens)
        self._make_room(n)
        position = self.map.next_position
        self.engine.decode(tokens, position)
        self.map.append(
            n,
            len(self.tokens),
            segment=segment.id,
            turn=segment.turn,
            framing=segment.kind == "framing",
            kind=KINDS.index(segment.kind),
            entity=entity,
        )
        self.tokens.extend(tokens)
        self._segments.extend(segment.id, len(self.tokens))
        self.counters.highest_position = max(self.counters.highest_position, position + n - 1)
        if self._is_time_to_evict(n):
            try:
                self._evict()
            except NativeError:
                self.withdraw(len(self.tokens) - n)
                self._segments.extend(segment.id, len(self.tokens))
                raise
        if self._config.check:
            self.check()

    def _make_room(self, n: int) -> None:
        if not self._policy.evicts and len(self.map) + n > self._config.budget:
            raise ContextFullError(
                f"policy 'none' evicts nothing and the budget of {self._config.budget} tokens is full; "
                "raise the budget or choose another policy"
            )
        if self.bounds_positions and self.map.next_position + n > self._config.position_cap:
            self._renumber()

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

    def _is_time_to_evict(self, n: int) -> bool:
        """Whether to evict after ``n`` more tokens: over the budget, or over the target for long enough."""
        self._since_eviction += n
        if len(self.map) > self._config.budget:
            return True
        every = self._config.evict_every
        return (
            every is not None
            and self._policy.evicts
            and self._since_eviction >= every
            and len(self.map) > self._config.soft_budget
        )

    def _evict(self) -> None:
        self._since_eviction = 0
        began = time.perf_counter()
        n, reads = len(self.map), self._reads()
        if self._observer is not None and not self.is_answering:
            self._observer.note_prompt(self.map)
        view = self.view()
        plan = plan_keep(view, self._policy, recent=self._config.recent_tokens, reads=reads)
        planned = time.perf_counter() - began
        assert self.engine.cache is not None
        if self.merger is not None:
            self._merge(view, plan)
        self.engine.cache.retain(plan.keep, n)
        if self.merger is not None:
            self.merger.entries.keep(view.token_index[plan.keep])
        self.last_eviction = Eviction(
            view.token_index.copy(), plan, tuple(reads), len(self.tokens), view.position.copy()
        )
        ids, counts = np.unique(np.delete(view.segment, plan.keep), return_counts=True)
        self.map.keep(plan.keep)
        if self._policy.closes_gaps:
            self.engine.close_gaps(self.map.position)
            self.map.renumber()
        seconds = time.perf_counter() - began
        gone = n - len(self.map)
        self.counters.evicted += gone
        self.counters.evictions += 1
        self.counters.planning_seconds += planned
        self.counters.eviction_seconds += seconds
        lost = {self._segments[int(i)].name: int(count) for i, count in zip(ids, counts, strict=True)}
        self._emit(Evicted(gone, len(self.map), lost, seconds, planned))
        self._tell_partial_reads(plan)

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
            self._rebuild(str(error))

    def _renumber(self) -> None:
        assert self.engine.cache is not None
        n, before = len(self.map), self.map.next_position
        began = time.perf_counter()
        try:
            self.engine.cache.renumber(np.arange(n, dtype=np.uint32), n)
            self.map.renumber()
        except CacheLostError as error:
            self._rebuild(str(error))
        seconds = time.perf_counter() - began
        self.counters.renumberings += 1
        self.counters.renumbering_seconds += seconds
        self._emit(Renumbered(n, before, self.map.next_position, seconds))

    def _rebuild(self, reason: str) -> None:
        """Decode the residents again after a device lost the cache."""
        tokens = np.frombuffer(self.tokens, dtype=np.int32)[self.map.token_index]
        self.map.renumber()
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
            except PaceError:
                self.map.truncate(first)
                raise
            else:
                first += self.engine.n_batch
        if cancelled:
            self.engine.cancel()
        self._emit(Rebuilt(n, reason))

    def check(self) -> None:
        """Compare the map with the native cache and check every invariant.

        Raises:
            AssertionError: a fault of this package.
        """
        assert self.engine.cache is not None
        native, own = self.engine.cache.residents(), self.map
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
