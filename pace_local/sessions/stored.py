"""A session's folder in use: lock, log and state in step."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from pace_local.errors import FileError
from pace_local.sessions.folder import kv_folder, lock_path, log_path, make_folder
from pace_local.sessions.lock import SessionLock
from pace_local.sessions.log import OpenFile, SessionLog
from pace_local.sessions.log_file import LogFile
from pace_local.sessions.records import Header, TurnRecord
from pace_local.sessions.state import SessionState


class StoredSession:
    """A session's folder that this process has. Use it as a context manager, or close it.

    :meth:`create` and :meth:`open` make one.
    """

    def __init__(self, folder: Path, lock: SessionLock, log: SessionLog, state: SessionState) -> None:
        self.folder = folder
        self.state = state
        """After the last record; what a session is restored from."""
        self.problem = log.problem
        """What was cut off the log when it was opened, for people; None: nothing."""
        self._lock = lock
        self._log = log

    @classmethod
    def create(cls, folder: Path, header: Header, *, open_file: OpenFile = LogFile) -> StoredSession:
        """Begin a session; it is on the disk when this returns.

        Raises:
            FileError: if something is there already.
            SessionInUseError: if another process is just beginning one there.
            StorageError: if it cannot be written.
        """
        make_folder(folder)
        lock = SessionLock(lock_path(folder))
        try:
            state = SessionState()
            state.take(header.as_document())
            log = SessionLog.create(log_path(folder), header.as_document(), open_file=open_file)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, log, state)

    @classmethod
    def open(cls, folder: Path, *, open_file: OpenFile = LogFile) -> StoredSession:
        """Open a session, and cut off what a kill or a fault of the disk has left behind its last record.

        Raises:
            FileError: if there is none, or it cannot be read.
            SessionInUseError: if a process has it.
            StorageError: if it cannot be read or written.
        """
        if not log_path(folder).exists():
            raise FileError(f"there is no session in {folder}; `pace sessions list` shows those with a name")
        lock = SessionLock(lock_path(folder))
        try:
            state = SessionState()
            log = SessionLog.open(log_path(folder), state.take, open_file=open_file)
        except BaseException:
            lock.release()
            raise
        return cls(folder, lock, log, state)

    @property
    def kv_folder(self) -> Path:
        """Where blocks of keys and values belong; it may not be there yet."""
        return kv_folder(self.folder)

    def append(self, record: TurnRecord, *, sync: bool = False) -> None:
        """Write a record and apply it. If it cannot be written, log and state are as before.

        Args:
            record: what has changed since the last.
            sync: whether to return only when it is on the disk, safe from a crash of the machine.

        Raises:
            ValueError: if it does not fit ``state``: a fault of the caller.
            StorageError: if it cannot be written.
        """
        self.state.check(record)
        self._log.append(record.as_document())
        self.state.apply(record)
        if sync:
            self._log.sync()

    def sync(self) -> None:
        """Return when all records are on the disk.

        Raises:
            StorageError: if that fails; no record can follow then.
        """
        self._log.sync()

    def close(self) -> None:
        """Close the log and let other processes have the session. Safe to call twice."""
        self._log.close()
        self._lock.release()

    def __enter__(self) -> StoredSession:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
