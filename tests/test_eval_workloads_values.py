"""Workloads whose answers give values to names: right in many forms, wrong with any other value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

import pytest
from eval_near_misses import as_lines, asked_by, failed, text_near_misses, values_in

from pace_local.eval.specification import Question
from pace_local.eval.workloads import WORKLOADS

_WORDS = r"(?<=: )[a-z]+\b|\b[SP]-\d+|(?<=city )\w+|(?<=firm )\w+"
"""Items and causes, codes, cities and firms of lists."""

VALUE_NAMES = ("facts", "dialogue", "knowledge")


@pytest.mark.parametrize("name", VALUE_NAMES)
def test_near_misses_of_values_fail_and_every_check_fails_for_some(name: str) -> None:
    for question in asked_by(name, seeds=range(2)):
        failing: set[int] = set()
        for what, answer in text_near_misses(question.solution):
            numbers = failed(question, answer)
            assert numbers, (what, question.question)
            failing |= set(numbers)
        assert failing == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", VALUE_NAMES)
def test_right_answers_pass_in_many_forms(name: str) -> None:
    for question in asked_by(name, seeds=range(3)):
        values = values_in(question.solution)
        head, row = (" | ".join(cells) for cells in (values, values.values()))
        pairs = "\n".join(f"| {each} | {value} |" for each, value in values.items())
        forms = {
            "upper case": "\n".join(f"{each.upper()}: {value}" for each, value in values.items()),
            "equals": "\n".join(f"{each} = {value}" for each, value in values.items()),
            "bullets": "\n".join(f"- **{each}**: `{value}`" for each, value in values.items()),
            "numbered": "\n".join(
                f"{i}. *{each}*: {value}." for i, (each, value) in enumerate(values.items(), 1)
            ),
            "sentences": " ".join(f"The {each} is {value}." for each, value in values.items()),
            "one sentence": "; ".join(f"the {each} is **{value}**" for each, value in values.items()) + ".",
            "table of pairs": f"| name | value |\n|---|---:|\n{pairs}\n",
            "table with a head": f"Here:\n\n| {head} |\n|{'---|' * len(values)}\n| {row} |\n",
            "json": "```json\n{" + ", ".join(f'"{n}": "{v}"' for n, v in values.items()) + "}\n```",
            "headings": "\n\n".join(f"### {each}\n{value}" for each, value in values.items()),
            "introduced": f"The {', '.join(values)} asked for, as in version 2:\n\n{question.solution}\n",
            "remarks": "\n".join(f"{each}: {value} (as it was said)" for each, value in values.items()),
            "code": "```\n" + question.solution + "\n```",
        }
        for form, answer in forms.items():
            assert failed(question, answer) == [], f"{form}: {answer}"


@pytest.mark.parametrize("name", ["facts", "dialogue"])
def test_what_belongs_to_another_fails(name: str) -> None:
    for seed in range(3):
        asked = WORKLOADS[name](8, seed).questions
        for own, other in permutations(asked, 2):
            theirs, mine = values_in(other.solution), values_in(own.solution)
            shared = [each for each in mine if each in theirs]
            assert failed(own, as_lines({**mine, **{each: theirs[each] for each in shared}})) or not shared
            for each in shared:
                assert failed(own, as_lines({**mine, each: theirs[each]}))


def test_the_facts_of_a_neighbour_fail_every_check() -> None:
    asked = WORKLOADS["facts"](8, 0).questions
    for own, other in permutations(asked, 2):
        values = dict(zip(values_in(own.solution), other.facts, strict=True))
        assert failed(own, as_lines(values))[:3] == [0, 1, 2]
        assert 4 in failed(own, as_lines(values))


def test_a_right_value_beside_a_second_api_is_not_clean_recall() -> None:
    own, other = WORKLOADS["facts"](2, 0).questions
    both = f"{own.solution}\n\nAnd of the other API {', '.join(other.facts)}."
    assert 4 in failed(own, both)


def test_values_in_the_order_of_their_names() -> None:
    question = WORKLOADS["facts"](1, 0).questions[0]
    names, values = zip(*values_in(question.solution).items(), strict=True)
    listed = "{}, {} and {}"
    right = f"{listed.format(*names)} are {listed.format(*values)}, respectively."
    assert failed(question, right) == []
    assert failed(question, right.replace(listed.format(*values), listed.format(*values[::-1])))


def test_the_entry_next_to_the_right_one_fails() -> None:
    """Every number or word of a list is replaced by the one that another entry or site has."""
    for seed in range(3):
        material = WORKLOADS["knowledge"](16, seed)
        texts = {document.name: document.text for document in material.told}
        for question in material.questions:
            values = values_in(question.solution)
            lists = "\n".join(texts[read] for read in question.reads)
            for name, value in values.items():
                pattern = (
                    r"\b\d{2,3}\b"
                    if value.isdigit()
                    else r"(?<=: )[a-z]+\b|\b[SP]-\d+|(?<=city )\w+|(?<=firm )\w+"
                )
                for wrong in sorted(set(re.findall(pattern, lists)) - {value}):
                    if wrong.isdigit() or wrong[:1].isupper() == value[:1].isupper():
                        assert failed(question, as_lines({**values, name: wrong})), (name, wrong)


def test_computed_values_may_show_their_sum_and_must_be_right() -> None:
    question = next(each for each in asked_by("knowledge") if "together" in each.solution)
    values = values_in(question.solution)
    one, two, total = (values[name] for name in list(values)[:3])
    for said in (f"{one} + {two} = {total}", f"{total} minutes", f"{total} ({one} + {two})"):
        assert failed(question, as_lines({**values, "minutes together": said})) == []
    for said in (f"{one} + {two} = {int(total) + 10}", f"{one} + {two}", one):
        assert failed(question, as_lines({**values, "minutes together": said})) == [2]


def changes(seed: int) -> Iterator[tuple[Question, str, list[str]]]:
    """Each question of a dialogue, one of its names, and all values that were said of it and do not hold."""
    material = WORKLOADS["dialogue"](16, seed)
    texts = {document.name: document.text for document in material.told}
    for question in material.questions:
        said = " ".join(texts[read] for read in question.reads)
        for name, value in values_in(question.solution).items():
            stated = re.findall(
                rf"\b{name} (?:setting is |is now |is |shall be |)(\w+)", texts[question.reads[0]]
            )
            stated += re.findall(rf"(?<= )(\w+)(?= as the {name}\b)", said)
            stated += re.findall(rf"\b{name} (?:setting is |is now |is )(?!right)(\w+)", said)
            wrong = [each for each in dict.fromkeys(stated) if each != value]
            if wrong:
                yield question, name, wrong


def test_what_held_before_or_was_only_proposed_fails() -> None:
    for seed in range(6):
        found = list(changes(seed))
        # of four people in a row: none, two settings, two by advice, and two that changed twice
        assert len(found) == 4 * (0 + 2 + 2 + 2)
        for question, name, wrong in found:
            values = values_in(question.solution)
            for each in wrong:
                assert failed(question, as_lines({**values, name: each}))
                assert failed(question, as_lines({**values, name: f"{values[name]} and {each}"}))


def test_a_right_answer_may_say_what_held_before() -> None:
    for question, name, wrong in changes(0):
        values = values_in(question.solution)
        for old in wrong:
            for said in (
                f"{values[name]} (was {old})",
                f"{values[name]}, not {old}",
                f"{values[name]} instead of {old}",
                f"changed from {old} to {values[name]}",
                f"{values[name]} (previously {old})",
            ):
                assert failed(question, as_lines({**values, name: said})) == [], said


def test_sentences_without_the_names_of_settings_are_right_as_well() -> None:
    for question in asked_by("dialogue", 8, range(2)):
        one, two, three, four, five = values_in(question.solution).values()
        assert (
            failed(
                question, f"It shall be {one} with {two} of them, {three}, then {four} and at last {five}."
            )
            == []
        )
        assert failed(question, f"It shall be {one} with {two} of them, {three} and at last {five}.") == [3]
