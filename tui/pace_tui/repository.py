"""What the screen asks of a real repository and of the user's files: after the first paint, in threads.

Nothing of the agent is imported before it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pace_tui.sources import KeptSession, Sources
from pace_tui.wire import Received

if TYPE_CHECKING:
    from pace_agent.settings.trust import TrustStore

_MOST_FILES = 20_000


@dataclass(frozen=True)
class Prepared:
    """What is known before the process behind the screen is started."""

    theme: str = ""
    """As the settings have it; empty: the default."""

    editor: str = ""
    """Command of an editor; empty: as the environment has it."""

    untrusted: Sequence[str] = ()
    """Files that would be used if the user trusted the repository, from it; of those that the user has
    declined already, only beside others."""

    repository: Path = Path()

    def decline(self) -> None:
        """The user does not want them used.

        Raises:
            StorageError: if that cannot be written down.
        """
        from pace_tui.declined import Declined

        Declined().add(self.repository, self.untrusted)


def prepare(repository: Path, *, is_trusting: bool) -> Prepared:
    """Read what the user has set, and find out whether to ask for trust.

    Args:
        repository: resolved.
        is_trusting: whether the user has just said that they trust it.

    Raises:
        ConfigError: for settings that cannot be used.
    """
    from pace_agent.settings.config_file import load_config
    from pace_agent.settings.trust import TrustStore
    from pace_tui.declined import Declined

    trusted = TrustStore()
    is_trusted = is_trusting or trusted.is_trusted(repository)
    config = load_config(repository, is_trusted=is_trusted).config
    files = () if is_trusted else tuple(_files_to_trust(repository, trusted))
    if Declined().covers(repository, files):
        files = ()
    return Prepared(config.theme, config.editor, files, repository)


def _files_to_trust(repository: Path, trusted: TrustStore) -> Iterator[str]:
    """Files that trust would have used: of the folder, and of those above it in its git repository."""
    from pace_agent.repository.git_state import top_of
    from pace_agent.settings.agents_md import NAME, read_instructions
    from pace_agent.settings.config_file import REPOSITORY_FILE

    top = top_of(repository) or repository
    own = os.path.relpath(repository / NAME, top)
    for part in read_instructions(top, repository, is_trusted=True, also=trusted.is_trusted).parts:
        if not os.path.isabs(part.path) and part.path != own:
            yield os.path.relpath(top / part.path, repository)
    for name in (NAME, str(REPOSITORY_FILE)):
        if os.path.lexists(repository / name):
            yield name


def sources_of(repository: Path) -> Sources:
    """What is known of the agent's side for a repository.

    Args:
        repository: resolved.
    """
    return Sources(
        files=partial(_files, repository),
        models=_models,
        policies=_policies,
        sessions=partial(_sessions, repository),
        past=past_of,
    )


def _files(repository: Path) -> list[str]:
    """Paths of the repository's files that are not ignored, relative to it."""
    from pace_agent.repository.ignoring import Ignoring
    from pace_agent.repository.walk import Walk

    walk = Walk(Ignoring(repository), most_files=_MOST_FILES)
    return [entry.path for entry in walk if not entry.is_folder]


def _models() -> Sequence[str]:
    from pace_local.models.registry import REGISTRY

    return list(REGISTRY)


def _policies() -> Sequence[str]:
    from pace_local.policies.registry import POLICIES

    return sorted(POLICIES)


def _sessions(repository: Path) -> Sequence[KeptSession]:
    from pace_agent.sessions.log import list_sessions

    return [
        KeptSession(
            each.name,
            each.first_prompt,
            each.prompts,
            each.last_used,
            each.problem or (f"process {each.holder.pid} has it" if each.holder is not None else ""),
        )
        for each in list_sessions(repository)
    ]


def past_of(session: str, before: float) -> Iterator[Received]:
    """Events of a session as its log has them, as plain values, from before a time; oldest first.

    Args:
        session: its name.
        before: seconds since 1970: what a process has logged that was started then is none of the past.

    Raises:
        ConfigError: for a name that cannot be one.
        StorageError: if the log cannot be read.
    """
    from pace_agent.events import as_dict
    from pace_agent.sessions.events import EVENTS, read_events
    from pace_agent.sessions.places import session_path

    for at, event in read_events(session_path(session) / EVENTS):
        if at >= before:
            return
        yield {**as_dict(event), "at": at}
