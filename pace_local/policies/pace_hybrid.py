"""``pace_hybrid``: PACE, the unplanned remainder chosen by ``hybrid``'s score.

What the plan's steps read is kept first and positions stay below the cap, as in ``pace``; what room is left
goes to ``hybrid``'s window and pool and not to recent tokens alone. Parameters, units, sources and deviations
are those of ``hybrid``. Window and pool are measured by all that stays, so what the plan reads is taken from
the pool's end first.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.hybrid import HybridPolicy


@dataclass
class PaceHybridPolicy(HybridPolicy):
    """Plan, bounded positions, window and pool."""

    name = "pace_hybrid"
    reads_plan = True
    bounds_positions = True
    recalls = True
