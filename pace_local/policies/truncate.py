"""``truncate``: the last tokens only, without attention sinks.

The naive baseline: what has scrolled out is gone. There is no paper behind it; Xiao et al. (2023, arXiv
2309.17453) show how it fails once the first tokens leave, which is what ``streaming`` repairs.

Where this departs from plain truncation: pinned segments and the newest turn's role markers stay, as for
every policy here, and the cut is made every few hundred tokens and not with each, over all layers and heads
at once. Between two cuts more than the window is resident.

Units: ``window`` is in tokens of the session. None (the default) stands for what the budget leaves. A window
below the session's floor of newest tokens (its setting ``recent``) does not undercut that floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pace_local.policies.base import CacheView, Policy, Scores
from pace_local.policies.ranges import check_whole


@dataclass
class TruncatePolicy(Policy):
    """A recent window.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "truncate"
    sinks = 0

    window: int | None = None
    """Last tokens of the session that stay; None: as many as the budget leaves."""

    def __post_init__(self) -> None:
        """Check every range."""
        if self.window is not None:
            check_whole("window", self.window, 1, 2**31 - 1)

    def check_target(self, target: int) -> None:
        """Refuse a window of more tokens than an eviction leaves."""
        if self.window is not None:
            check_whole("window", self.window, 1, target)

    def score(self, view: CacheView) -> Scores:
        """The newer, the better; ``-inf`` outside the window."""
        scores = view.token_index.astype(np.float64)
        if self.window is not None:
            scores[view.token_index < view.session_length - self.window] = -np.inf
        return scores
