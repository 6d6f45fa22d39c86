"""Grades: checks and facts counted apart, through the real sandbox."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest

from pace_local.eval.grading import grade, has_fact
from pace_local.eval.specification import AnswerForm
from pace_local.eval.specifications import Specification, joint_question, kinds, look_alikes
from pace_local.eval.tasks import text_format


@pytest.mark.parametrize("specification", look_alikes(2, 4) + kinds(4), ids=lambda each: each.name)
def test_a_right_answer_gets_everything(specification: Specification) -> None:
    result = grade(specification, f"Here you are:\n```python\n{specification.solution}```\nThat is all.")
    assert result.failures == ()
    assert (result.checks_passed, result.checks_total) == (5, 5)
    assert result.facts_recalled == result.facts_total == len(specification.facts)
    assert result.is_answered


def test_a_swapped_constant_fails_checks_but_recalls_facts() -> None:
    specification = look_alikes(1, 0)[0]
    rate, limit, _ = specification.facts
    swapped = re.sub(
        rf"\b({rate}|{limit})\b", lambda found: limit if found[0] == rate else rate, specification.solution
    )
    result = grade(specification, f"```python\n{swapped}```")
    assert result.facts_recalled == 3
    assert 1 <= result.checks_passed < 5
    assert all(specification.function in failure for failure in result.failures)


def test_one_wrong_constant_is_named_and_the_check_that_it_breaks() -> None:
    specification = look_alikes(1, 0)[0]
    change = specification.facts[2]
    wrong = re.sub(rf"\b{change}\b", "7", specification.solution)
    result = grade(specification, f"```python\n{wrong}```")
    assert result.missing_facts == (change,)
    assert [outcome.passed for outcome in result.outcomes] == [True, True, True, False, False]
    assert re.match(
        rf"check 4: AssertionError: {specification.function}\(\d+\) gave -?\d+, not", result.failures[0]
    )


def test_constants_in_one_block_and_the_function_in_the_next() -> None:
    specification = look_alikes(1, 2)[0]
    lines = specification.solution.splitlines()
    constants = "\n".join(line.strip() for line in lines[1:4])
    function = "\n".join([lines[0], *lines[4:]])
    result = grade(specification, f"```python\n{constants}\n```\nand\n```python\n{function}\n```")
    assert result.checks_passed == 5


def test_an_example_that_fails_behind_the_function_does_not_count_against_it() -> None:
    specification = look_alikes(1, 2)[0]
    example = f"```python\nfrom orders import {specification.function}\nassert False\n```"
    result = grade(specification, f"```python\n{specification.solution}```\nUse it so:\n{example}")
    assert result.checks_passed == 5


def test_an_answer_without_code_can_still_recall() -> None:
    specification = look_alikes(1, 0)[0]
    result = grade(specification, f"It was about {' and '.join(specification.facts[:2])}, I think.")
    assert (result.checks_passed, result.checks_total, result.facts_recalled) == (0, 5, 2)
    assert not result.is_answered
    assert result.failures[0] == "check 1: no code in the answer"


def test_code_that_does_not_parse_says_so() -> None:
    result = grade(look_alikes(1, 0)[0], "```python\ndef price(:\n```")
    assert result.checks_passed == 0
    assert all("SyntaxError" in failure for failure in result.failures)


def test_half_of_a_joint_answer_gets_half() -> None:
    specifications = look_alikes(2, 6)
    joint = joint_question(specifications)
    result = grade(joint, f"```python\n{specifications[1].solution}```")
    assert [outcome.passed for outcome in result.outcomes] == [False] * 5 + [True] * 5
    assert result.missing_facts == specifications[0].facts


@pytest.mark.parametrize(
    ("answer", "fact", "expected"),
    [
        ("RATE = 53", "53", True),
        ("53", "53", True),
        ("the rate is 53.", "53", True),
        ("(53, 17)", "53", True),
        ("x=-53", "53", True),
        ("153", "53", False),
        ("531", "53", False),
        ("1.53", "53", False),
        ("53.5", "53", False),
        ("v53", "53", False),
        ("53px", "53", False),
        ("1_053", "1053", True),
        ("1_053", "53", False),
        ("Status.OPEN", "OPEN", True),
        ("REOPEN", "OPEN", False),
        ("open", "OPEN", False),
        ("'tmp_'", "tmp_", True),
        ("name + '.arc47'", ".arc47", True),
        ("name + '.arc470'", ".arc47", False),
        ("", "53", False),
    ],
)
def test_facts_are_whole_words(answer: str, fact: str, expected: bool) -> None:
    assert has_fact(answer, fact) is expected


LABEL = text_format.make(random.Random("text_format:1"))
PREFIX, WIDTH, REVISION = LABEL.facts
MARK = re.findall(r"the character (\S)", LABEL.text)[0]


@pytest.mark.parametrize(
    ("number", "right"),
    [
        ("{number:0@d}", True),
        ("{number:0@}", True),
        ("{number:0>@d}", True),
        ("{format(number, '0@d')}", True),
        ("{'%0@d' % number}", True),
        ("{'{:0@}'.format(number)}", True),
        ("{str(number).zfill(@)}", True),
        ("{number:01@d}", False),
        ("{number:00@1d}", False),
        ("{number:0.@d}", False),
    ],
)
def test_a_width_counts_however_its_format_is_written(number: str, right: bool) -> None:
    label = f'f"{PREFIX}-{{site.upper()}}{MARK}{number.replace("@", WIDTH)};{REVISION}"'
    code = f"def {LABEL.signature}:\n    return {label}\n"
    result = grade(LABEL, f"```python\n{code}```")
    assert (result.missing_facts == (), result.missing_facts) == (right, () if right else (WIDTH,))
    assert (result.checks_passed == 5) == right


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question of text with two checks."""

    reads: tuple[str, ...] = ("talk:anna",)
    question: str = "Which day?"
    facts: tuple[str, ...] = ("Tuesday",)
    checks: tuple[str, ...] = ("assert 'tuesday' in words(ANSWER)", "assert 'monday' not in words(ANSWER)")
    answers_with: AnswerForm = "text"
    prelude: str = "def words(text):\n    return text.lower().split()"
    n_tasks: int = 1
    solution: str = "Tuesday"


def test_checks_look_at_the_text_of_an_answer_where_no_code_is_asked_for() -> None:
    right, wrong = grade(Asked(), "On\nTUESDAY 'quoted' \\ ``` \udc80"), grade(Asked(), "Monday, or Tuesday?")
    assert (right.checks_passed, right.facts_recalled, right.is_answered) == (2, 1, True)
    assert [outcome.passed for outcome in wrong.outcomes] == [False, True]
    assert wrong.facts_recalled == 1
    empty = grade(Asked(), " \n")
    assert (empty.checks_passed, empty.is_answered) == (0, False)
    assert empty.failures[0] == "check 1: no answer"


@pytest.mark.parametrize(
    ("answer", "fact", "expected"),
    [
        ("RATE = 1,530 and so on", "1530", True),
        ("It is 1,530.", "1530", True),
        ("1,530,204", "1530204", True),
        ("1,530", "530", False),
        ("1, 530", "530", True),
        ("12,53", "53", True),
        ("53d", "53", False),
    ],
)
def test_numbers_of_a_text_are_read_whole(answer: str, fact: str, expected: bool) -> None:
    assert (grade(Asked(facts=(fact,)), answer).missing_facts == ()) is expected


def test_an_answers_text_is_not_run() -> None:
    result = grade(Asked(), "import os\nos._exit(0)")
    assert [outcome.passed for outcome in result.outcomes] == [False, True]
