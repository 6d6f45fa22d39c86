"""Takes the figures of :class:`~pace_local.stats.TurnStats` from a running session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import psutil

from pace_local import _native
from pace_local.stats import Counters, ReadStats, TurnStats

if TYPE_CHECKING:
    from pace_local.session_view import SessionView


def take_stats(session: SessionView, now: Counters, start: Counters) -> TurnStats:
    """Figures of a session; counts since ``start`` are those of the turn."""
    cache = session.engine.cache
    held = cache.bytes_held() if cache else _native.BytesHeld(0, 0, 0, 0, 0)
    saved = session.saved
    return TurnStats(
        policy=session.policy.name,
        session_tokens=session.session_length,
        residents=session.n_residents,
        budget=session.config.budget,
        next_position=session.next_position,
        position_cap=session.config.position_cap if session.bounds_positions else None,
        highest_position=now.highest_position,
        evicted=now.evicted - start.evicted,
        evictions=now.evictions - start.evictions,
        renumberings=now.renumberings - start.renumberings,
        evicted_in_session=now.evicted,
        renumberings_in_session=now.renumberings,
        prompt_tokens=now.prompt_tokens - start.prompt_tokens,
        prompt_seconds=now.prompt_seconds - start.prompt_seconds,
        generated_tokens=now.generated_tokens - start.generated_tokens,
        generated_seconds=now.generated_seconds - start.generated_seconds,
        planning_seconds=now.planning_seconds - start.planning_seconds,
        eviction_seconds=now.eviction_seconds - start.eviction_seconds,
        renumbering_seconds=now.renumbering_seconds - start.renumbering_seconds,
        reads=tuple(read_stats(session, name, step) for name, step in session.plan.next_use().items()),
        key_bytes=held.keys,
        value_bytes=held.values,
        reference_bytes=held.references,
        scratch_bytes=held.scratch,
        attention_bytes=held.attention,
        host_bytes=psutil.Process().memory_info().rss,
        device_bytes={
            device.name: device.total - device.free for device in _native.devices() if device.kind != "cpu"
        },
        saved_host_bytes=saved.host_bytes,
        saved_disk_bytes=saved.disk_bytes,
    )


def read_stats(session: SessionView, name: str, step: int = 0) -> ReadStats:
    """How a segment stands in the cache now.

    Args:
        session: open.
        name: of the segment.
        step: that reads it.

    Raises:
        PlanError: if there is no such segment.
    """
    segment = session.segments.named(name)
    positions = session.residents.position[session.residents.segment == segment.id]
    nearest = farthest = None
    if len(positions):
        nearest = session.next_position - int(np.max(positions))
        farthest = session.next_position - int(np.min(positions))
    return ReadStats(name, step, len(segment), len(positions), nearest, farthest)
