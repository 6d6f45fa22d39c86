"""Finished points on disk, one JSON line each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import filelock

from pace_local.errors import FileError, StorageError
from pace_local.tuning.measure import Measurement

NAME = "points.jsonl"


class Journal:
    """The points in a folder; without a folder, in memory alone. Use it as a context manager.

    Args:
        folder: made if it is not there; None: nothing is stored.

    Raises:
        FileError: on entering, if the file in it is no journal.
        StorageError: if it cannot be written, or another process is writing it.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / NAME
        self.torn = False
        """Whether the file ended in the midst of a line, which was cut off."""
        self._points: dict[str, Measurement] = {}
        self._file: BinaryIO | None = None
        self._lock: filelock.BaseFileLock | None = None

    def __enter__(self) -> Journal:
        """Read what is there, and keep other processes from writing."""
        if self.path is None:
            return self
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = filelock.FileLock(self.path.with_suffix(".lock"))
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StorageError(
                f"{self.path} is being written by another process; wait for it, or give another folder"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise self._failure(error) from error
        try:
            self._file = self.path.open("a+b")
            self._read(self.path, self._file)
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

    def __len__(self) -> int:
        """Number of points, also those of other grids."""
        return len(self._points)

    def get(self, key: str) -> Measurement | None:
        """The point of a key, if it is finished."""
        return self._points.get(key)

    def add(self, key: str, settings: dict[str, Any], point: Measurement) -> None:
        """Store a finished point; it is on its way to the disk when this returns.

        Raises:
            StorageError: if it cannot be written.
        """
        self._points[key] = point
        if self._file is None:
            return
        line = json.dumps({"key": key, "settings": settings, "point": point.as_document()})
        try:
            self._file.write(line.encode("ascii") + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            raise self._failure(error) from error

    def _read(self, path: Path, file: BinaryIO) -> None:
        file.seek(0)
        *lines, rest = file.read().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
                self._points[str(document["key"])] = Measurement.from_document(document["point"])
            except (ValueError, TypeError, KeyError):
                raise FileError(
                    f"{path}, line {number} is no finished point; delete the file or give another folder"
                ) from None
        if rest:
            self.torn = True
            file.truncate(sum(len(line) + 1 for line in lines))

    def _failure(self, error: OSError | NotImplementedError) -> StorageError:
        return StorageError(f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}")
