"""A specification that a session is told early, and the question that needs it late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pace_local.errors import ConfigError

AnswerForm = Literal["code", "text"]


class Question(Protocol):
    """What can be asked and graded: one specification, or several together."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the specifications that an answer needs."""
        ...

    @property
    def question(self) -> str:
        """What the user asks; it holds no rule and no constant."""
        ...

    @property
    def facts(self) -> tuple[str, ...]:
        """Constants, names and codes that a right answer holds."""
        ...

    @property
    def checks(self) -> tuple[str, ...]:
        """Python source of each hidden check, which asserts.

        It runs with the names of the answer's code in scope, or with the answer itself as ``ANSWER``.
        """
        ...

    @property
    def answers_with(self) -> AnswerForm:
        """Whether checks run with the code of an answer, or look at its text."""
        ...

    @property
    def prelude(self) -> str:
        """Python source that runs before the answer: what its code, or the checks, may use."""
        ...

    @property
    def n_tasks(self) -> int:
        """Equal groups into which the checks split; a task is passed if all of its checks are."""
        ...

    @property
    def solution(self) -> str:
        """Code, or a text, that passes every check and holds every fact; never shown to a model."""
        ...


@dataclass(frozen=True)
class Specification:
    """One definition as a developer would write it, and how an answer that needs it is graded."""

    name: str
    """Of the segment, such as ``spec:orders``."""

    title: str
    """What the question calls it, such as ``Orders API``."""

    text: str
    """What the session is told: 120 to 220 tokens."""

    function: str
    """Name of the Python function that it defines."""

    signature: str
    """As the question gives it: without defaults, and without what the rules say."""

    facts: tuple[str, ...]
    checks: tuple[str, ...]
    solution: str
    answers_with: AnswerForm = "code"
    prelude: str = ""
    n_tasks: int = 1

    @property
    def reads(self) -> tuple[str, ...]:
        """The specification's own name."""
        return (self.name,)

    @property
    def question(self) -> str:
        """What the user asks later."""
        return (
            f"Write the Python function `{self.signature}` exactly as the {self.title} specification says. "
            "Define its constants inside the function. Reply with one Python code block."
        )


@dataclass(frozen=True)
class JointQuestion:
    """One question that needs several specifications at once."""

    specifications: tuple[Specification, ...]
    answers_with: AnswerForm = "code"
    prelude: str = ""

    @property
    def n_tasks(self) -> int:
        """One a function."""
        return len(self.specifications)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the specifications, in the order in which they are asked for."""
        return tuple(specification.name for specification in self.specifications)

    @property
    def question(self) -> str:
        """Asks for all functions in one answer.

        Constants belong inside the functions: look-alikes call theirs by the same names.
        """
        asked = "\n".join(
            f"- `{specification.signature}`, exactly as the {specification.title} specification says"
            for specification in self.specifications
        )
        return (
            f"Write these {len(self.specifications)} Python functions:\n{asked}\n"
            "Define the constants of each function inside that function. "
            "Reply with one Python code block that holds all of the functions."
        )

    @property
    def facts(self) -> tuple[str, ...]:
        """Facts of all, each once."""
        return tuple(dict.fromkeys(fact for each in self.specifications for fact in each.facts))

    @property
    def checks(self) -> tuple[str, ...]:
        """Checks of all, in order."""
        return tuple(check for each in self.specifications for check in each.checks)

    @property
    def solution(self) -> str:
        """Solutions of all, in order."""
        return "\n\n".join(each.solution for each in self.specifications)


def joint_question(specifications: Sequence[Specification]) -> JointQuestion:
    """One question for a step that reads several specifications.

    Raises:
        ConfigError: for fewer than two specifications, or two that share a name or a function.
    """
    if len(specifications) < 2:
        raise ConfigError(f"a joint question of {len(specifications)} specifications; give at least 2")
    for what in ("name", "function"):
        values = [getattr(specification, what) for specification in specifications]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ConfigError(f"two specifications of a question have the {what} {twice!r}; give each once")
    return JointQuestion(tuple(specifications))


def check_equal(*cases: tuple[str, object]) -> str:
    """Source of a check that each call gives exactly what is expected.

    Args:
        cases: a Python expression, and its value, whose ``repr`` must be its source.
    """
    lines = []
    for call, expected in cases:
        lines.append(f"_got = {call}")
        said = f"{call!r} + ' gave ' + repr(_got) + {f', not {expected!r}'!r}"
        lines.append(f"assert _got == {expected!r}, {said}")
    return "\n".join(lines)
