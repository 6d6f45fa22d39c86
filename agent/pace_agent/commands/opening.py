"""What commands that run an agent share: their options, and opening the agent that these describe."""

from __future__ import annotations

import argparse
import os
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace_agent.events import AgentEvent, Answer, Asked
from pace_agent.repository.git_state import top_of
from pace_agent.sessions.log import list_sessions, session_path
from pace_agent.sessions.places import SESSION, is_missing
from pace_agent.settings.config import ModeName, Style
from pace_agent.settings.config_file import DEFAULT, GIVEN, Loaded, load_config
from pace_agent.settings.trust import TrustStore
from pace_local.errors import FileError
from pace_local.model import Model
from pace_local.policies import POLICIES
from pace_local.sampling import Writer
from pace_local.terminal import Stop, prepare_model, say

if TYPE_CHECKING:
    from pace_agent import Agent


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which agent works where."""
    place = parser.add_argument_group("place")
    add_repository(place)
    place.add_argument(
        "--add-dir",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a further folder that the agent may work in; may be repeated",
    )
    place.add_argument(
        "--trust",
        action="store_true",
        help="trust this folder from now on: its AGENTS.md and .pace/config.toml are read",
    )
    kept = parser.add_argument_group("session").add_mutually_exclusive_group()
    kept.add_argument(
        "--continue",
        dest="is_continued",
        action="store_true",
        help="go on with the latest session of this repository",
    )
    kept.add_argument("--resume", metavar="ID", help="go on with this session")
    kept.add_argument("--no-save", action="store_true", help="do not keep the session")
    work = parser.add_argument_group("work", "What is not given comes from `pace config`.")
    work.add_argument("--mode", choices=typing.get_args(ModeName), help="what is done without asking")
    work.add_argument("--model", metavar="NAME", help="a name of `pace models list`, or a GGUF's path")
    work.add_argument("--budget", type=int, metavar="TOKENS", help="most tokens resident in the KV cache")
    work.add_argument("--policy", choices=sorted(POLICIES), help="what says which tokens stay")
    work.add_argument("--style", choices=typing.get_args(Style), help="how the agent works with its model")
    work.add_argument("--check", metavar="COMMAND", help="says by its exit code whether the work is right")


def add_repository(parser: argparse._ActionsContainer) -> None:
    """Add the option that says where to work."""
    parser.add_argument("--repo", default=".", metavar="FOLDER", help="the repository; default: this folder")


def repository_of(arguments: argparse.Namespace) -> Path:
    """The folder to work in, resolved.

    Raises:
        FileError: if it is none.
    """
    folder = Path(os.path.expanduser(arguments.repo))
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "not there"
        raise FileError(f"the repository {arguments.repo!r} is {what}; give a folder with --repo")
    return Path(os.path.realpath(folder))


def load(
    arguments: argparse.Namespace,
    repository: Path,
    *,
    max_turns: int | None = None,
    tell: Callable[[str], None] = say,
) -> Loaded:
    """The settings, with the options before all else.

    Args:
        arguments: parsed.
        repository: the folder to work in.
        max_turns: an option of a command.
        tell: told what a user should know of the settings, a line each.

    Raises:
        ConfigError: a setting or a config file that cannot be used.
        FileError: a folder of ``--add-dir`` that is none.
        StorageError: if the trust cannot be written down.
    """
    for folder in arguments.add_dir:
        if not os.path.isdir(os.path.expanduser(folder)):
            raise FileError(f"--add-dir {folder!r} is no folder; give one that is there")
    trusted = TrustStore()
    if arguments.trust:
        trusted.trust(repository)
    is_trusted = trusted.is_trusted(repository)
    loaded = load_config(
        repository,
        is_trusted=is_trusted,
        mode=arguments.mode,
        model=arguments.model,
        budget=arguments.budget,
        policy=arguments.policy,
        style=arguments.style,
        check=arguments.check,
        max_turns=max_turns,
    )
    if top_of(repository) is None:
        tell(f"note: {repository} is in no git repository; there is no commit to go back to")
    if not is_trusted:
        tell(
            f"note: {repository} is not trusted: no AGENTS.md and no settings of its own are read; "
            "--trust trusts it from now on"
        )
    for warning in (*trusted.warnings, *loaded.warnings):
        tell(f"warning: {warning}")
    return loaded


@dataclass(frozen=True)
class Screen:
    """What an agent is given by who shows it; what is left out is as without a screen."""

    approve: Callable[[Asked], Answer] | None = None
    listen: Callable[[AgentEvent], None] = lambda _event: None
    tell: Callable[[str], None] = say
    """Takes lines for a person."""

    fetching: Callable[[int, int, str], None] | None = None
    """Takes bytes done, bytes in all, and what of the model is fetched."""

    loading: Callable[[float], None] = lambda _share: None
    """Takes the share of the model that is loaded, 0 to 1."""

    writer: Writer | None = None
    """Writes answers in the model's place."""


@contextmanager
def open_agent(
    arguments: argparse.Namespace,
    repository: Path,
    loaded: Loaded,
    stop: Stop,
    screen: Screen | None = None,
) -> Iterator[Agent]:
    """The agent that options and settings describe, with its model; closed at the end.

    While it runs, a request to stop cancels it.

    Args:
        arguments: parsed.
        repository: the folder to work in.
        loaded: settings.
        stop: a request to stop.
        screen: shows it; None: nobody does.

    Raises:
        ConfigError, FileError: there is no session to go on with.
        ModelError, StorageError: the model cannot be had.
        CancelledError: it was asked to stop meanwhile.
        Whatever :class:`pace_agent.Agent` raises.
    """
    screen = Screen() if screen is None else screen
    session = session_of(arguments, repository)
    resolved = prepare_model(_model(loaded, screen.tell), stop, tell=screen.tell, watch=screen.fetching)
    stop.raise_if_asked()
    from pace_agent import Agent

    opened: list[Agent] = []

    def listen(event: AgentEvent) -> None:
        screen.listen(event)
        # Where there is no run to cancel yet, a request that came then is made here.
        if stop.reason is not None:
            if not opened:
                raise stop.reason
            opened[0].cancel()

    def progress(share: float) -> bool:
        screen.loading(share)
        return stop.reason is None

    scripted: dict[str, Any] = {} if screen.writer is None else {"writer": screen.writer}
    with (
        Model.load(resolved.path, progress=progress) as model,
        Agent(
            model,
            repository,
            config=loaded.config,
            approve=screen.approve,
            extra_folders=[os.path.expanduser(folder) for folder in arguments.add_dir],
            session=session,
            resume=arguments.is_continued or arguments.resume is not None,
            listener=listen,
            **scripted,
        ) as agent,
        stop.calling(agent.cancel),
    ):
        opened.append(agent)
        stop.raise_if_asked()
        yield agent


def session_of(arguments: argparse.Namespace, repository: Path) -> str | None:
    """The name of the session; None: a new one, empty: not kept.

    Raises:
        FileError, StorageError: there is no session to go on with.
    """
    if arguments.no_save:
        return ""
    if arguments.is_continued:
        kept = [each for each in list_sessions(repository) if not each.problem]
        if not kept:
            raise FileError(
                f"there is no session of {repository} to go on with; leave out --continue, or see "
                "`pace history --all`"
            )
        return kept[0].name
    resumed: str | None = arguments.resume
    if resumed is not None:
        path = session_path(resumed)
        if not (path / SESSION).exists():
            raise is_missing(path)
    return resumed


def _model(loaded: Loaded, tell: Callable[[str], None]) -> str | None:
    """The model that was named; None: as the environment, the user's config file or the machine has it."""
    if loaded.sources["model"] not in (GIVEN, DEFAULT):
        tell(f"model: set by {loaded.sources['model']}")
    return loaded.config.model or None
