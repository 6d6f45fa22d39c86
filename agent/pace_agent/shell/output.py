"""What a command wrote: bounded in memory, whole in a file, and harmless to show."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from pace_agent.errors import ToolError
from pace_local.harmless_text import harmless

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …: titles, clipboard
    r"|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_OVERSTRUCK = re.compile(r"[^\n]\x08")


def settled(text: str) -> str:
    """What a terminal would show of an output in the end, harmless.

    Escape sequences go; of a line that was written over again and again the last state stays; ``·`` stands
    for what is not seen, direction marks included.
    """
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    while "\x08" in text:
        shorter = _OVERSTRUCK.sub("", text)
        if shorter == text:
            break
        text = shorter
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return harmless(text, is_strict=True)


class Output:
    """Takes what a command writes: its beginning and end in memory, all of it in a file if it is long.

    Args:
        path: of the file; it is made, for its user alone, when the output gets too long to be shown.
        shown: characters to show.
        most: bytes to keep in the file; what comes then is counted and dropped.

    Methods may be called from several threads.
    """

    def __init__(self, path: Path, *, shown: int, most: int) -> None:
        self.path = path
        self._shown = shown
        self._most = most
        self._edge = 4 * shown  # bytes: no character of UTF-8 has more than four
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._descriptor: int | None = None
        self._problem: str | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self.size = 0
        """Bytes so far."""

    @property
    def is_full(self) -> bool:
        """Whether more came than is kept."""
        return self.size > self._most

    @property
    def file(self) -> Path | None:
        """Where all of it is; None if it is short, or could not be kept."""
        return self.path if self._descriptor is not None or (self._is_closed and self._was_kept) else None

    _was_kept = False

    def add(self, data: bytes) -> None:
        """Take a piece; after :meth:`close` it is dropped."""
        with self._lock:
            if self._is_closed:
                return
            room = max(0, self._most - self.size)
            self.size += len(data)
            if self._descriptor is not None:
                self._keep(data[:room])
            elif self.size > self._edge and self._problem is None:
                self._begin()
                self._keep(bytes(self._head) + data[:room])
            if len(self._head) < self._edge:
                taken = self._edge - len(self._head)
                self._head += data[:taken]
                data = data[taken:]
            if data:
                self._tail.append(data[-self._edge :])
                self._tail_size += len(self._tail[-1])
                while self._tail_size - len(self._tail[0]) >= self._edge:
                    self._tail_size -= len(self._tail.popleft())

    def close(self) -> None:
        """Take no more. Safe to call twice."""
        with self._lock:
            self._is_closed = True
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def text(self) -> str:
        """What is shown: all of it, or its beginning and end with a line between that says what is missing.

        Closes the output; a text of few bytes can still be too long, and is then written to the file.
        """
        with self._lock:
            whole = bytes(self._head) + b"".join(self._tail)
            is_whole = len(whole) == self.size
            if is_whole:
                text = settled(whole.decode(errors="replace"))
                if len(text) <= self._shown:
                    return text
                if self._descriptor is None and not self._is_closed and self._problem is None:
                    self._begin()
                    self._keep(whole[: self._most])
                head = tail = text
            else:
                head = settled(bytes(self._head).decode(errors="ignore"))
                tail = settled(b"".join(self._tail).decode(errors="replace"))
        return self._cut(head, tail)

    def _cut(self, head: str, tail: str) -> str:
        half = self._shown // 2
        first, last = head[:half], tail[-half:]
        # Whole lines where there are some, since half of one can mean something else.
        if "\n" in first:
            first = first[: first.rindex("\n") + 1]
        if "\n" in last[:-1]:
            last = last[last.index("\n") + 1 :]
        if self._problem is not None:
            where = f"the rest could not be kept: {self._problem}"
        else:
            where = f"all of it is in {self.path}"
            if self.is_full:
                where = f"the first {self._most:,} bytes are in {self.path}"
        gap = "" if first.endswith("\n") or not first else "\n"
        return f"{first}{gap}… {self.size:,} bytes in all; {where} …\n{last}"

    def _begin(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            self._descriptor = os.open(self.path, flags, 0o600)
            self._was_kept = True
        except OSError as error:
            self._problem = error.strerror or str(error)

    def _keep(self, data: bytes) -> None:
        if self._descriptor is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            self._problem = error.strerror or str(error)
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def check_shown(shown: int) -> None:
    """Refuse a number of characters that cannot be shown.

    Raises:
        ToolError: with the range.
    """
    if not 200 <= shown <= 10_000_000:
        raise ToolError(f"{shown} characters of output are out of range; use 200 to 10,000,000")
