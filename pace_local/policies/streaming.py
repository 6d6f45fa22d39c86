"""``streaming``: the first few tokens and the most recent ones.

Source: Xiao, Tian, Chen, Han and Lewis, "Efficient Streaming Language Models with Attention Sinks" (2023,
arXiv 2309.17453). The first tokens of a text draw much attention whatever they say; without them a window of
recent tokens falls apart.

Where this departs from the paper: there, positions are assigned within the cache at every step, since keys
are stored before rotation. Here a key keeps the position at which it was decoded; the window's positions
grow with the session. ``bounded`` is this policy with positions kept below a cap. Evictions come every few
hundred tokens and not with each, over all layers and heads at once, and leave pinned segments and the newest
turn's role markers, as for every policy here.

Units: ``sinks`` is in tokens (4, as in the paper). The window is what the budget leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pace_local.policies.base import CacheView, Policy, Scores
from pace_local.policies.ranges import check_whole


@dataclass
class StreamingPolicy(Policy):
    """Attention sinks and a recent window.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "streaming"

    sinks: int = 4
    """First tokens of the session that always stay."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_whole("sinks", self.sinks, 0, 2**31 - 1)

    def check_target(self, target: int) -> None:
        """Refuse more sinks than an eviction leaves tokens."""
        check_whole("sinks", self.sinks, 0, target)

    def score(self, view: CacheView) -> Scores:
        """The newer, the better."""
        return view.token_index.astype(np.float64)
