"""Between the screen and the process that holds agent and model: objects go both ways.

They are plain dicts here, as they come off the pipe: the typed events live in modules that would have to be
imported before the first paint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Received = dict[str, Any]
"""An event of the agent's, or an object about the process; ``type`` says which."""
Command = dict[str, Any]
"""What the process is told; ``type`` says what."""
Options = Mapping[str, str]
"""Of a start: ``model``, ``policy``, ``budget``, ``mode`` …; ``resume`` names a session.
An empty text is the value of a switch."""
Receive = Callable[[Received], None]


class WorkerLike(Protocol):
    """A process, or what takes its place."""

    def send(self, command: Command) -> object:
        """Tell it something; returns at once."""

    def close(self) -> None:
        """End it; nothing is received after that. Returns when it is gone, which may take a while."""

    def kill(self) -> None:
        """Make it end now; from any thread."""


Connect = Callable[[Options, Receive], WorkerLike]
"""Starts a process; what it says is given to the callback, from any thread."""


class Inbox:
    """What was received and not yet drawn. Any thread may add; one takes.

    Args:
        wake: called once whenever something comes into an empty inbox; must be safe in any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._waiting: deque[Received] = deque()
        self._is_woken = False

    def add(self, received: Received) -> None:
        """Put an object in."""
        self._waiting.append(received)
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def drop(self) -> None:
        """Forget what has come."""
        self._waiting.clear()
        self._is_woken = False

    def put_back(self, received: Sequence[Received]) -> None:
        """Put in front again what was taken; it wakes nobody."""
        self._waiting.extendleft(reversed(received))

    def take(self, most: int = 500) -> list[Received]:
        """What has come, oldest first; wakes again if there is more."""
        self._is_woken = False
        taken: list[Received] = []
        while self._waiting and len(taken) < most:
            taken.append(self._waiting.popleft())
        if self._waiting and not self._is_woken:
            self._is_woken = True
            self._wake()
        return taken
