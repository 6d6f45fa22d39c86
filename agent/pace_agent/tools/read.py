"""The tool ``read``."""

from __future__ import annotations

from pace_agent.finding.listing import list_files
from pace_agent.outcomes import Held, Outcome
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench


def make(bench: Workbench) -> Tool:
    """Reads lines of a file, as many as fit; what the model was shown before is brought back instead."""

    @tool("read")
    def read(path: str, first: int = 1, last: int = 0) -> Outcome:
        """Read lines of a file.

        Args:
            path: of the file
            first: line to begin with
            last: line to end with, 0 for as many as fit
        """
        place = bench.place(path)
        if place.path.is_dir():
            return bench.fit(list_files(bench.territory, place.shown, most=200, depth=1).shown(4_000))
        found = bench.lines(path, first, last)
        held = bench.excerpts.holding(found.path, found.content)
        if held is not None:
            return Held(
                held.segment, f"{found.path}, lines {found.first} to {found.last}: you have them already."
            )
        return found

    return read
