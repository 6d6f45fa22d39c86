"""What tools work with: the folders, the files as the agent knows them, the shell, and how much fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pace_agent.errors import ToolError
from pace_agent.files.file_state import KnownFiles
from pace_agent.fitting import Count, first_lines, fit
from pace_agent.outcomes import Lines
from pace_agent.safety.paths import Place, Territory
from pace_agent.shell.running import Shell
from pace_agent.watching.staleness import Excerpts
from pace_local.excerpts.layout import split_lines
from pace_local.files import SourceText


@dataclass
class Workbench:
    """One for each agent."""

    territory: Territory
    files: KnownFiles
    shell: Shell
    excerpts: Excerpts
    """Which segments hold which lines."""

    count: Count
    """Tokens of a text."""

    result_tokens: int
    """Tokens that one result may take."""

    command_seconds: float = 120.0
    cancelled: threading.Event = field(default_factory=threading.Event)
    on_output: Callable[[str], None] = lambda text: None
    """Takes what a running command prints; another for each call."""

    @property
    def result_characters(self) -> int:
        """Characters that one result may take at most: a token is four of them or fewer."""
        return 4 * self.result_tokens

    def place(self, path: str) -> Place:
        """Where a path leads, if it may be used.

        Raises:
            ToolError, RefusedError: if it cannot be, or is outside or protected.
        """
        place = self.territory.find(path)
        self.territory.check(place)
        return place

    def open(self, path: str) -> tuple[Place, SourceText]:
        """Read a text file.

        Raises:
            ToolError, RefusedError: as :meth:`place`; if there is none, it is no text, or a private key.
        """
        place = self.place(path)
        if place.path.is_dir():
            raise ToolError(f"{place.shown!r} is a folder; list it, or name a file in it")
        return place, self.files.read(place.path)

    def lines(self, path: str, first: int = 1, last: int = 0, *, tokens: int | None = None) -> Lines:
        """Lines of a file, as many as fit.

        Args:
            path: of the file.
            first: 1-based.
            last: inclusive; 0: to the end, or as far as fits.
            tokens: that they may take; None: as one result may.

        Raises:
            ToolError, RefusedError: as :meth:`open`; if there are no such lines.
        """
        place, source = self.open(path)
        lines = split_lines(source.text)
        shown = place.shown.replace("\\", "/")
        if not lines:
            return Lines(f"{shown} is empty.", shown, 1, 0, "", True)
        if first < 1:
            first = max(1, len(lines) + 1 + first) if first < 0 else 1
        if first > len(lines):
            raise ToolError(f"{shown!r} has {len(lines)} lines; line {first} is behind its end")
        end = len(lines) if last < first else min(last, len(lines))
        room = self.result_tokens if tokens is None else tokens
        wanted = lines[first - 1 : end]
        left = room - self.count(f"{shown}, lines {first} to {end} of {len(lines)}:\n") - 16
        kept = first_lines(wanted, left, self.count)
        if kept == 1 and self.count(wanted[0]) > left:
            text = fit(wanted[0], room, self.count)
            return Lines(
                f"{shown}, line {first} of {len(lines)}, cut:\n{text}", shown, first, first, wanted[0]
            )
        content = "".join(wanted[:kept])
        end = first + kept - 1
        more = "" if kept == len(wanted) else f"\n(it goes on at line {end + 1})"
        text = f"{shown}, lines {first} to {end} of {len(lines)}:\n{content.rstrip()}{more}"
        return Lines(text, shown, first, end, content, kept == len(lines))

    def fit(self, text: str, tokens: int | None = None) -> str:
        """A text cut to what one result may take."""
        return fit(text, self.result_tokens if tokens is None else tokens, self.count)
