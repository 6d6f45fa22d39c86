"""What the system holds of files in memory: let go of it, so that the next read is one of the disk."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

DROPPED, HELD, UNKNOWN = "dropped", "not dropped", "perhaps dropped"


def drop_cached(folder: Path) -> str:
    """Ask the system to forget what it holds of all files below a folder, and look whether it did.

    Returns:
        ``DROPPED``; ``HELD`` if a part of a file is in memory all the same, as on systems that cannot be
        asked; ``UNKNOWN`` where no one can tell.
    """
    if not hasattr(os, "posix_fadvise"):
        return HELD
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                os.fsync(file.fileno())  # what is not on the disk yet cannot be let go
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                found.add(_state(file.fileno()))
    return worst(found)


def worst(states: Iterable[str]) -> str:
    """What can be said of all."""
    found = set(states)
    return next((state for state in (HELD, UNKNOWN) if state in found), DROPPED)


def _state(descriptor: int) -> str:
    """Whether any page of a file is in memory. Reading would tell too, but bring pages in."""
    size = os.fstat(descriptor).st_size
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapped:
        pages = np.zeros(-(-size // mmap.PAGESIZE), dtype=np.uint8)
        content = np.frombuffer(mapped, dtype=np.uint8)
        address = content.ctypes.data
        del content
        try:
            mincore = ctypes.CDLL(None).mincore
        except (AttributeError, OSError, TypeError):
            return UNKNOWN
        failed = mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data))
    if failed:
        return UNKNOWN
    return HELD if np.any(pages & 1) else DROPPED
