"""The cache of a session: decodes, evicts and renumbers, and keeps its map in step with the native side."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.errors import CacheLostError, CancelledError, ContextFullError, NativeError, PaceError
from pace_local.events import Event, Evicted, ReadsOverBudget, Rebuilt, Renumbered
from pace_local.memory import KeepPlan, Read, plan_keep
from pace_local.model import Model
from pace_local.policies import Policy
from pace_local.residents import ResidentMap
from pace_local.segments import Segment, SegmentTable
from pace_local.stats import Counters


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
        self.last_keep: KeepPlan | None = None
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
        del self.tokens[n_tokens:]

    def decode(self, tokens: Sequence[int], segment: Segment) -> None:
        """Decode up to one micro-batch of a segment; residents are within the budget before and after."""
        n = len(tokens)
        self._make_room(n)
        position = self.map.next_position
        self.engine.decode(tokens, position)
        before = len(self.map)
        self.map.append(
            n, len(self.tokens), segment=segment.id, turn=segment.turn, framing=segment.kind == "framing"
        )
        self.tokens.extend(tokens)
        self._segments.extend(segment.id, len(self.tokens))
        self.counters.highest_position = max(self.counters.highest_position, position + n - 1)
        if len(self.map) > self._config.budget:
            try:
                self._evict()
            except NativeError:
                self.engine.remove_from(position)
                self.map.truncate(before)
                del self.tokens[-n:]
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

    def _evict(self) -> None:
        began = time.perf_counter()
        n = len(self.map)
        view = self.map.view(len(self.tokens))
        plan = plan_keep(
            view,
            self._policy,
            target=self._config.soft_budget,
            recent=self._config.recent_tokens,
            reads=self._reads(),
            pinned=self._segments.pinned,
        )
        change = self.engine.cache.retain(plan.keep, n) if self.engine.cache else None
        assert change is not None
        gone = np.delete(view.segment, plan.keep)
        ids, counts = np.unique(gone, return_counts=True)
        self.map.keep(plan.keep)
        self.last_keep = plan
        seconds = time.perf_counter() - began
        self.counters.evicted += len(gone)
        self.counters.evictions += 1
        self.counters.planning_seconds += seconds
        lost = {self._segments[int(i)].name: int(count) for i, count in zip(ids, counts, strict=True)}
        self._emit(Evicted(len(gone), len(self.map), lost, seconds))
        for part in plan.over_budget:
            told = (part.segment, part.step, part.kept)
            if told not in self.told:
                self.told.add(told)
                self._emit(
                    ReadsOverBudget(part.step, self._segments[part.segment].name, part.kept, part.resident)
                )

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
