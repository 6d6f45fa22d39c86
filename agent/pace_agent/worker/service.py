"""Serves a screen from a process of its own: does commands with an agent, and says what comes of it.

One thread reads commands, and does at once those that may come at any time. The thread that works does all
that touches the session: prompts one after the other, and the rest between two turns of the model.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_agent.commands.opening import Screen
from pace_agent.events import (
    AgentEvent,
    Answer,
    Asked,
    Called,
    Ended,
    Memory,
    Output,
    Returned,
    StepEnded,
    StepStarted,
    Turned,
    Undone,
    Warned,
)
from pace_agent.memory_view import memory_view
from pace_agent.safety.permissions import Mode
from pace_agent.worker.channel import Channel
from pace_agent.worker.protocol import (
    Cancel,
    Command,
    CommandId,
    Evict,
    GiveAnswer,
    Inspect,
    Loading,
    Message,
    Note,
    Pin,
    Problem,
    Prompt,
    Quit,
    Ready,
    Recall,
    Reply,
    RunCommand,
    SegmentText,
    SetMode,
    SetPlan,
    Undo,
    Unpin,
    View,
    line_of,
    parse_command,
)
from pace_local.errors import CancelledError, ConfigError, PaceError
from pace_local.sampling import Writer
from pace_local.terminal import Stop

if TYPE_CHECKING:
    from pace_agent import Agent

_VIEW_SECONDS = 0.25
"""Between two views of the memory, at least."""

_BETWEEN_TURNS = (Turned, Called, Output, Returned, StepEnded)
"""Events at which the session is at rest, so that others may use it."""

_LOADING_STEP = 0.01
"""A share of the model that is worth telling."""

_NOT_SHOWN = "progress"
"""Kind of the library's events that change nothing a view shows for long."""


@dataclass
class _Task:
    """What waits for its turn, or is being worked on."""

    command: Prompt | RunCommand | Undo
    is_cancelled: bool = False


class Service:
    """Does commands, one agent long.

    Args:
        channel: takes what is said.
        stop: asked to stop when the process is to end.
    """

    def __init__(self, channel: Channel, stop: Stop) -> None:
        self._channel = channel
        self._stop = stop
        self._changed = threading.Condition()
        self._agent: Agent | None = None
        self._tasks: deque[_Task] = deque()
        self._asides: deque[Command] = deque()
        self._current: _Task | None = None
        self._asked: int | None = None
        self._answer: Answer | None = None
        self._has_ended = False
        """Whether the run that goes on has said its end."""
        self._called: Called | None = None
        """A call that has not returned."""
        self._working_thread = 0
        self._view_is_due = False
        self._viewed_at = -_VIEW_SECONDS
        self._told_share = -1.0

    # Reading commands; in a thread of its own

    def read(self, lines: Iterable[bytes | None]) -> None:
        """Take commands until there are no more, which means to quit; None is a line that is too long."""
        for line in lines:
            if line is None:
                self._say(Problem("a command is too long; send less at a time"))
            elif line.strip():
                try:
                    command = parse_command(line)
                except ConfigError as error:
                    self._say(Problem(str(error)))
                else:
                    self._take(command)
        self.stop()

    def stop(self) -> None:
        """End what is going on, and the service. From any thread or signal handler."""
        self._stop.request(CancelledError("it was told to quit"))
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _take(self, command: Command) -> None:
        match command:
            case Quit():
                self._reply(command.id)
                self.stop()
            case Cancel():
                self._cancel()
                self._reply(command.id)
            case GiveAnswer():
                self._take_answer(command)
            case SetMode() | Note() if self._agent is not None:
                self._do(command)
            case Prompt() | RunCommand() | Undo():
                with self._changed:
                    self._tasks.append(_Task(command))
                    self._changed.notify_all()
            case _:
                with self._changed:
                    self._asides.append(command)
                    self._changed.notify_all()

    def _cancel(self) -> None:
        with self._changed:
            current = self._current
            if current is None or isinstance(current.command, Undo):
                current = next((each for each in self._tasks if not isinstance(each.command, Undo)), None)
            if current is None:
                return
            current.is_cancelled = True
            if current is self._current and self._agent is not None:
                self._agent.cancel()
            self._changed.notify_all()

    def _take_answer(self, given: GiveAnswer) -> None:
        with self._changed:
            if given.id != self._asked:
                self._say(Problem(f"nobody asks for a permission with id {given.id} now"))
                return
            self._asked = None
            self._answer = Answer(given.scope, given.message)
            self._changed.notify_all()

    # Working; in a thread of its own

    def work(
        self,
        opened: Callable[[Screen], AbstractContextManager[Agent]],
        log: Callable[[Agent], str],
        *,
        writer: Writer | None = None,
    ) -> None:
        """Open the agent and work with it until it is to stop.

        Args:
            opened: the agent, for a screen.
            log: called with the agent; returns the path of the file that is logged to from then on.
            writer: writes answers in the model's place.

        Raises:
            PaceError: if there can be no agent.
        """
        self._working_thread = threading.get_ident()
        screen = Screen(
            approve=self._approve,
            listen=self._hear,
            tell=lambda line: self._say(Warned(line)),
            fetching=self._tell_fetching,
            loading=self._tell_loading,
            writer=writer,
        )
        with opened(screen) as agent:
            path = log(agent)
            with self._changed:
                self._agent = agent
            self._say(Ready(agent.session_name, path))
            self._view_is_due = True
            while (task := self._next()) is not None:
                try:
                    self._do_task(agent, task)
                finally:
                    with self._changed:
                        self._current = self._asked = None

    def _next(self) -> _Task | None:
        """What to work on next, as soon as there is something; None: it is to stop."""
        while True:
            self._do_asides()
            self._show_memory()
            with self._changed:
                if self._stop.reason is not None:
                    return None
                if self._asides:
                    continue
                if self._tasks:
                    self._current = self._tasks.popleft()
                    return self._current
                self._changed.wait(self._until_view())

    def _until_view(self) -> float | None:
        """Seconds until a view is to be shown; None: none is."""
        if not self._view_is_due:
            return None
        return max(0.01, self._viewed_at + _VIEW_SECONDS - time.monotonic())

    def _do_task(self, agent: Agent, task: _Task) -> None:
        command = task.command
        if isinstance(command, Prompt):
            self._run(agent, command)
            return
        try:
            if isinstance(command, Undo):
                agent.undo()
            elif not task.is_cancelled:
                agent.run_command(command.command)
        except PaceError as error:
            self._end_call(str(error))
            self._refuse(command.id, error)
        else:
            self._reply(command.id)

    def _run(self, agent: Agent, command: Prompt) -> None:
        """Work on a prompt, and say its end if nobody did: a screen waits for it."""
        self._has_ended = False
        began = time.monotonic()
        problem = "it ended without a word"
        try:
            try:
                run = agent.run(command.prompt)
            except PaceError as error:
                if command.id is not None:
                    self._refuse(command.id, error)
                raise
            self._reply(command.id)
            for _ in run:  # its events were heard
                pass
        except PaceError as error:  # such as one of the log, which hears each event before this does
            problem = str(error)
            if self._has_ended:
                self._say(Problem(problem))
        if not self._has_ended:
            self._called = None
            self._say(Ended("failed", problem, 0, time.monotonic() - began))
        self._view_is_due = True

    def _end_call(self, problem: str) -> None:
        """Say the end of a call that has none."""
        call, self._called = self._called, None
        if call is not None:
            self._say(Returned(call.id, call.tool, False, problem, 0.0))

    def _hear(self, event: AgentEvent) -> None:
        with self._changed:
            if isinstance(event, Asked):
                self._asked, self._answer = event.id, None  # the answer may be here before anybody waits
        self._has_ended |= isinstance(event, Ended)
        if isinstance(event, (Called, Returned)):
            self._called = event if isinstance(event, Called) else None
        self._say(event)
        if self._agent is None or threading.get_ident() != self._working_thread:
            return
        task = self._current
        if task is not None and task.is_cancelled:
            self._agent.cancel()  # it was cancelled before there was a run
        is_shown = isinstance(event, Memory) and event.event.get("type") != _NOT_SHOWN
        self._view_is_due |= is_shown or isinstance(event, (Turned, StepStarted, Undone))
        if isinstance(event, _BETWEEN_TURNS):
            self._do_asides()
        self._show_memory()

    def _approve(self, asked: Asked) -> Answer:
        """Wait for the user's answer; meanwhile the session is at rest, and others may use it."""
        while True:
            self._do_asides()
            self._show_memory()
            with self._changed:
                answer, self._answer = self._answer, None
                if answer is not None:
                    return answer
                task = self._current
                if self._stop.reason is not None or (task is not None and task.is_cancelled):
                    self._asked = None
                    return Answer("no")
                if not self._asides:
                    self._changed.wait(self._until_view())

    def _do_asides(self) -> None:
        while self._agent is not None and self._asides:
            self._do(self._asides.popleft())

    def _do(self, command: Command) -> None:
        """Do what does not wait for its turn among prompts."""
        agent = self._agent
        assert agent is not None
        number: CommandId = getattr(command, "id", None)
        try:
            match command:
                case SetMode():
                    agent.mode = Mode(command.mode)
                case Note():
                    agent.note(command.text)
                case SetPlan():
                    agent.set_plan(command.steps)
                case Pin():
                    agent.session.pin(command.segment)
                case Unpin():
                    agent.session.pin(command.segment, False)
                case Evict():
                    agent.session.evict(command.segment)
                case Recall():
                    agent.conversation.recall(command.segment)
                case Inspect():
                    segment = agent.session.segments.named(command.segment)
                    self._say(SegmentText(command.segment, agent.session.text_of(segment)))
        except PaceError as error:
            self._refuse(number, error)
            return
        if isinstance(command, (Pin, Unpin, Evict, Recall)):
            self._view_is_due = True
        self._reply(number)

    # Saying

    def _say(self, message: Message) -> None:
        self._channel.say(line_of(message))

    def _reply(self, number: CommandId) -> None:
        if number is not None:
            self._say(Reply(number, True))

    def _refuse(self, number: CommandId, error: PaceError) -> None:
        self._say(Problem(str(error)) if number is None else Reply(number, False, str(error)))

    def _show_memory(self) -> None:
        """Say what the memory holds, if that has changed and was not said a moment ago."""
        now = time.monotonic()
        if self._agent is None or not self._view_is_due or now < self._viewed_at + _VIEW_SECONDS:
            return
        self._view_is_due, self._viewed_at = False, now
        self._channel.say_latest(line_of(View(memory_view(self._agent.session))))

    def _tell_fetching(self, done: int, total: int, what: str) -> None:
        self._tell_share(done / total if total else 0.0, what)

    def _tell_loading(self, share: float) -> None:
        self._tell_share(share, "")

    def _tell_share(self, share: float, what: str) -> None:
        if abs(share - self._told_share) >= _LOADING_STEP or share >= 1.0 > self._told_share:
            self._told_share = share
            self._say(Loading(share, what))
