"""Keys that answer count only after a short time without one: who was typing does not answer by accident."""

from __future__ import annotations

import time

GRACE = 0.4
"""Seconds without a key before keys count."""


class Grace:
    """The time without a key, of one question.

    It goes by when a key was pressed, not by when it is dealt with: keys wait while a long question is drawn.

    Args:
        seconds: after which keys count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._quiet_since = float("inf")

    def begin(self) -> None:
        """The question is to be seen from now on; before that, no key counts."""
        self._quiet_since = time.monotonic()

    def takes_key(self, pressed_at: float) -> bool:
        """Whether a key comes too early to count; then the wait begins again.

        Args:
            pressed_at: by the clock of :func:`time.monotonic`.
        """
        if pressed_at - self._quiet_since >= self._seconds:
            return False
        self._quiet_since = max(self._quiet_since, pressed_at)
        return True
