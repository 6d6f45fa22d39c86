"""Where sessions lie, what a list says of them, and deleting them."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from sessions_samples import HEADER, facts_of, store, turn_record, without_rights

from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.segments import Segment
from pace_local.sessions import (
    SessionInUseError,
    StoredSegment,
    StoredSession,
    kv_folder,
    list_sessions,
    lock_path,
    log_path,
    make_folder,
    remove_session,
    session_folder,
    sessions_root,
)
from pace_local.sessions.testing import Disk


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's sessions."""
    monkeypatch.setenv("PACE_SESSIONS_DIR", str(tmp_path / "sessions"))
    return tmp_path / "sessions"


# Names


def test_the_root_is_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert sessions_root({}) == platformdirs.user_data_path("pace-local", appauthor=False) / "sessions"
    assert sessions_root({"PACE_SESSIONS_DIR": ""}) == sessions_root({})
    assert sessions_root({"PACE_SESSIONS_DIR": str(tmp_path)}) == tmp_path
    assert sessions_root({"PACE_SESSIONS_DIR": "~/x"}) == Path.home() / "x"
    monkeypatch.chdir(tmp_path)
    assert sessions_root({"PACE_SESSIONS_DIR": "x"}) == tmp_path / "x"


@pytest.mark.parametrize("name", ["a", "Review-2", "v1.2_final", "_", "0", "x" * 100])
def test_a_name_is_a_folder_under_the_root(name: str, root: Path) -> None:
    assert session_folder(name) == root / name


def test_a_path_is_that_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert session_folder("./a b") == tmp_path / "a b"
    assert session_folder(str(tmp_path / "größe")) == tmp_path / "größe"
    assert session_folder("~/x") == Path.home() / "x"
    assert session_folder(Path("plain")) == tmp_path / "plain"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "-rf", "a b", "größe", "a\n", "a:b", "x" * 101])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{re.escape(repr(name))} is no name of a session; use up to 100"):
        session_folder(name)


def test_a_zero_character() -> None:
    for reference in ("a\0", "/a\0b"):
        with pytest.raises(ConfigError, match="it has a zero character in it"):
            session_folder(reference)


# Making


def test_a_folder_is_for_its_user_alone(root: Path) -> None:
    make_folder(root / "a")
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700
    make_folder(root / "a")  # an empty one will do
    (root / "a" / "lock").touch()
    make_folder(root / "a")  # so will one whose session was killed before it began


def test_a_folder_with_something_in_it(root: Path) -> None:
    store(root / "a", 1)
    with pytest.raises(FileError, match=r"there is a session in .*a already; open it, or give another name"):
        make_folder(root / "a")
    (root / "b").mkdir()
    (root / "b" / "notes.txt").touch()
    (root / "c").touch()
    for name in ("b", "c"):
        with pytest.raises(FileError, match=f"{name} is there already and is no session; give another name"):
            make_folder(root / name)


def test_a_folder_that_cannot_be_made(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot make .*file: File exists"):
        make_folder(tmp_path / "file" / "a")
    root.mkdir()
    with without_rights(root), pytest.raises(StorageError, match=r"cannot make .*: Permission denied"):
        make_folder(root / "a")


# Sessions in use


def test_a_session_is_opened_as_it_was_left(root: Path) -> None:
    told = store(root / "a", 5)[-1]
    with StoredSession.open(root / "a") as stored:
        assert facts_of(stored.state) == told
        assert stored.problem is None
        assert stored.kv_folder == kv_folder(root / "a") == root / "a" / "kv"


def test_a_record_that_does_not_fit_is_not_written(root: Path) -> None:
    with StoredSession.create(root / "a", HEADER) as stored:
        stored.append(turn_record(), sync=True)
        before, size = facts_of(stored.state), log_path(root / "a").stat().st_size
        again = StoredSegment(Segment(1, "user:0", "user", 3, 6, 0))
        with pytest.raises(ValueError, match="two segments are named 'user:0'"):
            stored.append(turn_record(n_tokens=6, n_segments=2, segments=[again]))
        assert facts_of(stored.state) == before
        assert log_path(root / "a").stat().st_size == size


def test_a_record_that_cannot_be_written_changes_nothing(root: Path) -> None:
    disk = Disk()
    with StoredSession.create(root / "a", HEADER, open_file=disk.open_file) as stored:
        disk.room = 20
        with pytest.raises(StorageError, match="No space left on device"):
            stored.append(turn_record())
        assert len(stored.state.tokens) == 0
        disk.room = None
        stored.append(turn_record())
        stored.sync()
        told = facts_of(stored.state)
    with StoredSession.open(root / "a") as stored:
        assert facts_of(stored.state) == told


def test_there_is_one_session_in_a_folder(root: Path) -> None:
    store(root / "a", 1)
    with pytest.raises(FileError, match=r"there is a session in"):
        StoredSession.create(root / "a", HEADER)
    for name in ("b", "."):
        with pytest.raises(FileError, match=r"there is no session in .*; `pace sessions list` shows those"):
            StoredSession.open(root / name)
    assert sorted(item.name for item in root.iterdir()) == ["a"]


# Lists


def test_a_list_of_sessions(root: Path) -> None:
    assert list_sessions() == []
    told = {name: store(root / name, n)[-1] for name, n in (("b", 3), ("a", 6))}
    (root / "a" / "kv").mkdir()
    (root / "a" / "kv" / "0.block").write_bytes(b"x" * 100_000)
    (root / "notes.txt").touch()
    first, second = list_sessions()
    assert [first.name, second.name] == ["a", "b"]
    for summary in (first, second):
        facts = told[summary.name]
        assert summary.path == root / summary.name
        assert (summary.turns, summary.tokens) == (facts.n_turns, len(facts.tokens))
        assert (summary.model_name, summary.holder, summary.problem) == ("tiny", None, None)
        assert not summary.in_use
        assert summary.changed == log_path(summary.path).stat().st_mtime
    assert first.bytes >= 100_000 > second.bytes > 0
    assert list_sessions(root / "a")[0].name == "kv"


def _flip(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"turn", b"tern")
    path.write_bytes(b"".join(lines))


BREAKS: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: path.unlink(), "is no session: it has no pace-session.jsonl"),
    (lambda path: path.write_bytes(b""), "it is empty"),
    (lambda path: path.write_bytes(b"hello\n"), "line 1: it is no line of a session's log"),
    (_flip, "line 3: its checksum is wrong; it and what follows are left out"),
    (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
]


@pytest.mark.parametrize(("harm", "said"), BREAKS)
def test_broken_sessions_are_listed_with_the_reason(
    harm: Callable[[Path], Any], said: str, root: Path
) -> None:
    store(root / "a", 3)
    store(root / "b", 3)
    harm(log_path(root / "a"))
    first, second = list_sessions()
    assert said in str(first.problem)
    assert second.problem is None


@pytest.mark.parametrize("part", [log_path, lock_path])
def test_a_session_of_which_a_file_cannot_be_read_is_listed(part: Callable[[Path], Path], root: Path) -> None:
    store(root / "a", 3)
    part(root / "a").unlink()
    part(root / "a").symlink_to(part(root / "a"))
    (summary,) = list_sessions()
    assert f"cannot read {part(root / 'a')}: Too many levels of symbolic links" == summary.problem


def test_a_torn_tail_is_nothing_broken(root: Path) -> None:
    """So looks a session that was killed, or one that is just writing."""
    told = store(root / "a", 6)
    path = log_path(root / "a")
    path.write_bytes(path.read_bytes()[:-4])
    (summary,) = list_sessions()
    assert (summary.problem, summary.turns) == (None, told[-2].n_turns)


def test_a_root_that_may_not_be_read(root: Path) -> None:
    store(root / "a", 1)
    with (
        without_rights(root),
        pytest.raises(StorageError, match=r"cannot read .*sessions: Permission denied"),
    ):
        list_sessions()


# Deleting


def test_a_session_is_deleted_with_all_that_it_holds(root: Path) -> None:
    store(root / "a", 3)
    store(root / "b", 3)
    (root / "a" / "kv" / "deep").mkdir(parents=True)
    (root / "a" / "kv" / "deep" / "0.block").touch()
    for suffix in (".new", ".cut-1", ".cut-12"):
        (root / "a" / f"pace-session.jsonl{suffix}").touch()
    remove_session(root / "a")
    assert [item.name for item in root.iterdir()] == ["b"]


@pytest.mark.parametrize(("harm", "said"), BREAKS[:4])
def test_a_broken_session_can_be_deleted(harm: Callable[[Path], Any], said: str, root: Path) -> None:
    store(root / "a", 3)
    harm(log_path(root / "a"))
    remove_session(root / "a")
    assert list(root.iterdir()) == []


def test_files_of_others_are_left_alone(root: Path) -> None:
    store(root / "a", 3)
    (root / "a" / "notes.txt").touch()
    before = sorted((root / "a").iterdir())
    with pytest.raises(
        FileError, match=r"a also holds 'notes\.txt', which is no part of a session; move it away"
    ):
        remove_session(root / "a")
    assert sorted((root / "a").iterdir()) == before


def test_what_is_no_session_is_left_alone(root: Path, tmp_path: Path) -> None:
    for name, content in (("empty", []), ("locked", ["lock"]), ("kept", ["kv"]), ("other", ["notes.txt"])):
        folder = tmp_path / name
        folder.mkdir()
        for item in content:
            (folder / item).touch()
        with pytest.raises(FileError, match=rf"{name} is no session: it has no pace-session\.jsonl"):
            remove_session(folder)
        assert [item.name for item in folder.iterdir()] == content
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file is no folder, and so no session"):
        remove_session(tmp_path / "file")
    with pytest.raises(FileError, match=r"there is no session in .*none; `pace sessions list` shows"):
        remove_session(root / "none")


def test_what_a_killed_deletion_left_can_be_deleted(root: Path) -> None:
    for content in ([], ["lock"]):
        (root / "a").mkdir(parents=True)
        for name in content:
            (root / "a" / name).touch()
        remove_session(root / "a")
        assert not (root / "a").exists()


def test_what_links_lead_to_is_left_alone(root: Path, tmp_path: Path) -> None:
    """Blocks may lie on another disk, and so may a session."""
    store(tmp_path / "far" / "a", 1)
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "0.block").touch()
    kv_folder(tmp_path / "far" / "a").symlink_to(tmp_path / "blocks")
    root.mkdir()
    (root / "a").symlink_to(tmp_path / "far" / "a")
    remove_session(root / "a")
    assert list(root.iterdir()) == []
    assert not (tmp_path / "far" / "a").exists()
    assert (tmp_path / "blocks" / "0.block").exists()


def test_a_session_in_use_is_left_alone(root: Path) -> None:
    with StoredSession.create(root / "a", HEADER):
        before = sorted((root / "a").iterdir())
        with pytest.raises(SessionInUseError, match="the session a is in use by this process"):
            remove_session(root / "a")
        assert sorted((root / "a").iterdir()) == before
    remove_session(root / "a")


def test_a_session_that_may_not_be_deleted(root: Path) -> None:
    store(root / "a", 1)
    with without_rights(root / "a"), pytest.raises(StorageError, match=r"cannot read .*: Permission denied"):
        remove_session(root / "a")
    (root / "a").chmod(0o700)
    assert lock_path(root / "a").exists()
