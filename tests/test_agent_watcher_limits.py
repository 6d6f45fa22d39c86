from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from git_repositories import commit_all, git, repository, write
from test_agent_watcher import EVENTS, watching
from watchdog.observers.api import BaseObserver, ObservedWatch

from pace_agent.repository.git_state import GitFolder
from pace_agent.watching.hints import Hints
from pace_agent.watching.options import WatchOptions
from pace_agent.watching.polling import Polling, reason_to_poll
from pace_agent.watching.roots import MOST_ROOTS, WORTH, count_folders, plan_roots
from pace_agent.watching.system_events import TAKES_WHOLE_TREES, make_observer

FAST = WatchOptions(quiet=0.2, poll_seconds=0.1)


def refusing(number: int, after: int) -> Callable[[], BaseObserver]:
    """Makes real observers which refuse every watch after so many, as the system does at its limit."""

    def make() -> BaseObserver:
        observer = make_observer()
        real = observer.schedule
        left = after

        def schedule(*arguments: Any, **named: Any) -> ObservedWatch:
            nonlocal left
            if left <= 0:
                raise OSError(number, os.strerror(number))
            left -= 1
            return real(*arguments, **named)

        observer.schedule = schedule  # type: ignore[method-assign]
        return observer

    return make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = repository(tmp_path / "repository")
    write(made / ".gitignore", "/build/\nnode_modules/\n")
    write(made / "a.py", "a = 1\n")
    write(made / "src/b.py", "b = 1\n")
    return made


class TestBusy:
    """Scanning while git may be at work on the checkout."""

    POLLING = WatchOptions(quiet=0.2, poll=True, poll_seconds=0.1)

    def test_it_waits_for_git_and_takes_no_time_for_that(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks = 0
        is_busy = GitFolder.is_busy

        def counting(git: GitFolder, longest: float) -> bool:
            nonlocal looks
            looks += 1
            return is_busy(git, longest)

        with watching(root, self.POLLING) as seen:
            lock = write(root / ".git" / "index.lock")
            write(root / "a.py", "a = 2\n")
            monkeypatch.setattr(GitFolder, "is_busy", counting)
            assert seen.watcher.next_batch(1.5) is None
            assert looks < 50  # two a second; without a pause there are thousands
            lock.unlink()
            batch = seen.watcher.next_batch(10)
            assert batch is not None
            assert [change.path for change in batch.changes] == ["a.py"]

    def test_a_lock_that_was_left_behind_is_not_waited_for(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pace_agent.watching.watcher.LONGEST_BUSY", 1.0)
        write(root / ".git" / "index.lock")
        with watching(root, self.POLLING) as seen:
            for number in (2, 3):
                write(root / "a.py", f"a = {number}\n")
                batch = seen.watcher.next_batch(10)
                assert batch is not None
                assert [change.path for change in batch.changes] == ["a.py"]

    def test_an_old_lock_delays_no_event(self, root: Path) -> None:
        lock = write(root / ".git" / "index.lock")
        old = time.time() - 3_600
        os.utime(lock, (old, old))
        with watching(root, FAST) as seen:
            for number in (2, 3):
                write(root / "a.py", f"a = {number}\n")
                batch = seen.watcher.next_batch(20)  # a command at work is waited for half a minute
                assert batch is not None
                assert [change.path for change in batch.changes] == ["a.py"]


class TestLimit:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
    def test_polling_takes_over_and_says_so_once(self, root: Path, number: int) -> None:
        said: list[str] = []
        with watching(root, FAST, say=said.append, make=refusing(number, 0)) as seen:
            assert seen.watcher.polls
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")
            write(root / "src/new/c.py")
            seen.until("created src/new/c.py")
        assert len(said) == 1
        assert said[0].endswith("looking for changes every 0.1 s instead")

    @pytest.mark.skipif(TAKES_WHOLE_TREES, reason="the limit is inotify's")
    def test_a_limit_below_the_root_is_noticed(self, root: Path) -> None:
        """Watchdog 7 leaves folders out without a word: one watch more is tried after all others."""
        said: list[str] = []
        with watching(root, FAST, say=said.append, make=refusing(errno.ENOSPC, 1)) as seen:
            assert seen.watcher.polls
            assert "max_user_watches" in said[0]
            write(root / "src/b.py", "b = 2\n")
            seen.until("modified src/b.py")

    @pytest.mark.skipif(TAKES_WHOLE_TREES, reason="the limit is inotify's")
    def test_reached_while_watching(self, root: Path) -> None:
        """The limit comes with a folder that needs a watch of its own."""
        for number in range(WORTH + 1):
            (root / f"build/d{number}").mkdir(parents=True)
        said: list[str] = []
        # ``""``, ``src``, ``.git`` and the one that is tried.
        with watching(root, FAST, say=said.append, make=refusing(errno.ENOSPC, 4)) as seen:
            assert not seen.watcher.polls
            write(root / "new/c.py")
            seen.until("created new/c.py")
            write(root / "new/c.py", "c = 2\n")
            seen.until("modified new/c.py")
            assert seen.watcher.polls
        assert len(said) == 1

    def test_a_folder_that_cannot_be_watched_is_no_limit(self) -> None:
        for number in (errno.ENOENT, errno.EACCES, errno.ENOTDIR):
            assert reason_to_poll(OSError(number, "x")) is None

    def test_too_many_files_are_said(self, root: Path) -> None:
        said: list[str] = []
        with watching(root, WatchOptions(quiet=0.2, most_files=2), say=said.append) as seen:
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")
        assert said == ["more than 2 files: the rest was not looked at; name a folder"]

    def test_scans_take_a_small_part_of_the_time(self) -> None:
        polling = Polling(0.1)
        polling.scanned(2.0)
        assert 30 < polling.wait_seconds() <= 40
        polling.scanned(0.001)
        assert polling.wait_seconds() <= 0.1


class TestLostEvents:
    def test_a_complaint_of_watchdog_leads_to_a_scan(self, root: Path) -> None:
        """A full queue is not reported otherwise. Events are lost here by an observer that delivers none."""

        def deaf() -> BaseObserver:
            observer = make_observer()
            observer.dispatch_events = lambda queue: queue.get()  # type: ignore[method-assign, assignment]
            return observer

        with watching(root, FAST, make=deaf) as seen:
            write(root / "a.py", "a = 2\n")
            write(root / "src/deep/c.py")
            assert seen.watcher.next_batch(1.0) is None
            logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed")
            seen.until("modified a.py", "created src/deep/c.py")

    def test_watchdogs_log_does_not_reach_the_screen(
        self, root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        with watching(root):
            logging.getLogger("watchdog.observers.inotify_c").error("trouble")
        assert capfd.readouterr().err == ""

    def test_after_a_burst_everything_is_compared(self, root: Path) -> None:
        hints = Hints()
        for number in range(5_000):
            hints.note(file=f"f{number}")
        noted = hints.take(1.0, 0.01, 0.01)
        assert noted is not None
        assert noted.everything
        assert noted.events == 5_000
        assert not noted.files

    def test_a_dead_thread_is_noticed(self, root: Path) -> None:
        made: list[BaseObserver] = []

        def make() -> BaseObserver:
            made.append(make_observer())
            return made[-1]

        with watching(root, FAST, make=make) as seen:
            for emitter in list(made[0].emitters):
                emitter.stop()
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")
            write(root / "src/b.py", "b = 2\n")
            seen.until("modified src/b.py")
            assert len(made) >= 2

    def test_a_command_that_holds_gits_lock_is_waited_for(self) -> None:
        hints = Hints()
        hints.note(file="a")
        asked: list[int] = []

        def is_busy() -> bool:
            asked.append(1)
            if len(asked) == 3:
                hints.note(file="b")
            return len(asked) < 6

        noted = hints.take(1.0, 0.01, 0.02, is_busy)
        assert noted is not None
        assert noted.files == {"a", "b"}


def watches_of_this_process() -> int:
    """Inotify watches that this process holds, as the kernel counts them."""
    count = 0
    for name in os.listdir("/proc/self/fdinfo"):
        try:
            count += Path("/proc/self/fdinfo", name).read_text().count("inotify wd:")
        except OSError:
            continue
    return count


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts inotify's watches")
class TestPruning:
    def test_ignored_trees_use_no_watches(self, root: Path) -> None:
        """Ignored trees used up the watches (rag-rat 331, aider 2646)."""
        for number in range(300):
            (root / f"node_modules/p{number}/lib").mkdir(parents=True)
            (root / f"src/web/node_modules/p{number}").mkdir(parents=True)
        write(root / "src/web/w.js", "w\n")
        before = watches_of_this_process()
        with watching(root) as seen:
            # The root, src, src/web and .git; not the 900 folders of packages.
            assert watches_of_this_process() - before == 4
            for path in ("a.py", "src/b.py", "src/web/w.js", "src/web/new.js"):
                write(root / path, "changed\n")
            write(root / "src/web/node_modules/p0/i.js")
            seen.until(
                "modified a.py", "modified src/b.py", "modified src/web/w.js", "created src/web/new.js"
            )

    def test_folders_that_come_later_are_watched(self, root: Path) -> None:
        for number in range(300):
            (root / f"node_modules/p{number}").mkdir(parents=True)
        with watching(root) as seen:
            write(root / "docs/deep/d.md", "d\n")
            seen.until("created docs/deep/d.md")
            write(root / "docs/deep/d.md", "d2\n")
            seen.until("modified docs/deep/d.md")
            os.rename(root / "docs", root / "manual")
            seen.until("moved docs/deep/d.md -> manual/deep/d.md")
            write(root / "manual/deep/e.md", "e\n")
            seen.until("created manual/deep/e.md")

    def test_a_tree_that_grows_is_left_out(self, root: Path) -> None:
        """Installing packages while watching: their watches are given back afterwards."""
        before = watches_of_this_process()
        with watching(root, EVENTS) as seen:
            for number in range(300):
                (root / f"node_modules/p{number}").mkdir(parents=True)
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")
            seen.nothing_but(root / "src/marker")
            assert watches_of_this_process() - before < 20

    def test_the_branch_is_still_named(self, root: Path) -> None:
        for number in range(300):
            (root / f"build/p{number}").mkdir(parents=True)
        commit_all(root)
        with watching(root) as seen:
            git(root, "checkout", "-q", "-b", "other")
            batch = seen.until_true(lambda batch: batch.head is not None, "the branch was not named")
            assert batch.head is not None
            assert batch.head.branch == "other"


class TestPlan:
    def test_small_ignored_trees_are_not_worth_it(self) -> None:
        assert plan_roots({"src", "docs"}, {"build"}, lambda folder: WORTH - 1) == {"": True}

    def test_a_large_one_is_left_out(self) -> None:
        folders = {"src", "src/web", "src/web/js", "src/lib", "docs", "docs/a"}
        plan = plan_roots(folders, {"src/web/node_modules", ".git"}, lambda folder: 500)
        assert plan == {
            "": False,
            "src": False,
            "src/web": False,
            "docs": True,
            "src/lib": True,
            "src/web/js": True,
        }

    def test_a_few_roots_at_most(self) -> None:
        folders = {f"d{number}" for number in range(100)}
        assert plan_roots(folders, {"node_modules"}, lambda folder: 5000) == {"": True}
        folders = {"web", *(f"lib/d{number}" for number in range(100)), "lib"}
        # Leaving out lib/build would take a hundred watches; web's packages are left out all the same.
        weights = {"lib/build": 9000, "web/node_modules": 100}
        assert plan_roots(folders, set(weights), weights.__getitem__) == {
            "": False,
            "web": False,
            "lib": True,
        }

    def test_every_folder_is_covered_once(self) -> None:
        import random

        chance = random.Random(7)
        for _ in range(200):
            folders = {""}
            for number in range(chance.randrange(1, 60)):
                folders.add(f"{chance.choice(sorted(folders))}/d{number}".lstrip("/"))
            ignored = {f"{chance.choice(sorted(folders))}/i{number}".lstrip("/") for number in range(5)}
            weights = {folder: chance.randrange(200) for folder in ignored}
            plan = plan_roots(folders - {""}, ignored, weights.__getitem__)
            assert len(plan) <= MOST_ROOTS
            for folder in folders:
                parents = [folder[: -len(rest)].rstrip("/") if rest else folder for rest in _ends(folder)]
                covering = [one for one in parents if plan.get(one) or (one == folder and one in plan)]
                assert len(covering) == 1, (folder, plan)

    def test_folders_are_counted_up_to_a_number(self, tmp_path: Path) -> None:
        for number in range(30):
            (tmp_path / f"a{number}/b").mkdir(parents=True)
        (tmp_path / "loop").symlink_to(".")
        assert count_folders(tmp_path) == 61
        assert count_folders(tmp_path, 10) == 10
        assert count_folders(tmp_path / "none") == 1


def _ends(folder: str) -> list[str]:
    """What follows each folder that a path leads through, the root and itself included."""
    parts = folder.split("/") if folder else []
    return [
        ("/" if start else "") + "/".join(parts[start:]) if start < len(parts) else ""
        for start in range(len(parts) + 1)
    ]


def test_two_watchers_at_once(root: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    with watching(root) as first:
        threads = threading.active_count()
        with watching(other) as second:
            write(other / "o.py")
            write(root / "a.py", "a = 2\n")
            second.until("created o.py")
            first.until("modified a.py")
        assert threading.active_count() == threads
        write(root / "a.py", "a = 3\n")
        first.until("modified a.py")
