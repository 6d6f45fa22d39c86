from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from pace_agent.errors import RefusedError, StaleError, ToolError
from pace_agent.files.atomic_write import is_draft, write_atomically
from pace_agent.files.file_state import KnownFiles, content_hash
from pace_agent.safety.paths import Territory
from pace_local.files import SourceText


@pytest.fixture
def files(tmp_path: Path) -> KnownFiles:
    return KnownFiles(Territory(tmp_path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_bytes(b"a = 1\r\n")
    return path


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_that_was_read_can_be_written(files: KnownFiles, path: Path) -> None:
    source = files.read(path)
    written = files.write(path, SourceText(source.path, "a = 2\r\n", source.encoding, source.newline))
    assert path.read_bytes() == b"a = 2\r\n"
    assert written.is_changed
    assert written.hash == content_hash(b"a = 2\r\n") == files.known_hash(path)
    files.write(path, b"a = 3\r\n")  # what was written is known
    assert names(path.parent) == ["orders.py"]


def test_a_file_that_was_never_read_must_be_read_first(files: KnownFiles, path: Path) -> None:
    with pytest.raises(StaleError, match="has not been read; read it"):
        files.write(path, b"b")
    assert path.read_bytes() == b"a = 1\r\n"
    files.read(path)
    files.forget(path)
    with pytest.raises(StaleError, match="has not been read"):
        files.check_fresh(path)


def test_the_edit_of_a_user_is_never_overwritten(files: KnownFiles, path: Path) -> None:
    """The user's own edit overwritten by the agent (qwen-code 3839)."""
    files.read(path)
    path.write_bytes(b"user\n")
    with pytest.raises(StaleError, match="changed since it was read; read it again"):
        files.write(path, b"agent\n")
    assert path.read_bytes() == b"user\n"
    files.read(path)
    files.write(path, b"agent\n")


def test_a_file_touched_without_a_change_is_fresh(files: KnownFiles, path: Path) -> None:
    files.read(path)
    os.utime(path, (1, 1))
    path.write_bytes(b"a = 1\r\n")
    files.check_fresh(path)


def test_a_change_at_the_last_moment_is_noticed(
    files: KnownFiles, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.read(path)
    sync = os.fsync

    def slow(descriptor: int) -> None:
        path.write_bytes(b"user\n")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(StaleError):
        files.write(path, b"agent\n")
    assert path.read_bytes() == b"user\n"
    assert names(path.parent) == ["orders.py"]


def test_a_file_deleted_meanwhile(files: KnownFiles, path: Path) -> None:
    files.read(path)
    path.unlink()
    with pytest.raises(StaleError, match="has been deleted since it was read"):
        files.write(path, b"b")
    assert not path.exists()


def test_a_new_file_is_made_with_its_folders(files: KnownFiles, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        files.write(tmp_path / "a" / "b" / "c.py", b"x")
    finally:
        os.umask(mask)
    made = tmp_path / "a" / "b" / "c.py"
    assert made.read_bytes() == b"x"
    assert stat.S_IMODE(made.stat().st_mode) == 0o644


def test_a_new_file_that_somebody_else_made_meanwhile(files: KnownFiles, path: Path) -> None:
    files.read(path)
    files.delete(path)
    assert not path.exists()
    path.write_bytes(b"user")
    with pytest.raises(StaleError, match="made by somebody else"):
        files.write(path, b"agent")
    assert path.read_bytes() == b"user"


def test_nothing_is_written_when_the_content_is_equal(files: KnownFiles, path: Path) -> None:
    files.read(path)
    os.utime(path, (1, 1))
    before = path.stat()
    assert not files.write(path, b"a = 1\r\n").is_changed
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o2755])
def test_mode_and_owner_are_kept(files: KnownFiles, path: Path, mode: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    path.chmod(mode)
    before = path.stat()
    files.read(path)
    files.write(path, b"b")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_extended_attributes_are_kept(files: KnownFiles, path: Path) -> None:
    try:
        os.setxattr(path, "user.note", b"mine")
    except (AttributeError, OSError):
        pytest.skip("this file system has no extended attributes")
    files.read(path)
    files.write(path, b"b")
    assert os.getxattr(path, "user.note") == b"mine"


def test_a_symbolic_link_stays_and_what_it_leads_to_is_written(files: KnownFiles, path: Path) -> None:
    (path.parent / "far").mkdir()
    link = path.parent / "far" / "link.py"
    link.symlink_to(Path("..") / "orders.py")
    files.read(link)
    files.write(path, b"by the file\n")  # the same file by another path
    files.write(link, b"by the link\n")
    assert link.is_symlink()
    assert path.read_bytes() == b"by the link\n"
    assert not path.is_symlink()
    assert names(path.parent / "far") == ["link.py"]


def test_a_dangling_link_is_a_new_file(files: KnownFiles, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("there.py")
    files.write(link, b"x")
    assert (tmp_path / "there.py").read_bytes() == b"x"
    assert link.is_symlink()


def test_a_link_to_itself_is_refused(files: KnownFiles, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("link.py")
    with pytest.raises(ToolError, match="link"):
        files.write(link, b"x")


def test_what_is_outside_is_neither_read_nor_written(path: Path) -> None:
    (path.parent / "inside").mkdir()
    files = KnownFiles(Territory(path.parent / "inside"))
    (path.parent / "inside/link.py").symlink_to(path)
    for way in (path, path.parent / "inside/link.py"):
        for use in (files.read, files.check_fresh, files.delete, lambda way: files.write(way, b"b")):
            with pytest.raises(RefusedError, match="outside"):
                use(way)
    assert path.read_bytes() == b"a = 1\r\n"


@pytest.mark.parametrize("use", ["write", "delete"])
def test_a_folder_that_becomes_a_link_at_the_last_moment(
    path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was followed to wherever it led, as the path was looked up once more."""
    inside = path.parent / "inside"
    (inside / "src").mkdir(parents=True)
    (inside / "src/orders.py").write_bytes(b"a = 1\r\n")
    files = KnownFiles(Territory(inside))
    files.read(inside / "src/orders.py")

    def swap(checked: Path) -> None:
        (inside / "src").rename(inside / "old")
        (inside / "src").symlink_to(path.parent)

    monkeypatch.setattr("pace_agent.files.file_state.check_writable", swap)
    change = {"write": lambda path: files.write(path, b"b"), "delete": files.delete}[use]
    with pytest.raises(RefusedError, match="has become a link"):
        change(inside / "src/orders.py")
    assert path.read_bytes() == (inside / "old/orders.py").read_bytes() == b"a = 1\r\n"
    assert names(path.parent) == ["inside", "orders.py"]


def test_hard_links_stay_together(files: KnownFiles, path: Path) -> None:
    other = path.parent / "other.py"
    os.link(path, other)
    files.read(path)
    files.write(path, b"b")
    assert other.read_bytes() == b"b"
    assert os.path.samefile(path, other)
    assert names(path.parent) == ["orders.py", "other.py"]


def test_a_read_only_file_is_refused(files: KnownFiles, path: Path) -> None:
    path.chmod(0o444)
    files.read(path)
    for change in (lambda: files.write(path, b"b"), lambda: files.delete(path)):
        with pytest.raises(ToolError, match="read-only; ask the user"):
            change()
    assert path.read_bytes() == b"a = 1\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_read_only_folder(files: KnownFiles, path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write in any folder")
    path.parent.chmod(0o555)
    try:
        files.read(path)
        files.write(path, b"b")  # the file itself is writable
        with pytest.raises(ToolError, match="read-only"):
            files.write(path.parent / "new.py", b"b")
    finally:
        path.parent.chmod(0o755)
    assert path.read_bytes() == b"b"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: os.mkfifo(path), "no regular file|pipe"),
        (lambda path: path.parent.rmdir() or path.parent.write_bytes(b""), "a part of that path is a file"),
    ],
)
def test_what_is_no_file_is_refused(files: KnownFiles, tmp_path: Path, make: object, reason: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert callable(make)
    make(folder / "x")
    with pytest.raises(ToolError, match=reason):
        files.put(folder / "x", b"b")


def test_reading_what_is_no_text_is_a_tool_error(files: KnownFiles, path: Path) -> None:
    path.write_bytes(b"\0\1")
    with pytest.raises(ToolError, match="binary"):
        files.read(path)
    with pytest.raises(ToolError, match="no such file"):
        files.read(path.parent / "none.py")


def test_a_failed_write_leaves_the_file_and_no_draft(
    files: KnownFiles, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.read(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match="No space left on device; the file is not changed"):
        files.write(path, b"b" * 1000)
    assert path.read_bytes() == b"a = 1\r\n"
    assert names(path.parent) == ["orders.py"]
    files.check_fresh(path)


def test_a_reader_never_sees_a_part(path: Path) -> None:
    contents = [b"a" * 200_000, b"b" * 300_000]
    path.write_bytes(contents[0])
    seen, stop = set(), threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(40):
        write_atomically(path, contents[turn % 2])
    stop.set()
    reader.join()
    assert seen <= set(contents)


def test_drafts_are_known_by_their_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    write_atomically(path, b"b", before=lambda: seen.extend(os.listdir(path.parent)))
    assert [name for name in seen if not is_draft(path.parent / name)] == ["orders.py"]
    assert len(seen) == 2


def test_own_writes_are_told_from_those_of_the_user(files: KnownFiles, path: Path) -> None:
    files.read(path)
    one, two, user = content_hash(b"1"), content_hash(b"2"), content_hash(b"user")
    assert not files.is_own_write(path, content_hash(b"a = 1\r\n"))
    files.write(path, b"1")
    files.write(path, b"2")
    assert not files.is_own_write(path, None)
    assert files.is_own_write(path, two)
    assert files.is_own_write(path, two)  # several events of one write
    assert not files.is_own_write(path, one)  # somebody brought the older content back
    files.delete(path)
    assert files.is_own_write(path, None)
    assert not files.is_own_write(path, user)


def test_a_watcher_that_is_late_still_knows_an_earlier_own_write(files: KnownFiles, path: Path) -> None:
    files.read(path)
    files.write(path, b"1")
    files.write(path, b"2")
    assert files.is_own_write(path, content_hash(b"1"))
    assert files.is_own_write(path, content_hash(b"2"))


def test_a_write_is_own_before_it_can_be_seen(
    files: KnownFiles, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.read(path)
    replace, seen = os.replace, []

    def watched(source: str, target: str) -> None:
        replace(source, target)
        seen.append(files.is_own_write(path, content_hash(path.read_bytes())))

    monkeypatch.setattr(os, "replace", watched)
    files.write(path, b"b")
    assert seen == [True]
