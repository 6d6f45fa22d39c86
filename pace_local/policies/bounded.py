"""``bounded``: sinks and recent window, with positions kept below a cap.

The second half of PACE alone: it decides where residents sit, and knows nothing of the plan. Parameters and
units are those of ``streaming``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.streaming import StreamingPolicy


@dataclass
class BoundedPolicy(StreamingPolicy):
    """``streaming``, renumbered before positions reach the cap."""

    name = "bounded"
    bounds_positions = True
