"""Runs one call of a tool: arguments are checked, it is allowed or not, it works, and all of it is told.

Tools themselves change nothing in files: one that wants to returns a
:class:`~pace_agent.outcomes.Proposal`, which is shown, asked about, journalled and written here.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pace_agent.errors import RefusedError, StaleError, ToolError
from pace_agent.events import (
    Answer,
    Asked,
    Called,
    Changed,
    Decided,
    Offer,
    Output,
    Returned,
)
from pace_agent.files.file_state import content_hash
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Failure, Finish, Held, Lines, Outcome, Proposal, Replan
from pace_agent.safety.permissions import Action, Decision, Permissions, Request, Scope, Verdict
from pace_agent.sessions.journal import Journal
from pace_agent.sessions.journal_entries import State
from pace_agent.shell.judge import judge
from pace_agent.tool_type import Tool
from pace_agent.watching.changes import diff_of
from pace_agent.ways_out import NotAllowed
from pace_agent.workbench import Workbench
from pace_local.errors import CancelledError, PaceError
from pace_local.excerpts.layout import split_lines

Approve = Callable[[Asked], Answer]
"""Asks the user; may take as long as it likes."""

_SHOWN_DIFF = 20_000
"""Characters of a diff of what was done; that of what is asked about is shown whole."""

_SCOPES = {"once": Scope.ONCE, "session": Scope.SESSION, "project": Scope.PROJECT}

SAID_NO = "the user said no"
"""How a refusal begins; behind a colon, what the user wants instead."""


@dataclass(frozen=True)
class Result:
    """What came of a call."""

    ok: bool
    text: str
    """For the model."""

    outcome: Outcome | None = None
    """What the tool returned; None if it failed."""


class Toolbox:
    """The tools of an agent.

    Args:
        tools: their names are unique.
        bench: what they work with.
        permissions: what they may do.
        journal: of changes.
        outbox: takes events.
        approve: asks the user; None: nobody is there, and a question ends the run.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        bench: Workbench,
        permissions: Permissions,
        journal: Journal,
        outbox: Outbox,
        approve: Approve | None,
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.bench = bench
        self.permissions = permissions
        self.journal = journal
        self._arguments = ""
        self.prompt = 0
        """Number of the prompt that is worked on: what an undo takes back together."""
        self.calls = 0
        """Calls so far in the session."""
        self.refused = ""
        """Why the last call that does something was refused; empty if it was not."""
        self.commands: dict[int, list[str]] = {}
        """Those that were run for each prompt and may have changed something."""
        self.on_ran: Callable[[float, float], None] = lambda began, ended: None
        """Told when a command ran, in seconds since 1970."""
        self._outbox = outbox
        self._approve = approve

    def announce(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Tell of a call that :meth:`call` makes next, so that it is seen while the tool works."""
        self.calls += 1
        self._outbox.say(Called(self.calls, name, dict(arguments)))

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        is_announced: bool = False,
        is_permitted: bool = False,
    ) -> Result:
        """Run a tool.

        Args:
            name: of the tool.
            arguments: as they stood in the call.
            is_announced: whether :meth:`announce` was called for it.
            is_permitted: whether it is the user's own call, which nobody is asked about.

        Raises:
            NotAllowed: if it needs a permission and nobody is there to ask.
        """
        if not is_announced:
            self.announce(name, arguments)
        number = self.calls
        began = time.monotonic()
        if name not in self.tools or self.tools[name].need != "nothing":
            self.refused = ""
        try:
            result = self._run(number, name, arguments, is_permitted)
        except RefusedError as error:
            self.refused = str(error)
            result = Result(False, f"Refused: {error}")
        except StaleError as error:
            result = self._stale(str(error), arguments)
        except PaceError as error:
            result = Result(False, f"Error: {error}")
        self._outbox.say(Returned(number, name, result.ok, result.text, time.monotonic() - began))
        return result

    def change(self, proposal: Proposal, tool: str) -> None:
        """Ask about a proposed change, journal it and make it.

        Raises:
            NotAllowed, RefusedError: if it is not allowed.
            ToolError, StorageError: if it cannot be made.
        """
        before = None if proposal.before is None else proposal.before.text
        whole = diff_of(proposal.place.shown, before, proposal.after.text, limit=None)
        # By its content: a no to one change of a file is no answer to another.
        about = content_hash(proposal.after.to_bytes())
        request = Request(tool, Action.WRITE, path=str(proposal.place.path), about=about)
        self._permit(self.calls, request, whole)
        written = self.journal.write(self.prompt, proposal.place.path, proposal.after)
        if written.is_changed:
            shown = proposal.place.shown.replace("\\", "/")
            stale = self.bench.excerpts.changed(shown, proposal.after.text)
            diff = diff_of(proposal.place.shown, before, proposal.after.text, limit=_SHOWN_DIFF)
            self._outbox.say(Changed(shown, "agent", diff, stale))

    def run_command(self, command: str, *, is_permitted: bool = False) -> Result:
        """Run a shell command as the tool ``shell`` does.

        Args:
            command: to run.
            is_permitted: as for :meth:`call`.

        Raises:
            NotAllowed: as :meth:`call`.
        """
        return self.call("shell", {"command": command}, is_permitted=is_permitted)

    def changed(self) -> tuple[str, ...]:
        """Files that were changed since the prompt that is worked on, from the repository."""
        return tuple(map(self.permissions.territory.name_of, self.journal.changed(self.prompt)))

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to ask."""
        return self._approve is not None

    def would_ask(self, tool: str, command: str) -> Verdict:
        """What would come of a request to run a command."""
        return self.permissions.foresee(Request(tool, Action.RUN, command=command)).verdict

    # One call

    def _run(self, number: int, name: str, arguments: Mapping[str, Any], is_permitted: bool) -> Result:
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        given = tool.check(arguments)
        self._arguments = _text_of(given)
        if not is_permitted:
            self._permit(number, _request(tool, given))
        self.bench.on_output = partial(self._tell_output, number)
        # The user's own commands change files as the user does: an undo leaves that work alone.
        before = self.journal.before_command() if tool.need == "run" and not is_permitted else {}
        began = time.time()
        try:
            outcome = tool.function(**given)
        except PaceError:
            raise
        except Exception as error:  # of a plug-in: it is told, and the run goes on
            raise ToolError(f"{name} failed with {type(error).__name__}: {error}") from error
        finally:
            if tool.need == "run":
                self._note_ran(tool, given, began, before)
        return self._done(outcome, tool)

    def _done(self, outcome: object, tool: Tool) -> Result:
        if isinstance(outcome, Proposal):
            self.change(outcome, tool.name)
            return Result(True, f"{outcome.summary}\n{self._around(outcome)}".rstrip(), outcome)
        if isinstance(outcome, Failure):
            return Result(False, outcome.text, outcome)
        if isinstance(outcome, (Lines, Held)):
            return Result(True, outcome.text, outcome)
        if isinstance(outcome, Finish):
            return Result(True, outcome.summary, outcome)
        if isinstance(outcome, Replan):
            return Result(True, "The plan is noted.", outcome)
        text = outcome if isinstance(outcome, str) else str(outcome)
        return Result(True, self.bench.fit(text) or "(nothing)", text)

    def _note_ran(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        began: float,
        before: Mapping[Path, State | None],
    ) -> None:
        self.on_ran(began, time.time())
        command = _request(tool, arguments).command
        known = self.permissions
        if command is None or not judge(command, known.territory, is_trusted=known.is_trusted).is_read_only:
            self.commands.setdefault(self.prompt, []).append(command or tool.name)
            self.journal.after_command(before)

    def _stale(self, problem: str, arguments: Mapping[str, Any]) -> Result:
        """A change that was refused because the file is not as the model knows it, with the file as it is."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return Result(False, f"Error: {problem}")
        try:
            lines = self.bench.lines(path)
            seen = self.bench.excerpts.of_path(lines.path)
            if seen and seen[-1].first > 1:  # the model worked on a later part
                with contextlib.suppress(ToolError):
                    lines = self.bench.lines(path, seen[-1].first)
        except PaceError:  # it is gone, or no text any more
            return Result(False, f"Error: {problem}")
        return Result(False, f"Error: {problem}. It is read again here:\n{lines.text}", lines)

    def _around(self, proposal: Proposal) -> str:
        """The changed lines as they are now, if they are few."""
        if proposal.before is None:
            return ""
        lines = split_lines(proposal.after.text)[proposal.first - 1 : proposal.last]
        text = "".join(lines).rstrip()
        return text if text and self.bench.count(text) <= self.bench.result_tokens // 2 else ""

    # Permissions

    def _permit(self, number: int, request: Request, diff: str = "") -> None:
        decision = self.permissions.decide(request)
        if decision.verdict is Verdict.ASK:
            self._ask(number, request, decision, diff)
            return
        allowed = decision.verdict is Verdict.ALLOW
        if not allowed or request.action not in (Action.READ, Action.NOTHING):
            self._outbox.say(Decided(number, allowed, decision.by, decision.reason))
        if not allowed:
            raise RefusedError(decision.reason)

    def _ask(self, number: int, request: Request, decision: Decision, diff: str) -> None:
        what = self._shown(request)
        offers = tuple(Offer(each.tool, each.prefix) for each in decision.offers)
        asked = Asked(number, request.tool, what, decision.reason, diff, offers)
        self._outbox.say(asked)
        if self._approve is None:
            self._outbox.say(Decided(number, False, "nobody", decision.reason))
            raise NotAllowed(
                f"{request.tool} {what!r} needs a permission ({decision.reason}) and nobody is there to ask; "
                "run with a mode that allows it, or approve it for the project"
            )
        answer = self._approve(asked)
        if self.bench.cancelled.is_set():
            self._outbox.say(Decided(number, False, "nobody", "cancelled"))
            raise CancelledError("cancelled while a permission was asked")
        if answer.scope == "no":
            self.permissions.refuse(request)
            self._outbox.say(Decided(number, False, "user", answer.message))
            raise RefusedError(f"{SAID_NO}{f': {answer.message}' if answer.message else ''}")
        scope = _SCOPES[answer.scope] if decision.offers else Scope.ONCE
        self.permissions.approve(request, scope, decision.offers or None)
        if scope is Scope.ONCE:
            self.permissions.decide(request)  # uses it up
        self._outbox.say(Decided(number, True, "user", answer.scope))

    def _shown(self, request: Request) -> str:
        if request.command is not None:
            return request.command
        if request.path is None:
            return f"{request.tool} {self._arguments}".strip()
        return self.permissions.territory.find(request.path).shown

    def _tell_output(self, number: int, text: str) -> None:
        if text:
            self._outbox.say(Output(number, text))


def _request(tool: Tool, arguments: Mapping[str, Any]) -> Request:
    """What a call is about to do. A proposal is asked about when it is known what it would change."""
    path, command = arguments.get("path"), arguments.get("command")
    if tool.need == "nothing":
        return Request(tool.name, Action.NOTHING)
    if tool.need == "run" and isinstance(command, str):
        return Request(tool.name, Action.RUN, command=command)
    if tool.need == "write" and isinstance(path, str):
        return Request(tool.name, Action.WRITE, path=path, about=_text_of(arguments))
    if tool.need in ("run", "write"):
        return Request(tool.name, Action.OTHER, about=_text_of(arguments))
    return Request(tool.name, Action.READ, path=path if isinstance(path, str) else ".")


def _text_of(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, default=str) if arguments else ""
