"""The tool ``plan``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pace_agent.outcomes import Outcome, Replan
from pace_agent.planning.model_plan import LONGEST_NAME, LONGEST_TEXT, MOST_NAMES, MOST_WRITTEN
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench

_Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class PlannedStep(BaseModel):
    """One step as a model writes it."""

    model_config = ConfigDict(extra="forbid")

    do: str = Field(max_length=LONGEST_TEXT)
    files: list[_Name] = Field(default_factory=list, max_length=MOST_NAMES)
    symbols: list[_Name] = Field(default_factory=list, max_length=MOST_NAMES)


def make(bench: Workbench) -> Tool:
    """Sets the steps that are still to do."""

    @tool("nothing")
    def plan(steps: Annotated[list[PlannedStep], Field(max_length=MOST_WRITTEN)]) -> Outcome:
        """Write down the steps still to do, a few, each with the files and symbols that it needs.

        Args:
            steps: in order
        """
        return Replan({"steps": [step.model_dump() for step in steps]})

    return plan
