"""The tool ``list``."""

from __future__ import annotations

from pace_agent.finding.search import list_files
from pace_agent.outcomes import Outcome
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench

_MOST = 400


def make(bench: Workbench) -> Tool:
    """Lists files and folders that are not ignored."""

    @tool("read", name="list")
    def list_(path: str = ".", depth: int = 2) -> Outcome:
        """List the files of a folder.

        Args:
            path: the folder
            depth: how many folders deep
        """
        found = list_files(bench.territory, path, most=_MOST, depth=max(1, min(depth, 20)))
        return bench.fit(found.shown(bench.result_characters))

    return list_
