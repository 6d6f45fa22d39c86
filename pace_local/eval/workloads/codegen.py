"""Code generation: new functions that must use modules of a code base by their real names and orders."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pace_local.eval.workloads.code_base import MOST as _MODULES
from pace_local.eval.workloads.code_base import CodeTask, Desk, desks, importable
from pace_local.eval.workloads.documents import DocumentQuestion, Material, check_number, read_by
from pace_local.eval.workloads.one_module import WITH_ONE
from pace_local.eval.workloads.two_modules import WITH_TWO

MOST = 2 * _MODULES


def make(number: int, seed: int) -> Material:
    """So many functions to write, and the modules that they use: one, or two together.

    Raises:
        ConfigError: if ``number`` is not 1 to :data:`MOST`.
    """
    check_number("codegen", number, MOST)
    code_base = desks(random.Random(f"codegen:{seed}"))
    questions = []
    for i in range(number):
        place, turn = i % _MODULES, i // _MODULES
        if place % 2 == turn:
            used = [code_base[place]]
            task = WITH_ONE[i // 2 % len(WITH_ONE)](used[0])
        else:
            first = place - place % 2
            used = code_base[first : first + 2]
            if turn:
                used.reverse()
            task = WITH_TWO[(i // 2 + turn) % len(WITH_TWO)](*used)
        questions.append(_question(task, used, code_base))
    return Material(read_by([desk.document for desk in code_base], questions), tuple(questions))


def _question(task: CodeTask, used: Sequence[Desk], code_base: Sequence[Desk]) -> DocumentQuestion:
    modules = " and ".join(f"`{desk.module}`" for desk in used)
    imports = "".join(
        f"from {desk.module} import {', '.join(sorted(name for name in task.uses if name in desk.names))}\n"
        for desk in used
    )
    return DocumentQuestion(
        reads=tuple(desk.document.name for desk in used),
        question=(
            f"Write the Python function `{task.signature}`. {task.wanted} Import what you need from "
            f"{modules} by its name in our code base, keep to its order of parameters, and do not define it "
            "again. Reply with one Python code block."
        ),
        facts=tuple(task.uses),
        checks=task.checks,
        solution=f"{imports}\n\ndef {task.signature}:\n{task.body}",
        answers_with="code",
        prelude=importable(code_base, used),
    )
