"""Definitions by name: where they are, and putting a new one in the place of the old."""

from __future__ import annotations

from pace_agent.editing.edited import Edited
from pace_agent.editing.replacement import replace_definition
from pace_agent.repository.outline import Definition, definitions, find_definition

__all__ = ["Definition", "Edited", "definitions", "find_definition", "replace_definition"]
