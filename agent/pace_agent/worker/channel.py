"""The descriptors of a worker: a channel that nothing else writes to, and a log for all that is printed."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pace_local.sessions.log_file import failure

_BLOCK = 1 << 16
_LONGEST_LOG = 1 << 20
"""Bytes of a session's log from before; if there are more, it begins anew."""


def take_standard_streams() -> tuple[int, int]:
    """Have stdin and stdout for the protocol alone: copies of them that no child inherits.

    Afterwards there is nothing to read on descriptor 0, and what anybody prints on descriptor 1, natively or
    not, goes where descriptor 2 does.

    Returns:
        Descriptors to read commands from, and to write messages to.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # it was closed when Python started
        if nothing != 2:
            os.dup2(nothing, 2)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    commands, said = os.dup(0), os.dup(1)
    os.dup2(nothing, 0)
    if nothing != 2:
        os.close(nothing)
    os.dup2(2, 1)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # so that a crash loses nothing
    return commands, said


def log_to(path: Path) -> None:
    """Have descriptors 1 and 2 lead to a file from now on, for its user alone, with what was printed before.

    Raises:
        StorageError: if it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        if os.fstat(descriptor).st_size > _LONGEST_LOG:
            os.ftruncate(descriptor, 0)
        os.write(descriptor, _printed())
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
    except OSError as error:
        raise failure("write", path, error) from error


def _printed() -> bytes:
    """What is in the file that descriptor 2 leads to; nothing if it is none that can be read."""
    status = os.fstat(2)
    if not stat.S_ISREG(status.st_mode):
        return b""
    with suppress(OSError):
        return os.pread(2, _LONGEST_LOG, max(0, status.st_size - _LONGEST_LOG))
    return b""


def read_lines(descriptor: int, longest: int) -> Iterator[bytes | None]:
    """Lines as they come, without their ends, until the other side closes.

    Args:
        descriptor: to read from.
        longest: bytes of a line; None comes in the place of a longer one.
    """
    # Not through a file object: a thread that waits in one cannot be left behind when Python ends.
    parts: list[bytes] = []
    size = 0
    with suppress(OSError):
        while block := os.read(descriptor, _BLOCK):
            *ended, rest = block.split(b"\n")
            for end in ended:
                size += len(end)
                yield b"".join((*parts, end)) if size <= longest else None
                parts, size = [], 0
            size += len(rest)
            if size <= longest:
                parts.append(rest)
            else:
                parts = []


class Channel:
    """Says lines to who started this process. Safe from every thread; nobody waits for a slow reader.

    Args:
        descriptor: to write to; the channel's own from now on.
        on_broken: called once if nobody reads any more, from another thread.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None] = lambda: None) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._lines: deque[bytes] = deque()
        self._latest: bytes | None = None
        self._changed = threading.Condition()
        self._is_writing = self._is_broken = False
        threading.Thread(target=self._write_all, name="channel", daemon=True).start()

    def say(self, line: bytes) -> None:
        """Say a line, behind all before."""
        with self._changed:
            if not self._is_broken:
                self._lines.append(line)
                self._changed.notify_all()

    def say_latest(self, line: bytes) -> None:
        """Say a line when there is nothing else to say, unless a later one takes its place before."""
        with self._changed:
            self._latest = line
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all is said, so long at most; returns whether it is."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._is_writing or self._lines or self._latest is not None:
                left = deadline - time.monotonic()
                if self._is_broken or left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _write_all(self) -> None:
        try:
            while True:
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._lines or self._latest is not None)
                    if self._lines:
                        line = self._lines.popleft()
                    else:
                        assert self._latest is not None
                        line, self._latest = self._latest, None
                    self._is_writing = True
                written = 0
                while written < len(line):
                    written += os.write(self._descriptor, memoryview(line)[written:])
        except OSError:
            with self._changed:
                self._is_broken = True
                self._changed.notify_all()
            self._on_broken()
