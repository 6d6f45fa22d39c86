"""How long to wait between two drawings of what grows."""

from __future__ import annotations

_SHORTEST = 0.1
"""Seconds: faster than people read, and cheap."""
_LONGEST = 1.0
_REST = 12
"""As many times as long as the last layout took, so that a long block takes no greater share of a core."""


def pause_after(took: float) -> float:
    """Seconds to wait after a layout that took so many on a processor."""
    return min(max(_SHORTEST, _REST * took), _LONGEST)
