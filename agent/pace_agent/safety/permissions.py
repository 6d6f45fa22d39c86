"""Whether the agent may do something: by mode, by what it would touch, and by what the user said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Literal

from pace_agent.errors import RefusedError, ToolError
from pace_agent.safety.approvals import Approval, ProjectApprovals, is_too_broad, suggested_prefix
from pace_agent.safety.paths import Territory
from pace_agent.shell.judge import Judged, Judgement, judge
from pace_agent.shell.words import SimpleCommand
from pace_local.errors import ConfigError
from pace_local.wording import in_one_line

REFUSED_BEFORE = "the user refused this before"
"""How the reason begins for which a change is not asked about again."""


class Mode(str, Enum):
    """How much the agent may do without asking."""

    PLAN = "plan"
    """Read, and nothing else."""

    ASK = "ask"
    """Read; ask before anything else."""

    ACCEPT_EDITS = "accept-edits"
    """Read and change files in the repository; ask before running commands that may change something."""

    AUTO = "auto"
    """Everything but what leaves the repository, is protected, or is refused in every mode."""


class Action(str, Enum):
    """What a tool does."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    """Run a shell command."""

    NOTHING = "nothing"
    """Nothing outside of the conversation, such as writing the plan."""

    OTHER = "other"
    """Something of its own, such as a plug-in's; asked about as running is."""


class Verdict(str, Enum):
    """What comes of a request."""

    ALLOW = "allow"
    ASK = "ask"
    REFUSE = "refuse"


class Scope(str, Enum):
    """How long an approval holds."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"


@dataclass(frozen=True)
class Request:
    """What a tool is about to do."""

    tool: str
    action: Action
    path: str | None = None
    """The file or folder, for reading and writing."""

    command: str | None = None
    """The shell command, for running."""

    about: str = ""
    """What else tells it from others: the hash of what a file would hold, or a tool's arguments."""


@dataclass(frozen=True)
class Decision:
    """Whether a request is allowed, and why, in words for people and the model."""

    verdict: Verdict
    reason: str
    offers: tuple[Approval, ...] = ()
    """What an approval for the session or the project would cover; empty: there can be none but for once."""

    by: Literal["rule", "mode", "approval"] = "rule"
    """What it follows from, if it is no question."""


class Permissions:
    """Decides what the agent may do.

    Args:
        territory: the folders that it may use, and the paths that the user asked for by name.
        mode: how much it may do without asking; can be changed at any time.
        project_file: where approvals for the project are kept, such as
            :func:`~pace_agent.safety.approvals.approvals_path` gives; None: nowhere.
        is_trusted: whether the user trusted the repository; see :func:`~pace_agent.shell.judge.judge`.
    """

    def __init__(
        self,
        territory: Territory,
        mode: Mode = Mode.ASK,
        *,
        project_file: Path | None = None,
        is_trusted: bool = True,
    ) -> None:
        self.territory = territory
        self.mode = mode
        self.is_trusted = is_trusted
        self._project = None if project_file is None else ProjectApprovals(project_file, territory.repository)
        self._session: set[Approval] = set()
        self._once: list[Request] = []
        self._refused: set[Request] = set()

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the project's file of approvals, for the user to see."""
        if self._project is None:
            return []
        self._project.read()
        return self._project.warnings

    @property
    def approvals(self) -> frozenset[Approval]:
        """Everything that holds for the session or the project now."""
        project = frozenset() if self._project is None else self._project.read()
        return project | self._session

    def decide(self, request: Request) -> Decision:
        """Whether a request is allowed. An approval for once is used up by it. Raises nothing."""
        decision = self._decided(request)
        return replace(decision, reason=in_one_line(decision.reason))

    def foresee(self, request: Request) -> Decision:
        """As :meth:`decide`, without using up an approval for once. Raises nothing."""
        decision = self._judged(request)
        if decision.verdict is Verdict.ASK and request in self._refused:
            return Decision(Verdict.REFUSE, REFUSED_BEFORE)
        return decision

    def _decided(self, request: Request) -> Decision:
        decision = self._judged(request)
        if decision.verdict is Verdict.REFUSE:
            return decision
        if request in self._refused:
            return Decision(Verdict.REFUSE, f"{REFUSED_BEFORE}: {_what(request)}")
        if decision.verdict is Verdict.ASK and request in self._once:
            self._once.remove(request)
            return Decision(Verdict.ALLOW, "the user approved it, this once", by="approval")
        return decision

    def check(self, request: Request) -> Decision:
        """Like :meth:`decide`, for callers that need no question answered.

        Raises:
            RefusedError: if the request is refused.
        """
        decision = self.decide(request)
        if decision.verdict is Verdict.REFUSE:
            raise RefusedError(f"{_what(request)} is refused: {decision.reason}")
        return decision

    def approve(
        self, request: Request, scope: Scope = Scope.ONCE, offers: Sequence[Approval] | None = None
    ) -> None:
        """Remember the user's yes. It never lifts what is refused by a rule.

        Args:
            request: what was asked about.
            scope: how long it holds.
            offers: what else it covers, for the session or the project; None: what the decision offered.

        Raises:
            ConfigError: if a prefix would cover any command at all, or nothing can be remembered.
            StorageError: if the project's file cannot be written; it holds for the session all the same.
        """
        if scope is Scope.ONCE:
            self._refused.discard(request)
            self._once.append(request)
            return
        granted = tuple(self._judged(request).offers if offers is None else offers)
        if not granted:
            raise ConfigError(f"{_what(request)} can only be approved once")
        for approval in granted:
            if is_too_broad(approval):
                raise ConfigError(f"{approval.shown!r} would approve any command; name more of its words")
        self._refused.discard(request)
        self._session.update(granted)
        if scope is Scope.PROJECT:
            if self._project is None:
                raise ConfigError("approvals for the project are kept nowhere here; approve for the session")
            self._project.add(granted)

    def refuse(self, request: Request) -> None:
        """Remember the user's no: the same request is not asked about again.

        To a command it holds for the session, to a change until :meth:`forget_refused_changes`.
        """
        self._refused.add(request)
        self._once = [each for each in self._once if each != request]

    def forget_refused_changes(self) -> None:
        """Ask again about changes of files that were refused: the user may want them now."""
        self._refused = {each for each in self._refused if each.action is not Action.WRITE}

    def _judged(self, request: Request) -> Decision:
        if request.action is Action.NOTHING:
            return Decision(Verdict.ALLOW, "it changes nothing outside of the conversation")
        if request.action in (Action.READ, Action.WRITE):
            return self._judge_path(request)
        if request.action is Action.RUN:
            return self._judge_command(request)
        if self.mode is Mode.PLAN:
            return Decision(
                Verdict.REFUSE, f"in mode plan nothing is changed, and {request.tool} may change something"
            )
        if self.mode is Mode.AUTO:
            return Decision(Verdict.ALLOW, "mode auto", by="mode")
        return self._ask_for_tool(request, f"{request.tool} may change something")

    def _judge_path(self, request: Request) -> Decision:
        if request.path is None:
            return Decision(Verdict.REFUSE, f"{request.tool} names no path")
        try:
            place = self.territory.find(request.path)
            self.territory.check(place)
        except (RefusedError, ToolError) as error:
            return Decision(Verdict.REFUSE, str(error))
        if request.action is Action.READ:
            return Decision(Verdict.ALLOW, "reading in the repository")
        if self.mode is Mode.PLAN:
            return Decision(
                Verdict.REFUSE, f"in mode plan nothing is changed; {place.shown!r} was to be written"
            )
        if self.mode in (Mode.ACCEPT_EDITS, Mode.AUTO):
            return Decision(Verdict.ALLOW, f"mode {self.mode.value}", by="mode")
        return self._ask_for_tool(request, f"{request.tool} would change {place.shown!r}")

    def _ask_for_tool(self, request: Request, why: str) -> Decision:
        approval = Approval(request.tool)
        if approval in self.approvals:
            return Decision(Verdict.ALLOW, f"the user approved {request.tool}", by="approval")
        return Decision(Verdict.ASK, why, (approval,))

    def _judge_command(self, request: Request) -> Decision:
        if request.command is None or not request.command.strip():
            return Decision(Verdict.REFUSE, f"{request.tool} names no command")
        judgement = judge(request.command, self.territory, is_trusted=self.is_trusted)
        if judgement.denied is not None:
            return Decision(
                Verdict.REFUSE, f"{judgement.denied}; such a command is never run, the user can run it"
            )
        if judgement.protected:
            return Decision(Verdict.REFUSE, f"{judgement.protected[0]}; it is used only if the user names it")
        if judgement.is_read_only:
            return Decision(Verdict.ALLOW, "it only reads")
        if self.mode is Mode.PLAN:
            return Decision(Verdict.REFUSE, f"in mode plan nothing is changed; {judgement.why_asked}")
        return self._run_or_ask(request, judgement)

    def _run_or_ask(self, request: Request, judgement: Judgement) -> Decision:
        if self.mode is Mode.AUTO and judgement.outside:
            return Decision(
                Verdict.REFUSE, f"in mode auto nothing leaves the repository: it names {judgement.outside[0]}"
            )
        if self.mode in (Mode.ACCEPT_EDITS, Mode.AUTO) and judgement.only_writes_inside:
            return Decision(Verdict.ALLOW, f"mode {self.mode.value}: it writes in the repository", by="mode")
        graves = [each.grave for each in judgement.commands if each.grave is not None]
        can_cover = judgement.split.is_clear and not judgement.outside
        writes = self.mode is Mode.ASK and any(each.writes for each in judgement.commands)
        waiting = [each for each in judgement.commands if not self._is_covered(request.tool, each)]
        if can_cover and not writes and not waiting:
            return Decision(Verdict.ALLOW, "the user approved such commands", by="approval")
        if self.mode is Mode.AUTO and can_cover and not graves:
            return Decision(Verdict.ALLOW, "mode auto", by="mode")
        offers: tuple[Approval, ...] = ()
        if can_cover and not writes:
            wanted = [Approval(request.tool, _prefix(each)) for each in waiting]
            can_all = all(_can_be_approved(each) for each in waiting)
            offers = tuple(dict.fromkeys(wanted)) if can_all and not any(map(is_too_broad, wanted)) else ()
        return Decision(Verdict.ASK, graves[0] if graves else judgement.why_asked, offers)

    def _is_covered(self, tool: str, judged: Judged) -> bool:
        """Whether one simple command only reads, or begins with words that were approved.

        What is grave is covered only by an approval of its very words.
        """
        if judged.why_asked is None and judged.grave is None:
            return True
        if _sets_variables(judged):
            return False
        words = _words(judged.command)
        if judged.grave is not None:
            return _can_be_approved(judged) and Approval(tool, words) in self.approvals
        return any(
            each.tool == tool and each.prefix and words[: len(each.prefix)] == each.prefix
            for each in self.approvals
        )


def _prefix(judged: Judged) -> tuple[str, ...]:
    """The words by which a command is approved."""
    words = _words(judged.command)
    return suggested_prefix(words) if judged.grave is None else words


def _can_be_approved(judged: Judged) -> bool:
    """Whether an approval can hold for longer than once: of a grave command if its words show all it does."""
    command = judged.command
    if not command.name or _sets_variables(judged):
        return False
    is_shown = all(word.text is not None and not word.is_pattern for word in command.words)
    return judged.grave is None or (is_shown and not command.is_open and not judged.writes)


def _words(command: SimpleCommand) -> tuple[str, ...]:
    """A command's words up to the first that the text does not show, what gives it other rights in front."""
    words = [wrapper for wrapper in command.via if wrapper in ("sudo", "doas", "xargs")]
    for word in command.words:
        if word.text is None or word.is_pattern:
            break
        words.append(word.text)
    return tuple(words)


def _sets_variables(judged: Judged) -> bool:
    """Whether variables are set for a command: they can make it another, and no prefix shows them."""
    return judged.why_asked is not None and bool(judged.command.assignments)


def _what(request: Request) -> str:
    shown = request.command if request.command is not None else request.path
    if shown is None:
        return request.tool
    line = " ".join(shown.split())
    return f"{request.tool} {line if len(line) <= 80 else line[:79] + '…'!r}"
