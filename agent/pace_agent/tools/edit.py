"""The tool ``edit``."""

from __future__ import annotations

import dataclasses

from pace_agent.editing.edits import replace_once
from pace_agent.outcomes import Outcome, Proposal
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench

_HOW = {
    "exact": "",
    "whitespace": " (found with other white space)",
    "numbered": " (line numbers left out)",
    "whole": " (the file was empty)",
    "definition": "",
}


def make(bench: Workbench) -> Tool:
    """Replaces a text that is in a file once."""

    @tool("propose")
    def edit(path: str, search: str, replacement: str) -> Outcome:
        """Replace lines of a file. The search text must be in it exactly once.

        Args:
            path: of the file
            search: lines as they stand in the file
            replacement: what they become
        """
        place = bench.place(path)
        bench.files.check_fresh(place.path)
        _, source = bench.open(path)
        edited = replace_once(source.text, search, replacement, path=place.shown)
        return Proposal(
            place,
            source,
            dataclasses.replace(source, text=edited.text),
            f"{place.shown}: lines {edited.first_line} to {edited.last_line} are new{_HOW[edited.rung]}.",
            edited.first_line,
            edited.last_line,
        )

    return edit
