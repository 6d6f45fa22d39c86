"""Steps that several policies' scores are built from. All are pure and vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError
from pace_local.policies.base import Attention, CacheView, Scores


def measured(view: CacheView, policy: str) -> Attention:
    """The view's attention.

    Raises:
        ConfigError: if none was measured; a policy that needs it never guesses.
    """
    if view.attention is None:
        raise ConfigError(
            f"policy {policy!r} needs attention, and none was measured; start the session with observe=True"
        )
    return view.attention


def share_of_greatest(mass: Scores) -> Scores:
    """Mass relative to the greatest, shape [n], from 0 to 1; zeros if there is none."""
    greatest = float(mass.max(initial=0.0))
    share: Scores = mass / greatest if greatest > 0 else np.zeros(len(mass))
    return share


def newest(view: CacheView, count: int) -> npt.NDArray[np.bool_]:
    """Which residents are the ``count`` newest, shape [n]."""
    return np.arange(len(view)) >= len(view) - count


def keep_first(scores: Scores, chosen: npt.NDArray[np.bool_]) -> Scores:
    """Scores in which the chosen are ahead of all others, the newest first, shape [n].

    The others keep theirs, which may be ``-inf``; they must stay well below 2^53, where whole steps vanish.
    """
    ranked: Scores = scores.copy()
    ahead_of = float(scores[~chosen].max(initial=0.0))
    ranked[chosen] = ahead_of + 1 + np.arange(np.count_nonzero(chosen))
    return ranked
