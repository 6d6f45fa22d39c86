"""A child on a terminal of its own, read as a terminal emulator reads it: at once, and all of it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from pace_local.errors import PaceError
from pace_tui.bench.grid import Grid

_BLOCK = 1 << 16
_TERM_SECONDS = 3.0
_LAST_LINES = 12


class Terminal:
    """A child and what it shows. Use it as a context manager.

    Args:
        words: what is run; the first is a path.
        environ: the child's environment.
        columns: of the terminal.
        rows: of the terminal.
        folder: that the child works in; None: this process's.
        pass_fds: descriptors that the child inherits.
    """

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        *,
        columns: int = 120,
        rows: int = 40,
        folder: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.grid = Grid(columns, rows)
        self.bytes = 0
        """Written by the child so far."""
        self._ours, theirs = pty.openpty()
        self._set_size(columns, rows)
        self.began = time.perf_counter()
        """When the process was started, by the clock of :func:`time.perf_counter`."""
        self._popen = subprocess.Popen(
            words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        os.close(theirs)
        self._process = psutil.Process(self._popen.pid)

    def __enter__(self) -> Terminal:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        self.close()

    def read(self, seconds: float) -> float | None:
        """Take what the child writes next.

        Args:
            seconds: to wait for it at most.

        Returns:
            When it was there, by :func:`time.perf_counter`; None: nothing came.

        Raises:
            PaceError: if the child has ended.
        """
        ready, _, _ = select.select([self._ours], [], [], max(seconds, 0.0))
        if not ready:
            return None
        at = time.perf_counter()
        try:
            written = os.read(self._ours, _BLOCK)
        except OSError:  # how Linux says that nobody has the other side any more
            written = b""
        if not written:
            raise PaceError(f"the screen ended by itself: {self._last_words()}")
        self.bytes += len(written)
        self.grid.feed(written)
        return at

    def read_until(self, holds: Callable[[Grid], bool], seconds: float, what: str) -> float:
        """Take what the child writes until something is on the screen.

        Returns:
            When the bytes that brought it were there, by :func:`time.perf_counter`.

        Raises:
            PaceError: if it is not there in time, or the child has ended.
        """
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            at = self.read(left)
            if at is not None and holds(self.grid):
                return at
        raise PaceError(f"the screen does not show {what} within {seconds:g} s: {self._last_words()}")

    def read_for(self, seconds: float) -> None:
        """Take all that the child writes in this time."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def press(self, keys: bytes) -> float:
        """Send keys as a terminal does; returns when, by :func:`time.perf_counter`."""
        at = time.perf_counter()
        os.write(self._ours, keys)
        return at

    def resize(self, columns: int, rows: int) -> None:
        """Have another size, and forget what is shown."""
        self.grid = Grid(columns, rows)
        self._set_size(columns, rows)
        self._popen.send_signal(signal.SIGWINCH)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def cpu_seconds(self) -> float:
        """Time on a processor that the child's own threads took so far, its children's left out."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _last_words(self) -> str:
        return " / ".join([line.strip() for line in self.grid.lines() if line.strip()][-_LAST_LINES:])

    def close(self) -> None:
        """End the child and its children."""
        children: list[psutil.Process] = []
        try:
            children = self._process.children(recursive=True)
            self._popen.send_signal(signal.SIGTERM)
            self._popen.wait(_TERM_SECONDS)
        except (psutil.Error, subprocess.TimeoutExpired):
            self._popen.kill()
            self._popen.wait()
        finally:
            for child in children:
                if child.is_running():
                    child.terminate()
            _, alive = psutil.wait_procs(children, timeout=_TERM_SECONDS)
            for child in alive:
                child.kill()
            os.close(self._ours)
