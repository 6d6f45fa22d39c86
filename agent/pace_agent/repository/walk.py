"""A walk over the files of a repository: what is ignored is never entered, symlinked folders neither."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pace_agent.repository.ignoring import Ignoring

MOST_FILES = 200_000


@dataclass(frozen=True)
class Entry:
    """A file, symlink or folder that the walk came across."""

    path: str
    """Relative to the root, with ``/`` between its parts."""
    status: os.stat_result
    """Of the entry itself: a symlink is not followed."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


class Walk:
    """One walk, in the order of the names' bytes, folder by folder. Iterate it once.

    A folder's entry comes before what is in it. Files that are neither regular nor symlinks (pipes, devices)
    are left out. What was met on the way is in the attributes, complete when the iteration has ended.

    Args:
        ignoring: with the root and what is ignored below it.
        below: start in this folder, relative to the root.
        most_files: files and symlinks after which the walk is cut off.
        enter: whether to go into a folder, asked with its path; None: into all.
    """

    def __init__(
        self,
        ignoring: Ignoring,
        *,
        below: str = "",
        most_files: int = MOST_FILES,
        enter: Callable[[str], bool] | None = None,
    ) -> None:
        self._ignoring = ignoring
        self._below = below
        self._most = most_files
        self._enter = enter
        self.files = 0
        """Files and symlinks given."""
        self.cut_off = False
        """Whether there are more files than ``most_files``; the rest was not looked at."""
        self.ignored: list[str] = []
        """Ignored folders, which were not entered."""
        self.unreadable: dict[str, str] = {}
        """Folders that could not be read, each with the system's reason; ``""`` is the root."""

    def __iter__(self) -> Iterator[Entry]:
        """Give files, symlinks and folders."""
        # One list of entries for each folder on the way down, the next one last.
        stack = [self._entries(self._below)]
        while stack:
            if not stack[-1]:
                stack.pop()
                continue
            path, found = stack[-1].pop()
            try:
                entry = Entry(path, found.stat(follow_symlinks=False))
            except OSError:  # gone since the folder was read
                continue
            if entry.is_folder:
                yield entry
                if self._enter is None or self._enter(path):
                    stack.append(self._entries(path))
            elif entry.is_link or stat.S_ISREG(entry.status.st_mode):
                if self.files >= self._most:
                    self.cut_off = True
                    return
                self.files += 1
                yield entry

    def _entries(self, folder: str) -> list[tuple[str, os.DirEntry[str]]]:
        """What is in a folder and not ignored, last name first."""
        rules = self._ignoring.rules_in(folder)
        prefix = folder + "/" if folder else ""
        kept: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(self._ignoring.root / folder) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not rules.ignores(entry.name, is_folder):
                        kept.append((prefix + entry.name, entry))
                    elif is_folder:
                        self.ignored.append(prefix + entry.name)
        except FileNotFoundError:  # gone since the folder above was read
            if not folder:
                self.unreadable[folder] = "no such folder"
        except OSError as error:
            self.unreadable[folder] = error.strerror or str(error)
        kept.sort(key=lambda one: os.fsencode(one[1].name), reverse=True)
        return kept

    def notes(self) -> list[str]:
        """What was not looked at, a sentence each, for whoever reads the result."""
        notes = []
        if self.cut_off:
            notes.append(f"more than {self._most:,} files: the rest was not looked at; name a folder")
        for folder, reason in sorted(self.unreadable.items()):
            notes.append(f"cannot read {shown(folder or '.')}: {reason}")
        return notes


def shown(path: str) -> str:
    """A path for messages and results: on one line and printable, whatever bytes its name holds."""
    if path.isprintable():
        return path
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in path)
