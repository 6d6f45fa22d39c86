"""``streaming``: the first few tokens and the most recent ones.

Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2023). The first tokens of
a text draw much attention whatever they say; without them a window of recent tokens falls apart.

Where this departs from the paper: there, positions are assigned within the cache at every step, since keys
are stored before rotation. Here a key keeps the position at which it was decoded; the window's positions
grow with the session. ``bounded`` is this policy with positions kept below a cap.

Units: ``sinks`` is in tokens (4, as in the paper). The window is what the budget leaves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pace_local.policies.base import CacheView, Policy


class StreamingPolicy(Policy):
    """Attention sinks and a recent window."""

    name = "streaming"

    def score(self, view: CacheView) -> npt.NDArray[np.float64]:
        """The newer, the better."""
        return view.token_index.astype(np.float64)
