"""``h2o``: heavy hitters and recent tokens, in equal parts.

A few tokens draw most of the attention over a whole text. Each resident's attention is added up over all
queries since it came in; half of what stays are the most recent tokens, the other half those with the
greatest sums among the rest.

Source: Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models"
(2023, arXiv 2306.14048).

As in the paper: every query row counts, prompt and generation alike; sums never fade; there are no sinks
(heavy hitters by themselves, if they are any); early tokens have seen more queries, and that advantage is
not taken from them. ``h2o_grace`` mends both.

Where this departs from it: sums run over all layers and heads, and a token goes from all of them or from
none, since llama.cpp's cells are shared by them (the paper chooses by head). Evictions come every few hundred
tokens and not with each. Pinned segments and the newest turn's role markers stay, as for every policy here;
what they cost is taken from the heavy hitters' part.

Units: ``recent_share`` is a share of the tokens that an eviction leaves (0.5, as in the paper). A score up to
1 is attention relative to the greatest in the cache; above it stands the recent part.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.base import CacheView, Observation, Policy, Scores, check_range
from pace_local.policies.ranking import keep_first, measured, newest, share_of_greatest


@dataclass
class H2OPolicy(Policy):
    """Accumulated attention and a recent part.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "h2o"
    sinks = 0

    recent_share: float = 0.5
    """Share of the tokens kept that goes to the most recent ones."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_range("recent_share", self.recent_share, 0.0, 1.0)

    @property
    def observes(self) -> Observation:
        """All query rows, never fading."""
        return Observation(queries=0)

    def score(self, view: CacheView) -> Scores:
        """Attention since the token came in; the recent part ahead of it.

        Raises:
            ConfigError: if no attention was measured.
        """
        heavy = share_of_greatest(measured(view, self.name).total)
        return keep_first(heavy, newest(view, int(self.recent_share * view.target)))
