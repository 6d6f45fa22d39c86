"""Batches of changes on their way from the thread that finds them to whoever takes them."""

from __future__ import annotations

import threading
import time

from pace_agent.watching.changes import Batch, merged

_KEPT = 64
"""Batches that wait one by one; where nobody takes them, they become one."""


class Batches:
    """A queue of batches, for any number of threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Batch] = []
        self._failure: BaseException | None = None
        self._ended = False

    def put(self, batch: Batch) -> None:
        """Add a batch behind the others."""
        with self._changed:
            self._waiting.append(batch)
            if len(self._waiting) > _KEPT:
                self._waiting = [merged(self._waiting)]
            self._changed.notify()

    def end(self, failure: BaseException | None = None) -> None:
        """Say that none will follow, and why if something went wrong."""
        with self._changed:
            self._failure = failure
            self._ended = True
            self._changed.notify_all()

    def next(self, timeout: float | None) -> Batch | None:
        """Wait for a batch; None after so many seconds, or if none will follow.

        Raises:
            What :meth:`end` was given, when all batches have been taken.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._waiting and not self._ended:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            if self._waiting:
                return self._waiting.pop(0)
            self._raise_failure()
            return None

    def all_at_once(self) -> Batch | None:
        """Take all that wait as one batch; None if there are none, or they undo each other.

        Raises:
            What :meth:`end` was given, if none wait.
        """
        with self._changed:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._raise_failure()
                return None
        batch = merged(waiting)
        return batch if batch.changes or batch.head else None

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
