"""A file of JSON lines that grows at its end and survives being killed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import filelock

from pace_local.errors import FileError, StorageError


def read_lines(path: Path, what: str = "JSON object") -> tuple[list[dict[str, Any]], bool]:
    """All whole lines of a file, and whether it ends in the midst of a line, which is left out.

    Args:
        path: of the file.
        what: a line holds, for the message.

    Raises:
        FileError: if it cannot be read, or another line is no JSON object.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    *lines, rest = data.split(b"\n")
    found = []
    for number, line in enumerate(lines, 1):
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise _bad_line(path, number, what)
        found.append(document)
    return found, bool(rest)


def _bad_line(path: Path, number: int, what: str) -> FileError:
    """What to raise for a line, counted from 1, that does not hold what it should."""
    return FileError(f"{path}, line {number} is no {what}; delete the file or give another folder")


class LineFile:
    """Appends lines to a file that no other process writes. Use it as a context manager.

    Args:
        path: made with its folder if it is not there.
        what: a line holds, for messages.
        take: called with each line that is there, before anything is changed; it raises ValueError, TypeError
            or KeyError for one that does not hold what it should.

    Raises:
        FileError: on entering, if it holds anything but JSON lines.
        StorageError: if it cannot be written, or another process is writing it.
    """

    def __init__(
        self,
        path: Path,
        what: str = "JSON object",
        take: Callable[[Mapping[str, Any]], None] = lambda line: None,
    ) -> None:
        self.path = path
        self._what = what
        self._take = take
        self.lines: list[dict[str, Any]] = []
        """What was in it, and what was added."""
        self.was_torn = False
        """Whether it ended in the midst of a line, which was cut off."""
        self._file: BinaryIO | None = None
        self._lock: filelock.BaseFileLock | None = None

    def __enter__(self) -> LineFile:
        """Read what is there, and keep other processes from writing."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = filelock.FileLock(
                self.path.with_suffix(".lock"),
                mode=0o600,
                thread_local=False,  # another may close it
            )
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StorageError(
                f"{self.path} is being written by another process; wait for it, or give another folder"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise self._failure(error) from error
        try:
            self._file = self.path.open("ab")
            self.lines, self.was_torn = read_lines(self.path, self._what)
            for number, line in enumerate(self.lines, 1):
                try:
                    self._take(line)
                except (ValueError, TypeError, KeyError):
                    raise _bad_line(self.path, number, self._what) from None
            if self.was_torn:
                whole = self.path.read_bytes().rpartition(b"\n")
                self._file.truncate(len(whole[0]) + len(whole[1]))
        except OSError as error:
            self.close()
            raise self._failure(error) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file and let other processes write. Safe to call twice."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # every line was flushed, or that was reported
                file.close()
        if self._lock is not None:
            self._lock.release()

    def add(self, document: Mapping[str, Any], *, sync: bool = False) -> None:
        """Add a line; it is in the system's hands when this returns, with ``sync`` on the disk.

        Raises:
            StorageError: if it cannot be written.
        """
        assert self._file is not None, "the file is not open"
        try:
            # In ASCII, so that no character of an answer can end a line.
            self._file.write(json.dumps(document).encode("ascii") + b"\n")
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            raise self._failure(error) from error
        self.lines.append(dict(document))

    def _failure(self, error: OSError | NotImplementedError) -> StorageError:
        return StorageError(f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}")
