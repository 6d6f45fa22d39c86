"""Workloads beside the sets of specifications: what is told early, and questions that are graded by program.

``facts`` asks for constants by name; ``codegen``, ``dialogue``, ``knowledge`` and ``planning`` are four kinds
of agent work, one file each. :mod:`text_checks` and :mod:`plan_checks` run in the sandbox, before the checks
of text answers.
"""

from __future__ import annotations

from collections.abc import Callable

from pace_local.eval.workloads import codegen, dialogue, facts, knowledge, planning
from pace_local.eval.workloads.documents import Document, DocumentQuestion, Material

__all__ = ["MOST", "WORKLOADS", "Document", "DocumentQuestion", "Material"]

WORKLOADS: dict[str, Callable[[int, int], Material]] = {
    "facts": facts.make,
    "codegen": codegen.make,
    "dialogue": dialogue.make,
    "knowledge": knowledge.make,
    "planning": planning.make,
}
"""Name -> makes documents and so many questions from a seed; the same seed gives the same, byte for byte."""

MOST: dict[str, int] = {
    "facts": facts.MOST,
    "codegen": codegen.MOST,
    "dialogue": dialogue.MOST,
    "knowledge": knowledge.MOST,
    "planning": planning.MOST,
}
"""Name -> the most questions that it has."""
