"""Which folders the user has trusted, so that their own config and AGENTS.md are used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import platformdirs

from pace_agent.files.folder_identity import FolderIdentity, identity_from, identity_of
from pace_agent.files.private_file import UnusableFileError, changing, read_private, write_private
from pace_local.errors import FileError

_FORMAT = 1


class Standing(str, Enum):
    """How a folder stands with the user."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    """The user has not been asked."""

    REPLACED = "replaced"
    """Another folder was trusted under this path; ask again."""


@dataclass(frozen=True)
class TrustedFolder:
    """One folder that was trusted."""

    path: Path
    """Resolved."""

    identity: FolderIdentity
    since: float
    """When, in seconds since 1970."""

    @property
    def is_there(self) -> bool:
        """Whether the same folder is still under its path."""
        try:
            return identity_of(self.path).is_same(self.identity)
        except OSError:
            return False


def trust_path() -> Path:
    """The file of trusted folders in the user's config folder, whether or not it is there."""
    return platformdirs.user_config_path("pace-local", appauthor=False) / "trusted-folders.json"


class TrustStore:
    """The folders that the user has trusted.

    A file that is broken, or that other users could have written, counts as empty: nothing is trusted then,
    and :attr:`warnings` says so. Trust is for one folder, not for those above or below it.

    Args:
        path: of the file; None: the user's own.
        clock: the time, in seconds since 1970.
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = trust_path() if path is None else path
        self.warnings: list[str] = []
        self._clock = clock

    def standing(self, folder: str | os.PathLike[str]) -> Standing:
        """How a folder stands; one that is not there is unknown."""
        resolved = Path(os.path.realpath(os.path.expanduser(folder)))
        known = self._read().get(resolved)
        if known is None:
            return Standing.UNKNOWN
        return Standing.TRUSTED if known.is_there else Standing.REPLACED

    def is_trusted(self, folder: str | os.PathLike[str]) -> bool:
        """Whether a folder was trusted, and is still the same one."""
        return self.standing(folder) is Standing.TRUSTED

    def trust(self, folder: str | os.PathLike[str]) -> TrustedFolder:
        """Trust a folder from now on.

        Raises:
            FileError: if it is none.
            StorageError: if that cannot be written down.
        """
        resolved = Path(os.path.realpath(os.path.expanduser(folder)))
        if not resolved.is_dir():
            raise FileError(f"{os.fspath(folder)!r} is no folder; give the one to trust")
        entry = TrustedFolder(resolved, identity_of(resolved), self._clock())
        with changing(self.path):
            self._write({**self._read(), resolved: entry})
        return entry

    def forget(self, folder: str | os.PathLike[str]) -> bool:
        """Trust a folder no longer, whether or not it is still there; says whether it was trusted.

        Raises:
            StorageError: if that cannot be written down.
        """
        resolved = Path(os.path.realpath(os.path.expanduser(folder)))
        with changing(self.path):
            known = self._read()
            if known.pop(resolved, None) is None:
                return False
            self._write(known)
        return True

    def list(self) -> tuple[TrustedFolder, ...]:
        """All trusted folders, by path."""
        return tuple(sorted(self._read().values(), key=lambda entry: entry.path))

    def _read(self) -> dict[Path, TrustedFolder]:
        try:
            entries = read_private(self.path).get("folders", [])
            if not isinstance(entries, list):
                raise UnusableFileError(f"{self.path} holds no list of folders; delete it, or put it right")
            read = [_entry(each) for each in entries]
        except UnusableFileError as error:
            self._warn(f"{error}; no folder counts as trusted")
            return {}
        if None in read:
            self._warn(f"{self.path} has entries that are no folders; they are ignored")
        return {entry.path: entry for entry in read if entry is not None}

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _write(self, folders: dict[Path, TrustedFolder]) -> None:
        entries = [
            {"path": str(each.path), **each.identity.document(), "since": each.since}
            for each in folders.values()
        ]
        write_private(self.path, {"format": _FORMAT, "folders": entries})


def _entry(content: Any) -> TrustedFolder | None:
    if not isinstance(content, dict):
        return None
    path, since, identity = content.get("path"), content.get("since"), identity_from(content)
    if not isinstance(path, str) or not os.path.isabs(path) or "\0" in path:
        return None
    if identity is None or not isinstance(since, (int, float)):
        return None
    return TrustedFolder(Path(path), identity, float(since))
