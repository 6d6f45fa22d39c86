"""``context_shift``: llama.cpp's own way out of a full context.

Its server keeps the first ``n_keep`` tokens, drops the oldest half of the rest, and moves what remains
down by as many positions with ``llama_memory_seq_add``, which rotates the cached keys in place: rotations
compose, one rounding on top of the other.

Source: llama.cpp, ``tools/server`` (context shift) and the option ``--keep``. The half that goes is rounded
down, so the half that stays is rounded up.

Where this departs from it: pinned segments and the newest turn's role markers stay, as for every policy here,
and count as part of the half that stays; the context is full when the session's budget is. The server adds
one to ``n_keep`` for models that begin a text with a special token; set ``sinks`` one higher for the same.

Units: ``sinks`` is ``n_keep`` in tokens; 0, as the server's default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pace_local.policies.base import CacheView, Policy, Scores
from pace_local.policies.ranges import check_whole


@dataclass
class ContextShiftPolicy(Policy):
    """The first tokens, and the newer half of the rest.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "context_shift"
    closes_gaps = True

    sinks: int = 0
    """llama.cpp's ``n_keep``: first tokens of the session that always stay."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_whole("sinks", self.sinks, 0, 2**31 - 1)

    def check_target(self, target: int) -> None:
        """Refuse more first tokens than an eviction leaves."""
        check_whole("sinks", self.sinks, 0, target)

    def target(self, view: CacheView) -> int:
        """First tokens and half of the rest, rounded up; all that fits if nothing has to go."""
        if len(view) <= view.target:
            return view.target
        first = int(np.searchsorted(view.token_index, self.sinks))
        return min(view.target, first + (len(view) - first + 1) // 2)

    def score(self, view: CacheView) -> Scores:
        """The newer, the better."""
        return view.token_index.astype(np.float64)
