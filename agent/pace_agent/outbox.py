"""Where events go: to a listener at once, to the session's log, and to whoever iterates over a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pace_agent.events import AgentEvent

Listener = Callable[[AgentEvent], None]


class Outbox:
    """Takes events in order.

    What is said before the first run is kept for who iterates over that.

    Args:
        listeners: each is called with every event at once, in this order.
    """

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)
        self._waiting: list[AgentEvent] = []
        self._is_read = True

    def listen(self, listener: Listener) -> None:
        """Call one more with every event from now on."""
        self._listeners.append(listener)

    def say(self, event: AgentEvent) -> None:
        """Tell everybody."""
        if self._is_read:
            self._waiting.append(event)
        for listener in self._listeners:
            listener(event)

    def drain(self) -> Iterator[AgentEvent]:
        """Give what was said since the last time."""
        waiting, self._waiting = self._waiting, []
        yield from waiting

    def open(self) -> None:
        """From now on somebody iterates."""
        self._is_read = True

    def close(self) -> None:
        """Nobody iterates any more; nothing is kept for them."""
        self._waiting, self._is_read = [], False
