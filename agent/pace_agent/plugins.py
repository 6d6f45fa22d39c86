"""Tools that other packages bring: entry points of the group ``pace_agent.tools``.

An entry point names a :class:`~pace_agent.tool_type.Tool`, or a function that makes tools for a workbench.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

from pace_agent.tool_type import Tool
from pace_agent.workbench import Workbench

GROUP = "pace_agent.tools"


def plugin_tools(
    bench: Workbench, warn: Callable[[str], None], found: Iterable[EntryPoint] | None = None
) -> list[Tool]:
    """Tools of all plug-ins; one that cannot be loaded is left out, with a warning.

    Args:
        bench: for functions that make tools.
        warn: told what was left out.
        found: entry points; None: those that are installed.
    """
    tools: list[Tool] = []
    for entry in entry_points(group=GROUP) if found is None else found:
        try:
            loaded = entry.load()
            made = [loaded] if isinstance(loaded, Tool) else list(loaded(bench))
            wrong = [each for each in made if not isinstance(each, Tool)]
            if wrong:
                raise TypeError(f"{wrong[0]!r} is no Tool")
            tools += made
        except Exception as error:  # whatever somebody else's code raises
            warn(f"the plug-in {entry.name!r} ({entry.value}) is not used: {type(error).__name__}: {error}")
    return tools
