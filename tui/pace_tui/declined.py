"""Files of repositories that the user did not want to be used: nobody asks about them again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pace_agent.files.private_file import UnusableFileError, changing, read_private, write_private

_FORMAT = 1


def declined_path() -> Path:
    """The file in the user's state folder, whether or not it is there."""
    import platformdirs

    return platformdirs.user_state_path("pace-local", appauthor=False) / "declined-files.json"


class Declined:
    """What was declined, by repository.

    A file that is broken, or that other users could have written, counts as empty: the user is asked again.

    Args:
        path: the file; None: the user's own.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = declined_path() if path is None else path

    def covers(self, repository: Path, files: Iterable[str]) -> bool:
        """Whether the user has declined all of these files of a repository."""
        return set(files) <= set(self._read().get(os.fspath(repository), ()))

    def add(self, repository: Path, files: Iterable[str]) -> None:
        """Remember that the user does not want these used.

        Raises:
            StorageError: if that cannot be written down.
        """
        with changing(self._path):
            known = self._read()
            known[os.fspath(repository)] = sorted({*known.get(os.fspath(repository), ()), *files})
            write_private(self._path, {"format": _FORMAT, "repositories": known})

    def _read(self) -> dict[str, list[str]]:
        try:
            repositories = read_private(self._path).get("repositories")
        except UnusableFileError:
            return {}
        if not isinstance(repositories, dict):
            return {}
        return {
            name: [each for each in files if isinstance(each, str)]
            for name, files in repositories.items()
            if isinstance(files, list)
        }
