from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pace_local.errors import StorageError
from pace_local.models import Store, models_folder
from pace_local.models.store import allocated_bytes, hash_file
from pace_local.models.testing import gguf_bytes, tiny_model

CONTENT = gguf_bytes(tensor_bytes=1 << 16)
INFO = tiny_model(CONTENT, ())
FREE = tiny_model(CONTENT, (), pinned=False)


class Hashings:
    """Counts the files that were read from end to end, by their progress."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, done: int, total: int, what: str) -> None:
        self.count += done == total


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "models")


def put(store: Store, content: bytes = CONTENT) -> Path:
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.path(INFO)
    path.write_bytes(content)
    return path


def test_folder_comes_from_the_environment(tmp_path):
    assert models_folder({"PACE_MODELS_DIR": str(tmp_path)}) == tmp_path
    assert models_folder({"PACE_MODELS_DIR": "~/elsewhere"}) == Path.home() / "elsewhere"
    assert models_folder({"PACE_MODELS_DIR": "here"}) == Path.cwd() / "here"


def test_folder_is_in_the_users_data_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = models_folder({"PACE_MODELS_DIR": ""})
    assert folder.parts[-2:] == ("pace-local", "models")
    if sys.platform == "linux":
        assert folder == tmp_path / "pace-local" / "models"


def test_looking_creates_nothing(store):
    assert store.find(INFO) is None
    assert not store.present(INFO)
    assert store.partial_bytes(INFO) == 0
    assert not store.folder.exists()


def test_hash_file_is_sha256(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT * 100)
    seen = []
    assert hash_file(path, lambda done, total, what: seen.append((done, total, what)), "w") == (
        hashlib.sha256(CONTENT * 100).hexdigest()
    )
    assert seen[-1] == (len(CONTENT) * 100, len(CONTENT) * 100, "w")


def test_a_file_is_hashed_once(store):
    put(store)
    hashings = Hashings()
    first = store.find(INFO, hashings)
    assert first is not None
    assert (first.sha256, first.checked) == (INFO.sha256, "registry")
    assert hashings.count == 1
    assert store.find(INFO, hashings) == first
    assert hashings.count == 1


@pytest.mark.parametrize("change", ["time", "size", "record lost", "record broken", "record of another kind"])
def test_a_file_is_hashed_again_when_anything_changed(store, change):
    path = put(store)
    store.find(INFO)
    record = store.folder / "tiny.json"
    if change == "time":
        os.utime(path, ns=(1, 1))
    elif change == "size":
        content = json.loads(record.read_text())
        record.write_text(json.dumps({**content, "size_bytes": 1}))
    elif change == "record lost":
        record.unlink()
    elif change == "record broken":
        record.write_text(record.read_text()[:20])
    else:
        record.write_text("[1, 2]")
    hashings = Hashings()
    assert store.find(INFO, hashings) is not None
    assert hashings.count == 1
    assert store.find(INFO, hashings) is not None
    assert hashings.count == 1


def test_rehash_trusts_no_record(store):
    path = put(store)
    store.find(INFO)
    status = path.stat()
    path.write_bytes(CONTENT[:-1] + b"x")  # a bit that flipped on disk changes neither size nor time
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.find(INFO) is not None
    with pytest.raises(StorageError, match="wrong sha256"):
        store.find(INFO, rehash=True)


def test_a_wrong_file_is_set_aside_and_said(store):
    path = put(store, b"wrong")
    with pytest.raises(StorageError) as caught:
        store.find(INFO)
    message = str(caught.value)
    assert f"expected {INFO.sha256}" in message
    assert f"got {hashlib.sha256(b'wrong').hexdigest()}" in message
    assert "tiny.gguf.wrong" in message
    assert "pace models pull tiny" in message
    assert not path.exists()
    assert path.with_name("tiny.gguf.wrong").read_bytes() == b"wrong"
    assert store.find(INFO) is None


def test_a_record_from_an_older_registry_does_not_vouch(store):
    """The registry's hash changed since the file was pulled: the file is not that model any more."""
    put(store, b"older")
    older = tiny_model(b"older", ())
    assert store.find(older) is not None
    with pytest.raises(StorageError, match="wrong sha256"):
        store.find(INFO)


def test_without_a_known_hash_the_record_is_held_to(store):
    path = put(store)
    first = store.find(FREE)
    assert first is not None
    assert first.checked is None
    assert first.sha256 == hashlib.sha256(CONTENT).hexdigest()
    path.write_bytes(b"changed later")
    with pytest.raises(StorageError, match="wrong sha256"):
        store.find(FREE)


def test_what_a_record_says_of_its_origin_survives_a_touch(store, tmp_path):
    store.folder.mkdir()
    fetched = tmp_path / "fetched"
    fetched.write_bytes(CONTENT)
    admitted = store.admit(FREE, fetched, hashlib.sha256(CONTENT).hexdigest(), "a hub@1234", "hub")
    os.utime(admitted.path, ns=(1, 1))
    assert store.find(FREE) == admitted
    assert admitted.source == "a hub@1234"


def test_admit_moves_and_records(store, tmp_path):
    put(store, b"an older file")
    fetched = tmp_path / "fetched"
    fetched.write_bytes(CONTENT)
    stored = store.admit(INFO, fetched, INFO.sha256, "somewhere", "registry")
    assert not fetched.exists()
    assert stored.path.read_bytes() == CONTENT
    hashings = Hashings()
    assert store.find(INFO, hashings) == stored
    assert hashings.count == 0


def test_a_stop_between_a_file_and_its_record_leaves_no_old_record(store, tmp_path):
    """The old record would vouch for another file, and have the new one called wrong."""
    put(store, b"older")
    assert store.find(FREE) is not None
    (store.folder / "tiny.json.new").mkdir()  # makes the writing of the new record fail
    fetched = tmp_path / "fetched"
    fetched.write_bytes(CONTENT)
    with pytest.raises(OSError, match="directory"):
        store.admit(FREE, fetched, hashlib.sha256(CONTENT).hexdigest(), "a hub", "hub")
    stored = store.find(FREE)
    assert stored is not None
    assert stored.path.read_bytes() == CONTENT


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind here")
def test_a_store_that_may_only_be_read_still_serves(store):
    put(store)
    store.folder.chmod(0o555)
    try:
        assert store.find(INFO) is not None
        with pytest.raises(StorageError, match="PACE_MODELS_DIR"), store.lock(INFO):
            pass
    finally:
        store.folder.chmod(0o755)


def test_a_record_that_cannot_be_written_costs_only_time(store):
    put(store)
    (store.folder / "tiny.json.new").mkdir()  # in the way, for root as well
    hashings = Hashings()
    assert store.find(INFO, hashings) is not None
    assert store.find(INFO, hashings) is not None
    assert hashings.count == 2


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "models")
    with pytest.raises(StorageError, match=r"cannot be written.*PACE_MODELS_DIR"), store.lock(INFO):
        pass


def test_two_of_this_process_exclude_each_other(store):
    with (
        store.lock(INFO),
        pytest.raises(StorageError, match="another process"),
        Store(store.folder).lock(INFO),
    ):
        pass
    with store.lock(INFO):
        pass


def test_other_models_are_not_locked(store):
    with store.lock(INFO), store.lock(tiny_model(CONTENT, (), name="other")):
        pass


def test_a_lock_dies_with_its_process(store):
    """A pull that was killed must not lock its model for ever."""
    script = (
        "import os, sys, signal; from pathlib import Path\n"
        "from pace_local.models import Store; from pace_local.models.testing import tiny_model\n"
        "lock = Store(Path(sys.argv[1])).lock(tiny_model(b'', ())); lock.__enter__()\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(store.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match="another process"), store.lock(INFO):
            pass
        child.kill()
        child.wait()
        with store.lock(INFO):
            pass


def test_remove_deletes_all_that_belongs_to_a_model(store):
    path = put(store)
    store.find(INFO)
    path.with_name("tiny.gguf.wrong").write_bytes(b"x" * 5000)
    (store.partial(INFO) / "wheels").mkdir(parents=True)
    (store.partial(INFO) / "wheels" / "model.gguf").write_bytes(b"x" * 9000)
    (store.folder / "other.gguf").write_bytes(b"stays")
    assert store.remove(INFO) >= len(CONTENT) + 14_000
    assert {item.name for item in store.folder.iterdir()} <= {"other.gguf", "tiny.lock"}


def test_remove_waits_for_no_pull(store):
    put(store)
    with store.lock(INFO), pytest.raises(StorageError, match="another process"):
        Store(store.folder).remove(INFO)
    assert store.present(INFO)


def test_remove_of_a_link_leaves_what_it_points_to(store, tmp_path):
    target = tmp_path / "elsewhere.gguf"
    target.write_bytes(CONTENT)
    store.folder.mkdir()
    store.path(INFO).symlink_to(target)
    assert store.find(INFO) is not None
    store.remove(INFO)
    assert target.read_bytes() == CONTENT
    assert not store.present(INFO)


def test_holes_take_no_room(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert allocated_bytes(path) < 1 << 20
    shutil.rmtree(tmp_path / "none", ignore_errors=True)
    assert allocated_bytes(tmp_path / "none") == 0
