"""Every change to a file, with the content before, so that it can be taken back.

::

    FOLDER/
        changes.jsonl   one line a change (or more that belong together), or an undo
        changes.lock    held by the process that has the journal
        blobs/          contents before, by hash

The content before is on the device first, then the line, then the change itself is made. Killed in between,
the line tells of a change that was not made: what the file holds shows that, and an undo then has nothing to
do there.

What a command makes of a file that the agent has changed is known only when it is made: its line comes after.
Killed in between, an undo refuses the file, as one that somebody else has changed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_agent.errors import StaleError, ToolError
from pace_agent.files.atomic_write import check_writable, real_path
from pace_agent.files.file_state import KnownFiles, Written, content_hash, hash_on_disk
from pace_agent.sessions.blobs import Blobs
from pace_agent.sessions.journal_entries import Change, Entry, State, is_ours
from pace_local.errors import StorageError
from pace_local.files import SourceText
from pace_local.line_file import LineFile

_LINES = "changes.jsonl"


@dataclass(frozen=True)
class Undone:
    """What an undo did."""

    restored: tuple[Path, ...]
    """Files that have an earlier content again, or are there again."""
    removed: tuple[Path, ...]
    """Files that were made since, and are gone."""


class Journal:
    """The journal of one session. Use it as a context manager; one process at a time may have it.

    Args:
        folder: made, for its user alone, if it is not there.
        files: through which changes are made.

    Raises:
        FileError: on entering, if the folder holds something else under the journal's name.
        StorageError: on entering, if it cannot be written, or another process has it.
    """

    def __init__(self, folder: Path, files: KnownFiles) -> None:
        self.folder = folder
        self.files = files
        self._blobs = Blobs(folder / "blobs")
        self._entries: list[Entry] = []
        self._is_closed = True
        self._lines = LineFile(folder / _LINES, "change of a file", self._take)

    def __enter__(self) -> Journal:
        """Read what is there; half a line at the end, of a process that was killed, is cut off."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Made here, so that it is private from the first moment on.
            os.close(os.open(self._lines.path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise StorageError(f"cannot write {self.folder}: {error.strerror or error}") from error
        self._entries.clear()
        self._lines.__enter__()
        self._is_closed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._is_closed = True
        self._lines.close()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was journalled and not undone, oldest first."""
        return tuple(self._entries)

    def changed(self, since: int = 0) -> tuple[Path, ...]:
        """Files that were changed in a turn or later, in the order of their first change."""
        return tuple(
            dict.fromkeys(
                change.path for entry in self._entries if entry.turn >= since for change in entry.changes
            )
        )

    def write(
        self,
        turn: int,
        path: str | os.PathLike[str],
        content: SourceText | bytes,
        *,
        mode: int | None = None,
    ) -> Written:
        """Journal a write and make it, as :meth:`KnownFiles.write`; what changes nothing leaves no entry.

        Raises:
            StaleError, ToolError, RefusedError: as that; then nothing is changed.
            StorageError: if the content before cannot be kept; then nothing is changed.
        """
        data = content if isinstance(content, bytes) else content.to_bytes()
        self.files.check_fresh(path)
        real = real_path(path)
        new = content_hash(data)
        if not real.is_file() or hash_on_disk(real) != new:
            check_writable(real)
            self.record(turn, {real: new})
        return self.files.write(path, data, mode=mode)

    def delete(self, turn: int, path: str | os.PathLike[str]) -> None:
        """Journal a deletion and make it, as :meth:`KnownFiles.delete`.

        Raises:
            StaleError, ToolError, StorageError: as :meth:`write`.
        """
        self.files.check_fresh(path)
        real = _existing(path)
        self.record(turn, {real: None})
        self.files.delete(path)

    def rename(self, turn: int, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Journal a renaming and make it: the file appears under its new name, then is gone from the old.

        Raises:
            StaleError, ToolError, StorageError: as :meth:`write`; also if there is a file at the new path.
        """
        self.files.check_fresh(old)
        source, target = _existing(old), real_path(new)
        if os.path.lexists(target):
            raise ToolError(
                f"there is a file {os.fspath(new)!r} already; choose another name, or delete it first"
            )
        check_writable(target)
        status = source.stat()
        data = _read(source)
        self.record(turn, {target: content_hash(data), source: None})
        self.files.write(target, data, mode=stat.S_IMODE(status.st_mode))
        self.files.delete(source)

    def record(self, turn: int, after: Mapping[Path, str | None]) -> Entry:
        """Journal changes that will be made next; when this returns, they can be undone.

        Args:
            turn: of the session, counted from 0.
            after: path of each file (symbolic links followed) -> hash of its content after the change; None:
                it will be deleted.

        Raises:
            ToolError: if the content before cannot be read.
            StorageError: if it cannot be kept.
        """
        folders = sorted({folder for path in after if after[path] is not None for folder in _missing(path)})
        changes = tuple(Change(path, self._keep(path), new) for path, new in after.items())
        entry = Entry(turn, changes, tuple(folders))
        self._append(entry)
        return entry

    def before_command(self) -> dict[Path, State | None]:
        """What changed files hold, for :meth:`after_command`; without those that somebody else changed since.

        These files alone are read, however large the repository is.
        """
        found: dict[Path, State | None] = {}
        for path, entry in self._last().items():
            with contextlib.suppress(ToolError):  # something else has taken its place
                now = _look(path)
                if is_ours(path, now, [entry]):
                    found[path] = now
        return found

    def after_command(self, before: Mapping[Path, State | None]) -> None:
        """Journal what a command of the agent's has made of changed files, so that an undo goes through it.

        It goes with the change before it, in that one's turn: taking back a later turn leaves it, taking back
        that turn takes it back too, to a content that is kept already. So none is kept here.

        If the user saved one of these files while the command ran, that cannot be told from the command's
        work, and counts as it, as for the watcher; what an undo takes back is kept among the contents. A
        change that cannot be journalled is left out, and an undo will refuse the file.

        Args:
            before: of :meth:`before_command`.
        """
        last = self._last()
        for path, state in before.items():
            with contextlib.suppress(ToolError, StorageError):
                now = _look(path)
                if not _is_same(state, now):
                    change = Change(path, state, None if now is None else now.hash)
                    self._append(Entry(last[path].turn, (change,), ()))

    def undo(self, to: int) -> Undone:
        """Give all files that were changed in turn ``to`` or later the content from before that turn.

        All or nothing: every file is looked at before the first is changed; if one cannot be written, those
        before it get back what they held. An undo that was killed half-way is finished by asking again.

        Raises:
            StaleError: somebody else changed some of the files meanwhile; it names them.
            ToolError: a file cannot be written.
            StorageError: a content from before cannot be read.
        """
        entries = [entry for entry in self._entries if entry.turn >= to]
        targets: dict[Path, State | None] = {}
        for entry in entries:
            for change in entry.changes:
                targets.setdefault(change.path, change.before)
        now = {path: self._keep(path) for path in targets if not _is_other(path)}
        stale = [path for path in targets if path not in now or not is_ours(path, now[path], entries)]
        if stale:
            names = ", ".join(repr(str(path)) for path in stale)
            whom = "it" if len(stale) == 1 else "them"
            raise StaleError(
                f"changed by somebody else since the agent changed {whom}: {names}; nothing was undone"
            )
        todo = {path: target for path, target in targets.items() if not _is_same(now[path], target)}
        contents = {target.hash: self._blobs.read(target.hash) for target in todo.values() if target}
        for path in todo:
            check_writable(path)
        self._restore(todo, now, contents)
        self._add({"kind": "undo", "to": to})
        self._forget(to)
        for folder in sorted({one for entry in entries for one in entry.folders}, reverse=True):
            with contextlib.suppress(OSError):  # gone already, or somebody put something into it
                folder.rmdir()
        return Undone(
            tuple(path for path, target in todo.items() if target is not None),
            tuple(path for path, target in todo.items() if target is None),
        )

    def _restore(
        self,
        todo: Mapping[Path, State | None],
        now: Mapping[Path, State | None],
        contents: Mapping[str, bytes],
    ) -> None:
        done: list[Path] = []
        try:
            for path, target in todo.items():
                done.append(path)
                self._set(path, now[path], target, contents)
        except BaseException:
            for path in reversed(done):
                before = now[path]
                with contextlib.suppress(ToolError, StorageError):
                    held = {before.hash: self._blobs.read(before.hash)} if before else {}
                    self._set(path, todo[path], before, held)
            raise

    def _set(
        self, path: Path, now: State | None, target: State | None, contents: Mapping[str, bytes]
    ) -> None:
        if target is not None:
            self.files.put(path, contents[target.hash], mode=target.mode if now is None else None)
        elif os.path.lexists(path):
            self.files.take_away(path)

    def _keep(self, path: Path) -> State | None:
        """What a file holds now, its content kept."""
        mode = _mode(path)
        return None if mode is None else State(self._blobs.keep(_read(path)), mode)

    def _last(self) -> dict[Path, Entry]:
        """The last entry of each changed file."""
        return {change.path: entry for entry in self._entries for change in entry.changes}

    def _append(self, entry: Entry) -> None:
        self._add(entry.line())
        self._entries.append(entry)

    def _add(self, line: Mapping[str, Any]) -> None:
        if self._is_closed:
            raise StorageError(f"the journal {self._lines.path} is closed; open the session again")
        try:
            self._lines.add(line, sync=True)
        except StorageError:
            self._is_closed = True  # by the file: what it ends in is not known
            raise

    def _take(self, line: Mapping[str, Any]) -> None:
        """Take a line of an earlier process."""
        if line["kind"] == "undo":
            self._forget(int(line["to"]))
            return
        if line["kind"] != "change":
            raise ValueError(line["kind"])
        self._entries.append(Entry.from_line(line))

    def _forget(self, to: int) -> None:
        self._entries[:] = [entry for entry in self._entries if entry.turn < to]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _mode(path: Path) -> int | None:
    """Permissions of a file; None: there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{str(path)!r} is no regular file; only those can be changed")
    return stat.S_IMODE(status.st_mode)


def _look(path: Path) -> State | None:
    """What a file holds now."""
    mode = _mode(path)
    digest = None if mode is None else hash_on_disk(path)
    return None if mode is None or digest is None else State(digest, mode)


def _existing(path: str | os.PathLike[str]) -> Path:
    real = real_path(path)
    if not os.path.lexists(real):
        raise ToolError(f"no such file: {os.fspath(path)!r}")
    check_writable(real)
    return real


def _missing(path: Path) -> list[Path]:
    """Folders on the way to a file that are not there."""
    return [folder for folder in path.parents if not folder.exists()]


def _is_other(path: Path) -> bool:
    """Whether something that is no file has taken a file's place, or a link leads elsewhere on the way."""
    return Path(os.path.realpath(path)) != path or (os.path.lexists(path) and not path.is_file())


def _is_same(now: State | None, target: State | None) -> bool:
    return (now and now.hash) == (target and target.hash)
