from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.errors import StaleError, ToolError
from pace_agent.files.file_state import KnownFiles, content_hash
from pace_agent.safety.paths import Territory
from pace_agent.sessions.journal import Journal
from pace_local.errors import FileError, StorageError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"a0\r\n")
    (folder / "b.py").write_bytes(b"\xff\x00 no text")
    (folder / "b.py").chmod(0o755)
    return folder


@contextlib.contextmanager
def opened(repository: Path) -> Iterator[Journal]:
    """The journal beside the repository, as a new process opens it."""
    with Journal(repository.parent / "session" / "journal", KnownFiles(Territory(repository))) as journal:
        yield journal


@pytest.fixture
def journal(repository: Path) -> Iterator[Journal]:
    with opened(repository) as journal:
        yield journal


def known(journal: Journal, path: Path) -> Path:
    """A path whose content the agent has seen."""
    journal.files.put(path, path.read_bytes())
    return path


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_undo_brings_back_what_was_before_a_turn(journal: Journal, repository: Path) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"a1")
    journal.write(2, path, b"a2")
    journal.write(2, path, b"a2 again")
    journal.write(3, path, b"a3")
    assert journal.changed(2) == (path,)
    assert journal.undo(2).restored == (path,)
    assert path.read_bytes() == b"a1"
    assert journal.undo(2).restored == ()
    journal.write(2, path, b"another a2")  # it knows the file as it is now
    journal.undo(0)
    assert path.read_bytes() == b"a0\r\n"
    assert journal.entries == ()


def test_made_files_go_with_the_folders_made_for_them(journal: Journal, repository: Path) -> None:
    before = everything(repository)
    journal.write(1, repository / "x" / "y" / "new.py", b"new")
    journal.write(2, repository / "x" / "other.py", b"other")
    assert journal.undo(1).removed == (repository / "x" / "y" / "new.py", repository / "x" / "other.py")
    assert everything(repository) == before


def test_a_folder_that_somebody_else_uses_now_stays(journal: Journal, repository: Path) -> None:
    journal.write(1, repository / "x" / "new.py", b"new")
    (repository / "x" / "theirs.py").write_bytes(b"theirs")
    journal.undo(1)
    assert everything(repository / "x") == ["theirs.py"]


def test_deleted_files_come_back_with_their_mode(journal: Journal, repository: Path) -> None:
    before = contents(repository)
    journal.delete(1, known(journal, repository / "b.py"))
    assert not (repository / "b.py").exists()
    journal.undo(1)
    assert contents(repository) == before


def test_deleted_files_come_back_through_renames(journal: Journal, repository: Path) -> None:
    before = contents(repository)
    b = known(journal, repository / "b.py")
    journal.rename(1, b, repository / "sub" / "c.py")
    assert stat.S_IMODE((repository / "sub" / "c.py").stat().st_mode) == 0o755
    journal.rename(1, repository / "sub" / "c.py", repository / "d.py")
    journal.write(2, repository / "d.py", b"changed")
    journal.delete(3, repository / "d.py")
    shutil.rmtree(repository / "sub")
    journal.undo(1)
    assert contents(repository) == before
    assert everything(repository) == ["a.py", "b.py"]


def test_renaming_over_a_file_is_refused(journal: Journal, repository: Path) -> None:
    before = contents(repository)
    with pytest.raises(ToolError, match="already; choose another name"):
        journal.rename(1, known(journal, repository / "b.py"), repository / "a.py")
    assert contents(repository) == before
    assert journal.entries == ()


def test_undo_is_refused_by_name_where_the_user_changed_something(journal: Journal, repository: Path) -> None:
    a, b = known(journal, repository / "a.py"), known(journal, repository / "b.py")
    for path in (a, b):
        journal.write(1, path, b"agent")
    journal.write(1, repository / "c.py", b"agent")
    a.write_bytes(b"user")
    (repository / "c.py").write_bytes(b"user")
    with pytest.raises(StaleError) as caught:
        journal.undo(1)
    assert str(a) in str(caught.value)
    assert str(repository / "c.py") in str(caught.value)
    assert str(b) not in str(caught.value)
    assert "nothing was undone" in str(caught.value)
    after = contents(repository)
    assert after == {"a.py": (b"user", 0o644), "b.py": (b"agent", 0o755), "c.py": (b"user", 0o644)}
    assert len(journal.entries) == 3
    a.write_bytes(b"a0\r\n")  # the user took one change back, and the new file out
    (repository / "c.py").unlink()
    assert journal.undo(1).restored == (b,)


def test_undo_is_refused_where_the_user_changed_something_between_turns(
    journal: Journal, repository: Path
) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"agent 1")
    path.write_bytes(b"user")
    journal.write(2, known(journal, path), b"agent 2")
    with pytest.raises(StaleError, match=r"a\.py"):
        journal.undo(1)
    assert path.read_bytes() == b"agent 2"
    journal.undo(2)
    assert path.read_bytes() == b"user"


def test_undo_goes_back_through_what_a_command_made_of_a_file(repository: Path) -> None:
    """After a formatter it was refused as if the user had changed the file."""
    path = repository / "a.py"

    def command(journal: Journal, content: bytes | None) -> None:
        before = journal.before_command()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        journal.after_command(before)

    with opened(repository) as journal:
        journal.write(1, known(journal, path), b"agent 1")
        command(journal, b"formatted 1")
        journal.write(2, known(journal, path), b"agent 2")
        command(journal, b"formatted 2")
        command(journal, b"formatted 3")
        command(journal, None)
    with opened(repository) as journal:
        assert journal.changed(2) == (path,)
        assert journal.undo(2).restored == (path,)
        assert path.read_bytes() == b"formatted 1"
        journal.write(2, repository / "c.py", b"agent")
        command(journal, b"formatted by a later prompt")
        assert journal.undo(2).restored == ()  # what a command changed is not taken back
        assert path.read_bytes() == b"formatted by a later prompt"
    with opened(repository) as journal:
        journal.undo(1)
        assert path.read_bytes() == b"a0\r\n"


def test_what_a_command_makes_of_the_user_s_work_stays_the_user_s(journal: Journal, repository: Path) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"agent")
    path.write_bytes(b"user")
    before = journal.before_command()
    path.write_bytes(b"user, formatted")
    journal.after_command(before)
    with pytest.raises(StaleError, match=r"a\.py"):
        journal.undo(1)
    path.write_bytes(b"agent")  # the user took it back
    assert journal.undo(1).restored == (path,)


def test_a_command_that_puts_something_else_in_a_file_s_place_is_no_error(
    journal: Journal, repository: Path
) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"agent")
    before = journal.before_command()
    path.unlink()
    os.mkfifo(path)
    journal.after_command(before)
    assert journal.before_command() == {}
    assert len(journal.entries) == 1


@pytest.mark.parametrize("other", ["folder", "link"])
def test_undo_is_refused_where_a_file_became_something_else(
    journal: Journal, repository: Path, other: str
) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"agent")
    path.unlink()
    if other == "folder":
        path.mkdir()
    else:
        path.symlink_to("b.py")
    with pytest.raises(StaleError, match=r"a\.py"):
        journal.undo(1)


def test_stale_and_read_only_files_leave_no_entry(journal: Journal, repository: Path) -> None:
    with pytest.raises(StaleError):
        journal.write(1, repository / "a.py", b"agent")
    path = known(journal, repository / "a.py")
    path.chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        journal.write(1, path, b"agent")
    with pytest.raises(ToolError, match="read-only"):
        journal.delete(1, path)
    path.chmod(0o644)
    assert not journal.write(1, path, b"a0\r\n").is_changed
    assert journal.entries == ()


def test_a_change_through_a_link_is_undone_where_it_was_made(journal: Journal, repository: Path) -> None:
    link = repository / "link.py"
    link.symlink_to("a.py")
    known(journal, repository / "a.py")
    journal.write(1, link, b"agent")
    journal.undo(1)
    assert link.is_symlink()
    assert (repository / "a.py").read_bytes() == b"a0\r\n"


def test_everything_is_for_its_user_alone(journal: Journal, repository: Path) -> None:
    mask = os.umask(0o000)
    try:
        journal.write(1, known(journal, repository / "a.py"), b"agent")
    finally:
        os.umask(mask)
    for path in [journal.folder, *journal.folder.rglob("*")]:
        if path.suffix != ".lock":
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_journal_belongs_to_one_process(journal: Journal, repository: Path) -> None:
    with pytest.raises(StorageError, match="another process"), opened(repository):
        pass


def test_a_closed_journal_takes_no_change(repository: Path) -> None:
    with opened(repository) as journal:
        path = known(journal, repository / "a.py")
    with pytest.raises(StorageError, match="is closed"):
        journal.write(1, path, b"agent")
    assert path.read_bytes() == b"a0\r\n"


def test_a_journal_is_read_again_by_the_next_process(repository: Path) -> None:
    before = contents(repository)
    odd = repository / os.fsdecode(b"gr\xf6\xdfe \n.py")
    with opened(repository) as journal:
        journal.write(1, known(journal, repository / "a.py"), b"a1")
        journal.delete(1, known(journal, repository / "b.py"))
        journal.write(2, odd, b"odd")
        entries = journal.entries
    with opened(repository) as journal:
        assert journal.entries == entries
        journal.undo(2)
        assert not odd.exists()
    with opened(repository) as journal:
        assert journal.entries == entries[:2]
        journal.undo(1)
    assert contents(repository) == before


def test_killed_between_journal_and_write(repository: Path) -> None:
    path = repository / "a.py"
    with opened(repository) as journal:
        journal.write(1, known(journal, path), b"a1")
        journal.record(2, {path: content_hash(b"a2"), repository / "new.py": content_hash(b"n")})
    with opened(repository) as journal:
        undone = journal.undo(2)
        assert undone.restored == undone.removed == ()
        assert path.read_bytes() == b"a1"
        journal.record(2, {path: content_hash(b"a2")})
    with opened(repository) as journal:
        journal.write(3, known(journal, path), b"a3")
        journal.undo(1)
    assert path.read_bytes() == b"a0\r\n"


def test_killed_between_the_steps_of_a_rename(repository: Path) -> None:
    before = contents(repository)
    old, new = repository / "b.py", repository / "c.py"
    with opened(repository) as journal:
        data = old.read_bytes()
        journal.record(1, {new: content_hash(data), old: None})
        journal.files.put(new, data, mode=0o755)
    with opened(repository) as journal:
        journal.undo(1)
    assert contents(repository) == before


@pytest.mark.parametrize("kept", range(0, 60, 7))
def test_killed_in_the_midst_of_a_line(repository: Path, kept: int) -> None:
    path = repository / "a.py"
    with opened(repository) as journal:
        journal.write(1, known(journal, path), b"a1")
        size = (journal.folder / "changes.jsonl").stat().st_size
        journal.record(2, {path: content_hash(b"a2")})
    os.truncate(journal.folder / "changes.jsonl", size + kept)
    with opened(repository) as journal:
        assert [entry.turn for entry in journal.entries] == [1]
        journal.write(2, known(journal, path), b"a2")
    with opened(repository) as journal:
        journal.undo(1)
    assert path.read_bytes() == b"a0\r\n"


def test_killed_in_the_midst_of_an_undo(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(repository)
    with opened(repository) as journal:
        for name in ("a.py", "b.py"):
            journal.write(1, known(journal, repository / name), b"agent")
            journal.write(2, repository / name, b"agent again")
        journal.files.put(repository / "a.py", b"a0\r\n")  # as far as it came
    with opened(repository) as journal:
        journal.undo(1)
    assert contents(repository) == before


def test_going_on_after_an_undo_that_was_killed(repository: Path) -> None:
    path = repository / "a.py"
    with opened(repository) as journal:
        journal.write(1, known(journal, path), b"agent")
        journal.files.put(path, b"a0\r\n")
    with opened(repository) as journal:
        journal.write(2, known(journal, path), b"agent 2")
        journal.undo(1)
    assert path.read_bytes() == b"a0\r\n"


def test_an_undo_that_fails_half_way_changes_nothing(
    journal: Journal, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(1, known(journal, repository / "a.py"), b"agent")
    journal.delete(1, known(journal, repository / "b.py"))
    journal.write(1, repository / "c.py", b"agent")
    before = contents(repository)
    take_away = journal.files.take_away

    def failing(path: Path) -> None:
        if path.name == "c.py":
            raise ToolError("cannot delete")
        take_away(path)

    monkeypatch.setattr(journal.files, "take_away", failing)
    with pytest.raises(ToolError, match="cannot delete"):
        journal.undo(1)
    assert contents(repository) == before
    monkeypatch.undo()
    journal.undo(1)
    assert everything(repository) == ["a.py", "b.py"]


def test_a_damaged_content_is_never_restored(journal: Journal, repository: Path) -> None:
    path = known(journal, repository / "a.py")
    journal.write(1, path, b"agent")
    digest = content_hash(b"a0\r\n")
    (journal.folder / "blobs" / digest[:2] / digest).write_bytes(b"other")
    with pytest.raises(StorageError, match="damaged"):
        journal.undo(1)
    assert path.read_bytes() == b"agent"


def test_a_full_disk_keeps_the_change_from_being_made(
    journal: Journal, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = known(journal, repository / "a.py")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        journal.write(1, path, b"agent")
    assert path.read_bytes() == b"a0\r\n"
    assert not list((journal.folder / "blobs").rglob("*.new"))


def test_a_journal_that_is_none_is_refused(repository: Path) -> None:
    folder = repository.parent / "session" / "journal"
    folder.mkdir(parents=True)
    for line in ("text", json.dumps({"kind": "other"}), json.dumps({"kind": "change", "turn": 1})):
        (folder / "changes.jsonl").write_text(line + "\n")
        with pytest.raises(FileError, match="line 1"), opened(repository):
            pass


steps = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "rename"]), st.sampled_from("abc"), st.sampled_from("abc")),
    max_size=12,
)


@settings(deadline=None, max_examples=25)
@given(steps, st.integers(0, 12))
def test_any_changes_are_taken_back_to_any_turn(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, str, str]], to: int
) -> None:
    folder = tmp_path_factory.mktemp("run") / "repository"
    folder.mkdir()
    (folder / "a").write_bytes(b"first")
    states = []
    with opened(folder) as journal:
        known(journal, folder / "a")
        for turn, (what, one, other) in enumerate(done):
            states.append(contents(folder))
            with contextlib.suppress(ToolError):
                if what == "write":
                    journal.write(turn, folder / one, f"{turn // 2}".encode())
                elif what == "delete":
                    journal.delete(turn, folder / one)
                else:
                    journal.rename(turn, folder / one, folder / other)
    states.append(contents(folder))
    with opened(folder) as journal:
        journal.undo(to)
        assert contents(folder) == states[min(to, len(done))]
        assert not [entry for entry in journal.entries if entry.turn >= to]
