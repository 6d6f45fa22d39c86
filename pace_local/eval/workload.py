"""What the session of an evaluation is about: documents told first, and questions asked late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pace_local.errors import ConfigError
from pace_local.eval.specification import Question, Specification, joint_question
from pace_local.eval.specifications import MOST_LOOK_ALIKES, kinds, look_alikes
from pace_local.eval.tasks import KINDS
from pace_local.eval.workloads import MOST, WORKLOADS

SPECIFICATION_SETS = {"alike": MOST_LOOK_ALIKES, "unlike": len(KINDS)}
"""Sets of specifications, and how many each can have. A probe may read several of them."""

MOST_QUESTIONS = {**SPECIFICATION_SETS, **MOST}
"""Every workload, and how many questions of one read it can have."""


class Told(Protocol):
    """A document that the session is told early; a specification is one."""

    @property
    def name(self) -> str:
        """Of its segment."""
        ...

    @property
    def text(self) -> str:
        """What the session reads."""
        ...


@dataclass(frozen=True)
class Workload:
    """Documents, and questions that need them."""

    name: str
    told: tuple[Told, ...]
    """Read first, in this order."""

    questions: tuple[Question, ...]
    """In the order in which they are asked."""


def make_workload(name: str, number: int, seed: int, reads: int = 1) -> Workload:
    """A workload; the same arguments give the same, byte for byte.

    Args:
        name: one of :data:`MOST_QUESTIONS`.
        number: of specifications, each asked for once, or of questions.
        seed: decides constants, names and order.
        reads: of sets of specifications: how many each question needs. A last group that is not whole is not
            asked for. Of other workloads, whose questions read what they need: 1.

    Raises:
        ConfigError: for an unknown name or a number out of range.
    """
    check_workload(name, number, reads)
    if name in WORKLOADS:
        material = WORKLOADS[name](number, seed)
        return Workload(name, tuple(material.told), tuple(material.questions))
    told = look_alikes(number, seed) if name == "alike" else kinds(seed)[:number]
    groups = [told[first : first + reads] for first in range(0, number - reads + 1, reads)]
    return Workload(name, tuple(told), tuple(map(_question, groups)))


def check_workload(name: str, number: int, reads: int) -> None:
    """Refuse what :func:`make_workload` cannot make.

    Raises:
        ConfigError: with what it can.
    """
    most = MOST_QUESTIONS.get(name)
    if most is None:
        raise ConfigError(f"{name!r} is none of the workloads {', '.join(MOST_QUESTIONS)}")
    what = "specifications" if name in SPECIFICATION_SETS else "probes"
    if not 1 <= number <= most:
        raise ConfigError(f"{number} {name} {what} are out of range; use 1 to {most}")
    most_reads = number if name in SPECIFICATION_SETS else 1
    if not 1 <= reads <= most_reads:
        raise ConfigError(
            f"--reads {reads} is out of range for {number} {name} {what}; use 1 to {most_reads}"
        )


def _question(group: list[Specification]) -> Question:
    return group[0] if len(group) == 1 else joint_question(group)
