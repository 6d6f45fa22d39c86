"""What the parts of a session share: one piece of work at a time, all or nothing, and events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pace_local.checkpoints import Checkpoints
from pace_local.errors import ConfigError
from pace_local.events import Event
from pace_local.segments import Segment
from pace_local.session_view import SessionView

if TYPE_CHECKING:
    from pace_local.session_disk import SessionDisk

Listener = Callable[[Event], None]


class SessionCore(SessionView):
    """The part of a session that keeps order. :class:`~pace_local.session.Session` fills it."""

    _checkpoints: Checkpoints
    _disk: SessionDisk | None
    _is_written_down: bool
    _listener: Listener | None
    _lock: threading.Lock
    _n_turns: int
    _pending: list[int]
    _role: str | None
    _step_is_due: bool
    _turn_is_over: bool
    _working: bool

    if TYPE_CHECKING:

        def close(self) -> None:
            """Free the cache."""

        def _tell_memory(self) -> None: ...

        def _flush_pending(self) -> None: ...

    def cancel(self) -> None:
        """Stop what the session is doing within one micro-batch. From any thread or signal handler."""
        if self._working:
            self.engine.cancel()

    # Keeping order

    def check(self) -> None:
        """Compare the map with the native cache and check every invariant.

        Raises:
            AssertionError: a fault of this package.
        """
        self._cache.check()

    def _check_pins(self, name: str, tokens: int) -> None:
        held = sum(self._price(self.segments[i]) for i in self.segments.pinned)
        room = max(0, self.config.soft_budget - self.config.recent_tokens - self.policy.sinks)
        if held + tokens > room:
            raise ConfigError(
                f"{name!r} takes {tokens} tokens with its role markers, pinned segments {held}, and at most "
                f"{room} can be pinned in a budget of {self.config.budget}; pin less or raise the budget"
            )

    def _price(self, segment: Segment) -> int:
        """Tokens that stay if a segment does: its own and the role markers of its turn."""
        markers = sum(len(part) for part in self.segments.of_turn(segment) if part.kind == "framing")
        closing = len(self._pending) if segment.turn == self._n_turns - 1 else 0
        return markers + closing + (0 if segment.kind == "framing" else len(segment))

    def _require_open(self) -> None:
        if self.engine.ctx is None:
            raise ConfigError("the session is closed; make a new one")

    def _start_turn(self) -> None:
        if self._turn_is_over:
            self._turn_start = self._cache.counters.copy()
            self._turn_is_over = False

    def _next_turn(self) -> int:
        self._n_turns += 1
        return self._n_turns - 1

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._require_open()
            if self._working:
                raise ConfigError("the session is busy: finish or close the running generation first")
            self.engine.resume()
            self._working = True
        self._is_written_down = False
        try:
            yield
        except BaseException:
            with suppress(Exception):  # what went wrong first is what counts
                self._write_down()
            raise
        else:
            if not self._is_written_down:
                self._write_down()
        finally:
            self._arriving = None
            self._cache.is_answering = False
            self._working = False
            self.engine.resume()

    def _write_down(self) -> None:
        """Write what has changed to the disk, if the session is kept there."""
        if self._disk is not None and self.engine.ctx is not None:
            self.engine.resume()
            self._disk.write()
        self._is_written_down = True

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Withdraw all tokens that were read inside, if it fails. Evictions made for them stay."""
        tokens, segments, turns = len(self._cache.tokens), len(self.segments), self._n_turns
        role, prompt, pending, plan = self._role, self._prompt, self._pending, self._plan
        try:
            yield
        except BaseException:
            if self.engine.ctx is None:  # a listener has closed it: there is nothing to take back
                raise
            self._cache.withdraw(tokens)
            self.segments.truncate(segments)
            self._memory.forget_from(tokens, segments)
            if self._disk is not None:
                self._disk.withdrawn(tokens)
            self._n_turns, self._role, self._prompt, self._pending = turns, role, prompt, pending
            self._cache.told = {told for told in self._cache.told if told[0] < segments}
            self._mentioned = [segment for segment in self._mentioned if segment < segments]
            self._asked = [segment for segment in self._asked if segment < segments]
            if any(name not in self.segments for name in self._plan.next_use()):
                self._plan = plan  # a listener has planned to read what is no more
            raise

    # Events

    _queue: list[Event] | None = None

    def _emit(self, event: Event) -> None:
        """Tell the listener now, and whoever iterates over the answer when it asks next."""
        if self._disk is not None:
            self._disk.note(event)
        if self._queue is not None:
            self._queue.append(event)
        if self._listener is not None:
            self._listener(event)

    @staticmethod
    def _drain(queue: list[Event]) -> Iterator[Event]:
        yield from queue
        queue.clear()
