"""A coding agent for local models: plan, tools, and a repository that it watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pace_agent.agent import Agent
    from pace_agent.events import AgentEvent, Answer, Asked, Ended
    from pace_agent.settings.config import AgentConfig
    from pace_agent.tool_type import Tool, make_tool, tool

_PLACES = {
    "Agent": "pace_agent.agent",
    "AgentConfig": "pace_agent.settings.config",
    "AgentEvent": "pace_agent.events",
    "Answer": "pace_agent.events",
    "Asked": "pace_agent.events",
    "Ended": "pace_agent.events",
    "Tool": "pace_agent.tool_type",
    "make_tool": "pace_agent.tool_type",
    "tool": "pace_agent.tool_type",
}

__all__ = ["Agent", "AgentConfig", "AgentEvent", "Answer", "Asked", "Ended", "Tool", "make_tool", "tool"]


def __getattr__(name: str) -> Any:
    """Import on first use: ``pace --help`` needs none of it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PLACES[name]), name)
