"""The plan of a task as everybody sees it: steps with their state, and what each of them reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from pace_agent.editing.line_moves import LineMove
from pace_agent.events import StepState, StepView
from pace_agent.planning.planned_step import PlannedStep


@dataclasses.dataclass
class TaskStep:
    """One step."""

    planned: PlannedStep
    reads: tuple[str, ...] = ()
    """Segments."""

    wanted: tuple[str, ...] = ()
    state: StepState = "waiting"

    @property
    def text(self) -> str:
        """What is to be done."""
        return self.planned.text

    def view(self) -> StepView:
        """As it is shown."""
        return StepView(self.text, self.reads, self.wanted, self.state)


class TaskPlan:
    """Steps in order; those that are done stay where they are."""

    def __init__(self, steps: Iterable[PlannedStep] = ()) -> None:
        self.steps = [TaskStep(step) for step in steps]

    @property
    def current(self) -> TaskStep | None:
        """The first step that is still to do."""
        return next((step for step in self.steps if step.state in ("waiting", "running")), None)

    @property
    def waiting(self) -> list[TaskStep]:
        """Steps still to do, the one at hand first."""
        return [step for step in self.steps if step.state in ("waiting", "running")]

    @property
    def number(self) -> int:
        """Of the step at hand, from 1; behind the last if all are done."""
        current = self.current
        return len(self.steps) + 1 if current is None else self.steps.index(current) + 1

    def revise(self, steps: Sequence[PlannedStep]) -> None:
        """Put other steps in the place of those still to do; one that is running goes on as the first."""
        running = [step for step in self.steps if step.state == "running"]
        kept = [step for step in self.steps if step.state not in ("waiting", "running")]
        new = [TaskStep(step) for step in steps]
        if running and new:
            new[0].state, new[0].reads = "running", running[0].reads
        self.steps = [*kept, *(new or running)]

    def move_lines(self, path: str, move: LineMove) -> None:
        """Have the steps still to do name the lines of a file as they are after an edit."""
        for step in self.waiting:
            step.planned = step.planned.moved(path, move)

    def views(self) -> tuple[StepView, ...]:
        """All steps as they are shown."""
        return tuple(step.view() for step in self.steps)
