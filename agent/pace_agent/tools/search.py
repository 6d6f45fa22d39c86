"""The tool ``search``."""

from __future__ import annotations

from pace_agent.finding.search import search_text
from pace_agent.outcomes import Outcome
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench

_MOST = 100


def make(bench: Workbench) -> Tool:
    """Searches texts of files."""

    @tool("read")
    def search(pattern: str, path: str = ".", names: str = "") -> Outcome:
        """Search for a regular expression in the files of a folder.

        Args:
            pattern: what to search for
            path: folder or file to search in
            names: only in files with such names, e.g. *.py
        """
        found = search_text(
            bench.territory,
            pattern,
            below=path,
            regex=True,
            names=names or None,
            most=_MOST,
            cancel=bench.cancelled,
        )
        return bench.fit(found.shown(bench.result_characters))

    return search
