"""``snapkv``: what the end of the prompt looks at, and its neighbours.

The last tokens of a prompt already show what the answer will read. Their attention to each earlier resident
is added up, and smoothed over neighbours, so that a detail is kept with its surroundings and not as a lone
token.

Source: Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation" (2024, arXiv 2404.14469).

As in the paper: the sums are over the query rows of an observation window at the end of each prompt; pooling
is one-dimensional with stride 1 over what comes before that window; the window itself stays. There are no
sinks.

Where this departs from it: sums run over all layers and heads before pooling, and a token goes from all of
them at once, since llama.cpp's cells are shared by them (the paper chooses by head). Neighbours are tokens
that follow each other in the session: pooling does not reach across what was evicted, and a mean is taken
over the neighbours that there are (where zeros would be padded, both sides of every gap would lose). The
paper compresses once, after the prompt, and then lets the cache grow; here evictions go on, so what came in
after the prompt stays first, and is cut from its older end if it is more than what stays. While a prompt is
being read, the rows read last are what counts. Pinned segments and the newest turn's role markers
stay.

Units: ``window`` is in query rows, at most those of the prompt's last micro-batch (32); ``kernel`` is the
width of the pooling in tokens, odd (7); ``pooling`` is ``"max"`` or ``"mean"``. A score up to 1 is pooled
attention relative to the greatest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError
from pace_local.policies.base import CacheView, Observation, Policy, Scores
from pace_local.policies.ranges import check_choice, check_whole
from pace_local.policies.ranking import keep_first, measured, share_of_greatest

POOLINGS = ("max", "mean")
WIDEST = 255


@dataclass
class SnapKVPolicy(Policy):
    """Attention from the end of the prompt, pooled over neighbours.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "snapkv"
    looks_at_steps = True
    sinks = 0

    window: int = 32
    """Last tokens of a prompt whose attention counts, and which stay themselves."""

    kernel: int = 7
    """Neighbours that are pooled, the token itself included; odd."""

    pooling: str = "max"
    """``"max"`` or ``"mean"``."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_whole("window", self.window, 1, 8192)
        check_whole("kernel", self.kernel, 1, WIDEST)
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel {self.kernel} is even; use an odd number from 1 to {WIDEST}")
        check_choice("pooling", self.pooling, POOLINGS)

    @property
    def observes(self) -> Observation:
        """The observation window's query rows."""
        return Observation(queries=self.window)

    def score(self, view: CacheView) -> Scores:
        """Pooled attention from the end of the prompt; that end and what came after it ahead of it.

        Raises:
            ConfigError: if no attention was measured.
        """
        mass = measured(view, self.name).prompt
        before = ~np.isnan(mass)
        before[np.flatnonzero(before)[-self.window :]] = False
        scores = np.zeros(len(view))
        scores[before] = share_of_greatest(self._pooled(mass[before], view.token_index[before]))
        return keep_first(scores, ~before)

    def _pooled(self, mass: Scores, index: npt.NDArray[np.int64]) -> Scores:
        """Maximum or mean over each token's neighbours, shape [n]; one pass a neighbour, not a resident."""
        pooled: Scores = mass.copy()
        count = np.ones(len(mass))
        for away in range(1, min(self.kernel // 2, len(mass) - 1) + 1):
            older, newer = slice(None, -away), slice(away, None)
            together = index[newer] - index[older] == away
            for side, other in ((older, newer), (newer, older)):
                if self.pooling == "max":
                    pooled[side] = np.maximum(pooled[side], np.where(together, mass[other], 0.0))
                else:
                    pooled[side] += np.where(together, mass[other], 0.0)
                    count[side] += together
        return pooled if self.pooling == "max" else pooled / count
