"""What the screen asks of a real repository and of the user's files: after the first paint, in threads.

Nothing of the agent is imported before it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pace_tui.sources import KeptSession, Sources
from pace_tui.wire import Received

_MOST_FILES = 20_000


@dataclass(frozen=True)
class Prepared:
    """What is known before the process behind the screen is started."""

    theme: str = ""
    """As the settings have it; empty: the default."""

    editor: str = ""
    """Command of an editor; empty: as the environment has it."""

    untrusted: Sequence[str] = ()
    """Files of the repository that would be used if the user trusted it."""


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

    is_trusted = is_trusting or TrustStore().is_trusted(repository)
    config = load_config(repository, is_trusted=is_trusted).config
    return Prepared(config.theme, config.editor, () if is_trusted else tuple(_own_files(repository)))


def _own_files(repository: Path) -> Iterator[str]:
    from pace_agent.settings.agents_md import NAME
    from pace_agent.settings.config_file import REPOSITORY_FILE

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
