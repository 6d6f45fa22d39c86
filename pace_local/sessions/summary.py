"""Sessions in a list: what each is, how large, whether it is in use, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pace_local.errors import InputError
from pace_local.models.store import allocated_bytes
from pace_local.sessions.folder import lock_path, log_path, sessions_root
from pace_local.sessions.lock import Holder, holder_of
from pace_local.sessions.log_file import failure
from pace_local.sessions.state import SessionState, state_of


@dataclass(frozen=True)
class SessionSummary:
    """One session, as far as it can be read."""

    name: str
    path: Path
    model_name: str | None
    """None: that cannot be read."""
    turns: int
    tokens: int
    bytes: int
    """On disk, with its keys and values."""
    changed: float
    """When something was written to it last, in seconds since 1970."""
    holder: Holder | None
    """The process that has it; None: none has."""
    problem: str | None
    """What is wrong with it, for people; None: nothing."""

    @property
    def in_use(self) -> bool:
        """Whether a process has it."""
        return self.holder is not None


def list_sessions(root: Path | None = None) -> list[SessionSummary]:
    """All sessions in a folder by name; what is broken says so instead of raising.

    Args:
        root: None: that of sessions with a name.

    Raises:
        StorageError: if the folder may not be read.
    """
    root = sessions_root() if root is None else root
    try:
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failure("read", root, error) from error
    return [summarize(folder) for folder in folders]


def summarize(folder: Path) -> SessionSummary:
    """One session, in use or not, broken or not."""
    state, holder, problem = SessionState(), None, None
    try:
        holder = holder_of(lock_path(folder))
        state = state_of(folder)
        # A record that is being written, or was when the process was killed, is nothing wrong.
        problem = None if state.torn else state.problem
    except InputError as error:
        problem = str(error)
    return SessionSummary(
        name=folder.name,
        path=folder,
        model_name=state.header.model_name if state.header is not None else None,
        turns=state.n_turns,
        tokens=len(state.tokens),
        bytes=allocated_bytes(folder),
        changed=_changed(folder),
        holder=holder,
        problem=problem,
    )


def _changed(folder: Path) -> float:
    for path in (log_path(folder), folder):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return 0.0
