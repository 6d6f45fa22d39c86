"""The loop: a prompt becomes a plan, each step is worked on until it is done, and everything is told.

A run ends by an exception of :mod:`pace_agent.ways_out`, wherever it is found out; :meth:`Loop.run` turns it
into the last event. In ``tools`` style the model calls tools; in ``guided`` style :mod:`pace_agent.guided`
has the machine do what it can do better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pace_agent.calls.formats import CallFormat
from pace_agent.calls.parsing import Call
from pace_agent.checking.check_run import Checking
from pace_agent.circles import Circles
from pace_agent.conversation import Conversation
from pace_agent.events import AgentEvent, Ended, Planned, StepEnded, StepState, Warned, Working
from pace_agent.guided import Guided
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Finish, Held, Lines, Proposal, Replan
from pace_agent.planning.intent import is_about_failures
from pace_agent.planning.planner import Planner
from pace_agent.planning.task_plan import TaskStep
from pace_agent.prompts import (
    AGAIN_NOTE,
    CUT_NOTE,
    NO_CALL_NOTE,
    SILENT_NOTE,
    answer_prompt,
    problems_note,
    step_prompt,
)
from pace_agent.tool_type import Tool
from pace_agent.toolbox import Result, Toolbox
from pace_agent.ways_out import Broken, Done, NeedsUser, NotAllowed, Unreadable, WayOut
from pace_local.errors import CancelledError, PaceError

MOST_FORMAT_ERRORS = 3
"""In a row; then a run ends."""

_CUT_CALL_NOTE = (
    "Your last call was cut off and not made: it reached the limit of tokens of one answer. Make smaller "
    "calls: write the first part of a long file, then add the rest with edit; change a file with edit."
)


class Loop:
    """Works on one prompt after the other.

    Args:
        conversation: with the model.
        toolbox: runs what it calls.
        planner: makes the plan and finds what a step reads.
        checking: runs the check.
        guided: works where the model cannot call tools; None: it can.
        tools: that the model is told of.
        form: how it calls them.
        outbox: takes events.
    """

    def __init__(
        self,
        conversation: Conversation,
        toolbox: Toolbox,
        planner: Planner,
        checking: Checking,
        guided: Guided | None,
        tools: Sequence[Tool],
        form: CallFormat,
        outbox: Outbox,
    ) -> None:
        self._conversation = conversation
        self._toolbox = toolbox
        self._planner = planner
        self._checking = checking
        self._guided = guided
        self._tools = tools
        self._form = form
        self._outbox = outbox
        self._limits: Limits
        self._circles = Circles()
        self._format_errors = 0
        self._has_called = False
        self._task = ""

    def run(self, task: str, limits: Limits) -> Iterator[AgentEvent]:
        """Work on a task that the model was told; the last event is :class:`Ended`."""
        self._limits, self._task = limits, task
        self._circles, self._format_errors, self._has_called = Circles(), 0, False
        self._toolbox.refused = ""
        before = self._conversation.session.counters
        misses, recalled = self._conversation.misses, self._conversation.recalled
        try:
            try:
                yield from self._plan()
                raise Done((yield from self._steps()))
            except CancelledError:
                limits.check()
                raise Broken("it was cancelled from elsewhere") from None
            except PaceError as error:
                limits.check()
                raise Broken(str(error)) from error
        except WayOut as out:
            end = out
        self._conversation.end_steps()
        yield from self._outbox.drain()
        after = self._conversation.session.counters
        self._outbox.say(
            Ended(
                reason=end.reason,
                result=str(end),
                turns=limits.turns,
                seconds=limits.elapsed,
                changed=self._toolbox.changed(),
                misses=self._conversation.misses - misses,
                recalled=self._conversation.recalled - recalled,
                decoded=after.prompt_tokens - before.prompt_tokens,
                generated=after.generated_tokens - before.generated_tokens,
            )
        )
        yield from self._outbox.drain()

    # The plan and its steps

    def _plan(self) -> Iterator[AgentEvent]:
        self._checking.begin(self._task)
        failures = self._checking.look() if is_about_failures(self._task) else None
        yield from self._outbox.drain()
        self._limits.check()
        self._planner.draft(self._task, () if failures is None else failures.places)
        if self._planner.needs_model:
            yield from self._planner.ask(self._limits, self._tools, self._form)
        else:
            by: Literal["machine", "user"] = "user" if self._planner.is_given else "machine"
            self._outbox.say(Planned(self._planner.plan.views(), by))
        self._planner.is_given = False
        yield from self._outbox.drain()

    def _steps(self) -> Working:
        """Work on all steps; returns what they came to."""
        results: list[str] = []
        while (step := self._planner.plan.current) is not None:
            self._limits.check()
            began = self._conversation.session.session_length
            number = self._planner.plan.number
            yield from self._planner.start(step)
            state: StepState = "failed"
            summary = ""
            try:
                if self._guided is not None:
                    self._guided.plan = self._planner.plan
                    summary = yield from self._guided.step(step, number, self._task, self._limits)
                else:
                    summary = yield from self._step(step, number)
                state = "done"
            finally:
                self._conversation.end_steps()
                self._planner.plan.steps[number - 1].state = state
                self._outbox.say(StepEnded(number, state, summary))
            self._conversation.release_reasoning(began)
            self._outbox.say(Planned(self._planner.plan.views(), "machine", "progress"))
            yield from self._outbox.drain()
            results.append(summary)
        return "\n".join(dict.fromkeys(results))

    # One step with tools

    def _step(self, step: TaskStep, number: int) -> Working:
        """Let the model work on a step with tools; returns what it says came of it."""
        of = len(self._planner.plan.steps)
        ask = step_prompt if step.planned.edits else answer_prompt
        prompt: str | None = ask(number, of, step.text, self._task)
        has_called = reminded = False
        while True:
            yield from self._conversation.turn(self._limits, prompt, tools=self._tools, form=self._form)
            said, prompt = self._conversation.last, None
            is_unread = bool(said.problems) or (self._conversation.was_cut and not said.calls)
            if not is_unread:
                self._format_errors = 0
            for call in said.calls:
                has_called = self._has_called = True
                self._limits.check()
                self._toolbox.announce(call.name, call.arguments)
                yield from self._outbox.drain()
                result = self._call(call)
                yield from self._outbox.drain()
                if isinstance(result.outcome, Finish):
                    return self._end(result.text)
            if is_unread:
                prompt = self._format_error(said.problems)
                continue
            if said.calls:
                continue
            if _asks(said.text):
                raise NeedsUser(said.text)
            if step.planned.edits and not has_called and not reminded:
                prompt, reminded = (NO_CALL_NOTE if said.text else SILENT_NOTE), True
                continue
            if step.planned.edits and not self._has_called and self._planner.plan.waiting[-1] is step:
                self._outbox.say(Warned("the model called no tool, so nothing was changed"))
                raise NeedsUser(said.text)
            return self._end(said.text)

    def _end(self, summary: str) -> str:
        """What a step came to, unless it stopped at something that was refused."""
        if self._toolbox.refused:
            raise NotAllowed(f"{self._toolbox.refused}\n{summary}".strip())
        return summary

    def _call(self, call: Call) -> Result:
        """Run one call and append what it returned."""
        result = self._toolbox.call(call.name, call.arguments, is_announced=True)
        self._limits.check()
        outcome = result.outcome
        if isinstance(outcome, Finish):
            return result
        if isinstance(outcome, Proposal):
            self._circles.changed()
            self._planner.forget(self._toolbox.bench.excerpts.take_stale())
        text = result.text
        if isinstance(outcome, Replan) and not self._planner.revise(outcome.document):
            text = "The plan has no step that can be used; go on with the one you have."
        if self._circles.note(call.name, call.arguments, result.text):
            self._outbox.say(Warned(f"{call.name} was called three times in the same way"))
            text = f"{text}\n{AGAIN_NOTE}"
        shown = self._form.result(call.name, text)
        if isinstance(outcome, Lines) and outcome.content.strip():
            self._planner.note_read(outcome, shown)
        elif isinstance(outcome, Held):
            self._bring(outcome, shown)
        else:
            self._conversation.tell(shown, kind="tool", name=f"tool:{self._toolbox.calls}:{call.name}")
        return result

    def _bring(self, held: Held, shown: str) -> None:
        """Have back what the model asks to read again."""
        self._planner.bring(held.segment)
        self._conversation.tell(shown, kind="tool", name=f"tool:{self._toolbox.calls}:read")

    def _format_error(self, problems: Sequence[str]) -> str:
        self._format_errors += 1
        was_cut = self._conversation.was_cut
        what = "it was cut off" if was_cut else "; ".join(problems)
        if self._format_errors >= MOST_FORMAT_ERRORS:
            raise Unreadable(f"{MOST_FORMAT_ERRORS} answers in a row could not be read; the last: {what}")
        self._outbox.say(Warned(f"an answer could not be read: {what}"))
        if not was_cut:
            return problems_note(problems)
        return _CUT_CALL_NOTE if problems else CUT_NOTE


def _asks(text: str) -> bool:
    """Whether an answer ends with a question to the user."""
    return text.rstrip().endswith("?")
