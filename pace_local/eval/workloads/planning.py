"""Planning: jobs whose tasks have rules of order, or days that change; any order that keeps all is right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from pace_local.eval.workloads.documents import (
    Document,
    DocumentQuestion,
    Material,
    check_number,
    plan_prelude,
)

_JOBS: dict[str, tuple[str, ...]] = {
    "bench": ("saw", "plane", "drill", "glue", "varnish"),
    "garden": ("dig", "weed", "sow", "water", "fence"),
    "banquet": ("peel", "boil", "fry", "season", "garnish"),
    "release": ("freeze", "compile", "test", "sign", "upload"),
    "move": ("sort", "wrap", "load", "unpack", "clean"),
    "booklet": ("draft", "typeset", "proof", "fold", "staple"),
    "survey": ("map", "sample", "weigh", "tabulate", "report"),
    "concert": ("tune", "rehearse", "light", "seat", "record"),
    "quilt": ("cut", "pin", "stitch", "press", "bind"),
    "roof": ("strip", "batten", "felt", "tile", "flash"),
    "orchard": ("prune", "graft", "spray", "pick", "crate"),
    "pottery": ("wedge", "throw", "trim", "fire", "glaze"),
    "network": ("trench", "pull", "splice", "label", "audit"),
    "exhibit": ("select", "frame", "hang", "caption", "insure"),
    "boat": ("scrape", "caulk", "prime", "paint", "launch"),
    "census": ("brief", "visit", "count", "verify", "archive"),
}
"""Name of a job -> its tasks; no two jobs share one."""

MOST = len(_JOBS)


def make(number: int, seed: int) -> Material:
    """So many jobs, each told in one to three documents, and a question about the plan of each.

    Raises:
        ConfigError: if ``number`` is not 1 to :data:`MOST`.
    """
    check_number("planning", number, MOST)
    rng = random.Random(f"planning:{seed}")
    told: list[list[Document]] = []
    questions = []
    for i, job in enumerate(rng.sample(list(_JOBS), number)):
        documents, question = _FORMS[i % len(_FORMS)](job, rng)
        told.append(documents)
        questions.append(question)
    # What belongs to one job is not told in one go.
    rounds = range(max(map(len, told)))
    return Material(
        tuple(documents[turn] for turn in rounds for documents in told if turn < len(documents)),
        tuple(questions),
    )


_Form = Callable[[str, random.Random], tuple[list[Document], DocumentQuestion]]


def _told(job: str, sheets: dict[str, str]) -> list[Document]:
    return [Document(f"{kind}:{job}", text) for kind, text in sheets.items()]


def _names(tasks: Sequence[str], rng: random.Random) -> str:
    shuffled = rng.sample(tasks, len(tasks))
    return ", ".join(shuffled[:-1]) + f" and {shuffled[-1]}"


def _order_with(later: bool) -> _Form:
    """An order of five tasks: its start and its end are given, and what comes before what between them.

    Args:
        later: whether the rules stand in a second document, and one task comes before two others, instead of
            after them.
    """

    def form(job: str, rng: random.Random) -> tuple[list[Document], DocumentQuestion]:
        a, b, c, d, e = tasks = rng.sample(_JOBS[job], 5)
        if later:
            between = f"{b} comes before {c} and before {d}"
            pairs = ((b, c), (b, d))
        else:
            between = f"{b} and {c} come before {d}"
            pairs = ((b, d), (c, d))
        plan = (
            f"# Plan of the {job} job\n\nThe {job} job has five tasks: {_names(tasks, rng)}. Each is done "
            "once, one after the other."
        )
        ruled = (
            f"These rules of order hold:\n\n- The very first task is {a}.\n- Then come {b}, {c} "
            f"and {d}, but {between}.\n- The very last task is {e}.\n\n"
            "Tasks that no rule compares can be in any order."
        )
        sheets = (
            {
                "plan": f"{plan} The rules of order are on a sheet of their own.",
                "rules": f"# Rules of the {job} job\n\n{ruled}",
            }
            if later
            else {"plan": f"{plan} {ruled}"}
        )
        checks = [("at", a, 0), *(("before", *pair) for pair in pairs), ("at", e, -1)]
        documents = _told(job, sheets)
        names = tuple(tasks)
        question = DocumentQuestion(
            reads=tuple(document.name for document in documents),
            question=(
                f"Give an order of all five tasks of the {job} job that keeps every rule of it. Write no "
                "code. Reply with the names of the tasks alone, one a line: first the very first task, then "
                "those between, and last the very last task."
            ),
            facts=names,
            checks=(
                f"check_all_listed(ANSWER, {names!r})",
                *(f"check_{what}(ANSWER, {names!r}, {one!r}, {other!r})" for what, one, other in checks),
            ),
            solution="\n".join(tasks),
            answers_with="text",
            prelude=plan_prelude(),
        )
        return documents, question

    return form


def _schedule_with(changes: int) -> _Form:
    """First days of five tasks, of which two are put off.

    Args:
        changes: sheets with changes. On a second one, one of the two is put off again.
    """

    def form(job: str, rng: random.Random) -> tuple[list[Document], DocumentQuestion]:
        tasks = tuple(rng.sample(_JOBS[job], 5))
        planned = dict(zip(tasks, rng.sample(range(11, 50), 5), strict=True))
        late = rng.sample(range(51, 99), changes + 1)
        again, once = rng.sample(tasks, 2)
        days = {**planned, once: late[0], again: late[-1]}

        def put_off(task: str, day: int) -> str:
            return f"- The task {task} is put off. It starts on day {day} now.\n"

        sheets = {
            "plan": f"# Plan of the {job} job\n\nThe {job} job has five tasks. First day of each:\n\n"
            + "".join(f"- {task}: day {day}\n" for task, day in planned.items())
            + "\nIf a change puts a task off, the last change of that task holds.",
            "change": f"# Change of the {job} job\n\n{put_off(once, late[0])}{put_off(again, late[1])}"
            "\nAll other tasks start as it was planned.",
        }
        if changes > 1:
            sheets["second-change"] = (
                f"# Second change of the {job} job\n\n{put_off(again, late[2])}"
                "\nAll other tasks start as it was said before this change."
            )
        documents = _told(job, sheets)
        question = DocumentQuestion(
            reads=tuple(document.name for document in documents),
            question=(
                f"On which day does each of the five tasks of the {job} job start now, after all changes of "
                "its plan? A task that was put off starts on its new day only. Write no code. Reply with one "
                "line for each task, of the form `task: day`."
            ),
            facts=tasks,
            checks=tuple(f"check_day(ANSWER, {tasks!r}, {task!r}, {day})" for task, day in days.items()),
            solution="\n".join(f"{task}: {day}" for task, day in days.items()),
            answers_with="text",
            prelude=plan_prelude(),
        )
        return documents, question

    return form


_FORMS: tuple[_Form, ...] = (
    _order_with(later=False),
    _schedule_with(changes=1),
    _order_with(later=True),
    _schedule_with(changes=2),
)
