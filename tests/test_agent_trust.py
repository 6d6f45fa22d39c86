from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from pace_agent.files.folder_identity import identity_of
from pace_agent.settings.trust import Standing, TrustStore, trust_path
from pace_local.errors import FileError, StorageError


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "config/trusted.json", clock=lambda: 1000.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    return path


def test_a_folder_is_trusted_once_it_was(store: TrustStore, folder: Path) -> None:
    assert store.standing(folder) is Standing.UNKNOWN
    assert not store.path.exists()  # asking makes nothing
    entry = store.trust(folder)
    assert (entry.path, entry.since) == (folder, 1000.0)
    assert store.standing(folder) is Standing.TRUSTED
    assert TrustStore(store.path).is_trusted(folder)


def test_trust_is_for_one_folder(store: TrustStore, folder: Path) -> None:
    (folder / "sub").mkdir()
    store.trust(folder)
    assert store.standing(folder / "sub") is Standing.UNKNOWN
    assert store.standing(folder.parent) is Standing.UNKNOWN


def test_links_are_resolved(store: TrustStore, folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    store.trust(link)
    assert store.is_trusted(folder)
    link.unlink()
    link.symlink_to(folder.parent)
    assert not store.is_trusted(link)


def test_a_folder_that_was_replaced_is_asked_about_again(store: TrustStore, folder: Path) -> None:
    store.trust(folder)
    folder.rename(folder.parent / "old")
    assert store.standing(folder) is Standing.REPLACED
    folder.mkdir()
    assert store.standing(folder) is Standing.REPLACED
    store.trust(folder)
    assert store.standing(folder) is Standing.TRUSTED
    assert store.standing(folder.parent / "old") is Standing.UNKNOWN
    (folder / "file").write_text("x")
    assert store.standing(folder) is Standing.TRUSTED


def test_a_folder_that_gets_the_inode_of_the_one_that_was_deleted_is_another(
    store: TrustStore, folder: Path
) -> None:
    """Some file systems give it to the next folder at once."""
    if identity_of(folder).born is None:
        pytest.skip("this system does not say when a folder was made")
    for _ in range(3):
        store.trust(folder)
        folder.rmdir()
        folder.mkdir()
        assert store.standing(folder) is Standing.REPLACED


def test_list_and_forget(store: TrustStore, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "another"
    other.mkdir()
    store.trust(folder)
    store.trust(other)
    assert [entry.path for entry in store.list()] == [other, folder]
    assert [entry.is_there for entry in store.list()] == [True, True]
    other.rmdir()
    assert [entry.is_there for entry in store.list()] == [False, True]
    assert store.forget(other)
    assert not store.forget(other)
    assert [entry.path for entry in store.list()] == [folder]


def test_the_file_is_the_users_alone(store: TrustStore, folder: Path) -> None:
    before = os.umask(0)
    try:
        store.trust(folder)
    finally:
        os.umask(before)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert not list(store.path.parent.glob("*.new"))


BROKEN = [
    "",
    "{",
    "[]",
    "null",
    '{"folders": 3}',
    '{"folders": {}}',
    "\xff",
    "[" * 100_000,
    '{"folders": [' * 50_000,
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_file_trusts_nothing_and_is_replaced(store: TrustStore, folder: Path, content: str) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content.encode("latin-1"))
    store.path.chmod(0o600)
    assert store.standing(folder) is Standing.UNKNOWN
    assert store.list() == ()
    (warning,) = store.warnings
    assert str(store.path) in warning
    assert "no folder counts as trusted" in warning
    store.trust(folder)
    assert store.is_trusted(folder)


def test_broken_entries_are_ignored(store: TrustStore, folder: Path) -> None:
    store.trust(folder)
    content = json.loads(store.path.read_text())
    good = content["folders"][0]
    content["folders"] += [
        3,
        {},
        {**good, "path": "relative"},
        {**good, "path": str(folder.parent), "inode": "1"},
        {**good, "path": str(folder.parent), "device": True},
        {**good, "path": "/a\0b"},
    ]
    store.path.write_text(json.dumps(content))
    assert [entry.path for entry in store.list()] == [folder]
    assert len(store.warnings) == 1


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_trusts_nothing(store: TrustStore, folder: Path, mode: int) -> None:
    store.trust(folder)
    store.path.chmod(mode)
    assert not store.is_trusted(folder)
    assert "can be changed by other users" in store.warnings[0]


def test_only_folders_are_trusted(store: TrustStore, folder: Path) -> None:
    (folder / "file").write_text("x")
    for path in (folder / "file", folder / "nothing", "~no-such-user-here"):
        with pytest.raises(FileError, match="is no folder"):
            store.trust(path)


def test_a_place_that_cannot_be_written_is_an_error_of_ours(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        TrustStore(tmp_path / "file/trusted.json").trust(folder)
    assert TrustStore(tmp_path / "file/trusted.json").list() == ()


def test_several_at_once_lose_nothing(store: TrustStore, tmp_path: Path) -> None:
    folders = [tmp_path / f"f{number}" for number in range(12)]
    for path in folders:
        path.mkdir()
    threads = [threading.Thread(target=TrustStore(store.path).trust, args=(path,)) for path in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.path for entry in store.list()} == set(folders)


def test_the_users_own_file_lies_in_the_config_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in trust_path().parents
    assert TrustStore().path == trust_path()
