"""Putting an agent together: its session, what it works with, and who talks to whom."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pace_agent.checking.check_run import Checking
from pace_agent.checking.checks import Check, find_check
from pace_agent.conversation import Conversation
from pace_agent.events import AgentEvent, Answer, Asked, Started, Warned
from pace_agent.files.file_state import KnownFiles
from pace_agent.fitting import fit
from pace_agent.guided import Guided
from pace_agent.loop import Loop
from pace_agent.outbox import Outbox
from pace_agent.planning.planner import Planner
from pace_agent.plugins import plugin_tools
from pace_agent.prompts import system_prompt
from pace_agent.repository.git_state import git_folder, top_of
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.view import repository_view
from pace_agent.safety.approvals import approvals_path
from pace_agent.safety.paths import Territory
from pace_agent.safety.permissions import Mode, Permissions
from pace_agent.sessions.journal import Journal
from pace_agent.sessions.log import SessionFolder, delete
from pace_agent.sessions.view_file import ViewFile
from pace_agent.settings.agents_md import MOST_BYTES, Instructions, read_instructions
from pace_agent.settings.config import AgentConfig
from pace_agent.settings.trust import TrustStore
from pace_agent.shell.running import Shell
from pace_agent.style import call_format, style_of
from pace_agent.tool_type import Tool
from pace_agent.toolbox import Toolbox
from pace_agent.tools import make_tools
from pace_agent.watching.news import RepositoryWatch
from pace_agent.watching.staleness import Excerpts
from pace_agent.workbench import Workbench
from pace_local import Model, Session
from pace_local.errors import ConfigError, PaceError
from pace_local.events import Event
from pace_local.sampling import Writer

_RESULT_SHARE = 4
"""One result may take a quarter of the budget."""

_RULES_SHARE = 5
"""AGENTS.md may take a fifth of it: it is always resident."""

_VIEW_SHARE = 6
"""The picture of the repository may take a sixth of it."""

_BYTES_PER_TOKEN = 4

_READS_SHARE = 0.8
"""Of what is left beside pinned and newest tokens, so much may a step's reads take; the rest is for work."""

_SMALLEST_ROOM = 128


class Assembly:
    """The parts of one agent. All that has to be closed is entered into ``closing``.

    Args:
        model: open.
        repository: the folder to work in.
        config: settings.
        closing: closed by the agent.
        approve: asks the user for permissions; None: nobody is there.
        tools: further ones.
        extra_folders: further folders that it may work in.
        session: name to keep the session under; None: a new one; empty: it is not kept.
        resume: whether to go on with the session of that name.
        writer: writes answers in the model's place.
        listener: called with every event.
        is_trusted: whether the repository is trusted; None: as the user said before.
    """

    def __init__(
        self,
        model: Model,
        repository: str | os.PathLike[str],
        config: AgentConfig,
        closing: ExitStack,
        *,
        approve: Callable[[Asked], Answer] | None,
        tools: Sequence[Tool],
        extra_folders: Sequence[str | os.PathLike[str]],
        session: str | None,
        resume: bool,
        writer: Writer | None,
        listener: Callable[[AgentEvent], None] | None,
        is_trusted: bool | None,
    ) -> None:
        self._model = model
        self._config = config
        self._closing = closing
        self._writer = writer
        self._resume = resume
        self.root = Territory(repository).repository
        self._trusted = TrustStore()
        self.is_trusted = self._trusted.is_trusted(self.root) if is_trusted is None else is_trusted
        self._is_ready = False
        self.folder = self._session_folder(session)
        self.outbox = Outbox(
            *([] if self.folder is None else [self.folder.log]), *([] if listener is None else [listener])
        )
        self.cancelled = threading.Event()
        self.bench, self.permissions, self.journal = self._workbench(extra_folders)
        self.said: deque[str] = deque()
        """What the watcher's thread has to tell."""
        self.watch = RepositoryWatch(
            self.root,
            self.bench.files,
            self.bench.excerpts,
            say=self.said.append,
            watches=config.watch,
            territory=self.bench.territory,
        )
        closing.callback(self.watch.stop)
        self.watch.start()
        self.index = RepositoryIndex(self.root)
        self.state: dict[str, Any] = {} if self.folder is None or not resume else self.folder.state()
        self.form = call_format(model)
        self.style, self.style_reason = self._style()
        self.tools = [*make_tools(self.bench), *plugin_tools(self.bench, self.warn), *tools]
        _check_names(self.tools)
        self.session = self._session()
        self.instructions = self.read_instructions()
        """As they are when it begins."""
        self.date = today()
        shown = None if self.folder is None else ViewFile(self.folder.path, self.session)
        if shown is not None:
            self.outbox.listen(shown.hear)
        self._tell_start()
        self.toolbox = Toolbox(self.tools, self.bench, self.permissions, self.journal, self.outbox, approve)
        self.toolbox.on_ran = self.watch.ran
        if not self.session.session_length:
            self._begin()
        self.planner = Planner(self.conversation, self.bench, self.index, self.outbox, self._room())
        self.planner.shows_places = self.style == "guided"
        self.loop = self._loop()
        if shown is not None:
            shown.write()  # what was read since the start, for who looks on before anything is asked
        self._is_ready = True
        for warning in (*self.instructions.warnings, *self.permissions.warnings):
            self.warn(warning)

    def warn(self, message: str) -> None:
        """Tell the user something."""
        self.outbox.say(Warned(message))

    def read_instructions(self) -> Instructions:
        """AGENTS.md as it is now, from the git repository's root down, as far as there is room for it."""
        most = min(MOST_BYTES, _BYTES_PER_TOKEN * self.session.config.budget // _RULES_SHARE)
        top = top_of(self.root) or self.root
        return read_instructions(
            top, self.root, is_trusted=self.is_trusted, also=self._trusted.is_trusted, most_bytes=most
        )

    # Parts

    def _session_folder(self, name: str | None) -> SessionFolder | None:
        if name == "":
            return None
        if not self._resume:
            folder = SessionFolder.create(name, self.root)
            self._closing.callback(self._abandon, folder.name)
        else:
            folder = SessionFolder.latest(self.root) if name is None else SessionFolder.open(name)
        self._closing.callback(folder.close)
        if folder.repository != self.root:
            raise ConfigError(
                f"session {folder.name!r} is about {folder.repository}, not {self.root}; run it there, or "
                "begin a new one"
            )
        if self._resume:
            folder.check_begun()
        return folder

    def _abandon(self, name: str) -> None:
        """Leave nothing of a session that could not be begun."""
        if not self._is_ready:
            with contextlib.suppress(PaceError):
                delete(name)

    def _workbench(
        self, extra_folders: Sequence[str | os.PathLike[str]]
    ) -> tuple[Workbench, Permissions, Journal]:
        config = self._config
        if self.folder is None:
            private = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="pace-")))
            journal_folder, output = private / "journal", private / "output"
        else:
            journal_folder, output = self.folder.journal, self.folder.output
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
        territory = Territory(self.root, (*extra_folders, *config.extra_folders, output))
        files = KnownFiles(territory)
        bench = Workbench(
            territory,
            files,
            self._closing.enter_context(Shell(self.root, output)),
            Excerpts(),
            lambda text: len(self._model.tokenize(text)),
            config.budget // _RESULT_SHARE,
            config.command_seconds,
            self.cancelled,
        )
        permissions = Permissions(
            territory,
            Mode(config.mode),
            project_file=approvals_path(self.root),
            is_trusted=self.is_trusted,
        )
        return bench, permissions, self._closing.enter_context(Journal(journal_folder, files))

    def _style(self) -> tuple[str, str]:
        if self.state.get("style") in ("tools", "guided"):
            return str(self.state["style"]), "as the session was begun"
        if self._config.style != "auto":
            return self._config.style, "as it was set"
        if self._writer is not None:
            return "tools", "answers are scripted"
        return style_of(self._model)

    def _session(self) -> Session:
        early: list[Event] = []
        self.conversation: Conversation

        def hear(event: Event) -> None:
            if hasattr(self, "conversation"):
                self.conversation.hear(event)
            else:
                early.append(event)

        if self.folder is not None and self._resume:
            session = Session.open(self._model, self.folder.kv, listener=hear, writer=self._writer)
        else:
            session = Session(
                self._model,
                config=self._config.session_config(),
                listener=hear,
                writer=self._writer,
                folder=None if self.folder is None else self.folder.kv,
            )
        self._closing.enter_context(session)
        self.conversation = Conversation(
            session,
            self.outbox,
            sampling=self._config.sampling(),
            max_tokens=self._config.max_tokens,
            cancelled=self.cancelled,
        )
        for event in early:
            self.conversation.hear(event)
        return session

    def _tell_start(self) -> None:
        config = self.session.config
        self.outbox.say(
            Started(
                session="" if self.folder is None else self.folder.name,
                repository=str(self.root),
                model=self._model.name,
                style=self.style,
                mode=self.permissions.mode.value,
                policy=config.policy,
                budget=config.budget,
                position_cap=config.position_cap if self.session.bounds_positions else None,
                resumed=self._resume,
            )
        )

    def _begin(self) -> None:
        """Read what never changes, and then what may: the date, the branch, what files there are."""
        rules = self.instructions.text
        room = self.session.config.budget // _RULES_SHARE
        if rules and self.bench.count(rules) > room:
            rules = fit(rules, room, self.bench.count)
            self.warn(
                f"AGENTS.md does not fit into {room} tokens and was cut; raise the budget, or shorten it"
            )
        prompt = system_prompt(self.style, self.tools, self.form, rules)
        self.conversation.tell(prompt, kind="system", name="system", pinned=True)
        said = [self.date]
        git = git_folder(self.root)
        head = None if git is None else git.head()
        if head is not None:
            said.append(f"Git: {head}.")
        view = repository_view(self.index, self._config.budget // _VIEW_SHARE, self.bench.count)
        self.conversation.tell(
            "\n".join([*said, "The repository:", view or "(no files)"]), kind="file", name="repository"
        )

    def _room(self) -> int:
        """Tokens that the reads of a step can take beside what is pinned and what is being worked on."""
        config = self.session.config
        pinned = sum(len(self.session.segments[each]) for each in self.session.segments.pinned)
        return max(_SMALLEST_ROOM, int((config.soft_budget - config.recent_tokens - pinned) * _READS_SHARE))

    def _loop(self) -> Loop:
        check = Check(self._config.check, "as it was set") if self._config.check else find_check(self.root)
        checking = Checking(check, self.toolbox, self.outbox)
        guided = None
        if self.style == "guided":
            guided = Guided(
                self.conversation,
                self.toolbox,
                self.bench,
                self.index,
                self.outbox,
                checking,
                self._config.tries,
                self.planner.forget,
            )
        return Loop(
            self.conversation,
            self.toolbox,
            self.planner,
            checking,
            guided,
            self.tools,
            self.form,
            self.outbox,
        )


def today() -> str:
    """The date, as the model is told it."""
    return time.strftime("Today is %Y-%m-%d (%A).")


def _check_names(tools: Sequence[Tool]) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise ConfigError(f"there are two tools of the name {tool.name!r}; give one of them another")
        seen.add(tool.name)
