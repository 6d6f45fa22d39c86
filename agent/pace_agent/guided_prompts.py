"""What a small model is asked in guided style: short, plain, one thing at a time.

What a step reads (files, rules, results, the user's words) is in the context already. A question shows the
one place that is to change, as it is now, and says what to do and how to answer. Line numbers are never in
the code: small models copy them.
"""

from __future__ import annotations

from pace_agent.checking.failures import shown
from pace_agent.editing.code_blocks import unindented
from pace_agent.repository.outline import Definition
from pace_local.excerpts.languages import language_of
from pace_local.excerpts.layout import split_lines

_LONGEST_TASK = 600
"""Characters of the user's task that are said again; all of it stands in the context."""
_LONGEST_PROBLEM = 1_200
_FIRST = "First say in one sentence what has to change."
"""Asked for code at once, the 1.5B coder gave a faulty function back as it was; asked this first, it repaired
it (docs/LOG.md)."""
_CHANGES = """The whole file is too long for one answer. Answer with the lines that change alone, like this:
<<<<<<< SEARCH
lines of the file as they are now
=======
the same lines as they are to be
>>>>>>> REPLACE"""


def definition(
    path: str,
    name: str,
    code: str,
    step: str,
    task: str = "",
    problem: str = "",
    *,
    lines: tuple[int, int] | None = None,
    new_name: str = "",
    explains: bool = True,
) -> str:
    """Ask for one definition, whole.

    Args:
        path: of its file, from the repository.
        name: of the definition, qualified.
        code: of it as it is now; :func:`shown_code` gives it.
        step: what to do.
        task: the user's, if the step is only a part of it.
        problem: what was wrong with the answer before this one, in a few lines; empty at the first attempt.
        lines: that it takes in the file, 1-based, inclusive.
        new_name: that it is to get, unqualified.
        explains: whether the model is to say first what has to change; some say only that.
    """
    plain = name.rpartition(".")[2]
    where = f" (lines {lines[0]} to {lines[1]})" if lines else ""
    asked = _asked(f"the whole `{new_name or plain}`", explains)
    if new_name:
        asked += f" It is called `{new_name}` now."
    elif problem:
        asked += " Do not give the same code again."
    return _question(f"`{name}` in {path}{where} is now:", path, code, step, task, problem, asked)


def whole_file(
    path: str,
    text: str,
    step: str,
    task: str = "",
    problem: str = "",
    *,
    explains: bool = True,
    changes_only: bool = False,
) -> str:
    """Ask for a file, whole.

    Args:
        path: this and the others as for :func:`definition`.
        text: of the file.
        step: as there.
        task: as there.
        problem: as there.
        explains: as there.
        changes_only: whether to ask for the lines that change alone, of a file too long for one answer.
    """
    asked = _CHANGES if changes_only else _asked(f"the whole of {path}", explains)
    return _question(f"{path} is now:", path, text, step, task, problem, asked)


def lines_of_file(
    path: str, lines: tuple[int, int], code: str, step: str, task: str = "", problem: str = ""
) -> str:
    """Ask for some lines of a file; the arguments are as for :func:`definition`."""
    asked = "Answer with these lines, changed, in one code block: all of them, and no others."
    title = f"Lines {lines[0]} to {lines[1]} of {path} are now:"
    return _question(title, path, code, step, task, problem, asked)


def new_file(path: str, step: str, task: str = "", problem: str = "") -> str:
    """Ask for a file that does not exist yet; the arguments are as for :func:`definition`."""
    asked = f"{path} does not exist yet. Answer with the whole file in one code block."
    return _joined(_to_do(step, task), _wrong(problem), asked)


def question(asked: str, place: str = "") -> str:
    """Have a question answered in words.

    Args:
        asked: by the user.
        place: that it is about, such as ``shop/orders.py, line 12``; empty: what is in the context.
    """
    about = f"This is about {place}." if place else ""
    return _joined(
        asked.strip(), about, "Answer in a few sentences, from what is shown above. Change nothing."
    )


def retry(name: str, problem: str) -> str:
    """Ask again for what the last answer gave, with what is wrong with it; the code stands above.

    Args:
        name: of the definition or file.
        problem: as for :func:`definition`.
    """
    asked = (
        f"Correct it. Answer with the whole `{name}` in one code block: every line of it, nothing left out."
    )
    return _joined(_wrong(problem), asked)


def shown_code(text: str, found: Definition) -> str:
    """A definition's lines as a model is shown them: without the indentation that all of them have.

    Args:
        text: of the file.
        found: in it.
    """
    return unindented("".join(split_lines(text)[found.first_line - 1 : found.last_line]))


def _asked(what: str, explains: bool) -> str:
    how = f"{what} in one code block: every line of it, nothing left out."
    return f"{_FIRST} Then give {how}" if explains else f"Answer with {how}"


def _question(title: str, path: str, code: str, step: str, task: str, problem: str, asked: str) -> str:
    language = language_of(path, code)
    return _joined(
        f"{title}\n{_fenced(code, language.name if language else '')}",
        _to_do(step, task),
        _wrong(problem),
        asked,
    )


def _to_do(step: str, task: str) -> str:
    step, task = step.strip(), task.strip()
    if not task or task in step or len(task) > _LONGEST_TASK:
        return f"Do this: {step or task[:_LONGEST_TASK]}"
    if not step or step in task:
        return f"Do this: {task}"
    return f"The task: {task}\nDo this part of it: {step}"


def _wrong(problem: str) -> str:
    if not problem.strip():
        return ""
    return f"Your last answer is not right yet:\n{shown(problem, _LONGEST_PROBLEM)}"


def _fenced(code: str, language: str) -> str:
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
