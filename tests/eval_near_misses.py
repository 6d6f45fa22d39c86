"""Programs that are nearly right: each is a right one with a single fault."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence

_OFF_BY_ONE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def failed_checks(code: str, checks: Sequence[str]) -> list[int]:
    """Numbers of the checks that code of this project's own fails, run in this process for speed."""
    names: dict[str, object] = {}
    exec(compile(code, "<own code>", "exec"), names)
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
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    for i, statement in enumerate(function.body):
        if isinstance(statement, (ast.If, ast.Return)):
            changed = copy.deepcopy(tree)
            again = changed.body[0]
            assert isinstance(again, ast.FunctionDef)
            again.body[i] = ast.Pass()
            yield (
                f"without {ast.unparse(statement).splitlines()[0]}",
                ast.unparse(ast.fix_missing_locations(changed)),
            )
