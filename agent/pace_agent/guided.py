"""Guided style: the machine finds the place, shows it, and puts what the model writes where it belongs.

Small models write well-formed nonsense when they are to call an editing tool, and repair a function that
they are shown. So they are asked for one whole definition in a code block at a time; it is put in by name,
the rest of the file stays byte for byte, and what the check says goes back to the model, a few times at most.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pace_agent import guided_prompts
from pace_agent.checking.check_run import Checking
from pace_agent.checking.checks import syntax_problem
from pace_agent.conversation import Conversation
from pace_agent.editing.apply_answer import apply_answer
from pace_agent.editing.code_blocks import code_blocks, is_elided
from pace_agent.editing.symbols import find_definition
from pace_agent.editing.undefined_names import new_undefined_names
from pace_agent.errors import EditError, RefusedError, ToolError
from pace_agent.events import Warned, Working
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Proposal
from pace_agent.planning.intent import Rename, rename_in
from pace_agent.planning.task_plan import TaskPlan, TaskStep
from pace_agent.prompts import answer_prompt
from pace_agent.repository.index import RepositoryIndex
from pace_agent.toolbox import Toolbox
from pace_agent.ways_out import NotAllowed
from pace_agent.workbench import Workbench
from pace_local.excerpts.layout import split_lines
from pace_local.files import SourceText


@dataclass(frozen=True)
class Target:
    """A place to change: a definition, lines outside of definitions, or a whole file."""

    path: str
    symbol: str = ""
    lines: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """For people and the model."""
        if self.symbol:
            return self.symbol
        return f"{self.path}:{self.lines[0]}-{self.lines[1]}" if self.lines else self.path


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
        targets = self.targets(step)
        if not step.planned.edits or not targets:
            yield from self._conversation.turn(limits, answer_prompt(number, of, step.text, task))
            return self._conversation.last.text
        done: list[str] = []
        for target in targets:
            done.append((yield from self._place(target, step, task, limits)))
        return "\n".join(done)

    # One place

    def _place(self, target: Target, step: TaskStep, task: str, limits: Limits) -> Working:
        """Have one place written anew; returns what was done."""
        problem, explains = "", rename_in(task) is None
        is_last_step = self.plan.waiting[-1] is step
        for attempt in range(1, self._tries + 1):
            prompt = self._prompt(target, step, task, problem, explains=explains)
            yield from self._conversation.turn(limits, prompt)
            answer = self._conversation.last.text
            try:
                summary = self._change(self._proposal(target, answer, task))
            except ToolError as error:
                problem, explains = str(error), bool(code_blocks(answer))
                self._outbox.say(Warned(f"attempt {attempt} at {target.name}: {problem}"))
                summary = self._renamed_by_machine(target, task) if attempt == self._tries else ""
                yield from self._outbox.drain()
                if not summary:
                    continue
            target = self._renamed(target, task)
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
        self._index.refresh([str(proposal.place.shown)])
        return proposal.summary

    def _renamed_by_machine(self, target: Target, task: str) -> str:
        """Put the new name in a place where the model did not; returns what was done, or nothing."""
        rename = rename_in(task)
        place = self._bench.place(target.path)
        if rename is None or not place.path.exists():
            return ""
        _, source = self._bench.open(target.path)
        first, last = target.lines or (0, 0)
        if target.symbol:
            found = find_definition(source.text, target.path, target.symbol)
            first, last = (found.first_line, found.last_line) if found else (0, 0)
        old = next(
            (name for name in re.findall(r"\w+", rename.what)[::-1] if self._is_name(name, rename)), ""
        )
        if not first or not old:
            return ""
        lines = split_lines(source.text)
        new = [re.sub(rf"(?<!\w){old}(?!\w)", rename.new, line) for line in lines[first - 1 : last]]
        if new == lines[first - 1 : last]:
            return ""
        text = "".join([*lines[: first - 1], *new, *lines[last:]])
        self._outbox.say(Warned(f"{target.name}: the name was replaced by the machine"))
        summary = f"{target.name} in {place.shown}: {old} is {rename.new} now."
        after = dataclasses.replace(source, text=text)
        return self._change(Proposal(place, source, after, summary, first, last))

    def _is_name(self, word: str, rename: Rename) -> bool:
        """Whether a word of what is to be renamed is the name that it has, or had before this task."""
        steps = (name.rpartition(":")[2] for step in self.plan.steps for name in step.planned.symbols)
        return word != rename.new and word in {symbol.rpartition(".")[2] for symbol in steps}

    def _prompt(self, target: Target, step: TaskStep, task: str, problem: str, *, explains: bool) -> str:
        if not self._bench.place(target.path).path.exists():
            return guided_prompts.new_file(target.path, step.text, task, problem)
        _, source = self._bench.open(target.path)
        if target.symbol:
            definition = find_definition(source.text, target.path, target.symbol)
            if definition is not None:
                return guided_prompts.definition(
                    target.path,
                    definition.name,
                    guided_prompts.shown_code(source.text, definition),
                    step.text,
                    task,
                    problem,
                    lines=(definition.first_line, definition.last_line),
                    new_name=self._new_name(target, task),
                    explains=explains,
                )
        if target.lines is not None:
            first, last = target.lines
            code = "".join(split_lines(source.text)[first - 1 : last])
            return guided_prompts.lines_of_file(target.path, target.lines, code, step.text, task, problem)
        return guided_prompts.whole_file(
            target.path, source.text, step.text, task, problem, explains=explains
        )

    def _proposal(self, target: Target, answer: str, task: str) -> Proposal:
        """What an answer makes of a file.

        Raises:
            ToolError: if it cannot be used.
        """
        place = self._bench.place(target.path)
        if not place.path.exists():
            return self._new_file(target, answer)
        self._bench.files.check_fresh(place.path)
        _, source = self._bench.open(target.path)
        new_name = self._new_name(target, task)
        applied = apply_answer(
            source.text,
            target.path,
            target.symbol or None,
            answer,
            lines=target.lines,
            rename=(target.symbol.rpartition(".")[2], new_name) if new_name else None,
        )
        edited = applied.edited
        if applied.left_out:
            self._outbox.say(Warned(f"left out of the answer, not asked for: {', '.join(applied.left_out)}"))
        renamed = rename_in(task)
        # While something is being renamed, its users have the old name, or the new one before its import.
        but = set() if renamed is None else {renamed.new, *re.findall(r"\w+", renamed.what)}
        _check_names(source.text, edited.text, target.path, but)
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

    def _new_file(self, target: Target, answer: str) -> Proposal:
        blocks = [block for block in code_blocks(answer) if block.text.strip()]
        if not blocks:
            raise EditError("there is no code block in the answer; write the whole file in one")
        text = max((block.text for block in blocks), key=len)
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

    @staticmethod
    def targets(step: TaskStep) -> list[Target]:
        """Places that a step changes, in order."""
        if not step.planned.edits:
            return []
        found = [Target(path, symbol) for path, symbol in map(_split, step.planned.symbols) if path]
        covered = {target.path for target in found}
        for path in step.planned.files:
            if path in covered:
                continue
            lines = [each for name in step.planned.reads if (each := _lines_in(name, path)) is not None]
            found += [Target(path, lines=each) for each in lines] or [Target(path)]
        # From the end of a file on, so that lines further up stay where they are.
        return sorted(dict.fromkeys(found), key=lambda target: -(target.lines or (0, 0))[0])


def _check_names(before: str, after: str, path: str, but: set[str]) -> None:
    undefined = [name for name in new_undefined_names(before, after, path) if name not in but]
    if undefined:
        names = ", ".join(f"`{name}`" for name in undefined)
        raise EditError(
            f"{names} {'is' if len(undefined) == 1 else 'are'} not defined in {path}; use what is defined "
            "there, or import what is missing"
        )


def _split(name: str) -> tuple[str, str]:
    path, _, symbol = name.rpartition(":")
    return path, symbol


def _lines_in(name: str, path: str) -> tuple[int, int] | None:
    """The lines that a read such as ``shop/orders.py:10-20`` names in a file."""
    match = re.fullmatch(rf"{re.escape(path)}:(\d+)-(\d+)", name)
    return None if match is None else (int(match[1]), int(match[2]))
