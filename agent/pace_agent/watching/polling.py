"""Watching by scanning again and again: where the system has no watches left, or its events are no use."""

from __future__ import annotations

import errno
import time

_SHARE = 0.05
"""Part of the time that scans may take, however large the repository is."""


def reason_to_poll(error: OSError) -> str | None:
    """Why a watch could not be had, if that calls for polling; None if only that one folder is concerned."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP):
        return None
    if error.errno == errno.ENOSPC:
        return "the system's limit of watches is reached (fs.inotify.max_user_watches)"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "the system's limit of watchers or open files is reached (fs.inotify.max_user_instances)"
    return f"the system gives no watches here ({error.strerror or error})"


class Polling:
    """When to scan next.

    Args:
        seconds: between scans, at least; a scan that takes long is repeated less often.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def wait_seconds(self) -> float:
        """Until the next scan is due; 0 if it is."""
        return max(0.0, self._next - time.monotonic())

    def put_off(self, seconds: float) -> None:
        """Have the next scan no earlier than in so many seconds."""
        self._next = max(self._next, time.monotonic() + seconds)

    def scanned(self, took: float) -> None:
        """Note that a scan has ended."""
        self._next = time.monotonic() + max(self._seconds, took / _SHARE)
