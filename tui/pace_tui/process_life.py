"""The life of the process behind the screen: started, told, ended, started again; nobody waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pace_tui.wire import Command, Connect, Inbox, Options, Received, WorkerLike

CLOSE_PATIENCE = 0.8
"""Seconds that a process has to end with the screen; the screen does not wait longer."""


class ProcessLife:
    """One process after the other, each with the options of the last start and what has changed since.

    Args:
        connect: starts one; called in a thread.
        options: of the first.
        inbox: takes what the process of the last start says; what an earlier one still says is dropped.
        failed: called in a thread with why there is no process, if it is that of the last start.
    """

    def __init__(
        self, connect: Connect, options: Options, inbox: Inbox, failed: Callable[[str], None]
    ) -> None:
        self.connect = connect
        self.options = dict(options)
        self.started_at = 0.0
        """When the last start was, in seconds since 1970."""
        self._inbox, self._failed = inbox, failed
        self._generation = 0
        self._worker: WorkerLike | None = None
        self._ending: WorkerLike | None = None
        """One that has been told to end and is still there."""
        self._pending: list[Command] | None = []
        """Commands for a process that is being started, or will be first; None: there is none to come."""
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._starting = threading.Lock()

    def start(self, **changes: str) -> None:
        """Start a process; the one before is ended first, in case it holds what the new one needs.

        Args:
            changes: of the options, for this and later starts; an empty ``resume`` begins a new session.
        """
        self.change(**changes)
        with self._sending:
            if self._generation:
                self._pending = []
            with self._receiving:
                self._generation += 1
                self._inbox.drop()
            generation, options = self._generation, dict(self.options)
        self.started_at = time.time()
        threading.Thread(target=self._begin, args=(generation, options), daemon=True).start()

    def change(self, **changes: str) -> None:
        """Change the options of later starts; see :meth:`start`."""
        self.options.update(changes)
        if not self.options.get("resume"):
            self.options.pop("resume", None)

    def _begin(self, generation: int, options: Options) -> None:
        with self._starting:
            self._end()
            if generation != self._generation:
                return
            try:
                worker = self.connect(options, partial(self._receive, generation))
            except Exception as error:
                self._give_up(generation, str(error) or repr(error))
                return
            with self._sending:
                self._worker = worker
                pending: list[Command] = []
                if generation == self._generation:
                    pending, self._pending = self._pending or [], None
                for command in pending:
                    worker.send(command)
            if generation != self._generation:
                self._end()

    def _give_up(self, generation: int, problem: str) -> None:
        with self._sending:
            if generation != self._generation:
                return
            self._pending = None
        self._failed(problem)

    def _receive(self, generation: int, received: Received) -> None:
        """Called in any thread."""
        with self._receiving:  # else something of an earlier one could come in behind the drop
            if generation == self._generation:
                self._inbox.add(received)

    def tell(self, command: Command) -> bool:
        """Send something, now or as soon as there is a process; returns whether there is one or will be."""
        with self._sending:
            if self._pending is not None:
                self._pending.append(command)
                return True
            if self._worker is None:
                return False
            self._worker.send(command)
            return True

    def is_gone(self) -> None:
        """The process has died: what is told from now on has nobody to hear it."""
        with self._sending:
            self._generation += 1
            self._pending = None
            worker, self._worker = self._worker, None
        threading.Thread(target=self._end_in_turn, args=(worker,), daemon=True).start()

    def _end_in_turn(self, worker: WorkerLike | None = None) -> None:
        with self._starting:
            self._close(worker)
            self._end()

    def _end(self) -> None:
        with self._sending:
            worker, self._worker = self._worker, None
        self._close(worker)

    def _close(self, worker: WorkerLike | None) -> None:
        if worker is not None:
            self._ending = worker
            with suppress(Exception):  # it is no more than tidying up
                worker.close()
            self._ending = None

    def close(self, patience: float = CLOSE_PATIENCE) -> None:
        """End the process, by force if so many seconds are not enough. Nothing is received after that."""
        with self._sending:
            self._generation += 1
            self._pending = None
        closing = threading.Thread(target=self._end_in_turn, daemon=True)
        closing.start()
        closing.join(patience)
        for worker in (self._ending, self._worker):
            if closing.is_alive() and worker is not None:
                worker.kill()
