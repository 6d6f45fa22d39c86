"""The plan: the model proposes steps, the machine makes them usable and finds what each of them reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pace_agent.calls.formats import CallFormat
from pace_agent.calls.grammar import object_grammar
from pace_agent.calls.parsing import Parsed
from pace_agent.checking.failures import FailurePlace
from pace_agent.conversation import Conversation
from pace_agent.errors import RefusedError, ToolError
from pace_agent.events import AgentEvent, Planned, StepStarted, Warned
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Lines
from pace_agent.planning.machine_plan import machine_plan
from pace_agent.planning.model_plan import parse_plan
from pace_agent.planning.reads import Excerpt, Known, Reads, complete_reads
from pace_agent.planning.task_plan import TaskPlan, TaskStep
from pace_agent.prompts import plan_request
from pace_agent.repository.file_outline import outline_text
from pace_agent.repository.index import RepositoryIndex
from pace_agent.tool_type import Tool
from pace_agent.watching.staleness import Excerpt as ShownExcerpt
from pace_agent.workbench import Workbench
from pace_local import Step
from pace_local.events import Focused
from pace_local.sampling import Sampling

_WORDS_SHARE = 3
"""What the user said before may take a third of a step's reads."""


class Planner:
    """Plans one task after the other.

    Args:
        conversation: with the model.
        bench: for reading files.
        index: of the repository.
        outbox: takes events.
        room: tokens that a step's reads may take.
    """

    def __init__(
        self, conversation: Conversation, bench: Workbench, index: RepositoryIndex, outbox: Outbox, room: int
    ) -> None:
        self._conversation = conversation
        self._bench = bench
        self._index = index
        self._outbox = outbox
        self._room = room
        self.plan = TaskPlan()
        self.is_given = False
        """Whether the plan is the user's, for the next task."""
        self.shows_places = False
        """Whether steps are shown what they change by themselves, so that it need not be read before."""
        self.prompts: list[str] = []
        """Segments of what the user said, oldest first."""
        self._arrived: dict[str, str] = {}
        self._extra: list[str] = []

    # Making it

    def draft(self, prompt: str, failures: Sequence[FailurePlace] = ()) -> None:
        """Have the machine's plan, unless the user gave one."""
        if self.is_given:
            return
        self.plan = TaskPlan(machine_plan(prompt, self._index, failures))

    @property
    def needs_model(self) -> bool:
        """Whether to ask the model: not for a question, nor, of a small one, where the places are known."""
        steps = self.plan.steps
        if self.is_given or not any(step.planned.edits for step in steps):
            return False
        return not self.shows_places or (len(steps) == 1 and not steps[0].planned.symbols)

    def ask(self, limits: Limits, tools: Sequence[Tool], form: CallFormat) -> Iterator[AgentEvent]:
        """Have the model plan; the machine's plan stays if that is of no use.

        Raises:
            WayOut, CancelledError, PaceError: as :meth:`Conversation.turn`.
        """
        (own,) = (tool for tool in tools if tool.name == "plan")
        if self.shows_places:
            held = Sampling(grammar=object_grammar(own.parameters))
            yield from self._conversation.turn(limits, plan_request("guided"), sampling=held, is_shown=False)
        else:
            yield from self._conversation.turn(
                limits, plan_request("tools"), tools=[own], form=form, is_shown=False
            )
        steps = parse_plan(_document(self._conversation.last, self._conversation.last_text), self._index)
        names_places = any(step.files or step.symbols for step in steps or ())
        if steps is None or (self.shows_places and not names_places):
            # In guided style a step without a place is a question more, and nothing is won by it.
            why = "the model wrote no plan that can be used" if steps is None else "it names no place"
            self._outbox.say(Planned(self.plan.views(), "machine", why))
        else:
            self.plan = TaskPlan(steps)
            self._outbox.say(Planned(self.plan.views(), "model"))
        yield from self._outbox.drain()

    def revise(self, document: object) -> bool:
        """Take a new plan for what is still to do; returns whether it can be used."""
        steps = parse_plan(document, self._index)
        if steps is None:
            return False
        self.plan.revise(steps)
        self._outbox.say(Planned(self.plan.views(), "model", "revised"))
        return True

    # Steps

    def start(self, step: TaskStep) -> Iterator[AgentEvent]:
        """Find what a step reads, read what no segment holds yet, and make it the one at hand.

        What it reads is brought into the cache with the step's prompt.

        Raises:
            CancelledError, PaceError: if something cannot be read into the session.
        """
        step.state = "running"
        self._extra = []
        found = self._complete(step)
        places = set(step.planned.symbols) if self.shows_places else set()
        missing = [one for one in found.missing if f"{one.path}:{one.symbol}" not in places]
        new = []
        for one in missing:
            new.append(self._read(one))
            yield from self._outbox.drain()
        read = [name for name in new if name is not None]
        step.reads = tuple(dict.fromkeys((*found.segments, *read)))
        step.wanted = tuple(
            f"{one.path}:{one.symbol or one.first}"
            for one, name in zip(missing, new, strict=True)
            if name is None
        )
        self._arrived = dict.fromkeys(read, "read")
        waiting = self.plan.waiting
        for later in waiting[1:]:
            completed = self._complete(later)
            later.reads = tuple(completed.segments)
            later.wanted = tuple(f"{one.path}:{one.symbol or one.first}" for one in completed.missing)
        self._conversation.start_step(self._session_steps())
        if self._conversation.session.policy.focuses:
            self._conversation.on_focus = self._tell
        else:
            self._tell(None)
        yield from self._outbox.drain()

    def _session_steps(self) -> list[Step]:
        first = self.plan.number
        return [Step(f"{first + at}. {one.text}", one.reads) for at, one in enumerate(self.plan.waiting)]

    def forget(self, segments: Sequence[str]) -> None:
        """Take segments that hold old text out of the plan and out of the cache."""
        if not segments:
            return
        for step in self.plan.waiting:
            step.reads = tuple(name for name in step.reads if name not in segments)
        self._conversation.revise_steps(self._session_steps())
        for segment in segments:
            self._conversation.release(segment)

    def _read_too(self, name: str) -> None:
        """The step at hand reads a segment that was not planned; the oldest such give way if need be."""
        step = self.plan.current
        if step is None or step.state != "running" or name in step.reads:
            return
        step.reads = (*step.reads, name)
        self._extra.append(name)
        while len(self._extra) > 1 and self._tokens(step.reads) > self._room:
            gone = self._extra.pop(0)
            step.reads = tuple(each for each in step.reads if each != gone)
        self._conversation.revise_steps(self._session_steps())

    def _tokens(self, segments: Sequence[str]) -> int:
        return sum(self._conversation.residency(name)[1] for name in segments)

    def _complete(self, step: TaskStep) -> Reads:
        planned = step.planned
        # A step that is shown what it changes needs what that uses, and not the rest of the file.
        named = (
            planned.symbols if self.shows_places and planned.symbols else (*planned.symbols, *planned.files)
        )
        always = self._always()
        taken = self._tokens(always)
        return complete_reads(
            step.text,
            (*planned.reads, *named),
            self._index,
            known=self._known(),
            always=always,
            budget_tokens=max(64, self._room - taken),
            count=self._bench.count,
        )

    def _read(self, wanted: Excerpt) -> str | None:
        """Read lines that a step needs; None if that cannot be."""
        try:
            if wanted.is_outline:
                return self._read_outline(wanted)
            lines = self._bench.lines(wanted.path, wanted.first, wanted.last, tokens=max(64, self._room))
            if not lines.content.strip():
                return None
            return self._keep(lines, lines.text)
        except (ToolError, RefusedError) as error:
            self._outbox.say(Warned(f"a step needs {wanted.path}, which cannot be read: {error}"))
            return None

    def _read_outline(self, wanted: Excerpt) -> str | None:
        place, source = self._bench.open(wanted.path)
        outline = outline_text(
            source.text, wanted.path, wanted.most_characters, first=wanted.first, last=wanted.last
        )
        if not outline:
            return None
        text = f"{place.shown}, what it defines:\n{outline}"
        name = self._conversation.tell(text, kind="file", name=f"outline:{wanted.path}:{wanted.first}")
        self._bench.excerpts.add(ShownExcerpt.of(name, wanted.path, 0, 0, source.text, whole=False))
        return name

    def _keep(self, lines: Lines, shown: str) -> str:
        """Append lines of a file, as they are shown, as a segment of their own that plans can read."""
        path, first, last = lines.path, lines.first, lines.last
        name = self._conversation.tell(shown, kind="file", name=f"file:{path}:{first}-{last}")
        self._bench.excerpts.add(ShownExcerpt.of(name, path, first, last, lines.content, lines.is_whole))
        return name

    def note_read(self, lines: Lines, shown: str) -> None:
        """Append lines that the model asked to read. Having read them before, and lost, is a plan miss.

        Raises:
            CancelledError, PaceError: if they cannot be appended.
        """
        lost = self._bench.excerpts.overlapping(lines.path, lines.first, lines.last)
        name = self._keep(lines, shown)
        if lost and not any(self._conversation.residency(one)[0] for one in lost):
            self._conversation.miss(name, "read", f"{lines.path} was read before and evicted")
        self._read_too(name)

    def bring(self, segment: str) -> None:
        """Have a segment back that the model asks to read again: a plan miss, if it was gone.

        Raises:
            CancelledError, PaceError: if that cannot be.
        """
        self._conversation.bring(segment)
        self._read_too(segment)

    def _known(self) -> list[Known]:
        return [
            Known(one.segment, one.path, one.first, one.last, self._bench.excerpts.is_stale(one.segment))
            for one in self._bench.excerpts
        ]

    def _always(self) -> tuple[str, ...]:
        """The user's own words: the newest always, those before as far as they take little room.

        What was pasted and is long gives way to what is short, however old: rules are short.
        """
        left = self._room // _WORDS_SHARE
        kept = self.prompts[-1:]
        for name in reversed(self.prompts[:-1]):
            cost = self._tokens([name])
            if cost <= left:
                left -= cost
                kept.append(name)
        return tuple(reversed(kept))

    def _tell(self, focused: Focused | None) -> None:
        """Tell how the reads of the step at hand became resident."""
        step = self.plan.current
        assert step is not None
        reads = {}
        for name in step.reads:
            resident, tokens = self._conversation.residency(name)
            means = {} if focused is None else focused.reads
            reads[name] = self._arrived.get(name, means.get(name, "kept")) if resident == tokens else "absent"
        self._outbox.say(StepStarted(self.plan.number, len(self.plan.steps), step.text, reads))
        self._conversation.step_is_running()


def _document(parsed: Parsed, text: str) -> object:
    """What a model wrote as its plan: the arguments of a call, or a JSON object."""
    for call in parsed.calls:
        if call.name == "plan":
            return dict(call.arguments)
    for written in (parsed.text, text):  # held to an object, it wrote that alone
        try:
            return json.loads(written, strict=False)
        except (ValueError, RecursionError):
            continue
    return None
