"""Pulls from Hugging Face: the client library is real, the hub is a server on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from pace_local.errors import StorageError
from pace_local.models import HubFile, Store, pull
from pace_local.models.hub import HubFetcher
from pace_local.models.testing import HubScript, LoopbackHub, gguf_bytes, tiny_model

CONTENT = gguf_bytes(tensor_bytes=3 << 20, filling=bytes(range(251)))
SHA256 = hashlib.sha256(CONTENT).hexdigest()
COMMIT = "c" * 40


@pytest.fixture
def hub():
    with LoopbackHub(HubScript(CONTENT)) as hub:
        yield hub


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "models")


def fetcher(hub: LoopbackHub, **options) -> HubFetcher:
    return HubFetcher(hub.endpoint, pause=lambda seconds: None, **options)


def silent(line: str) -> None:
    pass


def test_a_pinned_file(hub, store):
    seen = []
    stored = pull(
        tiny_model(CONTENT, (hub.file(),)),
        store,
        fetchers=[fetcher(hub)],
        progress=lambda done, total, what: seen.append((done, total, what)),
    )
    assert stored.path.read_bytes() == CONTENT
    assert (stored.sha256, stored.checked) == (SHA256, "registry")
    assert stored.source == f"Hugging Face someone/tiny-GGUF@{COMMIT}"
    assert hub.downloads == [None]
    assert seen[0] == (0, len(CONTENT), "tiny")
    assert (len(CONTENT), len(CONTENT), "tiny") in seen
    assert seen[-1][2] == "verifying tiny"
    assert {item.name for item in store.folder.iterdir()} == {"tiny.gguf", "tiny.json", "tiny.lock"}


def test_an_unpinned_file_is_held_to_what_the_hub_reports(hub, store):
    said = []
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    stored = pull(info, store, fetchers=[fetcher(hub)], say=said.append)
    assert (stored.sha256, stored.checked) == (SHA256, "hub")
    assert stored.source.endswith(f"@{COMMIT}")  # the revision that was taken is on record
    assert said == []


def test_an_unpinned_file_that_differs_from_the_report_is_never_used(hub, store):
    hub.script.etag = "a" * 64
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    with pytest.raises(StorageError, match=f"wrong sha256, deleted: expected {'a' * 64}, got {SHA256}"):
        pull(info, store, fetchers=[fetcher(hub)], say=silent)
    assert not store.present(info)
    assert store.partial_bytes(info) < 10_000


def test_a_file_that_nobody_vouches_for_is_said_to_be_unverified(hub, store):
    hub.script.etag = "b" * 40  # a git hash, as small files have
    said = []
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    stored = pull(info, store, fetchers=[fetcher(hub)], say=said.append)
    assert stored.checked is None
    assert len(said) == 1
    assert "unverified" in said[0]
    assert SHA256 in said[0]


def test_another_hash_there_is_noticed_before_the_download(hub, store):
    hub.script.etag = "a" * 64
    info = tiny_model(CONTENT, (hub.file(),))
    with pytest.raises(StorageError, match=f"has sha256 {'a' * 64}, not {SHA256}"):
        pull(info, store, fetchers=[fetcher(hub)], say=silent)
    assert hub.downloads == []


def test_another_revision_than_asked_for_is_refused(hub, store):
    info = tiny_model(CONTENT, (hub.file("d" * 40),))
    with pytest.raises(StorageError, match=f"asked for revision {'d' * 40}, was offered {COMMIT}"):
        pull(info, store, fetchers=[fetcher(hub)], say=silent)


def test_a_broken_download_goes_on_within_the_pull(hub, store):
    hub.script.cut_after = [1 << 20, 0, 700_000]
    stored = pull(tiny_model(CONTENT, (hub.file(),)), store, fetchers=[fetcher(hub)])
    assert stored.path.read_bytes() == CONTENT
    half = f"bytes={1 << 20}-"
    assert hub.downloads == [None, half, half, f"bytes={(1 << 20) + 700_000}-"]
    assert hub.questions == 4  # each try has a fresh address: they expire


def test_a_download_that_stands_still_is_given_up_after_some_tries(hub, store):
    hub.script.cut_after = [1 << 20] + [0] * 9
    with pytest.raises(StorageError, match=f"broke at {1 << 20} of {len(CONTENT)} bytes"):
        pull(tiny_model(CONTENT, (hub.file(),)), store, fetchers=[fetcher(hub, tries=3)], say=silent)
    assert len(hub.downloads) == 4


def test_the_next_pull_goes_on_where_the_last_one_ended(hub, store):
    info = tiny_model(CONTENT, (hub.file(),))
    hub.script.cut_after = [2 << 20] + [0] * 9
    with pytest.raises(StorageError):
        pull(info, store, fetchers=[fetcher(hub, tries=1)], say=silent)
    hub.script.cut_after = []
    hub.downloads.clear()
    assert pull(info, store, fetchers=[fetcher(hub)]).path.read_bytes() == CONTENT
    assert hub.downloads == [f"bytes={2 << 20}-"]


KILLED = """
import os, signal, sys
from pathlib import Path
from test_models_hub import CONTENT
from pace_local.models import HubFile, Store, pull
from pace_local.models.hub import HubFetcher
from pace_local.models.testing import tiny_model

def progress(done, total, what):
    if done >= total // 2:
        os.kill(os.getpid(), signal.SIGKILL)

source = HubFile("someone/tiny-GGUF", "tiny.gguf", "c" * 40)
info, store = tiny_model(CONTENT, (source,)), Store(Path(sys.argv[2]))
pull(info, store, fetchers=[HubFetcher(sys.argv[1])], progress=progress)
"""


def test_a_killed_pull_goes_on_where_it_was(hub, store):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, hub.endpoint, str(store.folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    info = tiny_model(CONTENT, (hub.file(),))
    assert pull(info, store, fetchers=[fetcher(hub)]).path.read_bytes() == CONTENT
    assert hub.downloads[0] is None
    assert hub.downloads[1] is not None
    assert int(hub.downloads[1].removeprefix("bytes=").rstrip("-")) >= 1 << 20


def test_a_part_of_another_file_is_not_gone_on_from(hub, store):
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    hub.script.cut_after = [2 << 20, 0]
    with pytest.raises(StorageError):
        pull(info, store, fetchers=[fetcher(hub, tries=1)], say=silent)
    hub.script = HubScript(gguf_bytes(tensor_bytes=3 << 20, filling=b"another"), commit="e" * 40)
    hub.downloads.clear()
    stored = pull(info, store, fetchers=[fetcher(hub)])
    assert stored.path.read_bytes() == hub.script.content
    assert hub.downloads == [None]


def test_a_commit_that_leaves_the_file_as_it_is_costs_nothing_of_the_download(hub, store):
    """A repository whose card was edited overnight had 16 GB fetched anew."""
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    hub.script.cut_after = [2 << 20, 0]
    with pytest.raises(StorageError):
        pull(info, store, fetchers=[fetcher(hub, tries=1)], say=silent)
    hub.script.cut_after, hub.script.commit = [], "e" * 40
    hub.downloads.clear()
    stored = pull(info, store, fetchers=[fetcher(hub)])
    assert stored.path.read_bytes() == CONTENT
    assert hub.downloads == [f"bytes={2 << 20}-"]
    assert stored.source.endswith(f"@{'e' * 40}")


def test_a_file_that_is_replaced_during_the_download_is_noticed(hub, store):
    info = tiny_model(CONTENT, (hub.file(None),), pinned=False)
    hub.script.cut_after = [1 << 20]

    def replace(seconds: float) -> None:
        hub.script.etag = "f" * 64

    with pytest.raises(StorageError, match="was replaced during the download"):
        pull(info, store, fetchers=[HubFetcher(hub.endpoint, pause=replace)], say=silent)


def test_a_server_that_knows_no_ranges_starts_anew(hub, store):
    hub.script.cut_after = [1 << 20]
    hub.script.whole_only = True
    assert (
        pull(tiny_model(CONTENT, (hub.file(),)), store, fetchers=[fetcher(hub)]).path.read_bytes() == CONTENT
    )
    assert hub.downloads == [None, f"bytes={1 << 20}-"]


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_http_error_is_one_line(hub, store, status):
    hub.script.status = status
    said = []
    with pytest.raises(StorageError, match=rf"tiny.gguf: HTTP {status}$"):
        pull(tiny_model(CONTENT, (hub.file(),)), store, fetchers=[fetcher(hub)], say=said.append)
    assert said == [f"Hugging Face someone/tiny-GGUF: tiny.gguf: HTTP {status}"]


def test_an_http_error_says_nothing_of_the_next_file(hub, store):
    one = fetcher(hub)
    hub.script.status = 404
    info = tiny_model(CONTENT, (hub.file(),))
    with pytest.raises(StorageError):
        pull(info, store, fetchers=[one], say=silent)
    hub.script.status = 200
    assert pull(info, store, fetchers=[one]).path.read_bytes() == CONTENT


def test_a_hub_that_refuses_connections_is_reported_at_once(store):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        info = tiny_model(CONTENT, (HubFile("someone/tiny-GGUF", "tiny.gguf", None),))
        with pytest.raises(StorageError, match=r"out of reach.*refused"):
            pull(info, store, fetchers=[HubFetcher(endpoint)], say=silent)


def test_a_hub_that_never_answers_is_waited_for_once(store):
    """A machine without a route to the hub loses seconds, and those only once in a run."""

    def connections() -> int:
        """How many have come since the last call."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                deaf.accept()[0].close()
                count += 1
        return count

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        deaf.setblocking(False)
        one = HubFetcher(f"http://127.0.0.1:{deaf.getsockname()[1]}", connect_seconds=1)
        info = tiny_model(CONTENT, (HubFile("someone/tiny-GGUF", "tiny.gguf", None),))
        with pytest.raises(StorageError, match="out of reach"):
            pull(info, store, fetchers=[one], say=silent)
        assert connections() == 1
        with pytest.raises(StorageError, match="out of reach"):
            pull(info, store, fetchers=[one], say=silent)
        assert connections() == 0


def test_offline_mode_of_the_library_is_respected(hub, store):
    script = (
        "import sys; from pathlib import Path\n"
        "from test_models_hub import CONTENT; from pace_local.models import HubFile, Store, pull\n"
        "from pace_local.models.hub import HubFetcher; from pace_local.models.testing import tiny_model\n"
        "info = tiny_model(CONTENT, (HubFile('someone/tiny-GGUF', 'tiny.gguf', None),))\n"
        "pull(info, Store(Path(sys.argv[2])), fetchers=[HubFetcher(sys.argv[1])], say=print)\n"
    )
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", script, hub.endpoint, str(store.folder)],
        env=os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "out of reach: offline mode is on (HF_HUB_OFFLINE is set)" in ended.stdout
    assert hub.questions == 0
