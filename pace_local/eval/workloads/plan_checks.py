"""What checks of an order, or of days, use. Generous about form: lines, lists, tables, one line with arrows.

The source of this file runs in the sandbox before a check, so that it imports the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MARKER = r"[ \t]*(?:\(?\d+[.):]|[-+*•]|(?:step|task|position)[ \t]*\d+[.):]?)?[ \t]*"


def plain_lines(answer: str) -> Iterator[str]:
    """Lines without Markdown, quotes and brackets, in small letters."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", answer).replace("\u2192", "->")
    text = re.sub(r"^[ \t]*(?:```|~~~).*$", "", text, flags=re.MULTILINE)
    for line in re.sub(r"[*`\"“”'_\[\]{}#]", "", text).casefold().splitlines():
        bare = line.strip().strip("|").strip()
        if bare:
            yield bare


def _tasks_in(line: str, tasks: Sequence[str]) -> list[str]:
    return re.findall(r"(?<![\w-])(?:" + "|".join(map(re.escape, tasks)) + r")(?![\w-])", line)


def order_of(answer: str, tasks: Sequence[str]) -> list[str]:
    """The tasks in the order that an answer gives, each as often as it is listed."""
    lines = [re.sub(r"\([^)]*\)", "", line) for line in plain_lines(answer)]
    any_task = "|".join(map(re.escape, tasks))
    alone = re.compile(rf"{_MARKER}(?:\|\s*)?(?:{any_task})[\s.,;|]*|\d+\s*\|\s*(?:{any_task})[\s|]*")
    listed = [line for line in lines if alone.fullmatch(line)]
    if not listed:
        for line in lines:
            if sorted(_tasks_in(line, tasks)) == sorted(tasks):
                return _tasks_in(line, tasks)
        leading = re.compile(rf"{_MARKER}(?:{any_task})(?![\w-])")
        listed = [line for line in lines if leading.match(line)]
    return [_tasks_in(line, tasks)[0] for line in listed]


def days_of(answer: str, tasks: Sequence[str]) -> dict[str, int]:
    """The first day of each task that an answer gives one to.

    Raises:
        AssertionError: if a task is given two different days.
    """
    days: dict[str, int] = {}
    for line in plain_lines(answer):
        pieces = [line] if len(_tasks_in(line, tasks)) < 2 else re.split(r"[,;]", line)
        for piece in pieces:
            named, day = _tasks_in(piece, tasks), _day(piece)
            if len(named) == 1 and day is not None:
                assert days.setdefault(named[0], day) == day, f"two days for {named[0]}"
    return days


def _day(piece: str) -> int | None:
    said = re.search(r"\b(?:days?|starts?|begins?|from)\b[^\w\n]*(?:(?:on|at|day)\s+)*(\d+)\b", piece)
    if said is None:
        bare = re.sub(r"\([^)]*\)", "", re.sub(r"^\(?\d+[.)]\s", "", piece))
        said = re.search(r"(?<![\w.])(\d+)(?!\w)", bare)
    return None if said is None else int(said[1])


def check_all_listed(answer: str, tasks: Sequence[str]) -> None:
    """Assert that each task is listed once."""
    order = order_of(answer, tasks)
    assert sorted(order) == sorted(tasks), f"listed: {', '.join(order) or 'nothing'}"


def _place(answer: str, tasks: Sequence[str], task: str) -> int:
    order = order_of(answer, tasks)
    assert order.count(task) == 1, f"{task} is listed {order.count(task)} times"
    return order.index(task)


def check_before(answer: str, tasks: Sequence[str], first: str, then: str) -> None:
    """Assert that one task is listed before another."""
    assert _place(answer, tasks, first) < _place(answer, tasks, then), f"{then} comes before {first}"


def check_at(answer: str, tasks: Sequence[str], task: str, place: int) -> None:
    """Assert that a task has a place in an order of all: 0 is the first, -1 the last."""
    order = order_of(answer, tasks)
    assert len(order) == len(tasks), f"listed: {', '.join(order) or 'nothing'}"
    assert order[place] == task, f"{order[place]} has the place of {task}"


def check_day(answer: str, tasks: Sequence[str], task: str, day: int) -> None:
    """Assert that a task starts on a day."""
    days = days_of(answer, tasks)
    assert task in days, f"no day for {task}"
    assert days[task] == day, f"{task} starts on day {days[task]}, not {day}"
