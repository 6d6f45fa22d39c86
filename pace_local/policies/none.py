"""``none``: keeps everything, and refuses tokens past the budget.

The ceiling that every other policy is measured against, for sessions that fit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import CacheView, Policy


class NonePolicy(Policy):
    """Keeps all residents."""

    name = "none"
    evicts = False

    def score(self, view: CacheView) -> npt.NDArray[np.float64]:
        """All are worth the same."""
        return np.zeros(len(view))
