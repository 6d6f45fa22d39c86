from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from git_repositories import commit_all, git, repository, write

from pace_agent.watching.changes import Batch, Change, digest_of, merged
from pace_agent.watching.options import WatchOptions
from pace_agent.watching.watcher import Watcher
from pace_local.errors import ConfigError, FileError

PATIENCE = 30.0
EVENTS = WatchOptions(quiet=0.2)
POLLING = WatchOptions(quiet=0.2, poll=True, poll_seconds=0.1)


@pytest.fixture(params=[EVENTS, POLLING], ids=["events", "polling"])
def options(request: pytest.FixtureRequest) -> WatchOptions:
    options: WatchOptions = request.param
    return options


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = repository(tmp_path / "repository")
    write(made / ".gitignore", "/build/\n*.log\n")
    write(made / "a.py", "a = 1\n")
    write(made / "lib/b.py", "b = 1\n")
    commit_all(made)
    return made


class Seen:
    """Takes batches until what they say together is as expected."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.batches: list[Batch] = []

    def until(self, *expected: str) -> Batch:
        """What happened since the last call, as one batch: these changes and no others."""
        done = lambda batch: sorted(map(str, batch.changes)) == sorted(expected)  # noqa: E731
        return self.until_true(done, f"never came to {expected}")

    def until_true(self, done: Callable[[Batch], bool], message: str) -> Batch:
        batches: list[Batch] = []
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            batch = self.watcher.next_batch(1.0)
            if batch is not None:
                batches.append(batch)
                self.batches.append(batch)
                if done(merged(batches)):
                    return merged(batches)
        pytest.fail(f"{message}: {[[str(change) for change in batch.changes] for batch in batches]}")

    def nothing_but(self, marker: Path) -> None:
        """Write a marker: it must be the only change that comes, after whatever was done before."""
        write(marker, "marker\n")
        self.until(f"created {marker.relative_to(self.watcher.root).as_posix()}")


@contextmanager
def watching(root: Path, options: WatchOptions = EVENTS, **more: object) -> Iterator[Seen]:
    before = set(threading.enumerate())
    with Watcher(root, options=options, **more) as watcher:  # type: ignore[arg-type]
        yield Seen(watcher)
    end = time.monotonic() + 1.0
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


class TestSaves:
    """What editors do when they save, each one change of the file that was saved."""

    def test_truncate_and_write(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "a.py", "a = 2\n")
            batch = seen.until("modified a.py")
            assert batch.changes == (
                Change("modified", "a.py", digest_of(b"a = 2\n"), old_digest=digest_of(b"a = 1\n")),
            )
            assert batch.head is None

    def test_write_beside_and_rename_over(self, root: Path, options: WatchOptions) -> None:
        """Saves by rename were missed where only the source of a move was looked at (matryca-plumber 200)."""
        with watching(root, options) as seen:
            write(root / ".a.py.tmp12", "a = 2\n")
            os.replace(root / ".a.py.tmp12", root / "a.py")
            seen.until("modified a.py")
            write(root / "lib/new.tmp", "n\n")
            os.rename(root / "lib/new.tmp", root / "lib/new.py")
            seen.until("created lib/new.py")

    def test_written_outside_and_moved_in(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root.parent / "elsewhere", "a = 2\n")
            os.replace(root.parent / "elsewhere", root / "a.py")
            seen.until("modified a.py")

    def test_backup_by_rename_then_new_file(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "4913")
            (root / "4913").unlink()
            os.rename(root / "a.py", root / "a.py~")
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")
            (root / "a.py~").unlink()
            seen.nothing_but(root / "marker")

    def test_delete_and_create(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            (root / "a.py").unlink()
            write(root / "a.py", "a = 2\n")
            seen.until("modified a.py")

    @pytest.mark.parametrize("name", [".a.py.swp", "a.py~", "#a.py#", ".#a.py", "4913", "a.py___jb_tmp___"])
    def test_files_that_editors_leave_beside(self, root: Path, name: str) -> None:
        with watching(root) as seen:
            write(root / name, "draft\n")
            write(root / "lib" / name, "draft\n")
            seen.nothing_but(root / "marker")
            (root / name).unlink()
            seen.nothing_but(root / "marker2")


class TestWhatIsNoChange:
    def test_reading(self, root: Path, options: WatchOptions) -> None:
        """Reading a file triggered its own change event (watchdog 949)."""
        with watching(root, options) as seen:
            for _ in range(20):
                (root / "a.py").read_bytes()
                os.listdir(root / "lib")
            seen.nothing_but(root / "marker")

    def test_the_same_content_again(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "a.py", "a = 1\n")
            os.utime(root / "lib/b.py", (1, 1))
            (root / "lib/b.py").chmod(0o600)
            seen.nothing_but(root / "marker")

    def test_made_and_gone_between(self, root: Path) -> None:
        with watching(root) as seen:
            write(root / "short", "x")
            (root / "short").unlink()
            seen.nothing_but(root / "marker")

    def test_ignored_trees(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "build/deep/o.o")
            write(root / "lib/x.log")
            git(root, "gc", "-q")
            seen.nothing_but(root / "marker")


class TestChanges:
    def test_twice_within_the_pause_is_one(self, root: Path) -> None:
        with watching(root) as seen:
            write(root / "a.py", "a = 2\n")
            write(root / "a.py", "a = 33\n")
            batch = seen.until("modified a.py")
            if len(seen.batches) == 1:
                assert batch.changes[0].digest == digest_of(b"a = 33\n")
            else:  # the machine held us up between the two
                assert [one.changes[0].path for one in seen.batches] == ["a.py", "a.py"]

    def test_created_and_deleted(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "new/deep/er/c.py", "c\n")
            seen.until("created new/deep/er/c.py")
            (root / "a.py").unlink()
            batch = seen.until("deleted a.py")
            assert batch.changes[0] == Change("deleted", "a.py", None, old_digest=digest_of(b"a = 1\n"))
            write(root / "new/deep/er/c.py", "c2\n")
            seen.until("modified new/deep/er/c.py")

    def test_moved_names_both(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            os.rename(root / "a.py", root / "lib/z.py")
            batch = seen.until("moved a.py -> lib/z.py")
            assert batch.changes[0].old_digest == batch.changes[0].digest == digest_of(b"a = 1\n")

    def test_moved_and_edited(self, root: Path) -> None:
        with watching(root) as seen:
            os.rename(root / "a.py", root / "z.py")
            write(root / "z.py", "z = 2\n")
            batch = seen.until("moved a.py -> z.py")
            assert batch.changes[0].digest == digest_of(b"z = 2\n")

    def test_a_folder_that_is_moved_moves_its_files(self, root: Path, options: WatchOptions) -> None:
        write(root / "lib/c/d.py", "d\n")
        with watching(root, options) as seen:
            os.rename(root / "lib", root / "library")
            seen.until("moved lib/b.py -> library/b.py", "moved lib/c/d.py -> library/c/d.py")
            write(root / "library/c/d.py", "d2\n")
            seen.until("modified library/c/d.py")

    def test_a_folder_that_leaves_and_comes_back_changed(self, root: Path, options: WatchOptions) -> None:
        write(root / "lib/c/d.py", "d\n")
        with watching(root, options) as seen:
            os.rename(root / "lib", root.parent / "lib")
            seen.until("deleted lib/b.py", "deleted lib/c/d.py")
            write(root.parent / "lib/b.py", "b = 2\n")
            os.rename(root.parent / "lib", root / "lib")
            seen.until("created lib/b.py", "created lib/c/d.py")

    def test_a_file_becomes_a_folder_and_back(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            (root / "a.py").unlink()
            write(root / "a.py/inner", "i\n")
            seen.until("deleted a.py", "created a.py/inner")
            (root / "a.py/inner").unlink()
            (root / "a.py").rmdir()
            write(root / "a.py", "a = 9\n")
            seen.until("deleted a.py/inner", "created a.py")

    def test_names_that_are_no_text(self, root: Path, options: WatchOptions) -> None:
        name = os.fsdecode(b"caf\xe9 \n.py")
        with watching(root, options) as seen:
            write(root / name, "x\n")
            batch = seen.until_true(lambda batch: bool(batch.changes), "nothing came")
            assert batch.changes[0].path == name

    def test_symlinks_are_what_they_hold_and_never_followed(self, root: Path, options: WatchOptions) -> None:
        write(root.parent / "outside/o.py", "o\n")
        (root / "out").symlink_to(root.parent / "outside")
        (root / "loop").symlink_to(".")
        (root / "link.py").symlink_to("a.py")
        with watching(root, options) as seen:
            write(root.parent / "outside/o.py", "o2\n")
            write(root / "link.py", "a = 5\n")  # through the link: the file it names has changed
            seen.until("modified a.py")
            (root / "link.py").unlink()
            (root / "link.py").symlink_to("lib/b.py")
            batch = seen.until("modified link.py")
            assert batch.changes[0].digest == digest_of(b"lib/b.py")

    def test_a_large_file_is_compared_by_size_and_time(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pace_agent.repository.snapshot.LARGEST_HASHED", 1000)
        write(root / "data.bin", b"\0" * 2000)
        with watching(root) as seen:
            write(root / "data.bin", b"\0" * 3000)
            assert seen.until("modified data.bin").changes[0].digest is None


class TestOwnWrites:
    def test_are_told_apart_by_content(self, root: Path, options: WatchOptions) -> None:
        ours = {("a.py", digest_of(b"ours\n")), ("lib/b.py", None)}
        with watching(root, options, is_own_write=lambda path, digest: (path, digest) in ours) as seen:
            write(root / "a.py", "ours\n")
            (root / "lib/b.py").unlink()
            write(root / "c.py", "ours\n")
            batch = seen.until("modified a.py", "deleted lib/b.py", "created c.py")
            assert [(change.path, change.own) for change in batch.changes] == [
                ("a.py", True),
                ("c.py", False),
                ("lib/b.py", True),
            ]
            assert [change.path for change in batch.by_user] == ["c.py"]
            # The user writes over what we wrote, before it came back to us: it is the user's.
            write(root / "a.py", "ours and more\n")
            assert not seen.until("modified a.py").changes[0].own


class TestGit:
    def test_a_checkout_of_500_files_is_one_batch(self, root: Path) -> None:
        git(root, "checkout", "-q", "-b", "many")
        for number in range(500):
            write(root / f"many/d{number % 20}/f{number}.py", f"value = {number}\n")
        for name in ("a.py", "lib/b.py"):
            write(root / name, "other = 1\n")
        commit_all(root)
        git(root, "checkout", "-q", "main")
        with watching(root, WatchOptions(quiet=1.0, longest=20.0)) as seen:
            git(root, "checkout", "-q", "many")
            batch = seen.until_true(lambda batch: len(batch.changes) == 502, "not all came")
            assert len(seen.batches) == 1
            assert batch.head is not None
            assert batch.head.branch == "many"
            assert batch.head.commit == git(root, "rev-parse", "HEAD").decode().strip()
            kinds = {change.path: change.kind for change in batch.changes}
            assert kinds["a.py"] == kinds["lib/b.py"] == "modified"
            git(root, "checkout", "-q", "--detach", "main")
            batch = seen.until_true(lambda batch: len(batch.changes) == 502, "not all went")
            assert batch.head is not None
            assert batch.head.branch is None
            assert str(batch.head).startswith("detached at ")

    def test_a_commit_is_named_without_any_file_changed(self, root: Path) -> None:
        with watching(root) as seen:
            git(root, "commit", "-q", "--allow-empty", "-m", "more")
            commit = git(root, "rev-parse", "HEAD").decode().strip()
            batch = seen.until_true(lambda batch: batch.head is not None, "the commit was not named")
            assert (batch.changes, str(batch.head)) == ((), f"branch main ({commit[:9]})")

    def test_a_linked_worktree(self, root: Path, options: WatchOptions) -> None:
        other = root.parent / "worktree"
        git(root, "worktree", "add", "-q", str(other), "-b", "side")
        with watching(other, options) as seen:
            git(other, "checkout", "-q", "-b", "third")
            write(other / "a.py", "a = 7\n")
            batch = seen.until_true(lambda batch: bool(batch.changes and batch.head), "not both came")
            assert batch.head is not None
            assert batch.head.branch == "third"


class TestIgnoreFiles:
    def test_edited_while_watching(self, root: Path, options: WatchOptions) -> None:
        write(root / "build/o.txt", "o\n")
        write(root / "docs/d.txt", "d\n")
        with watching(root, options) as seen:
            write(root / ".gitignore", "/docs/\n")
            # What is ignored from now on was not deleted; what no longer is was not created.
            seen.until("modified .gitignore")
            write(root / "docs/d.txt", "d2\n")
            write(root / "build/o.txt", "o2\n")
            seen.until("modified build/o.txt")

    def test_a_nested_one_that_comes_and_goes(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / "lib/.gitignore", "*.py\n")
            seen.until("created lib/.gitignore")
            write(root / "lib/b.py", "b = 2\n")
            (root / "lib/.gitignore").unlink()
            seen.until("deleted lib/.gitignore")
            write(root / "lib/b.py", "b = 3\n")
            seen.until("modified lib/b.py")

    def test_the_exclude_file(self, root: Path, options: WatchOptions) -> None:
        with watching(root, options) as seen:
            write(root / ".git/info/exclude", "*.py\n")
            write(root / "a.py", "a = 2\n")
            write(root / "b.txt", "b\n")
            seen.until_true(
                lambda batch: any(one.path == "b.txt" for one in batch.changes), "b.txt never came"
            )
            write(root / "a.py", "a = 3\n")
            seen.nothing_but(root / "marker")


class TestWaiting:
    def test_constant_changes_are_reported_after_the_longest_wait(self, root: Path) -> None:
        stop = threading.Event()

        def change_on_and_on() -> None:
            number = 0
            while not stop.wait(0.02):
                number += 1
                write(root / "a.py", f"a = {number}\n")

        writer = threading.Thread(target=change_on_and_on)
        # Between two changes it is never quiet for five seconds.
        with watching(root, WatchOptions(quiet=5.0, longest=5.0)) as seen:
            writer.start()
            try:
                seen.until("modified a.py")
            finally:
                stop.set()
                writer.join()

    def test_nobody_takes_them(self, root: Path) -> None:
        with watching(root, WatchOptions(quiet=0.01, longest=0.01)) as seen:
            for number in range(100):
                write(root / "a.py", f"a = {number + 2}\n")
                time.sleep(0.02)
            write(root / "last", "l\n")
            end = time.monotonic() + PATIENCE
            found: list[Batch] = []
            while time.monotonic() < end and not any(one.path == "last" for b in found for one in b.changes):
                if batch := seen.watcher.pending():
                    found.append(batch)
                time.sleep(0.05)
            assert [str(one) for one in merged(found).changes] == ["modified a.py", "created last"]
            assert merged(found).changes[0].old_digest == digest_of(b"a = 1\n")
            assert seen.watcher.pending() is None


class TestStartAndStop:
    def test_stop_while_events_come(self, root: Path) -> None:
        stop = threading.Event()

        def write_on_and_on() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                write(root / f"d{number % 7}/f{number % 50}", f"{number}\n")

        writer = threading.Thread(target=write_on_and_on)
        writer.start()
        try:
            for _ in range(3):
                with watching(root) as seen:
                    seen.until_true(lambda batch: bool(batch.changes), "nothing came")
        finally:
            stop.set()
            writer.join()

    def test_whoever_waits_is_told(self, root: Path) -> None:
        watcher = Watcher(root, options=EVENTS)
        watcher.start()
        ended = threading.Event()

        def iterate() -> None:
            assert list(watcher) == []
            ended.set()

        thread = threading.Thread(target=iterate)
        thread.start()
        watcher.stop()
        watcher.stop()
        assert ended.wait(PATIENCE)
        thread.join()
        assert watcher.next_batch() is None
        assert watcher.pending() is None

    def test_stopped_before_it_was_started(self, root: Path) -> None:
        watcher = Watcher(root)
        watcher.stop()
        assert watcher.next_batch() is None

    def test_a_failure_is_raised_where_batches_are_taken(self, root: Path) -> None:
        def fail(path: str, digest: str | None) -> bool:
            raise ZeroDivisionError("broken journal")

        with Watcher(root, options=EVENTS, is_own_write=fail) as watcher:
            write(root / "a.py", "a = 2\n")
            with pytest.raises(ZeroDivisionError, match="broken journal"):
                watcher.next_batch(PATIENCE)

    def test_no_such_folder(self, root: Path) -> None:
        for path in (root / "none", root / "a.py"):
            with pytest.raises(FileError, match="no such folder"):
                Watcher(path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"quiet": 0.0}, "quiet = 0.0 s"),
            ({"longest": 1e9}, "0.01 to 600"),
            ({"quiet": 2.0, "longest": 1.0}, "longest = 1.0 s is less than quiet"),
            ({"most_files": 0}, "most_files = 0"),
            ({"poll_seconds": float("nan")}, "poll_seconds = nan"),
        ],
    )
    def test_options_out_of_range(self, options: dict[str, float], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            WatchOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["delete", "move"])
def test_the_root_goes_and_comes_back(root: Path, options: WatchOptions, way: str) -> None:
    said: list[str] = []
    with watching(root, options, say=said.append) as seen:
        os.rename(root, root.parent / "away")
        seen.until("deleted .gitignore", "deleted a.py", "deleted lib/b.py")
        assert said == [f"{root} is gone: watching goes on when it is back"]
        if way == "move":
            os.rename(root.parent / "away", root)
        else:
            for path in (".gitignore", "a.py", "lib/b.py"):
                write(root / path, "new\n")
        seen.until("created .gitignore", "created a.py", "created lib/b.py")
        write(root / "lib/b.py", "b = 4\n")
        seen.until("modified lib/b.py")
