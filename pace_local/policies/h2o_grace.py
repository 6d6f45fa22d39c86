"""``h2o_grace``: heavy hitters whose sums fade, with a time of grace for newcomers.

In a long session ``h2o`` freezes: sums only grow, so tokens that were read over and over early on cannot be
overtaken, and what comes in later leaves before it was ever needed. Here a sum fades with every later token,
so that it tells how much a resident is read *now*, and the newest tokens stay until they have had a chance.

Source: Zhang et al. (2023, arXiv 2306.14048) for the sums; fading and grace are ours.

Where this departs from the paper, besides those two: sums over all layers and heads, and tokens go from all
of them at once, since llama.cpp's cells are shared by them; only the last 32 query rows of each micro-batch
count, which costs less; evictions every few hundred tokens and not with each; sinks, pinned segments and the
newest turn's role markers stay.

Units: ``decay`` is what a later token leaves of a sum. 0.998 halves it in 346 tokens, about two evictions at
a budget of 2,048: long enough that a definition read once an answer holds on, short enough that nothing read
long ago does. ``grace`` is in tokens; None stands for 256, or half of what an eviction leaves where that is
less. ``sinks`` is in tokens (4, as in ``streaming``).
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.base import CacheView, Observation, Policy, Scores, check_range
from pace_local.policies.ranges import check_whole
from pace_local.policies.ranking import keep_first, measured, newest, share_of_greatest

GRACE = 256
"""Tokens of grace where none are given and the budget is large enough."""


@dataclass
class H2OGracePolicy(Policy):
    """Fading attention and grace for newcomers.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "h2o_grace"

    decay: float = 0.998
    """λ: what is left of a token's sum after each later token."""

    grace: int | None = None
    """Newest tokens that stay whatever attention they got; None: 256, at most half of the target."""

    sinks: int = 4
    """First tokens of the session that always stay."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_range("decay", self.decay, 0.0, 1.0)
        check_whole("sinks", self.sinks, 0, 2**31 - 1)
        if self.grace is not None:
            check_whole("grace", self.grace, 0, 2**31 - 1)

    def check_target(self, target: int) -> None:
        """Refuse more sinks or more tokens of grace than an eviction leaves."""
        check_whole("sinks", self.sinks, 0, target)
        if self.grace is not None:
            check_whole("grace", self.grace, 0, target)

    @property
    def observes(self) -> Observation:
        """The last query rows, fading."""
        return Observation(queries=32, decay=self.decay)

    def score(self, view: CacheView) -> Scores:
        """Attention as it has faded; newcomers ahead of it.

        Raises:
            ConfigError: if no attention was measured.
        """
        heavy = share_of_greatest(measured(view, self.name).total)
        grace = min(GRACE, view.target // 2) if self.grace is None else self.grace
        return keep_first(heavy, newest(view, grace))
