"""Shows a person how a run goes, line by line, and on a terminal what it does just now."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from pace_agent.events import AgentEvent, Memory, Thought, Wrote
from pace_agent.reporting.event_lines import Look, Part, counted, line_of
from pace_local.wording import in_one_line

_REDRAW_SECONDS = 0.2
_CODES = {
    Look.STRONG: "1",
    Look.FAINT: "2",
    Look.GOOD: "32",
    Look.BAD: "31",
    Look.NOTICE: "33",
}
_CLEAR = "\r\x1b[K"


class Progress:
    """Prints events of runs for a person. A reader that goes away is not missed: the run goes on.

    Args:
        stream: what to print on; None: nothing.
        environ: the environment; ``NO_COLOR`` in it, if it is not empty, turns colours off.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        stream: TextIO | None,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty() and environ.get("TERM") != "dumb"
        self._has_colours = self._is_terminal and not environ.get("NO_COLOR")
        self._is_read = True
        self._clock = clock
        self._drawn = float("-inf")
        self._is_drawn = False
        self._written = 0

    def take(self, event: AgentEvent) -> None:
        """Show what an event is worth."""
        line = line_of(event)
        if line:
            self._written = 0
            self._print("".join(self._painted(part) for part in line))
        elif self._is_terminal:
            self._show_now(event)

    def say(self, line: str) -> None:
        """Print a line of somebody else's."""
        self._print(in_one_line(line))

    def close(self) -> None:
        """Take away what is shown of the present moment."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_CLEAR)

    def _show_now(self, event: AgentEvent) -> None:
        if isinstance(event, (Wrote, Thought)):
            self._written += len(event.written)
            what = f"{counted(self._written, 'character')} written"
        elif isinstance(event, Memory) and event.event.get("type") == "progress":
            self._written = 0
            what = f"{event.event['done']:,} of {event.event['total']:,} tokens read"
        else:
            return
        now = self._clock()
        if now - self._drawn >= _REDRAW_SECONDS:
            self._drawn = now
            self._is_drawn = True
            self._write(f"{_CLEAR}  {what}"[: len(_CLEAR) + shutil.get_terminal_size().columns - 1])

    def _painted(self, part: Part) -> str:
        text, look = part
        code = _CODES.get(look)
        return f"\x1b[{code}m{text}\x1b[0m" if text and code and self._has_colours else text

    def _print(self, line: str) -> None:
        self.close()
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        if self._is_read and self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError:
                self._is_read = False
