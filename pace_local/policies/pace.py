"""``pace``: plan-guided retention and bounded positions together.

What the plan's steps read is kept, nearest step first, and residents are renumbered compactly before
positions reach the cap, so that what is kept is also near enough to be used. What was evicted all the same,
because the plan did not name it in time, comes back from where it was saved. Parameters and units are those
of ``streaming``, which the unplanned remainder is chosen by.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.plan import PlanPolicy


@dataclass
class PacePolicy(PlanPolicy):
    """Both halves."""

    name = "pace"
    bounds_positions = True
    recalls = True
