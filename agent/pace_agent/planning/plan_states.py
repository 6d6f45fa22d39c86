"""The plan of a run as its events have it, for whoever shows it."""

from __future__ import annotations

import dataclasses

from pace_agent.events import AgentEvent, Planned, StepEnded, StepStarted, StepState, StepView


def steps_after(steps: tuple[StepView, ...], event: AgentEvent) -> tuple[StepView, ...]:
    """The steps of a plan after an event: a new plan, or a step that began or ended.

    Args:
        steps: as they were before.
        event: any; most change nothing.
    """
    match event:
        case Planned():
            return event.steps
        case StepStarted():
            return _marked(steps, event.number, "running")
        case StepEnded():
            return _marked(steps, event.number, event.state)
    return steps


def _marked(steps: tuple[StepView, ...], number: int, state: StepState) -> tuple[StepView, ...]:
    """With another state of one step; one that the plan does not have is nobody's."""
    return tuple(
        dataclasses.replace(step, state=state) if at == number else step for at, step in enumerate(steps, 1)
    )
