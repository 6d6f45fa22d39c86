"""Folders of stores that nobody gave a folder; what killed processes left of them is removed."""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

_PREFIX = "pace-recall-"
_LOCK = "lock"


class TemporaryFolder:
    """A folder of this process, removed when it is closed, or else by the next that is made beside it.

    Its owner holds a lock, which the system frees when the process ends in any way, on a file in it. The file
    gets its name when it is locked already: a folder without one is being made, and is left alone. Where
    files cannot be locked, what a killed process leaves stays.

    Raises:
        OSError: if it cannot be made.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        self._lock: IO[bytes] | None = None
        with suppress(OSError):
            self._lock = _locked(self.path)
        with suppress(OSError):
            _remove_others(self.path)

    def close(self) -> None:
        """Remove it. Safe to call twice."""
        self._folder.cleanup()
        if self._lock is not None:
            self._lock.close()


if sys.platform == "win32":

    def _locked(folder: Path) -> IO[bytes] | None:
        return None

    def _remove_others(folder: Path) -> None: ...

else:
    import fcntl

    def _locked(folder: Path) -> IO[bytes] | None:
        """The lock of a new folder; its owner keeps it open."""
        lock = (folder / f"{_LOCK}.new").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / f"{_LOCK}.new").rename(folder / _LOCK)
        except BaseException:
            lock.close()
            raise
        return lock

    def _remove_others(folder: Path) -> None:
        """Remove those beside a folder that are its owner's, and whose processes have ended."""
        user = folder.stat().st_uid
        for other in folder.parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                there = other.lstat()
                if not stat.S_ISDIR(there.st_mode) or there.st_uid != user:
                    continue
                with (other / _LOCK).open("r+b") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(other, ignore_errors=True)
