"""Definitions by name: where they are, and putting a new one in the place of the old."""

from __future__ import annotations

from pace_agent.edited import Edited
from pace_agent.outline import Definition, definitions, find_definition
from pace_agent.replacement import replace_definition

__all__ = ["Definition", "Edited", "definitions", "find_definition", "replace_definition"]
