"""Recall of session facts: constants of look-alike specifications, each to be attached to its own name."""

from __future__ import annotations

import re

from pace_local.eval.look_alikes import MOST as MOST_LOOK_ALIKES
from pace_local.eval.look_alikes import look_alikes
from pace_local.eval.specification import Specification
from pace_local.eval.workloads.documents import (
    Document,
    DocumentQuestion,
    Material,
    check_number,
    value_prelude,
)

MOST = MOST_LOOK_ALIKES


def make(number: int, seed: int) -> Material:
    """So many look-alike specifications, and for each a question that asks for its three constants.

    Raises:
        ConfigError: if ``number`` is not 1 to :data:`MOST`.
    """
    check_number("facts", number, MOST)
    specifications = look_alikes(number, seed)
    questions = []
    for specification in specifications:
        others = [int(f) for each in specifications if each is not specification for f in each.facts]
        questions.append(_question(specification, others))
    return Material(tuple(Document(each.name, each.text) for each in specifications), tuple(questions))


def constants_of(specification: Specification) -> dict[str, int]:
    """Name and value of each constant that a look-alike's text states, in its order."""
    found = re.findall(r"\b([A-Z]+) = (\d+)", specification.text)
    return {name: int(value) for name, value in found}


def _question(specification: Specification, others: list[int]) -> DocumentQuestion:
    constants = constants_of(specification)
    names = tuple(constants)
    return DocumentQuestion(
        reads=(specification.name,),
        question=(
            f"What are the values of {names[0]}, {names[1]} and {names[2]} in the {specification.title} "
            "specification? Write no code. Reply with three lines of the form `NAME = value`."
        ),
        facts=specification.facts,
        checks=(
            *(f"check_number(ANSWER, {name!r}, {value}, {names!r})" for name, value in constants.items()),
            f"check_not_exchanged(ANSWER, {constants!r})",
            f"check_none_of(ANSWER, {tuple(constants.values())!r}, {tuple(others)!r})",
        ),
        solution="\n".join(f"{name} = {value}" for name, value in constants.items()),
        answers_with="text",
        prelude=value_prelude(),
    )
