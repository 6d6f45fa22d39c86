"""A worker that ships beside the real one: it replays what a process would say, and notes what it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pace_tui.wire import Command, Options, Receive, Received, WorkerLike

Reply = Callable[[Command], Iterable[Received]]
"""What a worker says to a command."""


@dataclass
class FakeWorker:
    """Takes a process's place.

    ``greeting`` is said at once. Each ``prompt`` is answered with the next of ``runs``; a run stops before an
    ``asked`` object's follower until that is answered, and at a ``cancel``. Other commands are answered by
    ``reply``.
    """

    receive: Receive = lambda received: None
    greeting: Sequence[Received] = ()
    runs: Sequence[Sequence[Received]] = ()
    reply: Reply = lambda command: ()
    is_threaded: bool = False
    """Whether it speaks from a thread of its own, as a process's reader does."""
    options: Options = field(default_factory=dict)
    sent: list[Command] = field(default_factory=list)
    """Commands so far."""
    is_closed: bool = False

    def __post_init__(self) -> None:
        """Say the greeting."""
        self._run: list[Received] = []
        self._taken = 0
        self._say(self.greeting)

    def _say(self, objects: Iterable[Received]) -> None:
        if not self.is_threaded:
            for each in objects:
                self.receive(each)
            return

        def speak() -> None:
            for each in objects:
                self.receive(each)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        thread.join()

    def say(self, *objects: Received) -> None:
        """Say something unasked."""
        self._say(objects)

    def send(self, command: Command) -> None:
        """Note the command, and answer it."""
        if self.is_closed:
            return
        self.sent.append(command)
        kind = command["type"]
        if kind == "prompt":
            if self._taken < len(self.runs):
                self._run = list(self.runs[self._taken])
                self._taken += 1
            else:
                self._run = []
            number = self._taken
            self._say(
                [
                    {
                        "type": "prompted",
                        "prompt": command["prompt"],
                        "segment": f"prompt:{number}",
                        "number": number,
                    }
                ]
            )
            self._go_on()
        elif kind == "answer":
            allowed = command["scope"] != "no"
            self._say(
                [{"type": "decided", "id": command["id"], "allowed": allowed, "by": "user", "reason": ""}]
            )
            self._go_on()
        elif kind == "cancel":
            self._run = []
            self._say([ended("cancelled")])
        self._say(self.reply(command))

    def _go_on(self) -> None:
        while self._run:
            one = self._run.pop(0)
            self._say([one])
            if one["type"] in ("asked", "pause"):
                return

    def go_on(self) -> None:
        """Go on after a ``pause`` object, which a run may hold."""
        self._go_on()

    def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def kill(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def told(self, kind: str) -> list[Command]:
        """The commands of a type so far."""
        return [each for each in self.sent if each["type"] == kind]


class FakeConnect:
    """Starts fake workers, one after the other, each with the next of the settings; keeps them all."""

    def __init__(self, *settings: dict[str, object]) -> None:
        self._settings = settings or ({},)
        self.workers: list[FakeWorker] = []

    @property
    def worker(self) -> FakeWorker:
        """The last one."""
        return self.workers[-1]

    def __call__(self, options: Options, receive: Receive) -> WorkerLike:
        """Start one."""
        settings = self._settings[min(len(self.workers), len(self._settings) - 1)]
        worker = FakeWorker.__new__(FakeWorker)
        self.workers.append(worker)
        worker.__init__(receive, options=options, **settings)  # type: ignore[misc]
        return worker


def started(**changes: object) -> Received:
    """The first event of a session."""
    return {
        "type": "started", "session": "fake", "repository": "shop", "model": "tiny", "style": "tools",
        "mode": "ask", "policy": "pace_focus", "budget": 2048, "position_cap": 8192, "resumed": False,
        **changes,
    }  # fmt: skip


def ended(reason: str = "done", result: str = "", **changes: object) -> Received:
    """The last event of a run."""
    return {
        "type": "ended", "reason": reason, "result": result, "turns": 1, "seconds": 1.5, "changed": [],
        "misses": 0, "recalled": 0, "decoded": 10, "generated": 5, **changes,
    }  # fmt: skip


GREETING: tuple[Received, ...] = ({"type": "loading", "share": 0.5}, started(), {"type": "ready"})
"""What a process says when it starts."""
