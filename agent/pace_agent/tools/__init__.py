"""The tools that a model can call, one a file; each is made for a workbench."""

from __future__ import annotations

from pace_agent.tool_type import Tool
from pace_agent.tools import done, edit, listing, plan, read, search, shell, write
from pace_agent.workbench import Workbench

_MAKERS = (read, search, listing, edit, write, shell, plan, done)


def make_tools(bench: Workbench) -> list[Tool]:
    """All of them, in the order in which a model is shown them."""
    return [module.make(bench) for module in _MAKERS]
