"""Orders and schedules: all that keep the rules pass, in many forms; any broken rule fails."""

from __future__ import annotations

import re
from itertools import combinations, permutations

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


def test_days_that_are_off_missing_or_of_another_task_fail() -> None:
    for question in asked_by("planning", seeds=range(2)):
        if ": " not in question.solution:
            continue
        days = values_in(question.solution)
        assert len(set(days.values())) == 5
        for place, (task, day) in enumerate(days.items()):
            for wrong in (int(day) - 1, int(day) + 1, int(day) + 10, f"{day}5"):
                assert failed(question, as_lines({**days, task: str(wrong)})) == [place]
            assert failed(question, as_lines({other: days[other] for other in days if other != task})) == [
                place
            ]
            assert failed(question, f"{question.solution}\n{task}: {int(day) + 1}") == [0, 1, 2, 3, 4]
        for (i, one), (j, other) in combinations(enumerate(days), 2):
            swapped = {**days, one: days[other], other: days[one]}
            assert failed(question, as_lines(swapped)) == [i, j]


def test_days_that_held_before_a_change_fail() -> None:
    for seed in range(3):
        material = WORKLOADS["planning"](16, seed)
        texts = {document.name: document.text for document in material.told}
        for question in material.questions:
            if ": " not in question.solution:
                continue
            days = values_in(question.solution)
            said = "\n".join(texts[read] for read in question.reads)
            told = [(task, day) for task in days for day in re.findall(rf"\b{task}\b\D*(\d+)", said)]
            outdated = [(task, day) for task, day in told if days[task] != day]
            # two are put off, and with a second change one of them again
            assert len(outdated) == len(question.reads)
            for task, day in outdated:
                assert failed(question, as_lines({**days, task: day})) == [list(days).index(task)]


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
