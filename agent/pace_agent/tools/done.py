"""The tool ``done``."""

from __future__ import annotations

from pace_agent.outcomes import Finish, Outcome
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench


def make(bench: Workbench) -> Tool:
    """Says that the step at hand is done."""

    @tool("nothing")
    def done(result: str) -> Outcome:
        """Say that the step is done; after the last step, that the task is.

        Args:
            result: what was done, or the answer
        """
        return Finish(result)

    return done
