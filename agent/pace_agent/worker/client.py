"""The process that a screen works with: started, told, listened to, and started again after a crash.

Nothing here waits for the process but :meth:`Worker.close` and :meth:`Worker.restart`, and not for long. What
is received are plain dicts, as they come off the pipe: importing this costs a screen nothing before its first
paint. :func:`pace_agent.worker.protocol.message_of` makes typed messages of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from pace_local.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from pace_agent.worker.protocol import Command, Message

Received = dict[str, Any]
"""An event of the agent's or a message, by its ``type``."""

PROGRAM = (sys.executable, "-m", "pace_agent.worker")

_TAIL_BYTES = 16_384
_TAIL_LINES = 20
_FATAL = "Fatal Python error"
"""How what is printed of the stack begins when a native library crashes."""
_LINES_BEFORE = 5
"""Lines before that which are shown: what the library said."""
_LONGEST_TAIL_LINE = 300
_END_SECONDS = 1.2
"""In which a process ends that was told to; then it is made to."""

_TERM_SECONDS = 0.3
_KILL_SECONDS = 5.0


class Worker:
    """A worker process and the way to it. Use it as a context manager, or close it.

    Args:
        options: of :mod:`pace_agent.worker` but for those of the session, such as ``["--repo", "."]``.
        kept: options of the session: ``["--continue"]``, ``["--resume", ID]`` or ``["--no-save"]``.
        listener: called with all that the worker says, in a thread of its own; None: see :meth:`messages`.
        program: what is started; its first word is a path.
        environ: the process's environment; None: this one's.
    """

    def __init__(
        self,
        options: Sequence[str] = (),
        *,
        kept: Sequence[str] = (),
        listener: Callable[[Received], None] | None = None,
        program: Sequence[str] = PROGRAM,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._options = tuple(options)
        self._kept = tuple(kept)
        self._program = tuple(program)
        self._environ = None if environ is None else dict(environ)
        self._heard: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._listener = self._heard.put if listener is None else listener
        self._process: _Process | None = None
        self._mode: Received | None = None
        self._is_closed = False
        self.session = ""
        """Name of the session; empty as long as it is not known, or if it is not kept."""

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.popen.poll() is None

    @property
    def pid(self) -> int | None:
        """Number of the process; None: none was started."""
        return None if self._process is None else self._process.popen.pid

    def start(self) -> None:
        """Start the process; it says when it is ready.

        Raises:
            ConfigError: if it was started, or closed.
            StorageError: if there can be no process.
        """
        if self._process is not None or self._is_closed:
            raise ConfigError("the worker was started already; restart it, or make a new one")
        self._start(self._kept)

    def restart(self) -> None:
        """Start the process again, with the session that it had; one that still lives is ended first.

        Turns that were completed are all there. Commands that it had not done are not done again.

        Raises:
            ConfigError: if it was never started, or is closed.
            StorageError: if there can be no process.
        """
        if self._process is None or self._is_closed:
            raise ConfigError("the worker is not running; start a new one")
        self._process.end(0.0)
        self._start(("--resume", self.session) if self.session else self._kept)
        if self._mode is not None:  # a session does not keep its mode, and the old one may allow more
            self.send(self._mode)

    def _start(self, kept: Sequence[str]) -> None:
        try:
            process = _Process([*self._program, *self._options, *kept], self._environ, self._hear)
        except OSError as error:
            raise StorageError(f"cannot start {self._program[0]}: {error.strerror or error}") from error
        self._process = process
        process.listen()

    def send(self, command: Command | Received) -> bool:
        """Send a command; returns whether there is a process that can get it. From any thread."""
        if not isinstance(command, dict):
            from pace_agent.worker.protocol import as_dict

            command = as_dict(command)
        kind = command.get("type")
        if kind == "mode":
            self._mode = command
        process = self._process
        if process is None or not process.is_open:
            return False
        process.is_told_to_end |= kind == "quit"
        process.send(json.dumps(command).encode("ascii") + b"\n")
        return True

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """What the worker says, up to :class:`~pace_agent.worker.protocol.Died`; then call it again.

        For who gave no listener.

        Args:
            timeout: seconds without a message after which it ends; None: it waits.
        """
        from pace_agent.worker.protocol import Died, message_of

        while True:
            try:
                message = message_of(self._heard.get(timeout=timeout))
            except queue.Empty:
                return
            yield message
            if isinstance(message, Died):
                return

    def _hear(self, process: _Process, received: Received) -> None:
        if self._is_closed or process is not self._process:
            return
        if received["type"] == "started":
            self.session = str(received.get("session", ""))
        elif received["type"] == "ready":
            process.log = str(received.get("log", ""))
        self._listener(received)

    def close(self) -> None:
        """End the process: ask, and after a second make it. Nothing is said any more. Safe to call twice."""
        self._is_closed = True
        if self._process is not None:
            self._process.end(_END_SECONDS)

    def kill(self) -> None:
        """Make the process end now, if it lives, and all that it started; from any thread, also while another
        one closes it.
        """
        self._is_closed = True
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Worker:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class _Process:
    """One life of a worker: a process, and two threads that talk with it."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str] | None,
        hear: Callable[[_Process, Received], None],
    ) -> None:
        self._hear = hear
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.is_told_to_end = False
        self.is_open = True
        self.log = ""
        # Closed by the thread that reads, which outlives this.
        self._early: IO[bytes] = tempfile.TemporaryFile(prefix="pace-")  # noqa: SIM115
        try:
            self.popen = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._early,
                env=environ,
                # So that a key for the screen never signals it, and nothing in it can open the terminal.
                start_new_session=True,
            )
        except BaseException:
            self._early.close()
            raise
        self._reading = threading.Thread(target=self._read, name="from worker", daemon=True)

    def listen(self) -> None:
        """Begin to talk with it."""
        threading.Thread(target=self._write, name="to worker", daemon=True).start()
        self._reading.start()

    def send(self, line: bytes) -> None:
        """Send a line, as soon as the process reads it."""
        self._lines.put(line)

    def end(self, seconds: float) -> None:
        """End the process: ask it, if it is given time, and then make it. Returns when it is gone."""
        self.is_told_to_end = True
        if seconds and self.is_open:
            self._lines.put(b'{"type": "quit"}\n')
            self._lines.put(None)
            for patience, then in ((seconds, self.popen.terminate), (_TERM_SECONDS, self.kill)):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.popen.wait(patience)
                    break
                then()
        else:
            self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_KILL_SECONDS)
        if threading.current_thread() is not self._reading:
            self._reading.join(_TERM_SECONDS)

    def kill(self) -> None:
        """Make it end, if it lives, and all that it started: whoever hangs ends no command of its own."""
        if self.popen.poll() is None:
            from pace_agent.shell.processes import kill_tree

            kill_tree(self.popen.pid)
            self.popen.kill()

    def _write(self) -> None:
        pipe = self.popen.stdin
        assert pipe is not None
        with contextlib.suppress(OSError):
            while (line := self._lines.get()) is not None:
                pipe.write(line)
                pipe.flush()
        with contextlib.suppress(OSError):
            pipe.close()

    def _read(self) -> None:
        pipe = self.popen.stdout
        assert pipe is not None
        with pipe:
            for line in pipe:
                if not line.endswith(b"\n"):  # it died in the middle of it
                    break
                self._hear(self, _received(line))
        self.is_open = False
        self._lines.put(None)
        try:
            code = self.popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it can say nothing any more
            self.kill()
            code = self.popen.wait()
        if not self.is_told_to_end:
            from pace_agent.shell.processes import kill_left_by

            kill_left_by(self.popen.pid)
        self._hear(self, self._died(code))

    def _died(self, code: int) -> Received:
        name = ""
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
        return {
            "type": "died",
            "code": None if code < 0 else code,
            "signal": name,
            "log": self._tail(),
            "is_expected": self.is_told_to_end,
        }

    def _tail(self) -> list[str]:
        """The last lines of what was printed, harmless to show."""
        from pace_local.wording import in_one_line

        try:
            with self._early as early, open(self.log, "rb") if self.log else early as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        lines = [line.rstrip() for line in text.split("\n") if line.strip()]
        first = max(0, len(lines) - _TAIL_LINES)
        for place, line in enumerate(
            lines[:first]
        ):  # of a deep stack, how it begins says more than how it ends
            if line.startswith(_FATAL):
                first = max(0, place - _LINES_BEFORE)
        return [in_one_line(line[:_LONGEST_TAIL_LINE]) for line in lines[first : first + _TAIL_LINES]]


def _received(line: bytes) -> Received:
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(line)
        if isinstance(document, dict) and isinstance(document.get("type"), str):
            return document
    return {"type": "error", "message": f"the worker says what cannot be read: {line[:80]!r}", "fatal": False}
