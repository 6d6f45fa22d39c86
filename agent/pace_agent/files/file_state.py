"""What the agent knows of files: what they held when it last read or wrote them.

An edit is made on what was read. If somebody else changed the file since, the edit would undo their work: so
each write first compares the content on the disk, by its hash, with the one that is known.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pace_agent.errors import RefusedError, StaleError, ToolError
from pace_agent.files.atomic_write import check_writable, real_path, write_atomically
from pace_agent.safety.paths import Place, Territory
from pace_local.errors import FileError
from pace_local.files import MAX_FILE_BYTES, SourceText, decode_text
from pace_local.sessions.log_file import sync_folder

_KEPT_WRITES = 16
"""Own writes of one file that a watcher may not have seen yet."""


@dataclass(frozen=True)
class Written:
    """How a write ended."""

    path: Path
    """Of the file itself, symbolic links followed."""
    is_changed: bool
    """Whether anything was written: False if the file had that content already."""
    hash: str
    """Of the content that the file has now."""


def content_hash(data: bytes) -> str:
    """What contents are told apart by: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_on_disk(path: Path) -> str | None:
    """The hash of a file's content now; None if there is no file.

    Raises:
        ToolError: if it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    return digest.hexdigest()


class KnownFiles:
    """Files as the agent knows them. Safe to use from several threads.

    Paths may be relative to the working folder and may be or hold symbolic links: a file is known by where it
    really is. It is reached from there on as :mod:`pace_agent.safety.paths` says, never through a link.

    Args:
        territory: where files may be read and written.
        max_bytes: the largest file that is read.
    """

    def __init__(self, territory: Territory, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._territory = territory
        self._max_bytes = max_bytes
        self._known: dict[Path, str | None] = {}
        self._own: dict[Path, deque[str | None]] = {}
        self._lock = threading.RLock()

    def read(self, path: str | os.PathLike[str]) -> SourceText:
        """Read a text file and remember what it holds.

        Raises:
            ToolError: if it is no text file that can be read.
            RefusedError: if it is outside, or protected by its name or its beginning.
        """
        real = real_path(path)
        data = self._territory.read(self._territory.at(real), self._max_bytes)
        try:
            source = decode_text(path, data)
        except FileError as error:
            raise ToolError(str(error)) from error
        with self._lock:
            self._known[real] = content_hash(data)
        return source

    def known_hash(self, path: str | os.PathLike[str]) -> str | None:
        """Hash of the content as last read or written; None if it is not known, or known not to be there."""
        with self._lock:
            return self._known.get(real_path(path))

    def remember(self, path: str | os.PathLike[str], known: str) -> None:
        """Know a file as an earlier process knew it.

        Args:
            path: of the file.
            known: hash of the content that it had.
        """
        with self._lock:
            self._known.setdefault(real_path(path), known)

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Know nothing of a file any more: it must be read before it is edited."""
        with self._lock:
            self._known.pop(real_path(path), None)

    def check_fresh(self, path: str | os.PathLike[str]) -> None:
        """Make sure that a file is as it was when it was last read or written; one that is new may be made.

        Raises:
            StaleError: it has changed, gone or appeared since, or was never read.
            ToolError: it cannot be read.
            RefusedError: it is outside.
        """
        real = self._territory.at(real_path(path)).path
        with self._lock:
            is_known, expected = real in self._known, self._known.get(real)
        self._check(os.fspath(path), real, is_known, expected)

    def _check(self, shown: str, real: Path, is_known: bool, expected: str | None) -> None:
        found = None if real.is_dir() else hash_on_disk(real)
        if found == expected:
            return
        if not is_known:
            raise StaleError(f"{shown!r} is there and has not been read; read it before it is changed")
        if found is None:
            raise StaleError(f"{shown!r} has been deleted since it was read; ask whether it should come back")
        if expected is None:
            raise StaleError(f"{shown!r} has been made by somebody else meanwhile; read it first")
        raise StaleError(f"{shown!r} has been changed since it was read; read it again, then make the edit")

    def write(
        self, path: str | os.PathLike[str], content: SourceText | bytes, *, mode: int | None = None
    ) -> Written:
        """Give a file new content, if it is as the agent knows it; folders on the way to it are made.

        Whether it is fresh is looked at before, and again at the last moment. A symbolic link stays one; what
        it leads to is written. See :func:`~pace_agent.files.atomic_write.write_atomically` for what is kept.

        Args:
            path: of the file.
            content: the whole content.
            mode: permissions that it gets; None: those that it has.

        Raises:
            StaleError: as :meth:`check_fresh`; nothing is written then.
            ToolError: if it is read-only or cannot be written.
            RefusedError: if it is outside, or a link has come in its way.
        """
        self.check_fresh(path)
        real = real_path(path)
        with self._lock:
            known = (real in self._known, self._known.get(real))
        return self._write(os.fspath(path), real, content, mode, known)

    def put(self, path: str | os.PathLike[str], content: bytes, *, mode: int | None = None) -> Written:
        """As :meth:`write`, whatever the file holds now and wherever it is: for an undo, which looked."""
        return self._write(os.fspath(path), real_path(path), content, mode, None)

    def _write(
        self,
        shown: str,
        real: Path,
        content: SourceText | bytes,
        mode: int | None,
        known: tuple[bool, str | None] | None,
    ) -> Written:
        data = content if isinstance(content, bytes) else content.to_bytes()
        new = content_hash(data)
        with self._lock:
            if real.is_file() and hash_on_disk(real) == new:
                self._known[real] = new
                return Written(real, False, new)
            check_writable(real)
            with self._held(real, make=True, is_undo=known is None) as held:

                def last_moment() -> None:
                    if known is not None:
                        self._check(shown, held, *known)
                    # A watcher may see the change before this method ends.
                    self._note_own(real, new)

                write_atomically(held, data, mode=mode, before=last_moment)
            self._known[real] = new
        return Written(real, True, new)

    def delete(self, path: str | os.PathLike[str]) -> None:
        """Delete a file that is as the agent knows it.

        Raises:
            StaleError, RefusedError: as :meth:`check_fresh`.
            ToolError: if it is not there, is read-only, or cannot be deleted.
        """
        self.check_fresh(path)
        self._take_away(path, is_undo=False)

    def take_away(self, path: str | os.PathLike[str]) -> None:
        """As :meth:`delete`, whatever the file holds now and wherever it is: for an undo, which looked."""
        self._take_away(path, is_undo=True)

    def _take_away(self, path: str | os.PathLike[str], *, is_undo: bool) -> None:
        real = real_path(path)
        with self._lock:
            if not os.path.lexists(real):
                raise ToolError(f"no such file: {os.fspath(path)!r}")
            check_writable(real)
            self._note_own(real, None)
            try:
                with self._held(real, make=False, is_undo=is_undo) as held:
                    held.unlink()
                    sync_folder(held.parent)
            except OSError as error:
                self._own[real].pop()
                raise ToolError(
                    f"cannot delete {os.fspath(path)!r}: {error.strerror or error}; it is still there"
                ) from error
            self._known[real] = None

    @contextlib.contextmanager
    def _held(self, real: Path, *, make: bool, is_undo: bool) -> Iterator[Path]:
        """A path to a file that no link can come in the way of.

        What is undone may be in a folder that was opened to the agent in an earlier process only.
        """
        place: Place | None = None
        try:
            place = self._territory.at(real)
        except RefusedError:
            if not is_undo:
                raise
        if place is None:
            if make:
                _make_folder(real.parent)
            yield real
            return
        with self._territory.held(place, make=make) as held:
            yield held

    def _note_own(self, real: Path, new: str | None) -> None:
        self._own.setdefault(real, deque(maxlen=_KEPT_WRITES)).append(new)

    def is_own_write(self, path: str | os.PathLike[str], found: str | None) -> bool:
        """Whether a change that a watcher saw was made here.

        Args:
            path: of the file.
            found: hash of the content that the watcher found; None: it found no file.

        Once a write has been seen, those before it are no longer taken for own: who brings an older content
        back afterwards is somebody else.
        """
        real = real_path(path)
        with self._lock:
            own = self._own.get(real)
            if own is None:
                return False
            if found not in own:
                while len(own) > 1:
                    own.popleft()
                return False
            # The latest write of that content: what was before it cannot be found any more.
            behind = list(own)[::-1].index(found)
            while len(own) > behind + 1:
                own.popleft()
            return True


def _make_folder(folder: Path) -> None:
    missing = []
    for one in (folder, *folder.parents):
        if one.exists():
            break
        missing.append(one)
    try:
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):
                one.mkdir()
    except OSError as error:
        raise ToolError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
