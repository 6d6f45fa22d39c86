"""Finds a regular expression in the lines of texts, and gives up when that takes too long.

Python's expressions can take longer than anyone waits (``(a+)+$``), and nothing interrupts them: so they run
in a process of their own, which is this file, started as a script. It imports nothing of this package.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

_LENGTH = struct.Struct("<I")
_LOOK_SECONDS = 0.1
_MEMORY = 2 * 2**30
"""Bytes of address space: an expression can fill the memory as well as the time."""


@dataclass(frozen=True)
class Hits:
    """Where an expression matches in one text."""

    count: int = 0
    """Lines that match."""

    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """Of the first of them: the line's number from 1, and the first match's start and end in characters."""


class GaveUpError(Exception):
    """A search was not finished; says why. It does not leave this package."""


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends, which are those that editors count: LF, CR LF and CR."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def hits_in(regex: re.Pattern[str], text: str, most: int) -> Hits:
    """The lines of a text that match.

    Args:
        regex: what to find.
        text: where.
        most: lines whose places are kept; the others are counted.
    """
    count = 0
    spans: list[tuple[int, int, int]] = []
    search = regex.search
    for number, line in enumerate(lines_of(text), 1):
        match = search(line)
        if match is not None:
            count += 1
            if len(spans) < most:
                spans.append((number, *match.span()))
    return Hits(count, spans)


class PlainSearch:
    """Finds a text that stands for itself, in this process: that takes no longer than reading."""

    def __init__(self, regex: re.Pattern[str]) -> None:
        self._regex = regex

    def find(self, text: str, most: int) -> Hits:
        """As :func:`hits_in`."""
        return hits_in(self._regex, text, most) if self._regex.search(text) else Hits()

    def close(self) -> None:
        """Nothing is left to end."""


class ExpressionSearch:
    """Finds an expression, in a process of its own. Use it as a context manager, from one thread.

    Args:
        regex: what to find.
        deadline: on :func:`time.monotonic`'s clock, after which it gives up.
        cancel: gives up when set, from any thread.
    """

    def __init__(self, regex: re.Pattern[str], deadline: float, cancel: threading.Event | None) -> None:
        self._deadline = deadline
        self._cancel = cancel
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        seconds = max(1, round(deadline - time.monotonic()) + 1)
        job = {"pattern": regex.pattern, "flags": regex.flags, "seconds": seconds}
        with suppress(GaveUpError):  # the first search says so
            self._send(json.dumps(job).encode())

    def __enter__(self) -> ExpressionSearch:
        """It runs from when it is made."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its process."""
        self.close()

    def find(self, text: str, most: int) -> Hits:
        """As :func:`hits_in`.

        Raises:
            GaveUpError: at the time limit, when cancelled, or if the process ended; it is of no use then.
        """
        self._send(_LENGTH.pack(most) + text.encode("utf-8", "surrogatepass"))
        answer = json.loads(self._answer())
        return Hits(answer["count"], [tuple(span) for span in answer["spans"]])

    def close(self) -> None:
        """End its process. Safe to call twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _send(self, data: bytes) -> None:
        # The process reads all of a text before it answers: neither waits for the other.
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(_LENGTH.pack(len(data)) + data)
            self._process.stdin.flush()
        except OSError:
            raise GaveUpError("the process that searches has ended") from None

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        answer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if self._cancel is not None and self._cancel.is_set():
                    raise GaveUpError("cancelled")
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise GaveUpError("the time limit was reached")
                if not selector.select(min(left, _LOOK_SECONDS)):
                    continue
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise GaveUpError("the process that searches has ended")
                answer += piece
        return answer


def _limit(seconds: int) -> None:
    """Whoever started this process may end before it: then nobody else stops it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _MEMORY)):
            hard = resource.getrlimit(kind)[1]
            value = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (value, value))


def _received() -> bytes:
    """One message; empty at the end."""
    start = sys.stdin.buffer.read(_LENGTH.size)
    return sys.stdin.buffer.read(*_LENGTH.unpack(start)) if len(start) == _LENGTH.size else b""


def main() -> None:
    """Read an expression, then texts; answer each with a line of JSON."""
    job = json.loads(_received())
    _limit(job["seconds"])
    regex = re.compile(job["pattern"], job["flags"])
    while message := _received():
        text = message[_LENGTH.size :].decode("utf-8", "surrogatepass")
        found = hits_in(regex, text, *_LENGTH.unpack_from(message))
        sys.stdout.write(json.dumps({"count": found.count, "spans": found.spans}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
