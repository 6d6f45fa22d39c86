"""Files of pieces: crashes, broken files, a disk that fails or is full, and stores that are opened again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recall_crash import SIZE
from recall_stores import Faults, block, file_size, small_store, tokens

from pace_local.errors import ConfigError, StorageError
from pace_local.recall import Store
from pace_local.recall.piece import from_ranges, to_ranges
from pace_local.recall.piece_files import Header, PieceFiles

TRIALS = 30


def run_script(name: str, *arguments: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, str(here / name), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), str(here)])},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def filled(folder: Path, count: int = 3, *, keep: bool = False, size: int = 100) -> None:
    with Store(folder=folder, host_bytes=0, disk_bytes=1 << 20) as store:
        for at in range(count):
            store.put(at, tokens(4 * at), block(at, size), keep=keep)


def opened(folder: Path, **settings: Any) -> Store:
    return Store.open(folder, **{"host_bytes": 1000, "disk_bytes": 1 << 20, **settings})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_while_it_writes_leaves_whole_pieces_and_all_that_were_promised(
    tmp_path: Path,
) -> None:
    promised = [
        json.loads(line)
        for line in run_script("recall_crash.py", str(tmp_path), str(TRIALS), "5").split("\n")
        if line
    ]
    assert len(promised) == TRIALS
    counts = set()
    for trial, there in enumerate(promised):
        with opened(tmp_path / str(trial), disk_bytes=1 << 30) as store:
            found = {piece.id for segment in range(2_000) for piece in store.pieces_of(segment)}
            for one in found:
                assert store.get(one).tolist() == block(one, SIZE).tolist()
            assert set(there) <= found
            assert store.stats.pieces == len(found)
            # Only what was being written can be half there, and it was no piece yet.
            assert all("never finished" in line for line in store.broken)
            assert not list((tmp_path / str(trial)).glob("*.new"))
            counts.add(len(found))
    assert sum(map(bool, promised)) > TRIALS // 3
    assert len(counts) > 2


def test_the_pieces_of_an_earlier_process_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    with Store(folder=folder, host_bytes=1000, disk_bytes=1 << 20) as store:
        store.put(7, [0, 1, 5, 6, 9], block(1), keep=True)
        store.put(8, tokens(10), block(2))  # never left memory
        store.put(7, tokens(20), block(3), keep=True)
        store.flush()
    with opened(folder) as store:
        assert store.broken == ()
        assert [piece.id for piece in store.pieces_of(7)] == [0, 2]
        assert store.pieces_of(7)[0].token_index.tolist() == [0, 1, 5, 6, 9]
        assert store.pieces_of(8) == []
        assert store.get(0).tolist() == block(1).tolist()
        assert store.put(9, tokens(40), block(4)).id == 3
        assert store.stats.kept_bytes == store.stats.disk_bytes > 200
    with opened(folder, first_id=70) as store:
        assert store.put(9, tokens(40), block(4)).id == 70


def test_a_folder_that_does_not_exist_opens_empty(tmp_path: Path) -> None:
    with opened(tmp_path / "kv") as store:
        assert store.stats.pieces == 0
        assert not (tmp_path / "kv").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be read"):
        opened(tmp_path / "file")


def test_a_smaller_budget_drops_pieces_that_are_not_kept(tmp_path: Path) -> None:
    filled(tmp_path)
    dropped: list[int] = []
    with opened(tmp_path, disk_bytes=2 * file_size(100), on_drop=dropped.append) as store:
        assert dropped == [0]
        assert len(list(tmp_path.iterdir())) == 2
        assert store.stats.disk_bytes <= 2 * file_size(100)
    kept = tmp_path / "kept"
    filled(kept, keep=True)
    with opened(kept, disk_bytes=1) as store:
        assert store.stats.pieces == 3


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("at", ["first", "magic", "header", "header end", "block", "last"])
def test_a_flipped_byte_is_found_and_the_piece_forgotten(tmp_path: Path, at: str, verify: bool) -> None:
    filled(tmp_path, size=1_000)
    path = tmp_path / "piece-000000000001.kv"
    data = bytearray(path.read_bytes())
    end = data.index(b"\n")
    places = {"first": 0, "magic": 3, "header": end // 2, "header end": end, "block": end + 1, "last": -1}
    data[places[at]] ^= 0x04
    path.write_bytes(data)
    dropped: list[int] = []
    with opened(tmp_path, verify=verify, on_drop=dropped.append) as store:
        if verify or at not in ("block", "last"):
            assert len(store.broken) == 1
            assert "piece-000000000001.kv" in store.broken[0]
        else:
            assert store.broken == ()
            with pytest.raises(
                StorageError, match=r"000001\.kv does not match its checksum; decode the text of"
            ):
                store.get(1)
            assert dropped == [1]
        assert store.pieces_of(1) == []
        assert store.stats.broken_pieces == 1
        assert not path.exists()
        with pytest.raises(StorageError, match="piece 1 is not stored"):
            store.get(1)
        assert store.get(2).tolist() == block(2, 1_000).tolist()


@pytest.mark.parametrize("flip", range(0, 150, 7))
def test_no_flipped_bit_of_a_header_passes(flip: int) -> None:
    line = bytearray(Header(12, 34, tokens(56), 789, 123456).encode())
    for bit in range(8):
        line[flip % len(line)] ^= 1 << bit
        with pytest.raises(StorageError, match=r"header|format"):
            Header.decode(bytes(line))
        line[flip % len(line)] ^= 1 << bit
    assert Header.decode(bytes(line)).segment == 34


@pytest.mark.parametrize("left", [0, 1, 60, 500, 1_100])
def test_a_truncated_file_is_found(tmp_path: Path, left: int) -> None:
    filled(tmp_path, size=1_000)
    path = tmp_path / "piece-000000000001.kv"
    path.write_bytes(path.read_bytes()[:left])
    with opened(tmp_path) as store:
        assert len(store.broken) == 1
        assert store.broken[0].startswith("piece-000000000001.kv has ")
        assert store.stats.pieces == 2
        assert not path.exists()


def test_a_file_that_is_cut_while_the_store_is_open_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, size=1_000)
    with opened(tmp_path) as store:
        for at, left in ((0, 800), (1, 10)):
            path = tmp_path / f"piece-00000000000{at}.kv"
            os.truncate(path, left)
            with pytest.raises(StorageError, match=r"ends after \d+ of 1000 bytes|no header"):
                store.get(at)
            assert not path.exists()
        (tmp_path / "piece-000000000002.kv").unlink()
        store.prefetch([2])
        store.settle()
        with pytest.raises(StorageError, match="not stored"):
            store.get(2)
        assert store.stats.disk_bytes == store.stats.pieces == 0
        assert store.stats.broken_pieces == 3


def test_files_that_are_not_ours_or_of_another_version_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "piece-000000000009.kv.new").write_bytes(b"half")
    os.rename(tmp_path / "piece-000000000000.kv", tmp_path / "piece-000000000008.kv")
    newer = tmp_path / "piece-000000000007.kv"
    newer.write_bytes(b'{"format":2,"id":7}\nabc')
    with opened(tmp_path) as store:
        assert store.broken == (
            "piece-000000000007.kv has format 2; this version reads format 1; it is left alone",
            "piece-000000000008.kv holds piece 0; it is deleted",
            "piece-000000000009.kv.new was never finished; it is deleted",
        )
        assert store.put(5, tokens(50), block(5)).id == 10
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["notes.txt", "piece-000000000001.kv", "piece-000000000002.kv", newer.name]


def test_too_many_open_files_break_no_piece(tmp_path: Path) -> None:
    filled(tmp_path)
    faults = Faults()
    with opened(tmp_path, files=faults) as store:
        faults.open_error = OSError(errno.EMFILE, "Too many open files")
        with pytest.raises(StorageError, match="cannot be opened: Too many open files"):
            store.get(1)
        store.prefetch([1])
        store.settle()
        faults.disk_well()
        assert store.get(1).tolist() == block(1).tolist()


def test_a_device_that_is_away_for_a_while_breaks_no_piece(tmp_path: Path) -> None:
    """A server that restarted cost what was being read: the file was deleted, whole as it was."""
    filled(tmp_path)
    faults = Faults()
    with opened(tmp_path, files=faults) as store:
        faults.read_error = OSError(errno.EIO, "Input/output error")
        with pytest.raises(StorageError, match=r"000001\.kv cannot be read: Input/output error"):
            store.get(1)
        store.prefetch([1])
        store.settle()
        assert store.stats.broken_pieces == 0
        faults.disk_well()
        assert store.get(1).tolist() == block(1).tolist()


@pytest.mark.skipif(os.name == "nt", reason="needs resource limits")
def test_a_file_that_may_not_grow_is_like_a_full_disk(tmp_path: Path) -> None:
    told = json.loads(run_script("recall_small_disk.py", str(tmp_path)))
    assert "1 of the pieces could not be written to" in told["raised"]
    assert "File too large" in told["raised"]
    assert told["small"] in (["both"], ["disk"])
    assert told["large"] == ["host"]
    assert told["right"]
    assert told["failures"] > 1
    assert told["dropped"] == 6 - told["spilled"]
    assert 0 < told["spilled"] < 6
    assert told["files"] == ["piece-000000000000.kept.kv"]


def test_what_cannot_be_written_stays_in_memory_if_there_is_room(tmp_path: Path) -> None:
    faults, dropped = Faults(), list[int]()
    with small_store(tmp_path, files=faults, on_drop=dropped.append) as store:
        faults.disk_full()
        store.put(0, tokens(0), block(0), keep=True)
        with pytest.raises(StorageError, match=r"1 of the pieces could not be written to .*: No space left"):
            store.flush()
        assert store.pieces_of(0)[0].where == "host"
        assert list(tmp_path.iterdir()) == []
        assert store.get(0).tolist() == block(0).tolist()
        with pytest.raises(StorageError, match="No space left"):  # it is tried again, and is not there
            store.flush()
        for at in range(1, 9):
            store.put(at, tokens(4 * at), block(at), keep=False)
            store.settle()
            assert store.stats.host_bytes <= 1000
        assert len(dropped) == store.stats.dropped_pieces == 3
        faults.disk_well()
        with contextlib.suppress(StorageError):
            store.flush()
        for at in range(9):
            for piece in store.pieces_of(at):
                assert store.get(piece.id).tolist() == block(at).tolist()


def test_a_flush_makes_good_what_failed_before(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, files=faults) as store:
        faults.disk_full()
        store.put(0, tokens(0), block(0), keep=True)
        store.settle()
        assert store.stats.write_failures == 1
        faults.disk_well()
        store.flush()
        assert store.pieces_of(0)[0].where == "both"
    with opened(tmp_path) as store:
        assert store.get(0).tolist() == block(0).tolist()


def test_a_name_that_did_not_reach_the_device_is_no_file(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, files=faults) as store:
        faults.sync_error = OSError(errno.EIO, "Input/output error")
        store.put(0, tokens(0), block(0), keep=True)
        store.settle()
        assert store.pieces_of(0)[0].where == "host"
        assert store.stats.disk_bytes == store.stats.kept_bytes == 0
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(StorageError, match="Input/output error"):
            store.flush()


def test_a_file_that_cannot_be_deleted_is_reported_and_the_others_go(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, host_bytes=0, files=faults) as store:
        for at in range(3):
            store.put(at, tokens(4 * at), block(at))
        store.flush()
        faults.remove_error = OSError(errno.EACCES, "Permission denied")
        with pytest.raises(StorageError, match="cannot be deleted: Permission denied"):
            store.forget_from(4)
        assert [len(store.pieces_of(at)) for at in range(3)] == [1, 0, 0]


def test_a_folder_that_cannot_be_made_is_a_failed_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with small_store(tmp_path / "file" / "kv", host_bytes=200) as store:
        store.put(0, tokens(0), block(0), keep=True)
        with pytest.raises(StorageError, match=r"could not be written to .*kv: Not a directory"):
            store.flush()
        assert store.get(0).tolist() == block(0).tolist()


def test_a_file_is_written_whole_before_it_has_its_name(tmp_path: Path) -> None:
    """The order of the calls to the system is what makes it safe when the power fails."""
    calls: list[str] = []

    class Watched(PieceFiles):
        def write_all(self, descriptor: int, part: memoryview) -> None:
            calls.append("write")
            super().write_all(descriptor, part)

        def commit(self, piece: int, is_kept: bool) -> None:
            calls.append("rename")
            assert self.draft(piece).stat().st_size > 100
            super().commit(piece, is_kept)

        def sync(self) -> None:
            calls.append("sync folder")
            super().sync()

    synced = os.fsync

    def fsync(descriptor: int) -> None:
        calls.append("sync")
        synced(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with small_store(tmp_path, host_bytes=0, files=Watched) as store:
            store.put(0, tokens(0), block(0))
            store.flush()
    assert calls == ["write", "write", "sync", "rename", "sync folder", "sync"]


KILLED = """
import os, signal
from recall_stores import block, small_store, tokens
store = small_store(None, host_bytes=0)
store.put(0, tokens(0), block(0))
store.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL and flock")
def test_the_temporary_folder_of_a_killed_process_goes_when_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session whose process was killed left its gigabytes in the temporary folder for good."""
    here = Path(__file__).parent
    python_path = os.pathsep.join([str(here.parent), str(here)])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": python_path},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (left / "piece-000000000000.kv").exists()
    begun, not_ours = tmp_path / "pace-recall-begun", tmp_path / "pace-recall-file"
    begun.mkdir()
    not_ours.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with small_store(None, host_bytes=0) as first, small_store(None, host_bytes=0) as second:
        for store in (first, second):
            store.put(0, tokens(0), block(0))
            store.flush()
        assert not left.exists()
        assert first.get(0).tolist() == second.get(0).tolist() == block(0).tolist()
    assert set(tmp_path.iterdir()) == {begun, not_ours}


def test_runs_of_tokens() -> None:
    for index in ([0], [5, 6, 7], [0, 2, 3, 9], [1, 3, 5]):
        assert from_ranges(to_ranges(index_array(index))).tolist() == index
    assert to_ranges(index_array([0, 2, 3, 9])) == [[0, 1], [2, 4], [9, 10]]
    for wrong in ([], [[3, 3]], [[4, 2]], [[0, 2], [1, 3]], [[0]], [["a", 2]], [[-1, 2]], [[0, 2**40]]):
        with pytest.raises(ConfigError):
            from_ranges(wrong)  # type: ignore[arg-type]


def index_array(index: list[int]) -> Any:

    return np.array(index, np.int64)
