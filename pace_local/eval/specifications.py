"""Sets of specifications, and questions about one or several: what the rest of ``eval`` imports."""

from __future__ import annotations

from pace_local.eval.look_alikes import MOST as MOST_LOOK_ALIKES
from pace_local.eval.look_alikes import look_alikes
from pace_local.eval.specification import JointQuestion, Question, Specification, joint_question
from pace_local.eval.tasks import kinds

__all__ = [
    "MOST_LOOK_ALIKES",
    "JointQuestion",
    "Question",
    "Specification",
    "joint_question",
    "kinds",
    "look_alikes",
]
