"""Files that fail on purpose, for tests of what a session leaves on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pace_local.sessions.log_file import LogFile


class Disk:
    """Opens files that count what is asked of them, and that have only so much room.

    Args:
        room: bytes that can still be written; None: as many as one likes.
    """

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.refuses_truncate = False
        self.refuses_sync = False
        self.writes: list[int] = []
        """Bytes of each write that was asked for."""
        self.lines_read = 0
        self.syncs = 0

    def open_file(self, path: Path, *, create: bool = False) -> DiskFile:
        """Open a file on this disk; an :class:`~pace_local.sessions.log.OpenFile`."""
        return DiskFile(self, path, create=create)


class DiskFile(LogFile):
    """A file on a :class:`Disk`."""

    def __init__(self, disk: Disk, path: Path, *, create: bool) -> None:
        super().__init__(path, create=create)
        self._disk = disk

    def lines(self) -> Iterator[bytes]:
        """All lines; each is counted."""
        for line in super().lines():
            self._disk.lines_read += 1
            yield line

    def write(self, data: bytes) -> int:
        """Add as many bytes as there is room for; with no room at all it fails."""
        self._disk.writes.append(len(data))
        if self._disk.room is None:
            return super().write(data)
        if not self._disk.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(data[: self._disk.room])
        self._disk.room -= written
        return written

    def truncate(self, size: int) -> None:
        """Cut the file down, unless the disk refuses."""
        if self._disk.refuses_truncate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(size)

    def sync(self) -> None:
        """Wait for the disk, unless it refuses."""
        self._disk.syncs += 1
        if self._disk.refuses_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()
