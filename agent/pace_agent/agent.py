"""An agent: one repository, one session, one prompt after the other."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from pace_agent.assembly import Assembly
from pace_agent.briefing import Briefing
from pace_agent.errors import RefusedError, StaleError, ToolError
from pace_agent.events import (
    AgentEvent,
    Answer,
    Asked,
    Changed,
    Ended,
    EndReason,
    Planned,
    Prompted,
    StepView,
    Undone,
    Warned,
)
from pace_agent.limits import Limits
from pace_agent.planning.planned_step import PlannedStep
from pace_agent.planning.task_plan import TaskPlan
from pace_agent.safety.permissions import Mode
from pace_agent.settings.agents_md import NAME
from pace_agent.settings.config import AgentConfig
from pace_agent.tool_type import Tool
from pace_agent.undoing import Undoing
from pace_agent.watching.changes import diff_of
from pace_agent.watching.staleness import Excerpts
from pace_local import Model
from pace_local.errors import ConfigError, PaceError
from pace_local.sampling import Writer

_STATE = 1
"""Version of the state file."""

_PATIENCE = 10.0
"""Seconds in which a run that was cancelled ends; if it waits for somebody, it is closed when it does."""


class Agent:
    """Works in one repository with one model. Use it as a context manager.

    It is single-threaded but for :meth:`cancel` and :meth:`close`; listeners are called in the thread that
    works. What a listener raises ends the run there, and comes out of it.

    Args:
        model: must stay open while the agent lives.
        repository: the folder to work in.
        config: settings; None: the defaults. Its ``model`` is not used. Config files and ``PACE_…`` variables
            are read by :func:`~pace_agent.settings.config_file.load_config`, not here.
        approve: asks the user for permissions; None: nobody is there, and what would be asked ends the run.
        tools: further ones; see :func:`pace_agent.tool_type.tool`.
        extra_folders: further folders that it may work in.
        session: name to keep the session under; None: a new one; empty: it is not kept.
        resume: whether to go on with the session of that name.
        writer: writes answers in the model's place, such as :class:`pace_local.testing.Script`.
        listener: called with every event as it happens.
        is_trusted: whether the user trusts the repository; None: as they said before.

    Raises:
        ToolError: if the repository or another folder is none.
        ConfigError: for settings that cannot be used.
        FileError, StorageError: if the session cannot be opened or kept.
    """

    def __init__(
        self,
        model: Model,
        repository: str | os.PathLike[str] = ".",
        *,
        config: AgentConfig | None = None,
        approve: Callable[[Asked], Answer] | None = None,
        tools: Sequence[Tool] = (),
        extra_folders: Sequence[str | os.PathLike[str]] = (),
        session: str | None = None,
        resume: bool = False,
        writer: Writer | None = None,
        listener: Callable[[AgentEvent], None] | None = None,
        is_trusted: bool | None = None,
    ) -> None:
        self.config = config or AgentConfig()
        self.model = model
        self._closing = ExitStack()
        try:
            parts = Assembly(
                model,
                repository,
                self.config,
                self._closing,
                approve=approve,
                tools=tools,
                extra_folders=extra_folders,
                session=session,
                resume=resume,
                writer=writer,
                listener=listener,
                is_trusted=is_trusted,
            )
        except BaseException:
            self._closing.close()
            raise
        self._parts = parts
        if parts.is_trusted:
            parts.watch.told_elsewhere = frozenset({NAME})
        self.style = parts.style
        self.style_reason = parts.style_reason
        self.session = parts.session
        self.conversation = parts.conversation
        self.permissions = parts.permissions
        self._limits: Limits | None = None
        self._briefing = Briefing(parts)
        self._undoing = Undoing(parts, self._briefing)
        self._number = 0
        self._is_running = self._is_closing = False
        self._changing = threading.RLock()
        self._idle = threading.Event()
        self._idle.set()
        self._worker = 0
        self._runs: weakref.WeakSet[Generator[AgentEvent, None, None]] = weakref.WeakSet()
        self.conversation.before_answer = self._before_answer
        try:
            self._take_up(parts.state)
            self._save()
        except BaseException:
            self._closing.close()
            raise

    def _take_up(self, state: dict[str, Any]) -> None:
        """Go on where the session's last process stopped."""
        if not state:
            return
        if state.get("version") != _STATE:
            raise ConfigError(
                f"the session {self.session_name!r} was made by another version; begin a new one"
            )
        self._number = int(state["prompts"])
        self._parts.toolbox.calls = int(state["calls"])
        self._parts.planner.prompts = [name for name in state["said"] if name in self.session.segments]
        self._excerpts.take_document(
            [one for one in state["excerpts"] if one["segment"] in self.session.segments]
        )
        for path, known in state.get("files", {}).items():
            self._parts.bench.files.remember(self._parts.root / path, known)
        self._parts.toolbox.commands = {
            int(number): list(commands) for number, commands in state.get("commands", {}).items()
        }
        self._briefing.take_document(state.get("told", {}))
        self._parts.watch.compare()

    # What it is

    @property
    def _excerpts(self) -> Excerpts:
        return self._parts.bench.excerpts

    @property
    def session_name(self) -> str:
        """For going on with it later; empty if it is not kept."""
        return "" if self._parts.folder is None else self._parts.folder.name

    @property
    def mode(self) -> Mode:
        """How much is done without asking; can be set at any time, from any thread."""
        return self.permissions.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.permissions.mode = mode

    @property
    def plan(self) -> tuple[StepView, ...]:
        """The plan of the last prompt, done steps included."""
        return self._parts.planner.plan.views()

    def set_plan(self, steps: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Put a plan of the user's in the place of what is still to do, or have it for the next prompt.

        Args:
            steps: what each does, and the files and symbols that it needs.

        Raises:
            ConfigError: if there is no step, or one says nothing.
        """
        if not steps or not all(text.strip() for text, _ in steps):
            raise ConfigError("a plan needs steps, and each a text; give at least one")
        new = [PlannedStep(text.strip(), files=tuple(names), symbols=(), edits=True) for text, names in steps]
        planner = self._parts.planner
        if self._is_running:
            planner.plan.revise(new)
        else:
            planner.plan, planner.is_given = TaskPlan(new), True
        self._parts.outbox.say(Planned(self.plan, "user"))

    # Working

    def run(
        self, prompt: str, *, max_turns: int | None = None, time_limit: float | None = None
    ) -> Iterator[AgentEvent]:
        """Work on a prompt; events come as they happen, the last is :class:`Ended`.

        Leaving the loop early ends the work there.

        Args:
            prompt: what to do.
            max_turns: most answers of the model; None: as the settings have it.
            time_limit: in seconds; None: there is none.

        Raises:
            ConfigError: for an empty prompt or a limit out of range, or if a run is going on.
        """
        if not prompt.strip():
            raise ConfigError("the prompt is empty; say what to do")
        turns = self.config.max_turns if max_turns is None else max_turns
        if turns < 1:
            raise ConfigError(f"max turns is {turns}; use 1 or more")
        if time_limit is not None and not 0 < time_limit <= 10**7:
            raise ConfigError(f"a time limit of {time_limit} s is out of range; use more than 0")
        self._check_idle()
        run = self._run(prompt, Limits(turns, time_limit, self._interrupt))
        self._runs.add(run)
        return run

    def _check_idle(self) -> None:
        if self._is_closing:
            raise ConfigError("the agent is closed; make a new one")
        if self._is_running:
            raise ConfigError("a run is going on; wait for its end, or cancel it")

    def _run(self, prompt: str, limits: Limits) -> Generator[AgentEvent, None, None]:
        with self._working(limits):
            self._parts.outbox.open()
            try:
                try:
                    self._undoing.mark(self._number + 1)
                    self._briefing.tell()
                    yield from self._parts.outbox.drain()
                    self._tell_prompt(prompt)
                except PaceError as error:
                    yield from self._failed(error, limits)
                    return
                yield from self._parts.outbox.drain()
                yield from self._parts.loop.run(prompt, limits)
            finally:
                try:
                    self._save()
                finally:
                    self._parts.outbox.close()

    @contextmanager
    def _working(self, limits: Limits) -> Iterator[None]:
        """Keep others from working meanwhile, and let :meth:`cancel` and :meth:`close` find what goes on."""
        with self._changing:
            self._check_idle()
            self._is_running, self._worker = True, threading.get_ident()
            self._idle.clear()
            self._parts.cancelled.clear()
            self._limits = limits
        try:
            with limits:
                yield
        finally:
            with self._changing:
                self._limits = None
                self._parts.cancelled.clear()  # else it would stop what the user asks for between two runs
                self._is_running = False
                if self._is_closing:
                    self._closing.close()
            self._idle.set()

    def _failed(self, error: PaceError, limits: Limits) -> Iterator[AgentEvent]:
        """The prompt could not be read."""
        reason: EndReason = "cancelled" if limits.is_cancelled else "time" if limits.is_late else "failed"
        self._parts.outbox.say(Ended(reason, str(error), 0, limits.elapsed))
        yield from self._parts.outbox.drain()

    def run_command(self, command: str) -> bool:
        """Run a shell command of the user's own: nobody is asked, and the model is told what came of it.

        Its events are :class:`~pace_agent.events.Called`, ``Output``, ``Returned``; :meth:`cancel` ends it.

        Returns:
            Whether it succeeded.

        Raises:
            ConfigError: for an empty command, or if a run is going on.
        """
        if not command.strip():
            raise ConfigError("the command is empty; say what to run")
        with self._working(Limits(1, None, self._interrupt)):
            result = self._parts.toolbox.run_command(command, is_permitted=True)
            self.note(f"The user ran `{command}`:\n{result.text}")
            self._save()
            return result.ok

    def cancel(self) -> None:
        """End what goes on, a run or a command, as soon as possible. From any thread or signal handler."""
        limits = self._limits
        if limits is not None:
            limits.cancel()

    def _interrupt(self) -> None:
        self._parts.cancelled.set()
        self.session.cancel()

    def note(self, text: str) -> None:
        """Have the model told something before its next turn. From any thread."""
        self._briefing.note(text)

    def edit(self, path: str, text: str, *, expected: str | None = None) -> None:
        """Give a file a new text, journalled as a change of the last prompt's.

        Args:
            path: of the file.
            text: all of it.
            expected: what it must hold now; None: anything.

        Raises:
            StaleError: if it holds something else than was expected.
            ToolError, RefusedError: if it cannot be read or written.
            StorageError: if it cannot be journalled.
        """
        place, source = self._parts.bench.open(path)
        if expected is not None and source.text != expected:
            raise StaleError(f"{place.shown!r} has been changed meanwhile; look at it again")
        after = dataclasses.replace(source, text=text)
        if self._parts.journal.write(self._number, place.path, after).is_changed:
            shown = place.shown.replace("\\", "/")
            stale = self._excerpts.changed(shown, text)
            self._parts.outbox.say(Changed(shown, "agent", diff_of(shown, source.text, text), stale))

    def _tell_prompt(self, prompt: str) -> None:
        self._number += 1
        self._parts.toolbox.prompt = self._number
        self.permissions.forget_refused_changes()
        for path in _named_paths(prompt):
            self._allow(path)
        name = self.conversation.tell(prompt, kind="user", name=f"prompt:{self._number}", isolated=False)
        self._parts.planner.prompts.append(name)
        self._save()
        self._parts.outbox.say(Prompted(prompt, name, self._number))

    def _allow(self, path: str) -> None:
        """Take protection off a path that the user named."""
        territory = self._parts.bench.territory
        try:
            place = territory.find(path)
            # A file may be protected by what it holds; a folder that its name does not protect is a word.
            if place.path.is_file() or (place.protection is not None and os.path.lexists(place.path)):
                territory.allow(path)
        except (RefusedError, ToolError):
            return

    def _before_answer(self) -> None:
        self._briefing.tell()
        self._save()  # a process that is killed from here on can be gone on with

    # Taking back

    def undo(self) -> Undone:
        """Take back the last prompt: what it changed in files, what was said, and what the cache holds.

        What commands changed in files is not taken back, and a warning says so.

        Of a session that was gone on with, prompts from before are taken back in files alone, and the model
        is told.

        Raises:
            ConfigError: if there is none, or a run is going on.
            StaleError: if somebody else changed one of the files since; nothing is taken back.
            ToolError, StorageError: if a file cannot be written.
        """
        if self._is_running:
            raise ConfigError("a run is going on; cancel it first")
        if not self._number:
            raise ConfigError("there is no prompt to take back")
        number = self._number
        event = self._undoing.take_back(number)
        self._number -= 1
        self._parts.outbox.say(event)
        commands = self._parts.toolbox.commands.pop(number, [])
        if commands:
            self._parts.outbox.say(
                Warned(f"what these commands changed is not taken back: {'; '.join(dict.fromkeys(commands))}")
            )
        self._save()
        return event

    # Keeping

    def _save(self) -> None:
        if self._parts.folder is None:
            return
        self._parts.folder.save_state(
            {
                "version": _STATE,
                "style": self.style,
                "prompts": self._number,
                "calls": self._parts.toolbox.calls,
                "said": list(self._parts.planner.prompts),
                "excerpts": self._excerpts.as_document(),
                "files": self._known_files(),
                "commands": self._parts.toolbox.commands,
                "told": self._briefing.as_document(),
            }
        )

    def _known_files(self) -> dict[str, str]:
        """Hashes of the files that there are excerpts of, by path."""
        files, root = self._parts.bench.files, self._parts.root
        known = {path: files.known_hash(root / path) for path in self._excerpts.paths}
        return {path: found for path, found in known.items() if found is not None}

    def close(self) -> None:
        """End it; a session that is kept can be gone on with later. Safe to call twice, from any thread.

        A run that is going on is cancelled and waited for. If it waits for somebody, such as who is asked for
        a permission, or this is called by a listener, all is closed when it ends.
        """
        with self._changing:
            self._is_closing = True
            is_own = self._worker == threading.get_ident()
        self.cancel()
        if is_own:
            for run in list(self._runs):
                try:
                    run.close()
                except ValueError:  # it is what calls this
                    return
        if self._idle.wait(_PATIENCE):
            with self._changing:
                self._closing.close()

    def __enter__(self) -> Agent:
        """The agent itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def _named_paths(prompt: str) -> Iterator[str]:
    """Words of a prompt that may be paths, without what stands around them in a sentence."""
    for word in dict.fromkeys(prompt.split()):  # each is looked up: a long text says many of them often
        bare = word.strip("`'\"()[]{}<>,;:!?")
        for path in {bare, bare.rstrip(".")}:
            if path and len(path) < 500:
                yield path
