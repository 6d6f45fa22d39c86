"""The file under a session's log: what the log asks of the system, one call each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pace_local.errors import StorageError


class File(Protocol):
    """A file that grows at its end. Every method may raise OSError."""

    def lines(self) -> Iterator[bytes]:
        """All lines from the first on, with their ends; the last may have none."""

    def write(self, data: bytes) -> int:
        """Add bytes at the end, as many as there is room for; returns how many."""

    def truncate(self, size: int) -> None:
        """Cut the file down to ``size`` bytes."""

    def sync(self) -> None:
        """Return when all that was written is on the disk."""

    def close(self) -> None:
        """Close it. Safe to call twice."""


class LogFile:
    """A :class:`File` on the disk, for reading and appending; private to its user.

    Args:
        path: of the file.
        create: whether it must be new; else it must be there.

    Raises:
        OSError: so does every method.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)

    def lines(self) -> Iterator[bytes]:
        """All lines from the first on, with their ends; the last may have none."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            yield from file

    def write(self, data: bytes) -> int:
        """Add bytes at the end with one system call; returns how many."""
        return os.write(self._descriptor, data)

    def truncate(self, size: int) -> None:
        """Cut the file down to ``size`` bytes."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Return when all that was written is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it. Safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk, where the system can say.

    Raises:
        OSError: if that fails.
    """
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def failure(doing: str, path: Path, error: OSError) -> StorageError:
    """The error that says what could not be done to a file: ``doing`` is ``"write"`` or the like."""
    return StorageError(f"cannot {doing} {path}: {error.strerror or error}")
