"""Orders and schedules: all that keep the rules pass, in many forms; any broken rule fails."""

from __future__ import annotations

import ast
import re
from itertools import permutations

from eval_near_misses import as_lines, asked_by, failed, values_in

from pace_local.eval.workloads import WORKLOADS


def test_wrong_orders_fail_and_all_that_keep_the_rules_pass() -> None:
    for question in asked_by("planning", seeds=range(2)):
        if ": " in question.solution:
            continue
        tasks = question.solution.splitlines()
        orders = [list(order) for order in permutations(tasks)]
        passing = [order for order in orders if not failed(question, "\n".join(order))]
        assert 2 <= len(passing) <= 6
        assert tasks in passing
        failing = {number for order in orders for number in failed(question, "\n".join(order))}
        assert failing == {1, 2, 3, 4}
        for i in range(5):
            short = "\n".join(tasks[:i] + tasks[i + 1 :])
            assert 0 in failed(question, short)
            assert 0 in failed(question, f"{question.solution}\n{tasks[i]}")


def test_orders_pass_in_many_forms() -> None:
    for question in asked_by("planning", 8, range(3)):
        if ": " in question.solution:
            continue
        tasks = question.solution.splitlines()
        forms = (
            "\n".join(f"{i}. {task}" for i, task in enumerate(tasks, 1)),
            "\n".join(f"- **{task.capitalize()}**" for task in tasks),
            "\n".join(f"Step {i}: {task}" for i, task in enumerate(tasks, 1)),
            " -> ".join(tasks),
            " → ".join(tasks),
            f"The order is {', '.join(tasks[:-1])} and {tasks[-1]}.",
            "```\n" + question.solution + "\n```",
            f"This keeps every rule:\n\n{question.solution}\n\nSo {tasks[-1]} comes after {tasks[0]}.",
            "| place | task |\n|---|---|\n"
            + "\n".join(f"| {i} | {task} |" for i, task in enumerate(tasks, 1)),
            "\n".join(f"{i}. {task} (after {tasks[0]})" for i, task in enumerate(tasks, 1)),
        )
        for answer in forms:
            assert failed(question, answer) == [], answer


def test_schedules_that_break_a_rule_fail() -> None:
    for question in asked_by("planning", seeds=range(2)):
        if ": " not in question.solution:
            continue
        days = {task: int(day) for task, day in values_in(question.solution).items()}
        a, b, c, d = days
        lasting = {task: int(re.search(rf"'{task}': (\d+)", question.checks[1])[1]) for task in days}  # type: ignore[index]
        misses = {
            "all a day early": ({task: day - 1 for task, day in days.items()}, 0),
            "the first a day late": ({**days, a: days[a] + 1}, 0),
            "the second before the first is finished": ({**days, b: days[b] - 1}, 1),
            "the last before the third is finished": ({**days, d: days[d] - 1}, 1),
            "two at a time": ({**days, b: days[c] + lasting[c] - 1, d: days[c] + lasting[c] + lasting[b]}, 2),
            "too early": ({**days, c: days[c] - 1}, 3),
            "too late": ({**days, d: days[d] + 4}, 4),
        }
        for what, (wrong, check) in misses.items():
            answer = as_lines({task: str(day) for task, day in wrong.items()})
            assert check in failed(question, answer), what
        for task in days:
            others = {other: str(day) for other, day in days.items() if other != task}
            assert failed(question, as_lines(others)) == [0, 1, 2, 3, 4]
            assert failed(question, f"{question.solution}\n{task}: {days[task] + 1}") == [0, 1, 2, 3, 4]


def test_any_schedule_that_keeps_the_rules_passes() -> None:
    with_room = 0
    for question in asked_by("planning"):
        if ": " not in question.solution:
            continue
        days = {task: int(day) for task, day in values_in(question.solution).items()}
        durations, last_day = re.search(r"(\{.*\}), (\d+)\)", question.checks[4]).groups()  # type: ignore[union-attr]
        last = list(days)[-1]
        end = days[last] + ast.literal_eval(durations)[last] - 1
        for late in range(1, 4):
            later = as_lines({task: str(day + late * (task == last)) for task, day in days.items()})
            fits = end + late <= int(last_day)
            assert failed(question, later) == ([] if fits else [4])
            with_room += fits
    assert with_room > 10


def test_schedules_pass_in_many_forms() -> None:
    for question in asked_by("planning", 8, range(3)):
        if ": " not in question.solution:
            continue
        days = values_in(question.solution)
        forms = (
            "\n".join(f"- **{task}**: day {day}" for task, day in days.items()),
            "\n".join(f"{i}. {task.capitalize()}: {day}" for i, (task, day) in enumerate(days.items(), 1)),
            "\n".join(f"{task} (2 days): starts on day {day}" for task, day in days.items()),
            "\n".join(f"{task}: {day}-{int(day) + 2}" for task, day in days.items()),
            "\n".join(f"Day {day}: {task}" for task, day in days.items()),
            "| task | day |\n|---|---|\n" + "\n".join(f"| {task} | {day} |" for task, day in days.items()),
            "{" + ", ".join(f'"{task}": {day}' for task, day in days.items()) + "}",
            ", ".join(f"{task}: {day}" for task, day in days.items()),
            "\n".join(f"The task {task} starts on day {day}." for task, day in days.items()),
        )
        for answer in forms:
            assert failed(question, answer) == [], answer


def test_no_two_jobs_share_a_task() -> None:
    for seed in range(6):
        facts = [fact for each in WORKLOADS["planning"](16, seed).questions for fact in each.facts]
        assert len(facts) == len(set(facts))
