"""Starting a step with exactly what it reads.

Residents are then the sinks, the pinned segments and what the step reads. All else makes room: it was saved.
Each read arrives by the cheapest means that is good enough, which :mod:`pace_local.recall.means` chooses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from pace_local.config import SessionConfig
from pace_local.events import Event, Focused, Means, Recalled
from pace_local.memory import Read, plan_step
from pace_local.policies import Policy
from pace_local.recall.means import ALIKE, Choice, ReadFacts, choose_means
from pace_local.recall.shingles import Shingles
from pace_local.segments import SegmentTable
from pace_local.session_cache import SessionCache
from pace_local.working_set import WorkingSet


class Focus:
    """Makes the working set of a step.

    Args:
        cache: the session's.
        segments: the session's.
        config: the session's.
        policy: for its sinks.
        working_set: moves segments in and out.
        reread: reads the text of a segment again as a new turn.
        emit: takes every event.
    """

    def __init__(
        self,
        cache: SessionCache,
        segments: SegmentTable,
        config: SessionConfig,
        policy: Policy,
        working_set: WorkingSet,
        reread: Callable[[int], None],
        emit: Callable[[Event], None],
    ) -> None:
        self._cache = cache
        self._segments = segments
        self._config = config
        self._policy = policy
        self._working_set = working_set
        self._reread = reread
        self._emit = emit
        self.shingles = Shingles()
        """Of every segment that can be recalled."""
        self.crowded: set[int] = set()
        """Segments that were read while a text like them was resident."""

    def note(self, segment_id: int, tokens: Sequence[int]) -> None:
        """Remember what a segment looks like, before it is read among the residents."""
        residents = {int(i) for i in np.unique(self._cache.map.segment)}
        self.shingles.add(segment_id, tokens)
        if self.shingles.most_alike(segment_id, residents - {segment_id})[1] >= ALIKE:
            self.crowded.add(segment_id)

    def forget_from(self, n_segments: int) -> None:
        """Segments from this id on are no more."""
        self.shingles.remove_from(n_segments)
        self.crowded = {segment for segment in self.crowded if segment < n_segments}

    def restore(self, crowded: set[int]) -> None:
        """Know again which segments were crowded, and look at all of them anew."""
        self.crowded = crowded
        for segment in self._segments:
            if segment.kind != "framing":
                self.shingles.add(segment.id, self._cache.tokens[segment.start : segment.end])

    def start(self, step: str, reads: Sequence[int], beside: Sequence[int] = ()) -> None:
        """Make what a step reads resident, and nothing else but what always is.

        Args:
            step: its text, for the event.
            reads: ids of segments, those that matter most first.
            beside: segments that stay as they are, such as a prompt that was read already.

        Raises:
            CancelledError, NativeError: if something has to be computed again and that fails.
        """
        began = time.perf_counter()
        pinned = [segment for segment in reads if self._segments[segment].pinned]
        reads = [segment for segment in reads if segment not in pinned]
        fitting = [s for s in self._working_set.fitting([*beside, *reads]) if s not in beside]
        over = [segment for segment in reads if segment not in fitting]
        for segment in over:
            self._working_set.tell_over_budget(segment)
        choices = choose_means({s: self._facts(s) for s in fitting}, self._config.means)
        sequence = [segment for segment in fitting if choices[segment].means == "together"]
        arrive = [segment for segment in fitting if choices[segment].means in ("kept", "spliced")]
        self._clear([*beside, *arrive, *sequence, *over])
        self._read_together(sequence, choices)
        choices.update((segment, Choice("kept", "it is pinned")) for segment in pinned)
        self._bring([*pinned, *beside, *arrive], choices)
        for segment in fitting:
            if choices[segment].means == "recomputed":
                self._working_set.recompute(segment, choices[segment].reason)
        for segment in fitting:
            if choices[segment].means == "reread":
                self._read_as_a_turn(segment, choices[segment].reason)
        means: dict[str, Means] = {self._segments[s].name: choices[s].means for s in [*pinned, *fitting]}
        self._emit(Focused(step, means, len(self._cache.map), time.perf_counter() - began))

    def _facts(self, segment: int) -> ReadFacts:
        missing = self._working_set.missing(segment)
        return ReadFacts(
            is_whole=not len(missing) and self._working_set.is_own(segment),
            is_saved=not len(missing) or self._working_set.store.covers(segment, missing),
            is_isolated=self._segments[segment].isolated,
            was_crowded=segment in self.crowded,
        )

    def _clear(self, stay: Sequence[int]) -> None:
        """Evict all but what always stays and these segments."""
        began = time.perf_counter()
        view = self._cache.view()
        reads = tuple(Read(segment, 0) for segment in stay)
        plan = plan_step(view, self._policy, reads)
        if len(plan.keep) < len(view):
            self._cache.leave_only(view, plan, reads, began, time.perf_counter() - began)

    def _read_together(self, segments: Sequence[int], choices: dict[int, Choice]) -> None:
        if not segments:
            return
        began = time.perf_counter()
        means = self._working_set.bring_sequence(segments)
        seconds = time.perf_counter() - began
        for segment, how in means.items():
            choices[segment] = Choice(how, choices[segment].reason)
            if how != "kept":
                name, tokens = self._segments[segment].name, len(self._working_set.unit(segment))
                self._emit(Recalled(name, how, choices[segment].reason, tokens, seconds))

    def _bring(self, wanted: Sequence[int], choices: dict[int, Choice]) -> None:
        for segment in wanted:
            if not self._working_set.is_own(segment):
                self._working_set.remove(segment)
        reasons = {s: choices[s].reason if s in choices else "it is being answered" for s in wanted}
        came = [segment for segment in wanted if len(self._working_set.missing(segment))]
        lost = self._working_set.bring(reasons)
        choices.update((segment, Choice("recomputed", "what was saved is gone")) for segment in lost)
        choices.update(
            (s, Choice("spliced", reasons[s])) for s in came if not len(self._working_set.missing(s))
        )

    def _read_as_a_turn(self, segment: int, reason: str) -> None:
        began = time.perf_counter()
        self._reread(segment)
        name, tokens = self._segments[segment].name, len(self._working_set.unit(segment))
        self._emit(Recalled(name, "reread", reason, tokens, time.perf_counter() - began))
