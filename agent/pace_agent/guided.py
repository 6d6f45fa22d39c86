"""Guided style: the machine finds the place, shows it, and puts what the model writes where it belongs.

Small models write well-formed nonsense when they are to call an editing tool, and repair a function that
they are shown. So they are asked for one whole definition in a code block at a time; it is put in by name,
the rest of the file stays byte for byte, and what the check says goes back to the model, a few times at most.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

from pace_agent import guided_prompts
from pace_agent.checking.check_run import Checking
from pace_agent.checking.checks import syntax_problem
from pace_agent.conversation import Conversation
from pace_agent.editing.apply_answer import apply_answer
from pace_agent.editing.code_blocks import block_of_file, code_blocks, is_elided
from pace_agent.editing.cut_answers import check_closed
from pace_agent.editing.line_moves import LineMove, line_move
from pace_agent.editing.same_named import definitions_named, has_grammar
from pace_agent.editing.undefined_names import new_undefined_names
from pace_agent.errors import EditError, RefusedError, ToolError
from pace_agent.events import AgentEvent, Warned, Working
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Proposal
from pace_agent.planning.intent import Rename, rename_in
from pace_agent.planning.targets import Target, targets
from pace_agent.planning.task_plan import TaskPlan, TaskStep
from pace_agent.prompts import answer_prompt
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.outline import Definition, Outline
from pace_agent.safety.permissions import REFUSED_BEFORE
from pace_agent.toolbox import SAID_NO, Toolbox
from pace_agent.ways_out import NotAllowed
from pace_agent.workbench import Workbench
from pace_local.excerpts.layout import split_lines
from pace_local.files import SourceText

_FILLS = 0.8
"""Share of an answer that was cut off that a file takes at least to be too long for one."""


class Guided:
    """Works on steps with a model that cannot call tools.

    Args:
        conversation: with the model.
        toolbox: for changing files and running the check, with permission.
        bench: for reading files.
        index: of the repository.
        outbox: takes events.
        checking: says whether the work is right.
        tries: attempts at one place.
        forget: takes segments of old text out of plan and cache.
    """

    def __init__(
        self,
        conversation: Conversation,
        toolbox: Toolbox,
        bench: Workbench,
        index: RepositoryIndex,
        outbox: Outbox,
        checking: Checking,
        tries: int,
        forget: Callable[[Sequence[str]], None],
    ) -> None:
        self._conversation = conversation
        self._toolbox = toolbox
        self._bench = bench
        self._index = index
        self._outbox = outbox
        self._checking = checking
        self._tries = tries
        self._forget = forget
        self.plan: TaskPlan
        """The plan that the steps are of."""
        self._moves: list[tuple[str, LineMove]] = []
        """What the changes of the place at hand did to the lines of files, in order."""

    def step(self, step: TaskStep, number: int, task: str, limits: Limits) -> Working:
        """Work on one step; returns what came of it.

        Raises:
            WayOut: if the run is over.
            ToolError: if no attempt led to something that can be used.
            CancelledError, PaceError: as the conversation.
        """
        of = len(self.plan.steps)
        if self._checking.passes:
            return "Nothing is left to do here: the check passes."
        places = targets(step.planned, self._index)
        old = step.planned.old_name
        if old and step.planned.edits and not places:
            yield from self._last_check(step)
            return f"Nothing is left to do here: {', '.join(step.planned.files)} uses {old} no more."
        if not step.planned.edits or not places:
            yield from self._conversation.turn(limits, answer_prompt(number, of, step.text, task))
            return self._conversation.last.text
        done: list[str] = []
        while places:
            self._moves = []
            done.append((yield from self._place(self._placed(places.pop(0)), step, task, limits)))
            for path, move in self._moves:
                places = [target.moved(path, move) for target in places]
        return "\n".join(done)

    def _last_check(self, step: TaskStep) -> Iterator[AgentEvent]:
        """Run the check if a step that had nothing to do is the last one.

        Raises:
            ToolError: with what it says is wrong.
        """
        if self.plan.waiting[-1] is step:
            problem = self._checking.problem(is_last=True)
            yield from self._outbox.drain()
            if problem:
                raise ToolError(problem)

    def _placed(self, target: Target) -> Target:
        """The same place in the form that an answer can be put in by.

        A value that is set several times is the lines from its first to its last; where there is no grammar
        to find a definition by, or it is not there, it is the whole file.
        """
        if not target.symbol or not self._bench.place(target.path).path.exists():
            return target
        _, source = self._bench.open(target.path)
        if not has_grammar(target.path, source.text):
            return Target(target.path)
        found = self._definitions(source.text, target)
        if not found:
            return Target(target.path)
        if len(found) < 2 or any(one.kind in ("function", "type") for one in found):
            return target
        return Target(target.path, lines=(found[0].first_line, max(one.last_line for one in found)))

    @staticmethod
    def _definitions(text: str, target: Target) -> list[Definition]:
        """The definitions that a place is; several of one name, if it is not known which is meant."""
        return definitions_named(Outline(text, target.path), target.symbol, target.near_line)

    # One place

    def _place(self, target: Target, step: TaskStep, task: str, limits: Limits) -> Working:
        """Have one place written anew; returns what was done."""
        problem, explains, is_too_long = "", rename_in(task) is None, False
        instead = ""
        is_last_step = self.plan.waiting[-1] is step
        for attempt in range(1, self._tries + 1):
            prompt = self._prompt(target, step, task, problem, explains=explains, is_too_long=is_too_long)
            yield from self._conversation.turn(limits, prompt)
            answer, was_cut = self._conversation.last.text, self._conversation.was_cut
            try:
                summary = self._change(self._proposal(target, answer, step, task, is_cut=was_cut))
            except NotAllowed as error:
                instead = _instead(str(error), instead)
                if not instead or attempt == self._tries:
                    raise
                problem, explains, is_too_long = instead, True, False
                yield from self._outbox.drain()
                continue
            except ToolError as error:
                problem, explains = str(error), bool(code_blocks(answer)) and not was_cut
                is_too_long = was_cut and self._is_longer(target, answer)
                self._outbox.say(Warned(f"attempt {attempt} at {target.name}: {problem}"))
                summary = self._renamed_by_machine(target, task) if attempt == self._tries else ""
                yield from self._outbox.drain()
                if not summary:
                    continue
            target = self._renamed(target.moved(*self._moves[-1]), task)
            yield from self._outbox.drain()
            problem = ""
            if is_last_step or self._checking.is_repair:
                problem = self._checking.problem(is_last=is_last_step)
                yield from self._outbox.drain()
            if not problem:
                return summary
        raise ToolError(f"{target.name}: {self._tries} attempts failed; the last: {problem}")

    def _change(self, proposal: Proposal) -> str:
        """Make a change, if it is allowed; returns what was done."""
        self._toolbox.calls += 1
        try:
            self._toolbox.change(proposal, "edit")
        except RefusedError as error:
            raise NotAllowed(str(error)) from error
        self._forget(self._bench.excerpts.take_stale())
        path = str(proposal.place.shown)
        self._index.refresh([path])
        move = line_move("" if proposal.before is None else proposal.before.text, proposal.after.text)
        self._moves.append((path, move))
        self.plan.move_lines(path, move)
        return proposal.summary

    def _is_longer(self, target: Target, answer: str) -> bool:
        """Whether a whole file is too long for an answer, when one was cut off."""
        if target.symbol or target.lines or not self._bench.place(target.path).path.exists():
            return False
        return len(self._bench.open(target.path)[1].text) >= _FILLS * len(answer)

    def _renamed_by_machine(self, target: Target, task: str) -> str:
        """Put the new name in a place where the model did not; returns what was done, or nothing."""
        rename = rename_in(task)
        place = self._bench.place(target.path)
        if rename is None or not place.path.exists():
            return ""
        _, source = self._bench.open(target.path)
        spans = [] if target.lines is None else [target.lines]
        if target.symbol:
            found = self._definitions(source.text, target)
            spans = [(one.first_line, one.last_line) for one in found]
        old = next(
            (name for name in re.findall(r"\w+", rename.what)[::-1] if self._is_name(name, rename)), ""
        )
        if not spans or not old:
            return ""
        lines = split_lines(source.text)
        for first, last in spans:
            changed = [re.sub(rf"(?<!\w){old}(?!\w)", rename.new, line) for line in lines[first - 1 : last]]
            lines[first - 1 : last] = changed
        text = "".join(lines)
        if text == source.text:
            return ""
        self._outbox.say(Warned(f"{target.name}: the name was replaced by the machine"))
        summary = f"{target.name} in {place.shown}: {old} is {rename.new} now."
        after = dataclasses.replace(source, text=text)
        return self._change(Proposal(place, source, after, summary, spans[0][0], spans[-1][1]))

    def _is_name(self, word: str, rename: Rename) -> bool:
        """Whether a word of what is to be renamed is the name that it has, or had before this task."""
        steps = (name.rpartition(":")[2] for step in self.plan.steps for name in step.planned.symbols)
        return word != rename.new and word in {symbol.rpartition(".")[2] for symbol in steps}

    def _prompt(
        self, target: Target, step: TaskStep, task: str, problem: str, *, explains: bool, is_too_long: bool
    ) -> str:
        if not self._bench.place(target.path).path.exists():
            return guided_prompts.new_file(target.path, step.text, task, problem)
        _, source = self._bench.open(target.path)
        if target.symbol:
            found = self._definitions(source.text, target)
            if found:
                code = "\n\n".join(guided_prompts.shown_code(source.text, one).rstrip() for one in found)
                return guided_prompts.definition(
                    target.path,
                    found[0].name,
                    code,
                    step.text,
                    task,
                    problem,
                    lines=(found[0].first_line, found[0].last_line) if len(found) == 1 else None,
                    new_name=self._new_name(target, task),
                    explains=explains,
                )
        if target.lines is not None:
            first, last = target.lines
            code = "".join(split_lines(source.text)[first - 1 : last])
            return guided_prompts.lines_of_file(target.path, target.lines, code, step.text, task, problem)
        return guided_prompts.whole_file(
            target.path, source.text, step.text, task, problem, explains=explains, changes_only=is_too_long
        )

    def _proposal(self, target: Target, answer: str, step: TaskStep, task: str, *, is_cut: bool) -> Proposal:
        """What an answer makes of a file.

        Raises:
            ToolError: if it cannot be used.
        """
        place = self._bench.place(target.path)
        if not place.path.exists():
            return self._new_file(target, answer, is_cut=is_cut)
        self._bench.files.check_fresh(place.path)
        _, source = self._bench.open(target.path)
        new_name = self._new_name(target, task)
        applied = apply_answer(
            source.text,
            target.path,
            target.symbol or None,
            answer,
            near_line=target.near_line,
            lines=target.lines,
            rename=(target.symbol.rpartition(".")[2], new_name) if new_name else None,
            is_cut=is_cut,
        )
        edited = applied.edited
        if applied.left_out:
            self._outbox.say(Warned(f"left out of the answer, not asked for: {', '.join(applied.left_out)}"))
        renamed = rename_in(task)
        # While something is being renamed, its users have the old name, or the new one before its import.
        but = set() if renamed is None else {renamed.new, *re.findall(r"\w+", renamed.what)}
        _check_names(source.text, edited.text, target.path, but)
        if renamed is not None and step.planned.old_name:
            _check_used(source.text, edited.text, step.planned.old_name, renamed.new)
        return Proposal(
            place,
            source,
            dataclasses.replace(source, text=edited.text),
            f"Changed {target.name} in {place.shown}."
            if target.symbol
            else f"Changed lines {edited.first_line} to {edited.last_line} of {place.shown}.",
            edited.first_line,
            edited.last_line,
        )

    def _new_file(self, target: Target, answer: str, *, is_cut: bool) -> Proposal:
        block = block_of_file(code_blocks(answer), target.path)
        check_closed(block, target.path, is_cut=is_cut)
        text = block.text
        if is_elided(text):
            raise EditError("lines are left out in the code; write the whole file")
        broken = syntax_problem(target.path, text)
        if broken is not None:
            raise EditError(broken)
        _check_names("", text, target.path, set())
        place = self._bench.place(target.path)
        source = SourceText(place.shown, text if text.endswith("\n") else text + "\n", "utf-8", "\n")
        return Proposal(place, None, source, f"{place.shown} is made.")

    def _new_name(self, target: Target, task: str) -> str:
        """The name that a definition is to have, if the task is to rename it; else nothing."""
        rename = rename_in(task)
        if rename is None or not target.symbol:
            return ""
        old = target.symbol.rpartition(".")[2]
        is_meant = re.search(rf"(?<!\w){re.escape(old)}(?!\w)", rename.what) is not None
        return rename.new if is_meant and old != rename.new else ""

    def _renamed(self, target: Target, task: str) -> Target:
        """The same place under the name that it has now."""
        new = self._new_name(target, task)
        if not new:
            return target
        around = target.symbol.rpartition(".")[0]
        return dataclasses.replace(target, symbol=f"{around}.{new}" if around else new)


def _instead(refusal: str, before: str) -> str:
    """What the user wants in place of a change; empty if they said no more than no.

    Args:
        refusal: as it was told.
        before: what they wanted in place of the change before; it holds if the model gave that one again.
    """
    if refusal.startswith(REFUSED_BEFORE):
        return before
    said_no = f"{SAID_NO}: "
    return refusal.removeprefix(said_no) if refusal.startswith(said_no) else ""


def _check_used(before: str, after: str, old: str, new: str) -> None:
    """Refuse a change that does not use a new name in the place of the old one."""
    uses = re.compile(rf"(?<!\w){re.escape(new)}(?!\w)")
    if len(uses.findall(after)) <= len(uses.findall(before)):
        raise EditError(f"the answer does not use {new} in the place of {old}; {old} is called {new} now")


def _check_names(before: str, after: str, path: str, but: set[str]) -> None:
    undefined = [name for name in new_undefined_names(before, after, path) if name not in but]
    if undefined:
        names = ", ".join(f"`{name}`" for name in undefined)
        raise EditError(
            f"{names} {'is' if len(undefined) == 1 else 'are'} not defined in {path}; use what is defined "
            "there, or import what is missing"
        )
