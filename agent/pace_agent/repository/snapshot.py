"""What is known of a repository's files, compared with what is there.

Events of a file system say where to look, never what happened: they come late, twice, out of order or not
at all. So every change is found by comparing: size, times and inode first, then the content's digest.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import MOST_FILES, Walk
from pace_agent.watching.changes import Change, digest_of, is_editor_file

LARGEST_HASHED = 64 * 1024**2
"""Bytes; of a larger file, size and times alone are compared."""
_FIRST_EACH = 1024**2
_FIRST_ALL = 64 * 1024**2
"""Bytes hashed by the first scan, of one file and in all: without a digest from before, a file that was
only touched counts as modified, which costs less than reading all of a large repository at the start."""
_FIRST_LEAST = 4096
"""Bytes that a file counts for at least: opening many small ones takes its time too."""
_RACY_NS = 2_000_000_000
"""A file changed so shortly before it was hashed may change again and keep its times (of the coarsest file
system that is in use)."""


@dataclass(frozen=True)
class Known:
    """One file as it was last seen."""

    kind: int
    size: int
    changed_ns: int
    """Time of the last change to its content."""
    inode: tuple[int, int]
    status_ns: int
    """Time of the last change to anything about it."""
    digest: str | None
    racy: bool
    """Whether it must be hashed again the next time, whatever its times."""

    def is_as(self, status: os.stat_result) -> bool:
        """Whether nothing about the file has changed."""
        return not self.racy and self.status_ns == status.st_ctime_ns and self.same_content(status)

    def same_content(self, status: os.stat_result) -> bool:
        """Whether its content is the same as far as can be told without reading it."""
        return (self.kind, self.size, self.changed_ns, self.inode) == (
            stat.S_IFMT(status.st_mode),
            status.st_size,
            status.st_mtime_ns,
            (status.st_dev, status.st_ino),
        )


class Snapshot:
    """All files of a repository that are not ignored, as last seen. For one thread.

    Args:
        ignoring: with the root.
        most_files: files that are known; what is beyond is not watched.
    """

    def __init__(self, ignoring: Ignoring, most_files: int = MOST_FILES) -> None:
        self.ignoring = ignoring
        self._most = most_files
        self._known: dict[str, Known] = {}
        self.folders: set[str] = set()
        """Folders that are not ignored, without the root."""
        self.ignored: set[str] = set()
        """Ignored folders directly inside of those."""
        self.notes: list[str] = []
        """What the last scan could not look at."""
        self._left: int | None = _FIRST_ALL  # None: the first scan is over

    @property
    def files(self) -> int:
        return len(self._known)

    def fill(self) -> None:
        """Take what is there as known, without reporting it."""
        self._compare_all(lambda path: True)
        self._left = None

    def scan(self) -> list[Change]:
        """Compare everything."""
        return self._compare_all(lambda path: False)

    def follow_rules(self, ignoring: Ignoring) -> list[Change]:
        """Compare everything after what is ignored has changed.

        A file that is ignored from now on was not deleted, and one that no longer is was not created.
        """
        before, self.ignoring = self.ignoring, ignoring
        return self._compare_all(before.ignores)

    def look(
        self, files: Iterable[str], folders: Iterable[str], moves: Mapping[str, str] | None = None
    ) -> list[Change]:
        """Compare some places.

        Args:
            files: paths at which a file has, or had, changed.
            folders: paths of folders that came, went or moved: compared with all that is below.
            moves: new path by old path, where the system named both.
        """
        folders = _outermost(folder for folder in folders if not self.ignoring.ignores(folder, True))
        gone: dict[str, Known] = {}
        came: dict[str, Known] = {}
        changes: list[Change] = []
        below = {folder for folder in folders if folder in self.folders or folder in self._known}
        expected = [path for path in self._known if _is_below(path, below)] if below else []
        self.folders = {one for one in self.folders if not _is_below(one, below)} if below else self.folders
        self.ignored = {one for one in self.ignored if not _is_below(one, below)} if below else self.ignored
        seen: set[str] = set()
        for folder in folders:
            if stat.S_ISDIR(self._mode(folder)):
                self.folders.add(folder)
                self._compare_walk(
                    Walk(self.ignoring, below=folder, most_files=self._most), seen, changes, came
                )
        for path in {*files, *folders, *expected} - seen:
            if path not in self._known and (is_editor_file(path) or self.ignoring.ignores(path)):
                continue
            self._compare_one(path, changes, came, gone)
        return changes + _paired(gone, came, moves or {})

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(self.ignoring.root / path).st_mode
        except (OSError, ValueError):
            return 0

    def _compare_all(self, adopted: Callable[[str], bool]) -> list[Change]:
        changes: list[Change] = []
        came: dict[str, Known] = {}
        gone: dict[str, Known] = {}
        seen: set[str] = set()
        walk = Walk(self.ignoring, most_files=self._most)
        self.folders = set()
        self.ignored = set()
        self._compare_walk(walk, seen, changes, came)
        self.notes = walk.notes()
        shut = {folder for folder in walk.unreadable if folder}
        for path in [path for path in self._known if path not in seen]:
            if self.ignoring.ignores(path):
                del self._known[path]
            elif not _is_below(path, shut):
                self._compare_one(path, changes, came, gone)
        for path in [path for path in came if adopted(path)]:
            del came[path]
        return changes + _paired(gone, came, {})

    def _compare_walk(
        self, walk: Walk, seen: set[str], changes: list[Change], came: dict[str, Known]
    ) -> None:
        for entry in walk:
            if entry.is_folder:
                self.folders.add(entry.path)
            elif not is_editor_file(entry.path):
                seen.add(entry.path)
                self._compare_status(entry.path, entry.status, changes, came)
        self.ignored.update(walk.ignored)

    def _compare_one(
        self, path: str, changes: list[Change], came: dict[str, Known], gone: dict[str, Known]
    ) -> None:
        try:
            status = os.lstat(self.ignoring.root / path)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except (OSError, ValueError):  # not to be read now: nothing is known to have changed
            return
        if status is not None and stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFLNK):
            if path in self._known or len(self._known) < self._most:
                self._compare_status(path, status, changes, came)
        elif (before := self._known.pop(path, None)) is not None:
            gone[path] = before

    def _compare_status(
        self, path: str, status: os.stat_result, changes: list[Change], came: dict[str, Known]
    ) -> None:
        before = self._known.get(path)
        if before is not None and before.is_as(status):
            return
        now = self._seen(path, status, before)
        self._known[path] = now
        if before is None:
            came[path] = now
        elif now.digest != before.digest if now.digest and before.digest else not before.same_content(status):
            changes.append(Change("modified", path, now.digest, old_digest=before.digest))

    def _seen(self, path: str, status: os.stat_result, before: Known | None) -> Known:
        digest = None
        cost = max(status.st_size, _FIRST_LEAST)
        left = self._left if before is None else None
        if left is None or cost <= min(_FIRST_EACH, left):
            if left is not None:
                self._left = left - cost
            digest = _digest(self.ignoring.root / path, status)
        latest = max(status.st_mtime_ns, status.st_ctime_ns)
        return Known(
            stat.S_IFMT(status.st_mode),
            status.st_size,
            status.st_mtime_ns,
            (status.st_dev, status.st_ino),
            status.st_ctime_ns,
            digest,
            digest is not None and time.time_ns() - latest < _RACY_NS,
        )


def _digest(path: os.PathLike[str], status: os.stat_result) -> str | None:
    try:
        if stat.S_ISLNK(status.st_mode):
            return digest_of(os.fsencode(os.readlink(path)))
        if status.st_size > LARGEST_HASHED:
            return None
        # It may have become a pipe since: never wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            total = hashlib.sha256()
            while piece := file.read(1024**2):
                total.update(piece)
            return total.hexdigest()
    except OSError:
        return None


def _outermost(folders: Iterable[str]) -> list[str]:
    kept: set[str] = set()
    for folder in sorted(folders, key=len):
        if not _is_below(folder, kept):
            kept.add(folder)
    return sorted(kept)


def _is_below(path: str, folders: set[str]) -> bool:
    """Whether a path is one of the folders or below one."""
    if not folders:
        return False
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return "" in folders


def _paired(gone: dict[str, Known], came: dict[str, Known], moves: Mapping[str, str]) -> list[Change]:
    """Deleted and created files as changes; those that are one file under a new name as moved."""
    pairs = {old: new for old, new in moves.items() if old in gone and new in came}
    # An inode is used again by the next file that is made: it proves nothing without the time of the content.
    by_inode = {(one.inode, one.changed_ns, one.size): path for path, one in came.items()}
    by_digest = {one.digest: path for path, one in came.items() if one.digest and one.size}
    copies = Counter(one.digest for one in came.values())
    sources = Counter(one.digest for one in gone.values())
    taken = set(pairs.values())
    finders: list[Callable[[Known], str | None]] = [
        lambda one: by_inode.get((one.inode, one.changed_ns, one.size)),
        lambda one: (
            by_digest.get(one.digest or "") if copies[one.digest] == sources[one.digest] == 1 else None
        ),
    ]
    for find in finders:
        for old in sorted(gone.keys() - pairs.keys()):
            new = find(gone[old])
            if new is not None and new not in taken:
                pairs[old] = new
                taken.add(new)
    changes = [
        Change("moved", new, came[new].digest, old_path=old, old_digest=gone[old].digest)
        for old, new in pairs.items()
    ]
    changes += [Change("created", path, one.digest) for path, one in came.items() if path not in taken]
    changes += [
        Change("deleted", path, None, old_digest=one.digest)
        for path, one in gone.items()
        if path not in pairs
    ]
    return changes
