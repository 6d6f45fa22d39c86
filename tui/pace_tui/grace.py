"""Keys that answer count only after a short time without one: who was typing does not answer by accident."""

from __future__ import annotations

import time

GRACE = 0.4
"""Seconds without a key before keys count."""


class Grace:
    """The time without a key, of one question.

    Args:
        seconds: after which keys count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._quiet_since = time.monotonic()

    def begin_again(self) -> None:
        """A key came that answers nothing."""
        self._quiet_since = time.monotonic()

    def takes_key(self) -> bool:
        """Whether a key comes too early to count; then the wait begins again."""
        if time.monotonic() - self._quiet_since >= self._seconds:
            return False
        self.begin_again()
        return True
