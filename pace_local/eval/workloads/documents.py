"""What a workload is made of: documents that are told early, and questions that need them late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_local.errors import ConfigError
from pace_local.eval.specification import AnswerForm, Question

_VALUES = Path(__file__).with_name("text_checks.py")
_PLANS = Path(__file__).with_name("plan_checks.py")


@dataclass(frozen=True)
class Document:
    """A text that the session is told early, as a segment of its own."""

    name: str
    """Of the segment, such as ``catalogue:hill``."""

    text: str


@dataclass(frozen=True)
class DocumentQuestion:
    """A question about told documents, graded by program."""

    reads: tuple[str, ...]
    """Names of the documents that an answer needs."""

    question: str
    """What the user asks; no value that it asks for stands in it."""

    facts: tuple[str, ...]
    """Names and values of the documents that a right answer holds."""

    checks: tuple[str, ...]
    solution: str
    answers_with: AnswerForm
    prelude: str
    n_tasks: int = 1


@dataclass(frozen=True)
class Material:
    """All documents and questions of a workload."""

    told: tuple[Document, ...]
    questions: tuple[Question, ...]


def value_prelude() -> str:
    """Python source of :mod:`text_checks`, for checks of values that an answer gives to names."""
    return _VALUES.read_text(encoding="utf-8")


def plan_prelude() -> str:
    """Python source of :mod:`plan_checks`, for checks of orders and schedules."""
    return _PLANS.read_text(encoding="utf-8")


def check_number(what: str, number: int, most: int) -> None:
    """Refuse a number of questions that cannot be made.

    Raises:
        ConfigError: if it is not 1 to ``most``.
    """
    if not 1 <= number <= most:
        raise ConfigError(f"{number} {what} questions are out of range; use 1 to {most}")


def read_by(told: Sequence[Document], questions: Sequence[DocumentQuestion]) -> tuple[Document, ...]:
    """The documents that some question reads, in their order."""
    names = {name for question in questions for name in question.reads}
    return tuple(document for document in told if document.name in names)
