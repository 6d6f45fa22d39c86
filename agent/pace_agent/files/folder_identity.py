"""What a folder is told by from another one that takes its path later.

Device and inode are not enough: file systems such as ext4 give the inode of a folder that was deleted to the
next one that is made. So the time of its making counts as well, which Python does not tell on Linux; the
system's ``statx`` does (``man 2 statx``).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME = struct.Struct("=qI")
_BTIME_OFFSET = 80
_MASK = struct.Struct("=I")


@dataclass(frozen=True)
class FolderIdentity:
    """A folder, as long as it is there."""

    device: int
    inode: int
    born: int | None = None
    """When it was made, in nanoseconds since 1970; None where the system does not say."""

    def is_same(self, other: FolderIdentity) -> bool:
        """Whether this is the same folder, as far as the system says."""
        if None not in (self.born, other.born) and self.born != other.born:
            return False
        return (self.device, self.inode) == (other.device, other.inode)

    def document(self) -> dict[str, int | None]:
        """As plain values; :func:`identity_from` reads them."""
        return {"device": self.device, "inode": self.inode, "born": self.born}


def identity_from(content: Mapping[str, Any]) -> FolderIdentity | None:
    """The identity that a document holds; None if it holds none."""
    device, inode, born = (content.get(name) for name in ("device", "inode", "born"))
    if type(device) is not int or type(inode) is not int or (born is not None and type(born) is not int):
        return None
    return FolderIdentity(device, inode, born)


def identity_of(folder: Path) -> FolderIdentity:
    """What a folder is told by.

    Raises:
        OSError: if it is not there.
    """
    status = os.stat(folder)
    return FolderIdentity(status.st_dev, status.st_ino, _born(folder, status))


def _born(folder: Path, status: os.stat_result) -> int | None:
    seconds: float | None = getattr(status, "st_birthtime", None)
    if seconds is not None:
        return int(seconds * 10**9)
    if sys.platform != "linux":
        return None
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(folder), 0, _STATX_BTIME, buffer)
    except (AttributeError, OSError):  # an old C library
        return None
    if failed or not _MASK.unpack_from(buffer)[0] & _STATX_BTIME:
        return None
    whole, nanoseconds = _BTIME.unpack_from(buffer, _BTIME_OFFSET)
    return int(whole) * 10**9 + int(nanoseconds)
