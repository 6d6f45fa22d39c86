"""Workloads: right answers pass, wrong ones fail, and nothing leaks from documents to questions."""

from __future__ import annotations

import hashlib
import os
import re

import pytest
from eval_near_misses import asked_by, failed
from other_hashes import printed_with_other_hashes

from pace_local.errors import ConfigError
from pace_local.eval.grading import grade, has_fact
from pace_local.eval.workloads import MOST, WORKLOADS, Material

NAMES = tuple(WORKLOADS)
SEEDS = range(6)


def digest(material: Material) -> str:
    texts = [text for document in material.told for text in (document.name, document.text)]
    for each in material.questions:
        texts += [*each.reads, each.question, *each.facts, *each.checks, each.solution, each.prelude]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_its_own_solution_passes_all_five_checks_and_nothing_else_does(name: str) -> None:
    for question in asked_by(name):
        assert len(question.checks) == 5
        assert question.n_tasks == 1
        assert failed(question, question.solution) == [], question.question
        empty = "pass" if question.answers_with == "code" else "I do not know."
        assert failed(question, empty) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", NAMES)
def test_facts_stand_in_the_documents_and_in_the_solution_and_not_in_the_question(name: str) -> None:
    for seed in SEEDS:
        material = WORKLOADS[name](MOST[name], seed)
        texts = {document.name: document.text for document in material.told}
        for question in material.questions:
            assert len(question.facts) >= 2
            assert len(set(question.facts)) == len(question.facts)
            for fact in question.facts:
                assert any(has_fact(texts[read], fact) for read in question.reads), fact
                assert has_fact(question.solution, fact)
                assert not has_fact(question.question, fact), (question.question, fact)
                assert fact.casefold() not in re.findall(r"[\w-]+", question.question.casefold())


@pytest.mark.parametrize("name", NAMES)
def test_each_document_is_needed_and_has_a_name_of_its_own(name: str) -> None:
    for number in range(1, MOST[name] + 1):
        material = WORKLOADS[name](number, 1)
        names = [document.name for document in material.told]
        assert len(material.questions) == len({each.question for each in material.questions}) == number
        assert len(set(names)) == len(names)
        assert {read for each in material.questions for read in each.reads} == set(names)
        for each in material.questions:
            assert 1 <= len(set(each.reads)) == len(each.reads) <= 3


@pytest.mark.parametrize("name", NAMES)
def test_eight_questions_and_their_documents_fit_what_a_small_budget_keeps(name: str) -> None:
    for seed in SEEDS:
        material = WORKLOADS[name](8, seed)
        assert len(material.told) >= 8
        assert all(120 <= len(document.text) <= 880 for document in material.told)  # 30 to 220 tokens
        assert 2_000 <= sum(len(document.text) for document in material.told) <= 5_600
        assert all(len(question.question) <= 640 for question in material.questions)
        assert len({len(question.reads) for question in material.questions}) >= (1 if name == "facts" else 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_reproduces_byte_for_byte_and_another_differs(name: str) -> None:
    assert digest(WORKLOADS[name](8, 5)) == digest(WORKLOADS[name](8, 5))
    assert len({digest(WORKLOADS[name](8, seed)) for seed in range(12)}) == 12


def test_another_process_with_other_hashes_makes_the_same() -> None:
    script = (
        "from pace_local.eval.workloads import WORKLOADS\n"
        "print(repr([make(8, 7) for make in WORKLOADS.values()]))"
    )
    assert printed_with_other_hashes(script) == {
        f"{[make(8, 7) for make in WORKLOADS.values()]!r}{os.linesep}".encode()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_questions_out_of_range_is_refused(name: str) -> None:
    assert MOST[name] >= 16
    for number in (0, -1, MOST[name] + 1):
        with pytest.raises(ConfigError, match=f"{number} {name} questions.*1 to {MOST[name]}"):
            WORKLOADS[name](number, 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_real_sandbox_grades_a_right_answer_and_a_wrong_one(name: str) -> None:
    material = WORKLOADS[name](4, 3)
    for i in (1, 3):
        question, other = material.questions[i], material.questions[i - 1]
        fence = (
            "```python\n{}\n```" if question.answers_with == "code" else "Here it is:\n\n{}\n\nThat is all."
        )
        right = grade(question, fence.format(question.solution))
        assert right.failures == ()
        assert right.checks_passed == 5
        assert right.facts_recalled == right.facts_total == len(question.facts)
        wrong = grade(question, fence.format(other.solution))
        assert wrong.checks_passed < 5
        assert grade(question, "").checks_passed == 0
