"""The cache of a session: decodes, and evicts by policy and plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pace_local.config import SessionConfig
from pace_local.errors import CacheLostError, ContextFullError, NativeError
from pace_local.events import Event, Evicted, ReadsOverBudget
from pace_local.mapped_cache import MappedCache
from pace_local.memory import KeepPlan, Read, plan_keep
from pace_local.merging import Merger
from pace_local.model import Model
from pace_local.observing import Observer
from pace_local.policies import CacheView, Observation, Policy
from pace_local.segments import KINDS, Segment, SegmentTable
from pace_local.session_checks import bounds_positions


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


class SessionCache(MappedCache):
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
        bounded = bounds_positions(config, policy)
        super().__init__(model, config, segments, bounds_positions=bounded, emit=emit)
        self._policy = policy
        self._reads = reads
        observation = policy.observes or (Observation() if config.observe else None)
        self._observer: Observer | None = None
        if observation is not None and self.engine.cache is not None:
            self._observer = Observer(self.engine.cache, observation)
        self.merger: Merger | None = None
        if policy.merging is not None and self.engine.cache is not None:
            self.merger = Merger(self.engine.cache, self.engine.capabilities.n_layers, policy.merging)
            self.before_rebuild.append(self.merger.entries.clear)
        self.is_answering = False
        """Whether what is decoded is an answer; else it is part of a prompt."""
        self.last_eviction: Eviction | None = None
        self.since_eviction = 0
        """Tokens that were decoded since the last eviction."""
        self.is_alone = False
        """Whether residents are set aside while a text is read in isolation: nothing is evicted then."""
        self.told: set[tuple[int, int, int]] = set()
        """Reads over the budget that were reported already: segment, step, tokens kept."""

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
            except CacheLostError as error:
                self.rebuild(str(error))
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
        except NativeError as error:
            if error.status != "DEVICE_FAILED":
                raise
            # Nothing was lost: what goes, goes unmerged this once.
        finally:
            self.map.change()

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

    @property
    def sinks(self) -> int:
        """First tokens of the session that always stay."""
        return self._policy.sinks

    def begin_answer(self) -> None:
        """The prompt has been read to its end."""
        self.is_answering = True
        if self._observer is not None:
            self._observer.note_prompt(self.map)

    @property
    def is_observing(self) -> bool:
        """Whether attention is measured."""
        return self._observer is not None

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
