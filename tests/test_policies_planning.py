"""What planning an eviction costs, policy by policy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from cache_views import make_attention, make_view

from pace_local.memory import Read, plan_keep
from pace_local.policies import POLICIES, policy_named


@pytest.mark.parametrize("policy", POLICIES)
def test_planning_does_not_depend_on_the_length_of_the_session(policy: str) -> None:
    """At 2,048 residents, memory for planning is the same at token ten thousand and at token two billion."""

    def peak(stretch: int) -> int:
        n, target = 2048, 1861
        turn = np.repeat(np.arange(32, dtype=np.int64), 64) * stretch
        view = make_view(
            np.arange(n, dtype=np.int64) * stretch,
            target=target,
            segment=turn,
            turn=turn,
            framing=np.arange(n) % 64 < 4,
            position=np.arange(n),
            session_length=n * stretch,
            pinned=frozenset([0, 2 * stretch]),
            attention=make_attention(n),
        )
        reads = [Read(4 * stretch, 0), Read(20 * stretch, 1)]
        made = policy_named(policy)
        plan_keep(view, made, recent=256, reads=reads)
        tracemalloc.start()
        try:
            plan = plan_keep(view, made, recent=256, reads=reads)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert target - 8 <= len(plan.keep) <= target or policy == "context_shift"
        return peak

    short, long = peak(5), peak(1_000_000)
    assert long < 1.25 * short
    assert long < 200 * 2048
