"""Code for a code base: real names and orders pass, any other fails."""

from __future__ import annotations

import re
from itertools import permutations

from eval_near_misses import asked_by, failed, near_misses, swapped_arguments

from pace_local.eval.grading import has_fact
from pace_local.eval.workloads import WORKLOADS


def test_near_misses_of_code_fail_and_every_check_fails_for_some() -> None:
    for question in asked_by("codegen", seeds=range(3)):
        calls = [fact for fact in question.facts if fact.islower()]
        misses = [*near_misses(question.solution), *swapped_arguments(question.solution, calls)]
        assert sum(what.startswith("arguments of") for what, _ in misses) == len(calls)
        passed = [what for what, code in misses if not failed(question, code)]
        assert passed == [], question.solution
        assert {number for _, code in misses for number in failed(question, code)} == {0, 1, 2, 3, 4}


def test_a_name_of_another_module_fails() -> None:
    for question in asked_by("codegen", seeds=range(2)):
        for fact in question.facts:
            guessed = fact + "_price" if fact.islower() else fact[:-2] + "ED" if fact.isupper() else "Refusal"
            wrong = re.sub(rf"\b{fact}\b", guessed, question.solution.partition("\n\n\n")[2])
            assert failed(question, wrong), fact
            without = re.sub(rf"\b{fact}\b, |(?:, )?\b{fact}\b", "", question.solution)
            assert without != question.solution


def test_names_can_be_used_in_every_way_that_python_has() -> None:
    for question in asked_by("codegen", 8, range(2)):
        imports, _, function = question.solution.partition("\n\n\n")
        modules = re.findall(r"^from (\w+)", imports, re.MULTILINE)
        assert failed(question, function) == []
        assert (
            failed(question, "\n".join(f"from {module} import *" for module in modules) + "\n" + function)
            == []
        )
        qualified = function
        for module, names in re.findall(r"^from (\w+) import (.*)", imports, re.MULTILINE):
            for name in names.split(", "):
                qualified = re.sub(rf"\b{name}\b", f"{module}.{name}", qualified)
        assert failed(question, "\n".join(f"import {module}" for module in modules) + "\n" + qualified) == []


def test_modules_share_no_name_and_their_names_cannot_be_guessed() -> None:
    for seed in range(6):
        told = WORKLOADS["codegen"](16, seed).told
        assert len(told) == 8
        for own, other in permutations(told, 2):
            names = set(re.findall(r"^(?:class|def) (\w+)|^([A-Z]+) =", own.text, re.MULTILINE))
            assert len(names) == 4
            assert not any(has_fact(other.text, first or second) for first, second in names)
        first = [re.search(r"def \w+\((\w+)", each.text)[1] for each in told]  # type: ignore[index]
        units = [re.search(r"# most (\w+)", each.text)[1] for each in told]  # type: ignore[index]
        assert sum(one == other for one, other in zip(first, units, strict=True)) == 4


def test_a_module_of_the_code_base_is_real_python() -> None:
    for document in WORKLOADS["codegen"](8, 0).told:
        source = document.text.partition("```python\n")[2].removesuffix("```")
        compile(source, document.name, "exec")
