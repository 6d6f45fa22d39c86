"""``plan``: what the coming steps read stays resident; positions grow with the session.

The first half of PACE alone. What the plan's steps read is kept, nearest step first; the rest of the budget
goes to recent tokens as in ``streaming``, whose parameters and units it has.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.streaming import StreamingPolicy


@dataclass
class PlanPolicy(StreamingPolicy):
    """Plan-guided retention, positions unbounded."""

    name = "plan"
    reads_plan = True
