"""``merge``: what leaves the cache is merged into what is like it, instead of being lost.

Residents that draw little attention are clustered by their keys, layer by layer, and each cluster becomes one
entry: a representative key, and the mean of the values, weighted by attention. Keys are compared and
averaged in one rotation frame, as they would be at position 0; rotated keys of one content at two places look
nothing alike. Only early layers are merged, which bear it better than late ones.

Source: "semantic merging", the second of three strategies in the guide to online KV-cache compaction for
agents that this project implements beside PACE; there is no paper. It names streaming k-means over the keys
of a layer, a centroid or typical member as the key, attention-weighted values, and early layers. That an
entry which stands for n tokens is scored as n equal ones (log n is added) is from Bolya et al., "Token
Merging: Your ViT But Faster" (2022, arXiv 2210.09461): without it, merging two equal entries would halve
what they are heard.

Who leaves is decided as in ``h2o_grace``: the newest part stays, and fading attention ranks the rest. Those
that go are clustered with as many of the lowest that stay as there are to be clusters, and the entries take
the cells of the latter, in order of the tokens that they stand for.

Where this departs from the guide: llama.cpp's cells are shared by all layers, so that an entry has one
position for all of them, its host's; late layers keep the host's own row, and what goes is lost there.
Merging happens when something is evicted, and not every 50 tokens by itself; the session's ``evict_every``
sets that. Sinks, pinned segments, role markers, planned reads and the newest tokens take no part.

Units: ``early`` is a share of the layers (0.5); ``per_cluster`` is residents per entry (2);
``representative`` is ``"centroid"`` or ``"member"``; ``recent_share`` is a share of what an eviction leaves
(0.5); ``decay`` is what each later token leaves of a token's attention (0.998); ``seed`` is that of the
clustering.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.base import CacheView, Merging, Observation, Policy, Scores, check_range
from pace_local.policies.ranges import check_choice, check_whole
from pace_local.policies.ranking import keep_first, measured, newest, share_of_greatest

REPRESENTATIVES = ("centroid", "member")


@dataclass
class MergePolicy(Policy):
    """Fading attention and a recent part; the rest is merged.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "merge"

    early: float = 0.5
    """Share of the layers, from the first on, that are merged."""

    per_cluster: float = 2.0
    """Residents per entry, on average."""

    representative: str = "centroid"
    """``"centroid"`` or ``"member"``."""

    recent_share: float = 0.5
    """Share of the tokens kept that goes to the most recent ones."""

    decay: float = 0.998
    """λ: what each later token leaves of a token's attention."""

    sinks: int = 4
    """First tokens of the session that always stay."""

    seed: int = 0
    """Of the clustering."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_range("early", self.early, 0.0, 1.0)
        check_range("per_cluster", self.per_cluster, 1.1, 64.0)
        check_choice("representative", self.representative, REPRESENTATIVES)
        check_range("recent_share", self.recent_share, 0.0, 1.0)
        check_range("decay", self.decay, 0.0, 1.0)
        check_whole("sinks", self.sinks, 0, 2**31 - 1)
        check_whole("seed", self.seed, 0, 2**32 - 1)

    def check_target(self, target: int) -> None:
        """Refuse more sinks than an eviction leaves."""
        check_whole("sinks", self.sinks, 0, target)

    @property
    def observes(self) -> Observation:
        """The last query rows, fading."""
        return Observation(queries=32, decay=self.decay)

    @property
    def merging(self) -> Merging:
        """As the parameters say."""
        return Merging(self.early, self.per_cluster, self.representative, self.seed, self.recent_share)

    def score(self, view: CacheView) -> Scores:
        """Fading attention; the recent part ahead of it.

        Raises:
            ConfigError: if no attention was measured.
        """
        heavy = share_of_greatest(measured(view, self.name).total)
        return keep_first(heavy, newest(view, int(self.recent_share * view.target)))
