"""The tool ``write``."""

from __future__ import annotations

import dataclasses

from pace_agent.editing.code_blocks import is_elided
from pace_agent.editing.edited import check_storable, with_line_ends
from pace_agent.errors import ToolError
from pace_agent.outcomes import Outcome, Proposal
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench
from pace_local.excerpts.layout import split_lines
from pace_local.files import SourceText


def make(bench: Workbench) -> Tool:
    """Makes a file, or gives one that was read a new content."""

    @tool("propose")
    def write(path: str, content: str) -> Outcome:
        """Write a whole file. For parts of a file use edit.

        Args:
            path: of the file
            content: all of it
        """
        place = bench.place(path)
        check_storable(content, place.shown)
        if place.path.is_dir():
            raise ToolError(f"{place.shown!r} is a folder; name a file")
        before: SourceText | None = None
        if place.path.exists():
            bench.files.check_fresh(place.path)
            _, before = bench.open(path)
            if is_elided(content) and not is_elided(before.text):
                raise ToolError(
                    f"the content of {place.shown!r} leaves lines out; write all of it, or use edit"
                )
        if content and not content.endswith("\n") and (before is None or _ends_with_a_line_end(before)):
            content += "\n"
        if before is None:
            after = SourceText(place.shown, content, "utf-8", "\n")
        else:
            after = dataclasses.replace(before, text=with_line_ends(content, before.newline or "\n"))
            if after.text == before.text:
                raise ToolError(f"{place.shown!r} has that content already; go on")
        n_lines = len(split_lines(content))
        what = "made" if before is None else "written anew"
        return Proposal(
            place, before, after, f"{place.shown} is {what}: {n_lines} lines.", 1, max(1, n_lines)
        )

    return write


def _ends_with_a_line_end(source: SourceText) -> bool:
    return not source.text or source.text.endswith(("\n", "\r"))
