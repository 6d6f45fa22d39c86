"""``pace``: plan-guided retention and bounded positions together.

What the plan's steps read is kept, nearest step first, and residents are renumbered compactly before
positions reach the cap, so that what is kept is also near enough to be used.
"""

from __future__ import annotations

from pace_local.policies.plan import PlanPolicy


class PacePolicy(PlanPolicy):
    """Both halves."""

    name = "pace"
    bounds_positions = True
