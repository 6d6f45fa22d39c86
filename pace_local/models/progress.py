"""Progress of long work on models: the callback's type, and a line on the terminal that shows it."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO, TypeAlias

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and what is being done.

It is called in the thread that does the work, and an error of it stops that.
"""

Say: TypeAlias = Callable[[str], None]
"""Called with one line that a person should see."""


def no_progress(done: int, total: int, what: str) -> None:
    """A ``Progress`` that shows nothing."""


def format_bytes(count: float) -> str:
    """``count`` bytes for people, in decimal units: ``"491 MB"``, ``"16.4 GB"``."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


class ProgressLine:
    """Shows progress on ``stream``: one line that is redrawn on a terminal, sparse lines elsewhere.

    Call it as a ``Progress``; ``say`` prints a line of its own above; ``close`` ends the last line.
    """

    REDRAW_SECONDS = 0.1
    """A terminal's line is not redrawn sooner."""
    SPARSE_SECONDS = 1.0
    """A log gets no further line sooner, however fast the work is."""
    QUIET_SECONDS = 30.0
    """A log gets a further line by then, however slow the work is."""

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        width: int | None = None,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._width = width
        self._terminal = self._stream.isatty()
        self._what: str | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._drawn_at = float("-inf")
        self._shown: tuple[str, int] | None = None
        self._open = False

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that ``done`` of ``total`` bytes of ``what`` are ready."""
        now = self._clock()
        fresh = what != self._what
        self._what = what
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()  # another phase began: its speed is its own
        self._samples.append((now, done))
        while now - self._samples[0][0] > 5 and len(self._samples) > 2:
            self._samples.popleft()
        whole = done >= total
        if self._terminal:
            if fresh or whole or now - self._drawn_at >= self.REDRAW_SECONDS:
                self._drawn_at = now
                self._draw(self._text(done, total, what))
            return
        shown = (what, 10 * done // total if total else 10)
        since = now - self._drawn_at
        news = shown != self._shown and (whole or since >= self.SPARSE_SECONDS)
        if news or since >= self.QUIET_SECONDS:
            self._shown, self._drawn_at = shown, now
            self._print(self._text(done, total, what))

    def say(self, line: str) -> None:
        """Print ``line`` without tearing the progress line."""
        self.close()
        self._print(line)

    def close(self) -> None:
        """End the progress line, if one is drawn."""
        if self._open:
            self._open = False
            self._stream.write("\n")
            self._stream.flush()

    def _text(self, done: int, total: int, what: str) -> str:
        percent = f"{100 * done // total:3d}%" if total else "100%"
        text = f"{what}  {format_bytes(done)} of {format_bytes(total)}  {percent}"
        (then, had), (now, has) = self._samples[0], self._samples[-1]
        if done < total and now - then >= 0.5 and has > had:
            speed = (has - had) / (now - then)
            seconds = round((total - done) / speed)
            text += f"  {format_bytes(speed)}/s  {seconds // 60}:{seconds % 60:02d} left"
        return text

    def _draw(self, text: str) -> None:
        columns = self._width or shutil.get_terminal_size().columns
        self._stream.write(f"\r{text[: columns - 1]}\x1b[K")
        self._stream.flush()
        self._open = True

    def _print(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
