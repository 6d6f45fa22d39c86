"""What a caller can see of a session: its length, its residents, their reasons, its figures."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pace_local.config import SessionConfig
from pace_local.dry_run import DryRun, dry_run
from pace_local.engine import Engine
from pace_local.explain import Explanation, explain
from pace_local.memory import KeepPlan, Read
from pace_local.merging import MergedEntries
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.policies import CacheView, Policy
from pace_local.recall import StoreStats
from pace_local.residents import ResidentMap
from pace_local.segments import Segment, SegmentTable
from pace_local.session_cache import Eviction, SessionCache
from pace_local.session_memory import SessionMemory
from pace_local.stats import Counters, TurnStats
from pace_local.turn_stats import take_stats


class SessionView:
    """The part of a session that only looks. :class:`~pace_local.session.Session` fills it."""

    model: Model
    config: SessionConfig
    policy: Policy
    segments: SegmentTable
    engine: Engine
    _cache: SessionCache
    _memory: SessionMemory
    _plan: Plan
    _prompt: int | None
    _arriving: Read | None
    _asked: list[int]
    _mentioned: list[int]
    _turn_start: Counters

    if TYPE_CHECKING:

        @property
        def plan(self) -> Plan:
            """Steps still to do."""

    @property
    def session_length(self) -> int:
        """Tokens of the session so far, resident or not."""
        return len(self._cache.tokens)

    @property
    def n_residents(self) -> int:
        """Tokens in the cache now."""
        return len(self._cache.map)

    @property
    def residents(self) -> ResidentMap:
        """Who is resident, and where; not to be changed."""
        return self._cache.map

    @property
    def next_position(self) -> int:
        """Position of the next token."""
        return self._cache.map.next_position

    @property
    def bounds_positions(self) -> bool:
        """Whether residents are renumbered before positions reach the cap."""
        return self._cache.bounds_positions

    @property
    def last_keep(self) -> KeepPlan | None:
        """Who stayed at the last eviction, and why; None before the first."""
        return self._cache.last_eviction.plan if self._cache.last_eviction else None

    @property
    def last_eviction(self) -> Eviction | None:
        """The last eviction with all that it knew; None before the first."""
        return self._cache.last_eviction

    @property
    def tokens(self) -> array[int]:
        """All tokens of the session, resident or not, by token index; not to be changed."""
        return self._cache.tokens

    def tokens_of(self, segment: Segment) -> list[int]:
        """Token ids of a segment, resident or not."""
        return list(self._cache.tokens[segment.start : segment.end])

    def text_of(self, segment: Segment) -> str:
        """Text of a segment, resident or not."""
        return self.model.text_of(self.tokens_of(segment))

    @property
    def stats(self) -> TurnStats:
        """Figures of the turn that is running, or of the last one."""
        return take_stats(self, self._cache.counters, self._turn_start)

    @property
    def counters(self) -> Counters:
        """What has been counted in all of the session so far."""
        return self._cache.counters.copy()

    def reads(self) -> list[Read]:
        """What the steps of the plan read, nearest step first, after what the user asks for."""
        reads = []
        if self._prompt is not None:
            # What the user asks for last is read by the current step, whatever the plan says.
            reads.append(Read(self._prompt, 0))
        uses = {self.segments.named(name).id: step for name, step in self._plan.next_use().items()}
        uses.update(dict.fromkeys([*reversed(self._asked), *self._mentioned], 0))
        if self._arriving is not None:
            uses.setdefault(self._arriving.segment, self._arriving.step)
        for segment, step in sorted(uses.items(), key=lambda use: use[1]):
            if segment != self._prompt:
                reads.append(Read(segment, step))
        return reads

    @property
    def saved(self) -> StoreStats:
        """What the store of saved keys and values holds, and has done."""
        return self._memory.store.stats

    @property
    def arrivals(self) -> Mapping[int, str]:
        """By segment: by what means the last step that read it got it, and why so."""
        return self._memory.arrivals

    def cache_view(self) -> CacheView:
        """What the policy would see now; not to be changed."""
        return self._cache.view()

    @property
    def merged(self) -> MergedEntries | None:
        """Which tokens merged entries stand for; None if the policy merges nothing."""
        return self._cache.merger.entries if self._cache.merger is not None else None

    def explain(self) -> Explanation:
        """What is resident as text, and why; what was evicted last, and why; and the policy's pool."""
        return explain(self)

    def dry_run(self, policy: str, parameters: Mapping[str, Any] | None = None) -> DryRun:
        """What another policy would keep now.

        Args:
            policy: its name.
            parameters: those that differ from its defaults.

        Raises:
            ConfigError: for an unknown policy or parameter, or one that needs attention where none is
                measured; make the session with ``observe=True`` then.
        """
        return dry_run(self, policy, parameters)
