"""Programs and texts that are nearly right: each is a right one with a single fault."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from pace_local.eval.specification import Question
from pace_local.eval.workloads import MOST, WORKLOADS

_OFF_BY_ONE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def failed_checks(code: str, checks: Sequence[str], prelude: str = "") -> list[int]:
    """Numbers of the checks that code of this project's own fails, run in this process for speed."""
    names: dict[str, object] = {}
    modules = dict(sys.modules)
    try:
        exec(compile(prelude, "<prelude>", "exec"), names)
        exec(compile(code, "<own code>", "exec"), names)
    finally:
        for name in set(sys.modules) - set(modules):
            del sys.modules[name]
    return _failed(names, checks)


def failed_text_checks(answer: str, checks: Sequence[str], prelude: str) -> list[int]:
    """Numbers of the checks that a text fails, run in this process for speed."""
    return _failed({**_names_of(prelude), "ANSWER": answer}, checks)


@functools.lru_cache(maxsize=4)
def _names_of(prelude: str) -> Mapping[str, object]:
    names: dict[str, object] = {}
    exec(compile(prelude, "<prelude>", "exec"), names)
    return names


def failed(question: Question, answer: str) -> list[int]:
    """Numbers of the checks that an answer fails, code or text, run in this process for speed."""
    check = failed_checks if question.answers_with == "code" else failed_text_checks
    return check(answer, question.checks, question.prelude)


def asked_by(workload: str, number: int | None = None, seeds: range = range(6)) -> Iterator[Question]:
    """The questions of a workload, by default as many as it has, with some seeds."""
    for seed in seeds:
        yield from WORKLOADS[workload](number or MOST[workload], seed).questions


def _failed(names: Mapping[str, object], checks: Sequence[str]) -> list[int]:
    failed = []
    for number, check in enumerate(checks):
        try:
            exec(check, dict(names))
        except Exception:
            failed.append(number)
    return failed


def near_misses(solution: str) -> Iterator[tuple[str, str]]:
    """What is wrong, and the program."""
    tree = ast.parse(solution)
    yield from _wrong_constants(tree)
    yield from _swapped_constants(tree)
    yield from _bounds(tree)
    yield from _missing_branches(tree)


def _constants(tree: ast.Module) -> list[ast.Constant]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) in (int, str)
    ]


def _wrong_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for i, constant in enumerate(_constants(tree)):
        wrong: list[int | str] = []
        if isinstance(constant.value, int):
            wrong = [constant.value + 1, constant.value - 1, constant.value + 10]
        elif isinstance(constant.value, str):
            wrong = [constant.value + "x", constant.value[1:]]
        for value in wrong:
            changed = copy.deepcopy(tree)
            _constants(changed)[i].value = value
            yield f"{value!r} for {constant.value!r}", ast.unparse(changed)


def _swapped_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for (i, one), (j, other) in itertools.combinations(enumerate(_constants(tree)), 2):
        if type(one.value) is type(other.value) and one.value != other.value:
            changed = copy.deepcopy(tree)
            constants = _constants(changed)
            constants[i].value, constants[j].value = other.value, one.value
            yield f"{one.value!r} and {other.value!r} swapped", ast.unparse(changed)


def _bounds(tree: ast.Module) -> Iterator[tuple[str, str]]:
    comparisons = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    for i, comparison in enumerate(comparisons):
        other = _OFF_BY_ONE.get(type(comparison.ops[0]))
        if other is not None:
            changed = copy.deepcopy(tree)
            again = [node for node in ast.walk(changed) if isinstance(node, ast.Compare)]
            again[i].ops = [other()]
            yield f"another bound in {ast.unparse(comparison)}", ast.unparse(changed)


def _missing_branches(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for i, statement in enumerate(_function(tree).body):
        if isinstance(statement, (ast.If, ast.Return)):
            changed = copy.deepcopy(tree)
            _function(changed).body[i] = ast.Pass()
            yield (
                f"without {ast.unparse(statement).splitlines()[0]}",
                ast.unparse(ast.fix_missing_locations(changed)),
            )


def _function(tree: ast.Module) -> ast.FunctionDef:
    return next(statement for statement in tree.body if isinstance(statement, ast.FunctionDef))


def swapped_arguments(solution: str, functions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Programs in which one call of one of these functions has its two arguments the wrong way round."""
    tree = ast.parse(solution)
    for i, call in enumerate(_calls(tree, functions)):
        changed = copy.deepcopy(tree)
        _calls(changed, functions)[i].args.reverse()
        yield f"arguments of {ast.unparse(call)} swapped", ast.unparse(changed)


def _calls(tree: ast.Module, functions: Sequence[str]) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    ]


def values_in(solution: str) -> dict[str, str]:
    """Name and value of each line of a text that has one of each."""
    return dict(re.split(r" = |: ", line) for line in solution.splitlines())


def text_near_misses(solution: str) -> Iterator[tuple[str, str]]:
    """Texts of lines ``name: value`` with a line missing, a number that is off, or two values swapped."""
    values = values_in(solution)
    for name, value in values.items():
        yield f"without {name}", as_lines({other: values[other] for other in values if other != name})
        if value.isdigit():
            for wrong in (int(value) + 1, int(value) - 1, int(value) + 10, f"{value}5"):
                yield f"{name} is {wrong}", as_lines({**values, name: str(wrong)})
                yield f"{name} is {value} or {wrong}", as_lines({**values, name: f"{value} or {wrong}"})
    for one, other in itertools.combinations(values, 2):
        if values[one] != values[other]:
            swapped = {**values, one: values[other], other: values[one]}
            yield f"{one} and {other} swapped", as_lines(swapped)


def as_lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in values.items())
