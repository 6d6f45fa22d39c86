"""``pace_focus``: PACE, and each step starts with exactly what it reads.

Texts that a plan may read are read in isolation, seeing only the pinned prefix and themselves, so that their
keys and values stand on their own wherever they are put later. When a step starts, what it does not read
makes room, and what it reads comes back from where it was saved. Within a step it keeps what ``pace`` keeps;
parameters and units are those of ``streaming``, which the unplanned remainder is chosen by. Our own, beyond
the source of ``pace``: see docs/how-it-works.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.policies.pace import PacePolicy


@dataclass
class PaceFocusPolicy(PacePolicy):
    """The working set of each step, by plan."""

    name = "pace_focus"
    focuses = True
