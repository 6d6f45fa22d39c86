"""Specifications: right answers pass, near misses fail, and nothing of a rule is in the question."""

from __future__ import annotations

import hashlib
import os
import re
from itertools import combinations, permutations

import pytest
from eval_near_misses import failed_checks, near_misses
from other_hashes import printed_with_other_hashes

from pace_local.errors import ConfigError
from pace_local.eval.grading import has_fact
from pace_local.eval.specifications import (
    MOST_LOOK_ALIKES,
    Specification,
    joint_question,
    kinds,
    look_alikes,
)
from pace_local.eval.tasks import KINDS

SEEDS = range(12)
KIND_NAMES = list(KINDS)


def of_kind(kind: str, seed: int) -> Specification:
    return kinds(seed)[KIND_NAMES.index(kind)]


def everything(seed: int) -> list[Specification]:
    return look_alikes(8, seed) + kinds(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_its_own_solution_passes_all_five_checks(seed: int) -> None:
    for specification in everything(seed):
        assert len(specification.checks) == 5
        assert failed_checks(specification.solution, specification.checks) == [], specification.name


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_every_near_miss_of_a_kind_fails(kind: str) -> None:
    for seed in SEEDS:
        specification = of_kind(kind, seed)
        misses = list(near_misses(specification.solution))
        assert len(misses) >= 6
        passed = [what for what, code in misses if not failed_checks(code, specification.checks)]
        assert passed == [], f"seed {seed}"


def test_every_near_miss_of_a_look_alike_fails() -> None:
    for seed in SEEDS:
        for specification in look_alikes(8, seed):
            misses = list(near_misses(specification.solution))
            assert sum(what.startswith("another bound") for what, _ in misses) == 2
            assert sum(what.startswith("without ") for what, _ in misses) == 3
            passed = [what for what, code in misses if not failed_checks(code, specification.checks)]
            assert passed == [], (seed, specification.name)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_neighbours_constant_or_rule_fails(seed: int) -> None:
    for own, other in permutations(look_alikes(8, seed), 2):
        for mine, theirs in zip(own.facts, other.facts, strict=True):
            assert failed_checks(re.sub(rf"\b{mine}\b", theirs, own.solution), own.checks)
        renamed = other.solution.replace(other.function, own.function)
        assert len(failed_checks(renamed, own.checks)) == 5
        rule = renamed
        for mine, theirs in zip(own.facts, other.facts, strict=True):
            rule = re.sub(rf"\b{theirs}\b", mine, rule)
        assert failed_checks(rule, own.checks), "the error code at least differs"


def test_look_alikes_fail_each_others_checks_whole_however_many_there_are() -> None:
    specifications = look_alikes(MOST_LOOK_ALIKES, 3)
    for own, other in permutations(specifications, 2):
        renamed = other.solution.replace(other.function, own.function)
        assert len(failed_checks(renamed, own.checks)) >= 4


def test_a_missing_function_fails_every_check() -> None:
    for specification in everything(0):
        assert failed_checks("pass", specification.checks) == [0, 1, 2, 3, 4]


def test_rounding_to_the_nearest_cent_fails() -> None:
    for seed in SEEDS:
        tax = of_kind("tax", seed)
        wrong = re.sub(r"net \* (\d+) // 100", r"round(net * \1 / 100)", tax.solution)
        assert wrong != tax.solution
        assert failed_checks(wrong, tax.checks)


@pytest.mark.parametrize("key", ["key=len", "key=lambda name: name", "key=lambda name: (-len(name), name)"])
def test_another_order_of_names_fails(key: str) -> None:
    naming = of_kind("naming", 0)
    wrong = naming.solution.replace("key=lambda name: (len(name), name)", key)
    assert wrong != naming.solution
    assert failed_checks(wrong, naming.checks)


def test_leaving_out_names_that_hold_the_letters_elsewhere_fails() -> None:
    naming = of_kind("naming", 0)
    wrong = re.sub(r"not name.startswith\(('\w+')\)", r"\1 not in name", naming.solution)
    assert wrong != naming.solution
    assert failed_checks(wrong, naming.checks)


def test_another_order_of_fields_fails() -> None:
    for seed in SEEDS:
        record = of_kind("record", seed)
        wrong = re.sub(r"\{('\w+': \w+), ('\w+': \w+)", r"{\2, \1", record.solution)
        assert wrong != record.solution
        assert failed_checks(wrong, record.checks)
        signature = re.sub(r"\((\w+), (\w+),", r"(\2, \1,", record.solution)
        assert failed_checks(signature, record.checks)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_text_holds_every_fact_and_the_question_none(seed: int) -> None:
    for specification in everything(seed):
        for fact in specification.facts:
            assert has_fact(specification.text, fact)
            assert has_fact(specification.solution, fact)
            assert not has_fact(specification.question, fact)
        assert len(set(specification.facts)) == len(specification.facts)
        assert specification.title in specification.question
        assert specification.function in specification.question
        assert specification.function in specification.text
        assert not re.search(r"\d", specification.question)


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_have_the_length_of_a_developers_note(seed: int) -> None:
    for specification in everything(seed):
        assert 480 <= len(specification.text) <= 880  # 120 to 220 tokens


@pytest.mark.parametrize("seed", SEEDS)
def test_look_alikes_share_no_constant_and_no_name(seed: int) -> None:
    specifications = look_alikes(8, seed)
    facts = [fact for specification in specifications for fact in specification.facts]
    assert len(facts) == len(set(facts)) == 24
    assert len({specification.name for specification in specifications}) == 8
    for own, other in permutations(specifications, 2):
        assert not any(has_fact(own.text, fact) for fact in other.facts)


def test_look_alikes_differ_in_a_few_words_only() -> None:
    one, other = look_alikes(2, 0)
    shared = set(one.text.split()) & set(other.text.split())
    assert len(shared) > 0.6 * len(set(one.text.split()))


def test_there_are_twelve_kinds_with_names_of_their_own() -> None:
    specifications = kinds(0)
    assert len(specifications) == len({each.name for each in specifications}) == 12
    assert len({each.function for each in specifications}) == 12
    assert len({each.title for each in specifications}) == 12


def test_no_two_kinds_share_much_of_their_text() -> None:
    for one, other in combinations(kinds(0), 2):
        words = [set(re.findall(r"\w+", each.text.casefold())) for each in (one, other)]
        assert len(words[0] & words[1]) < 0.55 * min(map(len, words)), (one.name, other.name)


def test_the_first_eight_kinds_and_the_look_alikes_stay_as_they_were_measured() -> None:
    digest = hashlib.sha256()
    for seed in range(5):
        for each in kinds(seed)[:8] + look_alikes(MOST_LOOK_ALIKES, seed):
            for text in (each.name, each.title, each.text, each.question):
                digest.update(text.encode() + b"\0")
            for text in (*each.facts, *each.checks, each.solution):
                digest.update(text.encode() + b"\0")
    assert digest.hexdigest() == "83f1432d3eda76a0bb2ea4a327ead6916f0c589e35b3eecac14b8afc021eb3e5"


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("rights", r"(\w+) and not (\w+):", r"\2 and not \1:"),
        ("rights", r"rights \+= ", "rights = "),
        ("billing", r"\(day - first\) // length", "day // length"),
        ("billing", r"last \+ (\d+)", r"day + \1"),
        ("checksum", r"if remainder == 0", "if total == 0"),
        ("checksum", r"return remainder", "return total"),
        ("retries", r"\*\* \(attempt - 1\)", "* (attempt - 1)"),
        ("retries", r"min\((.*), \d+\)", r"\1"),
    ],
)
def test_another_rule_of_a_kind_fails(kind: str, wrong: str, right: str) -> None:
    for seed in SEEDS:
        specification = of_kind(kind, seed)
        changed = re.sub(wrong, right, specification.solution)
        assert changed != specification.solution
        assert failed_checks(changed, specification.checks)


def test_a_seed_reproduces_byte_for_byte_and_another_differs() -> None:
    assert everything(5) == everything(5)
    for kind in KIND_NAMES:
        assert len({of_kind(kind, seed).text for seed in SEEDS}) == len(SEEDS), kind
    assert len({look_alikes(1, seed)[0].text for seed in SEEDS}) == len(SEEDS)


def test_another_process_with_other_hashes_makes_the_same() -> None:
    script = (
        "from pace_local.eval.specifications import kinds, look_alikes\n"
        "print(repr(look_alikes(8, 7) + kinds(7)))"
    )
    assert printed_with_other_hashes(script) == {f"{everything(7)!r}{os.linesep}".encode()}


@pytest.mark.parametrize("n", [0, -1, MOST_LOOK_ALIKES + 1])
def test_a_number_of_look_alikes_out_of_range_is_refused(n: int) -> None:
    with pytest.raises(ConfigError, match=f"{n} look-alike.*1 to {MOST_LOOK_ALIKES}"):
        look_alikes(n, 0)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_joint_question_asks_for_all_and_grades_all(n: int) -> None:
    for specifications in (look_alikes(n, 1), kinds(1)[:n]):
        joint = joint_question(specifications)
        assert joint.reads == tuple(each.name for each in specifications)
        assert len(joint.checks) == 5 * n
        assert failed_checks(joint.solution, joint.checks) == []
        for i, each in enumerate(specifications):
            assert each.signature in joint.question
            assert each.title in joint.question
            assert set(each.facts) <= set(joint.facts)
            assert not any(has_fact(joint.question, fact) for fact in each.facts)
            without = "\n".join(other.solution for other in specifications if other is not each)
            assert failed_checks(without, joint.checks) == list(range(5 * i, 5 * i + 5))


def test_a_joint_question_of_one_or_of_two_of_a_name_is_refused() -> None:
    one, other = look_alikes(2, 0)
    with pytest.raises(ConfigError, match="joint question of 1 specifications; give at least 2"):
        joint_question([one])
    with pytest.raises(ConfigError, match=f"name '{one.name}'"):
        joint_question([one, other, one])
