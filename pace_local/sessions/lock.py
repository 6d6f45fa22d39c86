"""One process at a time has a session. The system frees the lock when that process ends, however it ends."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import sys
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pace_local.errors import StorageError
from pace_local.sessions.log_file import failure

_PATIENCE_SECONDS = 0.2
"""For so long an open waits, since :func:`holder_of` takes the lock for a moment too."""

_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Holder:
    """The process that has a session."""

    pid: int | None
    """None: it has not said yet."""
    since: str | None
    """Date and time in ISO 8601, UTC."""

    def words(self) -> str:
        """Who it is, for people."""
        if self.pid is None:
            return "another process"
        who = f"this process ({self.pid})" if self.pid == os.getpid() else f"process {self.pid}"
        return f"{who} since {self.since}" if self.since else who


class SessionInUseError(StorageError):
    """Another process, or another session of this one, has the session's folder."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(f"the session {folder.name} is in use by {holder.words()}; close it there first")
        self.holder = holder


class SessionLock:
    """Holds a file that nobody else can have meanwhile. Use it as a context manager, or release it.

    Args:
        path: of the file, which is made if it is not there; its folder must be there.

    Raises:
        SessionInUseError: if another process has it, with which and since when.
        StorageError: if it cannot be made or locked. Where a full disk does not take who has it, it holds
            without: such a session can still be deleted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._acquire():
            if time.monotonic() >= until:
                raise SessionInUseError(path.parent, _said(path))
            time.sleep(_PAUSE_SECONDS)
        _held.add(self)
        with contextlib.suppress(OSError):
            self._say_who()

    def release(self) -> None:
        """Let others have it. Safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> SessionLock:
        """The lock itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it."""
        self.release()

    def _acquire(self) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise failure("lock", self.path, error) from error
        try:
            # Whoever deletes a session deletes this file while holding it: then another one counts.
            taken = _take(descriptor, shared=False) and _is_at(self.path, descriptor)
        except OSError as error:
            os.close(descriptor)
            raise failure("lock", self.path, error) from error
        if taken:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return taken

    def _say_who(self) -> None:
        assert self._descriptor is not None
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(sep=" ", timespec="seconds")
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, json.dumps({"pid": os.getpid(), "since": now}).encode("ascii"))

    def _forget_after_fork(self) -> None:
        """In a child: the lock is the parent's, and must not outlive it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def holder_of(path: Path) -> Holder | None:
    """The process that holds a lock file now; None: none does, or there is no such file.

    Raises:
        StorageError: if that cannot be found out.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure("read", path, error) from error
    try:
        return None if _take(descriptor, shared=True) else _said(path)
    except OSError as error:
        raise failure("lock", path, error) from error
    finally:
        os.close(descriptor)


def _said(path: Path) -> Holder:
    """What the holder has written of itself."""
    try:
        document = json.loads(path.read_bytes())
        return Holder(int(document["pid"]), str(document["since"]))
    except (OSError, ValueError, TypeError, KeyError):
        return Holder(None, None)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """The byte that is locked: one that nobody reads."""

    def _take(descriptor: int, *, shared: bool) -> bool:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _take(descriptor: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True


_held: weakref.WeakSet[SessionLock] = weakref.WeakSet()


def _forget_held() -> None:
    for lock in list(_held):
        lock._forget_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)
