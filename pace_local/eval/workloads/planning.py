"""Planning: jobs with tasks, durations and constraints; any order or schedule that keeps all is right."""

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


def _bullets(sentences: Sequence[str], rng: random.Random) -> str:
    return "\n".join(f"- {sentence}" for sentence in rng.sample(sentences, len(sentences)))


def _names(tasks: Sequence[str], rng: random.Random) -> str:
    shuffled = rng.sample(tasks, len(tasks))
    return ", ".join(shuffled[:-1]) + f" and {shuffled[-1]}"


def _order_with(last: bool) -> _Form:
    """An order of five tasks; its end or its start is given, and three more rules.

    Args:
        last: whether the rules stand in a second document and say which task is the last, instead of the
            first.
    """

    def form(job: str, rng: random.Random) -> tuple[list[Document], DocumentQuestion]:
        tasks = rng.sample(_JOBS[job], 5)
        a, b, c, d, e = tasks
        if last:
            rules = [
                f"{b} comes after {a}.",
                f"{c} comes directly after {b}, with nothing between them.",
                f"{d} comes after {a}.",
                f"{e} is the very last task.",
            ]
            checks = [("before", a, b), ("directly_after", b, c), ("before", a, d), ("at", e, -1)]
        else:
            rules = [
                f"{a} is the very first task.",
                f"{d} comes after {b}.",
                f"{d} comes after {c}.",
                f"{e} comes directly after {d}, with nothing between them.",
            ]
            checks = [("at", a, 0), ("before", b, d), ("before", c, d), ("directly_after", d, e)]
        plan = (
            f"# Plan of the {job} job\n\nThe {job} job has five tasks: {_names(tasks, rng)}. Each is done "
            "once, one after the other."
        )
        ruled = (
            f"These rules of order hold:\n\n{_bullets(rules, rng)}\n\n"
            "Tasks that no rule compares can be in any order."
        )
        sheets = (
            {
                "plan": f"{plan} The rules of order are on a sheet of their own.",
                "rules": f"# Rules of the {job} job\n\n{ruled}",
            }
            if last
            else {"plan": f"{plan} {ruled}"}
        )
        documents = _told(job, sheets)
        names = tuple(tasks)
        question = DocumentQuestion(
            reads=tuple(document.name for document in documents),
            question=(
                f"Give an order of all tasks of the {job} job that keeps every rule of it. Write no code. "
                "Reply with the names of the tasks alone, one a line, the first task first."
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


def _schedule_with(calendar: bool) -> _Form:
    """First days of four tasks, done one at a time.

    Args:
        calendar: whether the days are on a third sheet, instead of the plan's.
    """

    def form(job: str, rng: random.Random) -> tuple[list[Document], DocumentQuestion]:
        a, b, c, d = tasks = tuple(rng.sample(_JOBS[job], 4))
        durations = dict(zip(tasks, rng.sample(range(2, 8), 4), strict=True))
        start, pause = rng.randrange(11, 60), rng.randrange(1, 4)
        days = {a: start, b: start + durations[a]}
        days[c] = days[b] + durations[b] + pause
        days[d] = days[c] + durations[c]
        # No day too many for another order of the tasks, but for one or two that are left idle.
        end = days[d] + durations[d] - 1 + rng.randrange(min(durations[b], 3))
        shuffled = rng.sample(tasks, 4)
        dates = (
            f"The first task starts on day {start}. The task {c} cannot start before day {days[c]}. "
            f"All must be finished by the end of day {end}."
        )
        plan = (
            f"# Plan of the {job} job\n\nThe {job} job has four tasks: {_names(tasks, rng)}. One person "
            f"does them, one at a time.\n\n"
            + _bullets(
                [
                    f"{b} starts when {a} is finished, or later.",
                    f"{c} starts when {a} is finished, or later.",
                    f"{d} is the last task: {b} and {c} are finished before it starts.",
                ],
                rng,
            )
        )
        lasting = (
            f"# Durations of the {job} job\n\nDays that each task takes: "
            + ", ".join(f"{task} {durations[task]}" for task in shuffled)
            + ". A task that takes 3 days and starts on day 5 is done on days 5, 6 and 7, and the next can "
            "start on day 8."
        )
        sheets = {"plan": plan if calendar else f"{plan}\n\n{dates}", "durations": lasting}
        if calendar:
            sheets["calendar"] = (
                f"# Calendar of the {job} job\n\n{dates} Days are counted from the start of the year."
            )
        documents = _told(job, sheets)
        question = DocumentQuestion(
            reads=tuple(document.name for document in documents),
            question=(
                f"On which day does each task of the {job} job start? Keep every rule of its plan. Write no "
                "code. Reply with one line for each task, of the form `task: day`."
            ),
            facts=tasks,
            checks=(
                f"check_starts(ANSWER, {tasks!r}, {start})",
                f"check_finished_before(ANSWER, {durations!r}, {((a, b), (a, c), (b, d), (c, d))!r})",
                f"check_one_at_a_time(ANSWER, {durations!r})",
                f"check_not_before(ANSWER, {tasks!r}, {c!r}, {days[c]})",
                f"check_finished_by(ANSWER, {durations!r}, {end})",
            ),
            solution="\n".join(f"{task}: {day}" for task, day in days.items()),
            answers_with="text",
            prelude=plan_prelude(),
        )
        return documents, question

    return form


_FORMS: tuple[_Form, ...] = (
    _order_with(last=False),
    _schedule_with(calendar=False),
    _order_with(last=True),
    _schedule_with(calendar=True),
)
