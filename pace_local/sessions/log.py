"""A session's log: JSON Lines that only grow, each with a number and a checksum.

A record is in the file when :meth:`SessionLog.append` returns, and survives the process; it survives the
machine once :meth:`SessionLog.sync` has returned. What a kill, a full disk or a fault of the disk leaves
behind is cut off when the log is opened for appending; what was more than half a line is kept in a file
beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from pace_local.errors import FileError, StorageError
from pace_local.sessions.log_file import File, LogFile, failure, sync_folder
from pace_local.sessions.scan import Scan, Take, line_of, scan
from pace_local.sessions.versions import VERSIONS, Versions


class OpenFile(Protocol):
    """Opens the file of a log; :class:`LogFile` is one."""

    def __call__(self, path: Path, *, create: bool = False) -> File:
        """Open the file, which is new or is not."""


class LogContents(NamedTuple):
    """What a log holds."""

    records: list[dict[str, Any]]
    """Up to the last that is whole and right; the header first."""
    good_bytes: int
    """How much of the file they take."""
    problem: str | None
    """Why the rest is left out, for people; None: there is no rest."""


class SessionLog:
    """A log that is open for appending. Use it as a context manager, or close it.

    :meth:`create` and :meth:`open` make one. One process at a time may have it:
    :class:`~pace_local.sessions.lock.SessionLock` sees to that.
    """

    def __init__(self, path: Path, file: File, scanned: Scan) -> None:
        self.path = path
        self.n_records = scanned.n_records
        self.size = scanned.good_bytes
        """Bytes."""
        self.problem = scanned.problem
        """What was cut off when it was opened, for people; None: nothing."""
        self._checksum = scanned.checksum
        self._file: File | None = file

    @classmethod
    def create(cls, path: Path, header: Mapping[str, Any], *, open_file: OpenFile = LogFile) -> SessionLog:
        """Begin a log; its header is on the disk when this returns.

        Args:
            path: of the file; there must be none yet.
            header: the first record, with its ``type`` and ``format``.
            open_file: opens files.

        Raises:
            StorageError: if it cannot be written; nothing is left behind then.
        """
        try:
            file = open_file(path, create=True)
        except OSError as error:
            raise failure("create", path, error) from error
        log = cls(path, file, Scan(version=int(header["format"])))
        try:
            log.append(header)
            log.sync()
            sync_folder(path.parent)
        except BaseException as error:
            log.close()
            with contextlib.suppress(OSError):
                path.unlink()
            if isinstance(error, OSError):
                raise failure("create", path, error) from error
            raise
        return log

    @classmethod
    def open(
        cls,
        path: Path,
        take: Take = lambda record: None,
        *,
        versions: Versions = VERSIONS,
        open_file: OpenFile = LogFile,
    ) -> SessionLog:
        """Read a log and go on behind its last right record.

        Args:
            path: of the file.
            take: gets each record; what it refuses with ValueError is cut off like what is damaged.
            versions: which can be read; a log of an older one is written anew in the newest.
            open_file: opens files.

        Raises:
            FileError: if it is no log, or one of a version that cannot be read.
            StorageError: if it cannot be read or written.
        """
        file = _opened(path, open_file)
        try:
            scanned = _scanned(path, file.lines, take, versions)
            if scanned.problem is not None:
                if not scanned.torn:
                    _keep_rest(path, scanned.good_bytes)
                file.truncate(scanned.good_bytes)
                file.sync()
            if scanned.version != versions.newest:
                scanned = _rewrite(path, file, scanned, versions, open_file)
                file.close()
                file = open_file(path)
        except OSError as error:
            file.close()
            raise failure("open", path, error) from error
        except BaseException:
            file.close()
            raise
        return cls(path, file, scanned)

    @staticmethod
    def read(path: Path, *, versions: Versions = VERSIONS) -> LogContents:
        """Read a log without changing it; another process may be writing it.

        Raises:
            FileError: if it is no log, or one of a version that cannot be read.
            StorageError: if it cannot be read.
        """
        records: list[dict[str, Any]] = []
        scanned = read_log(path, records.append, versions=versions)
        return LogContents(records, scanned.good_bytes, scanned.problem)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record behind the last. If that fails, the log is as it was before.

        Args:
            record: plain values; numbers are finite.

        Raises:
            StorageError: if it cannot be written, or the log is closed.
            TypeError, ValueError: if the record holds what JSON has no form for; nothing is written then.
        """
        file = self._require_open()
        line, checksum = line_of(dict(record), self.n_records, self._checksum)
        try:
            written = file.write(line)
            while written < len(line):  # the disk was full for a moment, or the line is over 2 GiB
                more = file.write(line[written:])
                if not more:
                    raise OSError("the system writes nothing")
                written += more
        except BaseException as error:
            self._withdraw(file)
            if isinstance(error, OSError):
                raise failure("write", self.path, error) from error
            raise
        self.n_records += 1
        self.size += len(line)
        self._checksum = checksum

    def sync(self) -> None:
        """Return when all records are on the disk.

        Raises:
            StorageError: if that fails. The log is closed then, for what is on the disk is not known.
        """
        file = self._require_open()
        try:
            file.sync()
        except OSError as error:
            self.close()
            raise failure("sync", self.path, error) from error

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # nothing is buffered that could be lost
                file.close()

    def __enter__(self) -> SessionLog:
        """The log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _withdraw(self, file: File) -> None:
        """Cut off half a line; if that fails too, nothing may follow it."""
        try:
            file.truncate(self.size)
        except OSError:
            self.close()

    def _require_open(self) -> File:
        if self._file is None:
            raise StorageError(f"{self.path} is closed after an error or on request; open the session again")
        return self._file


def read_log(path: Path, take: Take, *, versions: Versions = VERSIONS) -> Scan:
    """Hand on the records of a log one by one, without changing it.

    Raises:
        FileError: if it is no log, or one of a version that cannot be read.
        StorageError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _scanned(path, lambda: file, take, versions)
    except FileNotFoundError:
        raise FileError(f"{path.parent} is no session: it has no {path.name}") from None
    except OSError as error:
        raise failure("read", path, error) from error


def _opened(path: Path, open_file: OpenFile) -> File:
    try:
        return open_file(path)
    except OSError as error:
        raise failure("open", path, error) from error


def _scanned(path: Path, lines: Callable[[], Any], take: Take, versions: Versions) -> Scan:
    try:
        scanned = scan(lines(), take, versions)
    except ValueError as error:
        raise FileError(f"{path} cannot be read as a session's log: {error}") from None
    if scanned.problem is not None:
        scanned.problem = f"{path}, {scanned.problem}"
    return scanned


def _keep_rest(path: Path, good_bytes: int) -> None:
    """Copy what will be cut off into a new file beside the log; it may hold turns that someone wants back."""
    number = 1
    while os.path.lexists(kept := path.with_name(f"{path.name}.cut-{number}")):
        number += 1
    with path.open("rb") as whole:
        whole.seek(good_bytes)
        rest = LogFile(kept, create=True)
        try:
            while chunk := whole.read(1 << 20):
                while chunk:
                    chunk = chunk[rest.write(chunk) :]
            rest.sync()
        except BaseException:
            with contextlib.suppress(OSError):
                kept.unlink()
            raise
        finally:
            rest.close()


def _rewrite(path: Path, file: File, old: Scan, versions: Versions, open_file: OpenFile) -> Scan:
    """Replace the log by one in the newest version; until that is on the disk, the old one stays."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)  # of an attempt that was killed
    new = SessionLog(draft, open_file(draft, create=True), Scan(versions.newest))
    try:
        scan(itertools.islice(file.lines(), old.n_records), new.append, versions)
        new.sync()
        new.close()
        os.replace(draft, path)
        sync_folder(path.parent)
    except BaseException:
        new.close()
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return Scan(versions.newest, new.n_records, new.size, new._checksum, old.problem)
