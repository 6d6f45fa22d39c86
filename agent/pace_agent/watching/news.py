"""What has changed in the repository since the last turn: for the model, for the screen, for the plan."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pace_agent.events import Author, Changed
from pace_agent.files.file_state import KnownFiles
from pace_agent.finding.search import text_of
from pace_agent.safety.paths import Territory
from pace_agent.watching.changes import Batch, Change, batch_of, diff_of, digest_of, merged
from pace_agent.watching.options import WatchOptions
from pace_agent.watching.staleness import Excerpts, note_of
from pace_agent.watching.watcher import Watcher
from pace_local.errors import PaceError

LARGEST_READ = 4 * 1024**2
"""Bytes of a file whose text is compared."""

_MOST_TEXT = 32 * 1024**2
"""Characters of files that are remembered."""

_SHOWN_DIFF = 4_000

_LATEST = 0.7
"""Seconds, beside the watcher's quiet time, in which it reports a change; then it is looked at without it."""

_CLOCK_STEP = 0.02
"""Seconds by which a file system's clock may be behind."""

_MOST_COMMANDS = 64
_LOOK_SECONDS = 0.02
_NOT_TOLD = ""


@dataclass(frozen=True)
class News:
    """What has changed."""

    note: str | None = None
    """For the model; None if there is nothing to be told."""

    changed: tuple[Changed, ...] = ()
    """One for each file that somebody else changed."""

    paths: tuple[str, ...] = ()
    """All files that are not as they were, own writes and old names included."""

    stale: tuple[str, ...] = ()
    """Segments that are stale now and were not before."""


class RepositoryWatch:
    """Watches a repository for one agent. Use it as a context manager; for one thread.

    Files that no watcher sees are compared as well, each time: those in other folders, and all that there are
    excerpts of where the repository is not watched.

    Args:
        root: the repository.
        files: as the agent knows them; tell own writes from others.
        excerpts: which segments hold which lines; brought up to date.
        options: how to watch.
        say: told what a user should know; may be called in another thread.
        watches: whether to watch at all.
        territory: where files may be read; None: the repository alone.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        files: KnownFiles,
        excerpts: Excerpts,
        *,
        options: WatchOptions | None = None,
        say: Callable[[str], None] | None = None,
        watches: bool = True,
        territory: Territory | None = None,
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self._files = files
        self._excerpts = excerpts
        self._options = options
        self._say = say or (lambda line: None)
        self._watches = watches
        self._territory = territory or Territory(self.root)
        self._watcher: Watcher | None = None
        self._texts: dict[str, str] = {}
        self._read_as: dict[str, str] = {}  # what was known of a file when its text was remembered
        self._seen: dict[str, str | None] = {}  # digests of files that no watcher sees
        self._compare_all = False
        self.told_elsewhere: frozenset[str] = frozenset()
        """Files that no note needs to speak of, because somebody else tells what they say now."""
        self._accounted: dict[str, str | None] = {}  # digests of held files as news had them last
        self._marks: dict[str, tuple[int, ...] | None] = {}  # what a file looked like when it was as known
        self._told: dict[str, str | None] = {}  # digests of changes told before the watcher's report
        self._ran: deque[tuple[float, float]] = deque(maxlen=_MOST_COMMANDS)

    def __enter__(self) -> RepositoryWatch:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start watching; changes from when it returns on are news."""
        if self._watches and self._watcher is None:
            self._watcher = Watcher(
                self.root,
                options=self._options,
                is_own_write=lambda path, digest: self._files.is_own_write(self.root / path, digest),
                say=self._say,
            )
            self._watcher.start()

    def stop(self) -> None:
        """Stop watching. Safe to call twice."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()

    def compare(self) -> None:
        """Have the next news compare all excerpts with their files: they were taken from a kept session."""
        self._compare_all = True
        self._accounted.clear()
        self._marks.clear()
        self._texts.clear()
        self._read_as.clear()

    def ran(self, began: float, ended: float) -> None:
        """A command ran: what was changed meanwhile, it has changed.

        Args:
            began: in seconds since 1970.
            ended: the same.
        """
        self._ran.append((began - _CLOCK_STEP, ended))

    def news(self, by: Author = "user") -> News:
        """What has changed since this was last asked. Excerpts are brought up to date.

        This waits for the watcher if it has not yet reported a change of a file that there are excerpts of,
        for at most about a second.

        Args:
            by: who is taken to have made changes that are neither own writes nor of a command.
        """
        batch, late = self._settled(self._pending())
        left = self._stale_since_left({change.path for change in batch.changes})
        more = [change for change in self._unwatched_changes(batch, late) if change.path not in left]
        for path in left:
            data = self._read(path)
            digest = None if data is None else digest_of(data)
            more.append(Change("deleted" if digest is None else "modified", path, digest))
        changes = batch_of([*batch.changes, *more]).changes
        before: dict[str, str | None] = {change.path: None for change in changes if change.kind == "created"}
        for path in {change.old_path or change.path for change in changes} & self._texts.keys():
            before[path] = self._texts.pop(path)
        after = {change.path: text for change in changes if (text := self._text(change)) is not None}
        self._excerpts.moved({one.old_path: one.path for one in changes if one.old_path is not None})
        stale = {
            one.path: left.get(one.path) or self._excerpts.changed(one.path, after.get(one.path))
            for one in changes
        }
        self._remember(after)
        authors = {one.path: self._author(one, by) for one in changes if not one.own}
        changed = tuple(
            Changed(one.path, authors[one.path], _diff(one, before, after), stale[one.path])
            for one in changes
            if not one.own
        )
        self._accounted.update({one.path: one.digest for one in batch_of([*batch.changes, *more]).changes})
        paths = dict.fromkeys(
            path for one in changes for path in (one.old_path, one.path) if path is not None
        )
        told = [one for one in changes if one.path not in self.told_elsewhere]
        note = _note(Batch(tuple(told), batch.head), before, after, authors)
        return News(
            note, changed, tuple(paths), tuple(segment for found in stale.values() for segment in found)
        )

    def _settled(self, batch: Batch) -> tuple[Batch, frozenset[str]]:
        """With what the watcher was about to report of held files; and those that it does not report."""
        wait = (self._options or WatchOptions()).quiet + _LATEST
        deadline = time.monotonic() + wait
        while self._watcher is not None:
            reported: dict[str, str | None] = {one.old_path: None for one in batch.changes if one.old_path}
            reported |= {one.path: one.digest for one in batch.changes}
            late = frozenset(path for path in self._excerpts.paths if self._differs(path, reported))
            if not late or self._watcher.polls or time.monotonic() > deadline:
                return batch, late
            time.sleep(_LOOK_SECONDS)
            more = self._pending()
            if more.changes or more.head is not None:
                batch = merged([batch, more])
        return batch, frozenset()

    def _differs(self, path: str, reported: Mapping[str, str | None]) -> bool:
        """Whether a file in the repository that there are excerpts of is neither as known nor as reported."""
        if os.path.isabs(path) or self._compare_all:  # looked at anyway
            return False
        whole = self.root / path
        mark = _mark(whole)
        if path in self._marks and self._marks[path] == mark:
            return False
        data = None if mark is None else self._read(path)
        digest = None if data is None else digest_of(data)
        if path in reported and reported[path] == digest:
            return False
        known = self._files.known_hash(whole)
        is_new = known is None and path not in self._accounted
        if is_new or digest in (known, self._accounted.get(path, known)) or (mark and data is None):
            self._accounted.setdefault(path, digest)
            self._marks[path] = mark
            return False
        return True

    def _author(self, change: Change, by: Author) -> Author:
        """Who made a change: a command, if one was running at that time."""
        if not self._ran:
            return by
        moment = _changed_at(self.root / change.path)
        return "shell" if any(began <= moment <= ended for began, ended in self._ran) else by

    def _pending(self) -> Batch:
        """All batches that wait, as one, without what was told before."""
        if self._watcher is None:
            return batch_of([])
        try:
            batch = self._watcher.pending() or batch_of([])
            told = {one.path: self._told.pop(one.path, _NOT_TOLD) for one in batch.changes}
            return batch_of([one for one in batch.changes if told[one.path] != one.digest], batch.head)
        except Exception as error:  # whatever ended the watcher: the agent can work without
            self.stop()
            self._say(f"the repository is no longer watched: {error}; files are compared before each turn")
            return batch_of([])

    def _stale_since_left(self, known: Set[str]) -> dict[str, tuple[str, ...]]:
        """Files that a kept session has excerpts of which no longer stand there, with their segments."""
        if not self._compare_all:
            return {}
        self._compare_all = False
        found = {}
        for path in self._excerpts.paths:
            if path not in known and self._territory.contains(str(self.root / path)):
                data = self._read(path)
                stale = self._excerpts.changed(path, None if data is None else text_of(data))
                if stale:
                    found[path] = stale
        return found

    def _unwatched_changes(self, batch: Batch, late: Set[str]) -> list[Change]:
        """Changes of files that there are excerpts of and no watcher sees, or reports in time."""
        changes: list[Change] = []
        for path in self._excerpts.paths:
            whole = self.root / path
            is_watched = self._watcher is not None and not os.path.isabs(path) and path not in late
            if is_watched or not self._territory.contains(str(whole)):
                continue
            data = self._read(path)
            digest = None if data is None else digest_of(data)
            was = self._seen.get(path, self._files.known_hash(whole) or digest)
            if path in late:
                was = self._accounted.get(path, was)
            else:
                self._seen[path] = digest
            if was != digest and all(path != change.path for change in batch.changes):
                if path in late:
                    self._told[path] = digest  # not again when the watcher reports it
                own = self._files.is_own_write(whole, digest)
                changes.append(
                    Change("deleted" if digest is None else "modified", path, digest, None, was, own)
                )
        return changes

    def _remember(self, after: Mapping[str, str]) -> None:
        """Keep the texts of files that there are excerpts of: those that are new, or that the agent read."""
        paths = self._excerpts.paths
        for path in self._read_as.keys() - set(paths):
            del self._read_as[path]
        self._texts = {path: text for path, text in self._texts.items() if path in paths}
        for path in paths:
            known = self._files.known_hash(self.root / path)
            if path in after:
                self._texts[path] = after[path]
            elif known is not None and self._read_as.get(path) != known:
                data = self._read(path)
                if data is not None and digest_of(data) == known and (text := text_of(data)) is not None:
                    self._texts[path] = text
            if known is not None:
                self._read_as[path] = known
        total = sum(map(len, self._texts.values()))
        while total > _MOST_TEXT:
            total -= len(self._texts.pop(next(iter(self._texts))))

    def _text(self, change: Change) -> str | None:
        """A file's text now; None if it is gone, or none that may be read."""
        data = None if change.kind == "deleted" else self._read(change.path)
        return None if data is None else text_of(data)

    def _read(self, path: str) -> bytes | None:
        """A file's content; None if it is gone, large, protected, or no file of the repository."""
        whole = self.root / path
        try:
            place = self._territory.find(str(whole))
            return None if whole.is_symlink() else self._territory.read(place, LARGEST_READ)
        except (PaceError, OSError):
            return None


def _note(
    batch: Batch,
    before: Mapping[str, str | None],
    after: Mapping[str, str],
    authors: Mapping[str, Author],
) -> str | None:
    """What the model is told: of commands' changes and of others', or in one line what is checked out."""

    def by(chosen: Sequence[Author]) -> Batch:
        return batch_of([one for one in batch.by_user if authors[one.path] in chosen])

    if batch.head is not None:
        return note_of(batch, before, after)
    notes = [
        note_of(by(("user", "agent")), before, after),
        note_of(by(("shell",)), before, after, whose="by a command that you ran"),
    ]
    return "\n".join(note for note in notes if note is not None) or None


def _mark(path: Path) -> tuple[int, ...] | None:
    """What shows that a file was changed; None if it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _changed_at(path: Path) -> float:
    """When a file was changed, or deleted, in seconds since 1970."""
    try:
        return os.lstat(path).st_ctime
    except OSError:
        folder = next(each for each in path.parents if each.is_dir())
        return folder.stat().st_mtime


def _diff(change: Change, before: Mapping[str, str | None], after: Mapping[str, str]) -> str:
    old = change.old_path or change.path
    if change.kind == "deleted" or old not in before or change.path not in after:
        return str(change)
    return diff_of(change.path, before[old], after[change.path], _SHOWN_DIFF)
