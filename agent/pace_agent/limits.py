"""What ends a run from outside: turns, time, and the user."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pace_agent.ways_out import OutOfTime, OutOfTurns, Stopped


class Limits:
    """Of one run. Use it as a context manager.

    Args:
        turns: most answers of the model.
        seconds: time limit; None: there is none.
        interrupt: stops what is going on at the moment; called from another thread.
    """

    def __init__(self, turns: int, seconds: float | None, interrupt: Callable[[], None]) -> None:
        self._turns = turns
        self._seconds = seconds
        self._interrupt = interrupt
        self._timer: threading.Timer | None = None
        self.began = time.monotonic()
        self.turns = 0
        """Answers so far."""
        self.is_cancelled = False
        self.is_late = False

    def __enter__(self) -> Limits:
        """Start the clock."""
        if self._seconds is not None:
            self._timer = threading.Timer(self._seconds, self._run_out)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.began

    def cancel(self) -> None:
        """End the run as soon as possible. From any thread."""
        self.is_cancelled = True
        self._interrupt()

    def _run_out(self) -> None:
        self.is_late = True
        self._interrupt()

    def check(self) -> None:
        """Whether the run may go on.

        Raises:
            Stopped, OutOfTime: if not.
        """
        if self.is_cancelled:
            raise Stopped("cancelled")
        if self.is_late:
            raise OutOfTime(f"the time limit of {self._seconds:g} s is reached")

    def take_turn(self) -> None:
        """Count one more answer.

        Raises:
            Stopped, OutOfTime: as :meth:`check`.
            OutOfTurns: if there were as many as may be.
        """
        self.check()
        if self.turns >= self._turns:
            raise OutOfTurns(
                f"the limit of {self._turns} {'turn' if self._turns == 1 else 'turns'} is reached; "
                "go on with a new prompt"
            )
        self.turns += 1
