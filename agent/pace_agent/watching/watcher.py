"""Watches a repository: batches of changes, by whoever made them, as they happen."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from watchdog.observers.api import BaseObserver

from pace_agent.repository.git_state import Head, git_folder, top_of
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.snapshot import Snapshot
from pace_agent.watching.batches import Batches
from pace_agent.watching.changes import Batch, Change, batch_of
from pace_agent.watching.hints import LONGEST_BUSY, Hints, Noted
from pace_agent.watching.options import WatchOptions
from pace_agent.watching.polling import Polling
from pace_agent.watching.roots import count_folders, plan_roots
from pace_agent.watching.system_events import TAKES_WHOLE_TREES, Events, NoWatchesError, make_observer
from pace_local.errors import FileError

_BURST = 200
"""Events in one batch from which on everything is compared: a queue that ran full is not reported."""
_LOOK_SECONDS = 0.5
"""How often the watcher makes sure that its watches, and the repository, are still there."""


class Watcher:
    """Watches the files of a repository that are not ignored. Use it as a context manager.

    Batches are found in a thread of its own and wait to be taken, from any thread. A change is found by its
    content, so that reading, touching or saving what was there already is none. A batch may have no changes,
    where another branch or commit with the same files was checked out.

    Args:
        root: the repository, or a folder in it.
        options: how to watch.
        is_own_write: whether a file with a content (:func:`pace_agent.watching.changes.digest_of`; None:
            deleted) was written by us; called in the watcher's thread, with the path relative to the root.
        say: told what a user should know, once each; called in the watcher's thread.
        make: makes watchdog's observer.

    Raises:
        FileError: if the root is no folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        options: WatchOptions | None = None,
        is_own_write: Callable[[str, str | None], bool] | None = None,
        say: Callable[[str], None] | None = None,
        make: Callable[[], BaseObserver] = make_observer,
    ) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise FileError(f"cannot watch {os.fspath(root)!r}: no such folder; name one that exists")
        self._options = options or WatchOptions()
        self._is_own = is_own_write or (lambda path, digest: False)
        self._say = say or (lambda line: None)
        self._said: set[str] = set()
        self._hints = Hints()
        self._make = make
        self._identity = self._root_identity()
        self._polling: Polling | None = None
        self._busy_since: float | None = None  # of polling: when git was first found at work without a pause
        self._head: Head | None = None
        self._find_git()
        self._snapshot = Snapshot(Ignoring(self.root), self._options.most_files)
        self._weights: dict[str, int] = {}
        self._batches = Batches()
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watcher:
        """Start, and wait until changes are seen."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self, *, wait: bool = True) -> None:
        """Start watching; with ``wait``, what changes from when it returns on is seen."""
        assert self._thread is None, "a watcher is started once"
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        if wait:
            self._ready.wait()

    def stop(self) -> None:
        """Stop watching, and end all threads. Batches not yet taken can still be. Safe to call twice."""
        self._stopping.set()
        self._hints.stop()
        if self._thread is None:
            self._batches.end()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def polls(self) -> bool:
        """Whether it scans again and again instead of relying on events."""
        return self._polling is not None

    def next_batch(self, timeout: float | None = None) -> Batch | None:
        """Wait for changes and take one batch; None after ``timeout`` seconds, or when it was stopped.

        Raises:
            Whatever ended the watcher's thread, if something did, once.
        """
        return self._batches.next(timeout)

    def pending(self) -> Batch | None:
        """Take all changes that wait, as one batch, without waiting; None if there are none.

        Raises:
            Whatever ended the watcher's thread, if something did, once.
        """
        return self._batches.all_at_once()

    def __iter__(self) -> Iterator[Batch]:
        """Give batches until it is stopped."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._snapshot.fill()
            self._say_notes()
            self._watch_anew()
            self._ready.set()
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:  # to be raised where batches are taken
            failure = error
        finally:
            self._events.stop()
            self._batches.end(failure)
            self._ready.set()

    def _turn(self) -> None:
        """Wait for something to happen, and report it."""
        wait = _LOOK_SECONDS
        if self._polling is not None and self._identity is not None:
            wait = min(wait, self._polling.wait_seconds())
        noted = self._hints.take(wait, self._options.quiet, self._options.longest, self._is_busy)
        if self._stopping.is_set():
            return
        if self._root_identity() != self._identity:
            self._follow_root()
        elif self._identity is None:
            return
        elif self._polling is not None:
            if self._polling.wait_seconds() > 0:
                return
            if self._waits_for_git():
                self._polling.put_off(_LOOK_SECONDS)
            else:
                self._scan(Ignoring(self.root))
        else:
            if not self._events.is_whole:
                self._watch_anew()
            if noted is not None:
                self._follow(noted)

    def _follow(self, noted: Noted) -> None:
        """Report what events hinted at."""
        burst = noted.everything or noted.events >= _BURST
        if noted.rules:
            self._events.reread()
            self._scan(Ignoring(self.root))
        elif burst:
            self._scan()
        else:
            self._give(self._snapshot.look(noted.files, noted.folders, noted.moves))
        for tree in noted.ignored:
            self._weights.pop(tree, None)
            self._snapshot.ignored.add(tree)
        if self._polling is None and (burst or noted.rules or noted.folders or noted.ignored):
            self._watch_planned()

    def _watch_planned(self) -> None:
        """Have the folders that are known now watched."""
        try:
            added = self._events.watch(self._plan())
        except NoWatchesError as error:
            self._fall_back(error)
            return
        if added:  # what happened in a folder before it was watched is not known
            self._scan()

    def _watch_anew(self) -> None:
        """Start watching, or looking at everything again and again, and report what changed until now."""
        if self._options.poll:
            self._polling = self._polling or Polling(self._options.poll_seconds)
        elif self._polling is None:
            self._events.stop()
            try:
                self._events.start()
            except NoWatchesError as error:
                self._fall_back(error)
            else:
                self._watch_planned()
                return
        self._scan()

    def _fall_back(self, error: NoWatchesError) -> None:
        self._events.stop()
        self._polling = Polling(self._options.poll_seconds)
        self._say_once(f"{error}: looking for changes every {self._options.poll_seconds:g} s instead")
        self._scan()

    def _plan(self) -> Mapping[str, bool]:
        """Which folders to watch."""
        if TAKES_WHOLE_TREES:
            return {"": True}
        plan = dict(plan_roots(self._snapshot.folders, self._snapshot.ignored, self._weigh))
        if self._git is not None and (not plan[""] or self._git.own != self.root / ".git"):
            plan[os.fspath(self._git.own)] = False
        return plan

    def _weigh(self, folder: str) -> int:
        if folder not in self._weights:
            self._weights[folder] = count_folders(self.root / folder)
        return self._weights[folder]

    def _scan(self, ignoring: Ignoring | None = None) -> None:
        """Compare everything, by new rules if given, and report it."""
        if ignoring is None:
            changes = self._timed(self._snapshot.scan)
        else:
            changes = self._timed(lambda: self._snapshot.follow_rules(ignoring))
        self._give(changes)
        self._say_notes()

    def _timed(self, scan: Callable[[], list[Change]]) -> list[Change]:
        start = time.monotonic()
        changes = scan()
        if self._polling is not None:
            self._polling.scanned(time.monotonic() - start)
        return changes

    def _give(self, changes: list[Change]) -> None:
        """Put changes into a batch, with what is checked out if that is new."""
        head = self._git.head() if self._git else None
        news = head if head != self._head else None
        if head is not None:  # else it is being written just now
            self._head = head
        if changes or news:
            marked = [replace(one, own=self._is_own(one.path, one.digest)) for one in changes]
            self._batches.put(batch_of(marked, news))

    def _follow_root(self) -> None:
        """The repository itself was deleted, moved away or made anew."""
        self._identity = self._root_identity()
        self._events.stop()
        self._snapshot.ignoring = Ignoring(self.root)
        if self._identity is None:
            self._say_once(f"{self.root} is gone: watching goes on when it is back")
            self._give(self._snapshot.scan())
            return
        self._find_git()
        self._weights.clear()
        self._watch_anew()

    def _find_git(self) -> None:
        top = top_of(self.root)
        self._git = git_folder(top) if top else None
        self._head = self._git.head() if self._git else None
        self._events = Events(self.root, self._hints, self._git.own if self._git else None, self._make)

    def _root_identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.root)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _is_busy(self) -> bool:
        return self._git is not None and self._git.is_busy(LONGEST_BUSY)

    def _waits_for_git(self) -> bool:
        """Whether a command changes the checkout, and may still end soon; else its lock was left behind.

        Where the file system's clock is ahead of this machine's, the lock's age does not tell.
        """
        if not self._is_busy():
            self._busy_since = None
            return False
        if self._busy_since is None:
            self._busy_since = time.monotonic()
        return time.monotonic() - self._busy_since < LONGEST_BUSY

    def _say_notes(self) -> None:
        for note in self._snapshot.notes:
            self._say_once(note)

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)
