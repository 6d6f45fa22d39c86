"""What policies that go by age alone say of residents, straight from their descriptions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pace_local.policies import Policy
from pace_local.policies.truncate import TruncatePolicy

BY_AGE = ("truncate", "streaming", "context_shift", "plan", "bounded", "pace")
"""Policies that score the newer higher, and look at nothing else."""


def own_scores(policy: Policy, indices: Sequence[int], session_length: int) -> list[float] | None:
    """Scores of residents by their token indices; None for a policy that looks at more than age."""
    if policy.name not in BY_AGE:
        return None
    first = 0
    if isinstance(policy, TruncatePolicy) and policy.window is not None:
        first = session_length - policy.window
    return [float(index) if index >= first else -math.inf for index in indices]


def own_target(policy: Policy, indices: Sequence[int], target: int) -> int:
    """Tokens that an eviction leaves: the target, or less where llama.cpp would halve what is not kept."""
    if policy.name != "context_shift" or len(indices) <= target:
        return target
    first = sum(index < policy.sinks for index in indices)
    return min(target, len(indices) - (len(indices) - first) // 2)
