"""What git's own folder says: where it is, and which branch and commit are checked out.

Read from its files, without running git: a watcher asks after every batch of changes, and must not wait for
a lock or start a process for it.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LONGEST = 64 * 1024**2
"""Bytes of ``packed-refs`` that are read: a line of about 70 for each reference."""


@dataclass(frozen=True)
class Head:
    """What is checked out."""

    branch: str | None
    """Name without ``refs/heads/``; None if HEAD is detached."""
    commit: str | None
    """In hexadecimal; None before the first commit."""

    def __str__(self) -> str:
        """Say it as git does, with a short commit."""
        commit = self.commit[:9] if self.commit else "no commit yet"
        return f"branch {self.branch} ({commit})" if self.branch else f"detached at {commit}"


@dataclass(frozen=True)
class GitFolder:
    """Where git keeps what belongs to one checkout."""

    own: Path
    """With HEAD and the index of this checkout."""
    common: Path
    """With references and ``info/exclude``; the same as ``own`` except in a linked worktree."""

    def head(self) -> Head | None:
        """What is checked out, or None if that cannot be read (now)."""
        text = _text(self.own / "HEAD")
        if not text.startswith("ref:"):
            return Head(None, text.strip()) if _COMMIT.fullmatch(text.strip()) else None
        reference = text[4:].strip()
        return Head(reference.removeprefix("refs/heads/"), self._commit(reference))

    def is_busy(self, longest: float) -> bool:
        """Whether a git command has been changing the checkout, for less than so many seconds.

        A lock that is older was left behind by one that was killed, or its command waits for a person.
        """
        try:
            made = os.stat(self.own / "index.lock").st_mtime
        except OSError:
            return False
        return time.time() - made < longest

    @property
    def ignores_case(self) -> bool:
        """Whether ``core.ignorecase`` is set, as git does where it finds such a file system."""
        config = _text(self.common / "config")
        return re.search(r"^\s*ignorecase\s*=\s*(?:true|yes|on|1)\s*$", config, re.I | re.M) is not None

    def _commit(self, reference: str) -> str | None:
        for folder in (self.own, self.common):
            text = _text(folder / reference).strip()
            if _COMMIT.fullmatch(text):
                return text
        for line in _text(self.common / "packed-refs").splitlines():
            commit, _, name = line.partition(" ")
            if name == reference and _COMMIT.fullmatch(commit):
                return commit
        return None


def git_folder(top: Path) -> GitFolder | None:
    """Git's folder of the checkout whose top folder is ``top``; None if it is no such top."""
    own = top / ".git"
    text = _text(own) if own.is_file() else ""
    if text.startswith("gitdir:"):  # a linked worktree or a submodule
        own = top / text[7:].strip()
    if not (own / "HEAD").is_file():
        return None
    common = _text(own / "commondir").strip()
    return GitFolder(own, own / common if common else own)


def top_of(folder: Path) -> Path | None:
    """The innermost checkout's top folder at or above an absolute path; None outside of any."""
    return next((one for one in (folder, *folder.parents) if git_folder(one)), None)


def _text(path: Path) -> str:
    """A small file of git's, empty if it is not there."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""
