"""``attention``: what has been read lately stays, corrected for nearness.

A resident's activity is the attention that it drew in the last steps, or a sum that fades with every later
token; the least active go. Raw attention favours what is near, so that far but vital tokens (the first
instructions) get lost. Two corrections: only attention across a minimum distance counts, and a score may be
raised by distance.

Source: "attention eviction", the first of three strategies in the guide to online KV-cache compaction for
agents that this project implements beside PACE; there is no paper. It gives the window (about 100 steps), the
fading A ← λA + (1 − λ)a with λ about 0.99, and both corrections, without values. The factor 1 − λ is left
out: it changes no order.

Where this departs from it: the pool is the session's budget, and not a share of what the session would take.
Activity is summed over all layers and heads, and a token goes from all of them at once, since llama.cpp's
cells are shared by them. Evictions come every few hundred tokens. Tokens nearer than the minimum distance
cannot have been counted yet, so they stay first, as long as they are no more than half of what stays. Sinks,
pinned segments and the newest turn's role markers stay.

Units: ``window`` is in steps (a generated token, or a micro-batch of a prompt); ``decay`` is per token;
``min_distance`` is in positions (64: a line or two, so that what counts is reading back and not finishing
a phrase). ``distance_power`` is an exponent: activity is multiplied by the distance to the newest token,
relative to the farthest, to that power; 0, the default, leaves it as it is, since the minimum distance takes
out most of what nearness adds; 1 counts a token twice as far twice as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pace_local.policies.base import CacheView, Observation, Policy, Scores, check_range
from pace_local.policies.ranges import check_choice, check_whole
from pace_local.policies.ranking import keep_first, measured, newest, share_of_greatest

MODES = ("window", "decay")


@dataclass
class AttentionPolicy(Policy):
    """Recent activity, corrected for nearness.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "attention"
    looks_at_steps = True

    mode: str = "window"
    """``"window"``: activity in the last steps; ``"decay"``: a sum that fades."""

    window: int = 100
    """Steps that mode ``"window"`` looks back."""

    decay: float = 0.99
    """λ: what each later token leaves of a sum in mode ``"decay"``."""

    min_distance: int = 64
    """Attention across fewer positions is not counted."""

    distance_power: float = 0.0
    """How much distance raises a score; 0: not at all."""

    sinks: int = 4
    """First tokens of the session that always stay."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_choice("mode", self.mode, MODES)
        check_whole("window", self.window, 1, 4096)
        check_range("decay", self.decay, 0.0, 1.0)
        check_whole("min_distance", self.min_distance, 0, 2**31 - 1)
        check_range("distance_power", self.distance_power, 0.0, 8.0)
        check_whole("sinks", self.sinks, 0, 2**31 - 1)

    def check_target(self, target: int) -> None:
        """Refuse more sinks than an eviction leaves tokens."""
        check_whole("sinks", self.sinks, 0, target)

    @property
    def observes(self) -> Observation:
        """The last query rows, across the minimum distance."""
        if self.mode == "decay":
            return Observation(min_distance=self.min_distance, decay=self.decay)
        return Observation(min_distance=self.min_distance, window=self.window)

    def score(self, view: CacheView) -> Scores:
        """Activity, raised by distance; what is too near to have been counted ahead of it.

        Raises:
            ConfigError: if no attention was measured.
        """
        seen = measured(view, self.name)
        activity = share_of_greatest(seen.window if self.mode == "window" else seen.total)
        distance = view.position[-1:].astype(np.float64) - view.position
        if self.distance_power:
            activity = activity * share_of_greatest(distance) ** self.distance_power
        uncounted = (distance < self.min_distance) & newest(view, view.target // 2)
        return keep_first(activity, uncounted)
