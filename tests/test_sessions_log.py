"""The log of a session: what is read after a kill, a full disk or a broken one, and what that costs."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE, environment
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions_samples import without_rights

from pace_local.errors import FileError, StorageError
from pace_local.sessions import SessionLog
from pace_local.sessions.scan import line_of, scan
from pace_local.sessions.testing import Disk
from pace_local.sessions.versions import VERSIONS, Versions

HEADER: dict[str, Any] = {"type": "header", "format": 1, "model": "tiny"}


def turn(number: int) -> dict[str, Any]:
    return {"type": "turn", "number": number, "text": f"naïve \ud800 {'x' * (number % 7)}"}


RECORDS = [HEADER, *map(turn, range(5))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of a header and five turns."""
    path = tmp_path / "log"
    with SessionLog.create(path, HEADER) as log:
        for record in RECORDS[1:]:
            log.append(record)
    return path


# Written and read


def test_what_was_written_is_read(path: Path) -> None:
    assert SessionLog.read(path) == (RECORDS, path.stat().st_size, None)


def test_every_line_is_a_json_object_with_its_number(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(6))
    assert [json.loads(line)["record"] for line in lines] == RECORDS
    assert path.read_bytes().isascii()


def test_a_log_goes_on_where_it_was(path: Path) -> None:
    taken: list[Any] = []
    with SessionLog.open(path, taken.append) as log:
        assert (taken, log.problem, log.n_records, log.size) == (RECORDS, None, 6, path.stat().st_size)
        log.append(turn(5))
        assert (log.n_records, log.size) == (7, path.stat().st_size)
    assert SessionLog.read(path).records == [*RECORDS, turn(5)]


def test_a_record_is_in_the_file_when_append_returns(path: Path) -> None:
    with SessionLog.open(path) as log:
        log.append(turn(5))
        assert SessionLog.read(path).records[-1] == turn(5)


def test_a_log_is_for_its_user_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_there_is_one_log_of_a_name(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"cannot create .*log: File exists"):
        SessionLog.create(path, HEADER)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"], ids=repr)
def test_what_json_has_no_form_for(value: Any, path: Path) -> None:
    before = path.read_bytes()
    with SessionLog.open(path) as log:
        with pytest.raises((TypeError, ValueError)):
            log.append({"type": "turn", "value": value})
        assert path.read_bytes() == before
        log.append(turn(5))
    assert SessionLog.read(path).records == [*RECORDS, turn(5)]


def test_a_header_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        SessionLog.create(tmp_path / "log", {**HEADER, "x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_closed_log(path: Path) -> None:
    log = SessionLog.open(path)
    log.close()
    log.close()
    for call in (lambda: log.append(turn(5)), log.sync):
        with pytest.raises(
            StorageError, match="is closed after an error or on request; open the session again"
        ):
            call()


# Torn and damaged


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_a_tail_torn_at_every_byte_of_the_last_two_lines(path: Path) -> None:
    """What is whole before the tear is read; the log goes on from there as if there had been no more."""
    lines = _lines(path)
    whole, last_two = b"".join(lines), len(lines[-1]) + len(lines[-2])
    for cut in range(len(whole) - last_two, len(whole) + 1):
        path.write_bytes(whole[:cut])
        n = sum(1 for i in range(1, 7) if sum(map(len, lines[:i])) <= cut)
        good = sum(map(len, lines[:n]))
        contents = SessionLog.read(path)
        assert contents.records == RECORDS[:n]
        assert contents.good_bytes == good
        said = None if good == cut else f"{path}, line {n + 1}: it was never finished; it is left out"
        assert contents.problem == said
        assert path.read_bytes() == whole[:cut]
        with SessionLog.open(path) as log:
            assert log.problem == said
            assert path.read_bytes() == whole[:good]
            log.append(turn(9))
        assert SessionLog.read(path) == ([*RECORDS[:n], turn(9)], path.stat().st_size, None)
    assert [item.name for item in path.parent.iterdir()] == ["log"]


def test_every_flipped_bit_is_noticed(path: Path) -> None:
    """What is before the line is kept and what is behind it is not trusted."""
    lines = _lines(path)
    whole = b"".join(lines)
    before = len(lines[0]) + len(lines[1])
    for place in range(before, before + len(lines[2])):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            contents = SessionLog.read(path)
            assert contents.records == RECORDS[:2], (place, bit)
            assert contents.good_bytes == before
            assert contents.problem is not None
            assert contents.problem.startswith(f"{path}, line 3: ")
            assert contents.problem.endswith("; it and what follows are left out")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:2] + lines[3:], "it has the number 3 instead of 2"),
        (lambda lines: lines[:2] + lines[1:], "it has the number 1 instead of 2"),
        (lambda lines: [*lines[:2], b"\0" * 40 + b"\n", *lines[2:]], "it is no line of a session's log"),
        (lambda lines: [*lines[:2], b"\n", *lines[2:]], "it is no line of a session's log"),
    ],
)
def test_lines_that_were_moved_or_changed(change: Any, said: str, path: Path) -> None:
    path.write_bytes(b"".join(change(_lines(path))))
    contents = SessionLog.read(path)
    assert contents.records == RECORDS[:2]
    assert contents.problem == f"{path}, line 3: {said}; it and what follows are left out"


def test_a_line_of_another_log_is_refused(path: Path, tmp_path: Path) -> None:
    """It has the right number and a checksum of its own."""
    other = tmp_path / "other"
    with SessionLog.create(other, {**HEADER, "model": "other"}) as log:
        log.append(turn(0))
        log.append(turn(1))
    lines = _lines(path)
    lines[2] = _lines(other)[2]
    path.write_bytes(b"".join(lines))
    contents = SessionLog.read(path)
    assert contents.records == RECORDS[:2]
    assert contents.problem == f"{path}, line 3: its checksum is wrong; it and what follows are left out"


def test_damage_is_cut_off_and_kept_beside_the_log(path: Path) -> None:
    for number in (1, 2):
        lines = _lines(path)
        lines[3] = lines[3].replace(b"turn", b"tern")
        rest = b"".join(lines[3:])
        path.write_bytes(b"".join(lines))
        with SessionLog.open(path) as log:
            assert log.problem == f"{path}, line 4: its checksum is wrong; it and what follows are left out"
            log.append(turn(2))
        assert SessionLog.read(path) == (RECORDS[:4], path.stat().st_size, None)
        kept = path.with_name(f"log.cut-{number}")
        assert kept.read_bytes() == rest
    assert sorted(item.name for item in path.parent.iterdir()) == ["log", "log.cut-1", "log.cut-2"]


def test_what_does_not_fit_is_cut_off_like_damage(path: Path) -> None:
    def take(record: dict[str, Any]) -> None:
        if record.get("number") == 2:
            raise ValueError("there were no two")

    size = path.stat().st_size
    with SessionLog.open(path, take) as log:
        assert log.problem == f"{path}, line 4: there were no two; it and what follows are left out"
    assert SessionLog.read(path).records == RECORDS[:3]
    assert path.stat().st_size + path.with_name("log.cut-1").stat().st_size == size


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 6))
def test_no_bytes_behind_a_right_line_are_taken_for_a_record(
    tmp_path_factory: Any, junk: bytes, n: int
) -> None:
    folder = tmp_path_factory.mktemp("junk")
    path = folder / "log"
    with SessionLog.create(path, HEADER) as log:
        for record in RECORDS[1 : n + 1]:
            log.append(record)
    expected = SessionLog.read(path).records
    with path.open("ab") as file:
        file.write(junk)
    contents = SessionLog.read(path)
    assert contents.records == expected
    assert (contents.problem is None) == (junk == b"")
    SessionLog.open(path).close()
    assert SessionLog.read(path) == (expected, path.stat().st_size, None)


def test_a_record_that_is_nested_too_deeply(path: Path) -> None:
    depth = 200_000
    body = b'{"a":' * depth + b"1" + b"}" * depth
    before = int(json.loads(_lines(path)[-1])["crc"], 16)
    with path.open("ab") as file:
        file.write(b'{"n":6,"crc":"%08x","record":%b}\n' % (zlib.crc32(body, before), body))
    assert SessionLog.read(path).records == RECORDS
    assert "line 7: it is nested too deeply" in str(SessionLog.read(path).problem)


# What is no log


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b'{"n":0,"crc":', "line 1: it was never finished"),
        (b"hello\n", "line 1: it is no line of a session's log"),
        (b"\xff\xfe\n", "line 1: it is no line of a session's log"),
        (b'{"type":"session","format":1}\n', "line 1: it is no line of a session's log"),
    ],
)
def test_a_file_that_is_no_log(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    for read in (SessionLog.read, SessionLog.open):
        with pytest.raises(FileError, match=re.escape(f"{path} cannot be read as a session's log: {said}")):
            read(path)  # type: ignore[operator]
    assert path.read_bytes() == content


def test_a_log_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "log"
    SessionLog.create(path, {**HEADER, "type": "turn"}).close()
    with pytest.raises(FileError, match="line 1: it is not the header of a session"):
        SessionLog.read(path)


def test_a_header_that_does_not_fit(path: Path) -> None:
    def refuse(record: dict[str, Any]) -> None:
        raise ValueError("no such model")

    before = path.read_bytes()
    with pytest.raises(FileError, match="line 1: no such model"):
        SessionLog.open(path, refuse)
    assert path.read_bytes() == before


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is no session: it has no log"):
        SessionLog.read(tmp_path / "log")
    with pytest.raises(StorageError, match=r"cannot open .*: No such file"):
        SessionLog.open(tmp_path / "log")
    with pytest.raises(StorageError, match=r"cannot create .*: No such file"):
        SessionLog.create(tmp_path / "none" / "log", HEADER)


def test_a_log_that_may_not_be_read(path: Path) -> None:
    with without_rights(path):
        with pytest.raises(StorageError, match=r"cannot read .*: Permission denied"):
            SessionLog.read(path)
        with pytest.raises(StorageError, match=r"cannot open .*: Permission denied"):
            SessionLog.open(path)
    assert SessionLog.read(path).records == RECORDS


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    with without_rights(tmp_path), pytest.raises(StorageError, match=r"cannot create .*: Permission denied"):
        SessionLog.create(tmp_path / "log", HEADER)


def test_a_folder_in_place_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(StorageError, match=r"cannot read .*: Is a directory"):
        SessionLog.read(tmp_path / "log")


# Full and broken disks


@pytest.mark.parametrize("room", [0, 1, 30, "all but one"])
def test_a_full_disk(room: Any, path: Path) -> None:
    """The log is as it was, can be read, and goes on when there is room again."""
    disk = Disk()
    log = SessionLog.open(path, open_file=disk.open_file)
    whole = path.read_bytes()
    if room == "all but one":
        log.append(turn(5))
        room = path.stat().st_size - len(whole) - 1
        log.close()
        path.write_bytes(whole)
        log = SessionLog.open(path, open_file=disk.open_file)
    disk.room = room
    with pytest.raises(StorageError, match=r"cannot write .*log: No space left on device"):
        log.append(turn(5))
    assert path.read_bytes() == whole
    assert SessionLog.read(path) == (RECORDS, len(whole), None)
    disk.room = None
    log.append(turn(6))
    log.close()
    assert SessionLog.read(path).records == [*RECORDS, turn(6)]


def test_a_full_disk_that_cannot_even_be_cut(path: Path) -> None:
    """Half a line stays, and nothing follows it."""
    disk = Disk()
    log = SessionLog.open(path, open_file=disk.open_file)
    disk.room, disk.refuses_truncate = 30, True
    with pytest.raises(StorageError, match="No space left on device"):
        log.append(turn(5))
    disk.room, disk.refuses_truncate = None, False
    with pytest.raises(StorageError, match="is closed after an error"):
        log.append(turn(6))
    assert SessionLog.read(path).records == RECORDS
    with SessionLog.open(path) as again:
        assert str(again.problem).endswith("line 7: it was never finished; it is left out")
        again.append(turn(6))
    assert SessionLog.read(path).records == [*RECORDS, turn(6)]


def test_a_full_disk_at_the_first_line(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No space left on device"):
        SessionLog.create(tmp_path / "log", HEADER, open_file=Disk(room=10).open_file)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_for_a_moment(path: Path) -> None:
    """A write that takes a part is followed by another."""
    log = SessionLog.open(path)
    file = log._file
    assert file is not None
    write = file.write
    file.write = lambda data: write(data[:7])  # type: ignore[method-assign]
    log.append(turn(5))
    log.close()
    assert SessionLog.read(path).records == [*RECORDS, turn(5)]


def test_a_disk_that_fails_to_sync(path: Path) -> None:
    """What is on it is not known then, so the log takes no more."""
    disk = Disk()
    log = SessionLog.open(path, open_file=disk.open_file)
    log.append(turn(5))
    disk.refuses_sync = True
    with pytest.raises(StorageError, match=r"cannot sync .*log: Input/output error"):
        log.sync()
    with pytest.raises(StorageError, match="is closed after an error"):
        log.append(turn(6))
    assert SessionLog.read(path).records == [*RECORDS, turn(5)]


def test_no_room_to_keep_what_is_damaged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is cut off."""
    lines = _lines(path)
    lines[3] = lines[3].replace(b"turn", b"tern")
    path.write_bytes(b"".join(lines))
    monkeypatch.setattr("pace_local.sessions.log.LogFile", Disk(room=20).open_file)
    with pytest.raises(StorageError, match="No space left on device"):
        SessionLog.open(path, open_file=Disk().open_file)
    assert path.read_bytes() == b"".join(lines)
    assert [item.name for item in path.parent.iterdir()] == ["log"]


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limit on the size of a file")
def test_a_limit_of_the_system_on_the_size_of_files(path: Path) -> None:
    whole = path.read_bytes()
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from pace_local.errors import StorageError\n"
        "from pace_local.sessions import SessionLog\n"
        "log = SessionLog.open(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 50, resource.RLIM_INFINITY))\n"
        "try: log.append({'type': 'turn', 'text': 'x' * 500})\n"
        "except StorageError as error: print(error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "log.append({'type': 'turn', 'text': 'after'})\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, path],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"cannot write {path}: {os.strerror(errno.EFBIG)}\n"
    assert path.read_bytes().startswith(whole)
    assert SessionLog.read(path).records == [*RECORDS, {"type": "turn", "text": "after"}]


# Versions


def _upgrade(record: dict[str, Any]) -> dict[str, Any]:
    """From a version in which turns were numbered from 1, under another name."""
    if record["type"] == "header":
        return record
    return {"type": "turn", "number": record["count"] - 1, "text": record["text"]}


OLD = Versions(1, {0: _upgrade})
NEWER = Versions(2, {0: _upgrade, 1: lambda record: {**record, "is_new": True}})


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    with SessionLog.create(path, {**HEADER, "format": 0}) as log:
        for record in RECORDS[1:]:
            log.append({"type": "turn", "count": record["number"] + 1, "text": record["text"]})
    return path


def test_a_newer_version_is_refused(path: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    SessionLog.create(newer, {**HEADER, "format": 2}).close()
    before = newer.read_bytes()
    for read in (SessionLog.read, SessionLog.open):
        with pytest.raises(
            FileError, match=r"format 2 is newer than this version of pace reads \(1\); use a newer"
        ):
            read(newer)  # type: ignore[operator]
    assert newer.read_bytes() == before


def test_an_older_version_that_nobody_can_read_any_more(old: Path) -> None:
    with pytest.raises(FileError, match=r"format 0 is older than this version of pace reads \(1\)"):
        SessionLog.read(old)
    newest = old.with_name("newest")
    SessionLog.create(newest, {**HEADER, "format": 3}).close()
    with pytest.raises(FileError, match=r"format 3 is newer than this version of pace reads \(0 to 2\)"):
        SessionLog.read(newest, versions=NEWER)


@pytest.mark.parametrize("value", [None, "1", 1.0, True, -1])
def test_a_version_that_is_none(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line_of({**HEADER, "format": value}, 0, 0)[0])
    with pytest.raises(FileError, match="line 1: 'format' is "):
        SessionLog.read(path)


def test_an_older_version_is_read_as_the_newest(old: Path) -> None:
    before = old.read_bytes()
    assert SessionLog.read(old, versions=OLD).records == RECORDS
    newest = [{**record, "is_new": True} for record in RECORDS]
    assert SessionLog.read(old, versions=NEWER).records == [{**newest[0], "format": 2}, *newest[1:]]
    assert old.read_bytes() == before


def test_an_older_version_is_written_anew_before_it_goes_on(old: Path) -> None:
    taken: list[Any] = []
    with SessionLog.open(old, taken.append, versions=OLD) as log:
        assert taken == RECORDS
        log.append(turn(5))
        assert (log.n_records, log.size) == (7, old.stat().st_size)
    assert SessionLog.read(old) == ([*RECORDS, turn(5)], old.stat().st_size, None)
    assert [item.name for item in old.parent.iterdir()] == ["old"]


def test_an_older_version_with_a_torn_tail(old: Path) -> None:
    lines = _lines(old)
    old.write_bytes(b"".join(lines)[:-5])
    with SessionLog.open(old, versions=OLD) as log:
        assert str(log.problem).endswith("line 6: it was never finished; it is left out")
    assert SessionLog.read(old) == (RECORDS[:-1], old.stat().st_size, None)


def test_an_older_version_when_there_is_no_room(old: Path) -> None:
    (old.parent / "old.new").write_bytes(b"left by a kill")
    before, disk = old.read_bytes(), Disk(room=200)
    with pytest.raises(StorageError, match="No space left on device"):
        SessionLog.open(old, versions=OLD, open_file=disk.open_file)
    assert old.read_bytes() == before
    assert [item.name for item in old.parent.iterdir()] == ["old"]


def test_a_record_that_is_not_of_its_version(old: Path) -> None:
    with SessionLog.open(old, versions=Versions(0)) as log:
        log.append({"type": "turn"})
    contents = SessionLog.read(old, versions=OLD)
    assert contents.records == RECORDS
    assert "line 7: it does not fit format 0: KeyError('count')" in str(contents.problem)


# What it costs


def test_appending_costs_one_write_and_reads_nothing(tmp_path: Path) -> None:
    path, disk, n = tmp_path / "log", Disk(), 10_000
    with SessionLog.create(path, HEADER, open_file=disk.open_file) as log:
        for number in range(n):
            log.append(turn(number))
    assert disk.lines_read == 0
    assert disk.syncs == 1
    assert len(disk.writes) == n + 1
    assert sum(disk.writes) == path.stat().st_size
    taken: list[Any] = []
    with SessionLog.open(path, taken.append, open_file=disk.open_file) as log:
        assert disk.lines_read == n + 1
        log.append(turn(n))
        log.append(turn(n + 1))
    assert disk.lines_read == n + 1
    assert len(disk.writes) == n + 3
    assert taken == [HEADER, *map(turn, range(n))]


def test_a_record_is_handed_on_before_the_next_line_is_read(path: Path) -> None:
    """A log of any size is read without holding it."""
    pulled, seen = 0, []

    def lines() -> Iterator[bytes]:
        nonlocal pulled
        for line in _lines(path):
            pulled += 1
            yield line

    scan(lines(), lambda record: seen.append(pulled), VERSIONS)
    assert seen == [1, 2, 3, 4, 5, 6]
