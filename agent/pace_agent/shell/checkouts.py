"""Which checkout git would take a folder for, and which files that has in its index."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

_FIXED = 40
"""Bytes of an entry before the name of its object: times, device, mode, owner and size."""


def has_known_settings(folder: Path, repository: Path) -> bool:
    """Whether git, started in a folder, uses no settings but those of the repository's own checkout.

    Its settings can hold commands. A file tool makes a folder of such settings with a ``HEAD``, ``objects``
    and ``refs`` in it, which git takes for a repository without a checkout.

    Args:
        folder: where git would start; it need not be there.
        repository: the folder that the user trusted, in a checkout or not.
    """
    own = next((each for each in (repository, *repository.parents) if _has_git(each)), None)
    for each in (folder, *folder.parents):
        if _has_git(each):
            return each == own or (own is not None and _is_part(each, own))
        if os.path.lexists(each / "HEAD") and any(
            os.path.lexists(each / name) for name in ("objects", "commondir")
        ):
            return False
    return True


def _has_git(folder: Path) -> bool:
    git = folder / ".git"
    return os.path.lexists(git) and (not git.is_dir() or os.path.lexists(git / "HEAD"))


def _is_part(folder: Path, own: Path) -> bool:
    """Whether it is a submodule or a linked worktree, whose data lie in the checkout's own."""
    git = folder / ".git"
    if git.is_symlink() or not git.is_file():
        return False
    try:
        text = git.read_text(errors="replace")[:4096]
    except OSError:
        return False
    data = os.path.realpath(folder / text.removeprefix("gitdir:").strip())
    return text.startswith("gitdir:") and Path(data).is_relative_to(os.path.realpath(own / ".git"))


def tracked(index: bytes) -> list[str] | None:
    """The paths in a git index, from the top of its checkout; None if it cannot be read.

    Format: https://git-scm.com/docs/index-format, versions 2 to 4 with SHA-1. An index that is split over two
    files is not followed.
    """
    sums = (hashlib.sha1(index[:-20], usedforsecurity=False).digest(), bytes(20))
    if len(index) < 32 or index[:4] != b"DIRC" or index[-20:] not in sums:
        return None
    version, count = struct.unpack(">II", index[4:12])
    if version not in (2, 3, 4):
        return None
    at, found, previous = 12, [], b""
    for _ in range(count):
        start = at
        flags = index[start + _FIXED + 20 : start + _FIXED + 22]
        if len(flags) < 2:
            return None
        at = start + _FIXED + 22 + (2 if version > 2 and flags[0] & 0x40 else 0)
        if version == 4:
            cut, at = _number(index, at)
            previous = previous[: len(previous) - cut]
        end = index.find(b"\0", at)
        if end < 0:
            return None
        previous = (previous if version == 4 else b"") + index[at:end]
        found.append(os.fsdecode(previous))
        at = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
    return None if index[at : at + 4] == b"link" else found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as packs have it for offsets, and where it ends."""
    value = -1
    while at < len(data):
        value = (value + 1) << 7 | (data[at] & 0x7F)
        at += 1
        if not data[at - 1] & 0x80:
            break
    return value, at
