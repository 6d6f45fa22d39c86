"""A session that an agent keeps: its folder, which one process at a time has; and a list of all of them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_agent.events import AgentEvent
from pace_agent.files.private_file import write_private
from pace_agent.sessions.events import EVENTS, EventFile, TimedEvent, count_prompts, follow, read_events
from pace_agent.sessions.places import (
    JOURNAL,
    KV,
    LOCK,
    OUTPUT,
    SESSION,
    STATE,
    Head,
    agents_root,
    check_parts,
    is_missing,
    is_taken,
    new_folder,
    read_head,
    read_object,
    session_path,
    write_head,
)
from pace_local.errors import ConfigError, FileError, InputError
from pace_local.sessions.folder import log_path
from pace_local.sessions.lock import Holder, SessionLock, holder_of
from pace_local.sessions.log import OpenFile
from pace_local.sessions.log_file import LogFile, failure

__all__ = ["SessionFolder", "Summary", "delete", "follow", "list_sessions", "session_path"]


class SessionFolder:
    """A session's folder, which no other process has meanwhile. Use it as a context manager, or close it.

    Made by :meth:`create`, :meth:`open` and :meth:`latest`. Safe to use from several threads.
    """

    def __init__(self, path: Path, head: Head, lock: SessionLock, events: EventFile) -> None:
        self.path = path
        self.name = path.name
        self.repository = Path(head.repository)
        """Resolved, as it was when the session began."""
        self.started = head.started
        """In seconds since 1970."""
        self.skipped = 0
        """Lines that the last pass through :meth:`events` left out: damaged, or of a later version."""
        self._session_lock = lock
        self._events = events
        self._saving = threading.Lock()
        self._is_closed = False

    @classmethod
    def create(
        cls,
        name: str | None,
        repository: str | os.PathLike[str],
        *,
        root: Path | None = None,
        clock: Callable[[], float] = time.time,
        open_file: OpenFile = LogFile,
    ) -> SessionFolder:
        """Begin a session.

        Args:
            name: None: one is made of the time and the repository's name, such as ``2026-03-01-143000-shop``
                (in UTC, so that names sort by age).
            repository: the folder that it is about.
            root: where sessions lie; None: :func:`~pace_agent.sessions.places.agents_root`.
            clock: the time, in seconds since 1970.
            open_file: opens the file of events.

        Raises:
            ConfigError: for a name that cannot be one.
            FileError: if there is a session of this name, or something else.
            SessionInUseError: if another process is beginning one of this name.
            StorageError: if it cannot be made.
        """
        head = Head(os.path.realpath(os.path.expanduser(repository)), clock())
        path = new_folder(agents_root() if root is None else root, name, head)

        def begin() -> None:
            if (path / SESSION).exists():  # another process was faster
                raise is_taken(path)
            for part in (JOURNAL, OUTPUT):
                (path / part).mkdir(mode=0o700, exist_ok=True)

        # The head comes last: with it, the folder is a session.
        return cls._held(path, clock, open_file, begin, lambda: write_head(path, head))

    @classmethod
    def open(
        cls,
        name: str,
        *,
        root: Path | None = None,
        clock: Callable[[], float] = time.time,
        open_file: OpenFile = LogFile,
    ) -> SessionFolder:
        """Go on with a session. Half a line at the end of its events, left by a kill, is cut off.

        Raises:
            ConfigError: for a name that cannot be one.
            FileError: if there is none of this name, or it cannot be read.
            SessionInUseError: if a process has it.
            StorageError: if it cannot be written.
        """
        path = session_path(name, root)
        read_head(path)
        return cls._held(path, clock, open_file, lambda: None, lambda: None)

    @classmethod
    def latest(cls, repository: str | os.PathLike[str], *, root: Path | None = None) -> SessionFolder:
        """Go on with the session of a repository that was used last.

        Raises:
            FileError: if it has none.
            SessionInUseError, StorageError: as :meth:`open`.
        """
        found = [each for each in list_sessions(repository, root=root) if not each.problem]
        if not found:
            raise FileError(
                f"there is no session of {os.fspath(repository)!r} to go on with; begin a new one"
            )
        return cls.open(found[0].name, root=root)

    @classmethod
    def _held(
        cls,
        path: Path,
        clock: Callable[[], float],
        open_file: OpenFile,
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> SessionFolder:
        """The folder with its lock and its events; ``before`` and ``after`` run around opening these."""
        lock = SessionLock(path / LOCK)
        try:
            before()
            events = EventFile(path / EVENTS, clock, open_file)
            try:
                after()
                return cls(path, read_head(path), lock, events)
            except BaseException:
                events.close()
                raise
        except OSError as error:
            lock.release()
            raise failure("make", Path(error.filename or path), error) from error
        except BaseException:
            lock.release()
            raise

    def check_begun(self) -> None:
        """Refuse a session that was ended before the library's own session in it began.

        Raises:
            FileError: if it was.
        """
        if not _has_begun(self.path):
            raise FileError(_never_begun(self.path))

    @property
    def journal(self) -> Path:
        """For :class:`pace_agent.sessions.journal.Journal`."""
        return self.path / JOURNAL

    @property
    def output(self) -> Path:
        """For long outputs of commands."""
        return self.path / OUTPUT

    @property
    def kv(self) -> Path:
        """For the library's session, which makes it."""
        return self.path / KV

    def log(self, event: AgentEvent) -> None:
        """Add an event; it is in the system's hands when this returns.

        Raises:
            StorageError: if it cannot be written. The events before are as they were, and the next one can be
                logged as soon as there is room.
            ConfigError: if the session is closed.
        """
        self._events.add(event)

    def events(self) -> Iterator[TimedEvent]:
        """All events with their times, in seconds since 1970, oldest first.

        A line that cannot be read is left out, and counted in :attr:`skipped`.

        Raises:
            StorageError: if the file cannot be read.
        """
        self.skipped = 0
        return read_events(self.path / EVENTS, self._skip)

    def _skip(self) -> None:
        self.skipped += 1

    def save_state(self, state: Mapping[str, Any]) -> None:
        """Replace the state in one step; it is on the device when this returns.

        Args:
            state: plain values that JSON has a form for.

        Raises:
            StorageError: if it cannot be written; the state is as it was.
            ConfigError: if the session is closed.
        """
        with self._saving:
            if self._is_closed:
                raise ConfigError(f"the session {self.name} is closed; open it again")
            write_private(self.path / STATE, state)

    def state(self) -> dict[str, Any]:
        """The state as last saved; empty if none was.

        Raises:
            FileError: if it cannot be read, or others could have written it.
        """
        return read_object(self.path / STATE)

    def close(self) -> None:
        """Let other processes have it. Safe to call twice."""
        with self._saving:
            self._is_closed = True
            self._events.close()
            self._session_lock.release()

    def __enter__(self) -> SessionFolder:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


@dataclass(frozen=True)
class Summary:
    """One session in a list."""

    name: str
    repository: str
    """Its folder, resolved; empty if that cannot be read."""

    first_prompt: str
    """Empty if there was none yet."""

    prompts: int
    """Those that were not taken back."""

    started: float
    """In seconds since 1970."""

    last_used: float
    """When something was logged last, in seconds since 1970."""

    holder: Holder | None = None
    """The process that has it; None: none has."""

    problem: str = ""
    """What is wrong with it, for people."""


def list_sessions(
    repository: str | os.PathLike[str] | None = None, *, root: Path | None = None
) -> list[Summary]:
    """Sessions, the one used last first; what is broken says so instead of raising.

    Args:
        repository: only those of this folder; None: all.
        root: where sessions lie; None: :func:`~pace_agent.sessions.places.agents_root`.

    Raises:
        StorageError: if the folder of sessions may not be read.
    """
    root = agents_root() if root is None else root
    try:
        folders = [each for each in root.iterdir() if os.path.lexists(each / SESSION)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise failure("read", root, error) from error
    found = [_summary(folder) for folder in folders]
    if repository is not None:
        resolved = os.path.realpath(os.path.expanduser(repository))
        found = [each for each in found if each.repository == resolved]
    return sorted(found, key=lambda each: (each.last_used, each.started, each.name), reverse=True)


def _summary(folder: Path) -> Summary:
    summary = Summary(folder.name, "", "", 0, 0.0, 0.0)
    try:
        head = read_head(folder)
        summary = Summary(folder.name, head.repository, "", 0, head.started, head.started)
        holder = holder_of(folder / LOCK)
        first, prompts = count_prompts(folder / EVENTS)
        used = (folder / EVENTS).stat().st_mtime
        # Where a process has it, it may yet begin.
        problem = "" if holder is not None or _has_begun(folder) else _never_begun(folder)
        return Summary(folder.name, head.repository, first, prompts, head.started, used, holder, problem)
    except (InputError, OSError) as error:
        return replace(summary, problem=str(error))


def _has_begun(folder: Path) -> bool:
    return log_path(folder / KV).exists()


def _never_begun(folder: Path) -> str:
    return f"session {folder.name} was ended before it began; `pace history delete {folder.name}` deletes it"


def delete(name: str, *, root: Path | None = None) -> None:
    """Delete a session with all that is in its folder. Files of others are never deleted.

    Raises:
        ConfigError: for a name that cannot be one.
        FileError: if there is none of this name, or something else is in its folder too; nothing is deleted.
        SessionInUseError: if a process has it.
        StorageError: if it may not be deleted.
    """
    path = session_path(name, root)
    if not os.path.lexists(path / SESSION):
        raise is_missing(path)
    try:
        with SessionLock(path / LOCK):
            # What says that it is a session goes last, so that what a kill leaves can still be deleted.
            for each in sorted(check_parts(path), key=lambda each: (each == LOCK, each == SESSION)):
                part = path / each
                if part.is_dir() and not part.is_symlink():
                    shutil.rmtree(part)
                elif each != LOCK or os.name == "posix":
                    part.unlink()
        if os.name != "posix":  # there a file cannot be deleted while it is open
            (path / LOCK).unlink(missing_ok=True)
        path.rmdir()
    except OSError as error:
        raise failure("delete", path, error) from error
