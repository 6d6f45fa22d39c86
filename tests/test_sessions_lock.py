"""One process at a time has a session, and the system frees what a dead one had."""

from __future__ import annotations

import datetime
import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import PATIENCE, start
from sessions_samples import HEADER, store, turn_record, without_rights

from pace_local.errors import FileError, StorageError
from pace_local.sessions import (
    Holder,
    SessionInUseError,
    SessionLock,
    StoredSession,
    holder_of,
    list_sessions,
    lock_path,
    remove_session,
)

HOLD = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from pace_local.sessions import SessionLock\n"
    "lock = SessionLock(Path(sys.argv[1]))\n"
    "print('held', flush=True)\n"
)


@contextmanager
def held(path: Path, then: str = "time.sleep(600)\n") -> Iterator[subprocess.Popen[str]]:
    """While inside, another process holds the lock."""
    process = start(HOLD + then, path)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n", process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    folder.mkdir()
    return folder / "lock"


def test_a_second_process_is_refused_with_who_has_it(path: Path) -> None:
    began = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    with held(path) as process:
        with pytest.raises(SessionInUseError) as caught:
            SessionLock(path)
        holder = caught.value.holder
        assert holder == holder_of(path)
        assert holder.pid == process.pid
        assert holder.since is not None
        since = datetime.datetime.fromisoformat(holder.since)
        assert began <= since <= datetime.datetime.now(datetime.timezone.utc)
        who = f"process {process.pid} since {holder.since}"
        assert str(caught.value) == f"the session session is in use by {who}; close it there first"


def test_a_second_session_of_one_process_is_refused(path: Path) -> None:
    with (
        SessionLock(path),
        pytest.raises(SessionInUseError, match=rf"this process \({os.getpid()}\) since 2"),
    ):
        SessionLock(path)


def test_it_is_free_when_its_holder_lets_go(path: Path) -> None:
    for _ in range(2):
        lock = SessionLock(path)
        assert holder_of(path) is not None
        lock.release()
        lock.release()
        assert holder_of(path) is None
    assert path.read_bytes() == b""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_is_free_when_its_holder_is_killed(number: signal.Signals, path: Path) -> None:
    with held(path) as process:
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -number
        assert json.loads(path.read_bytes())["pid"] == process.pid  # what it said is still there
        assert holder_of(path) is None
        SessionLock(path).release()


def test_a_child_of_the_holder_does_not_keep_it(path: Path) -> None:
    """A child by fork has the file open too; it would hold the lock after its parent's death."""
    then = (
        "import os\n"
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.close(reader)\n"
        "    os.write(writer, b'x')\n"
        "    time.sleep(600)\n"
        "os.read(reader, 1)\n"
        "print('forked', flush=True)\n"
        "time.sleep(600)\n"
    )
    script = HOLD + "import os; os.setsid()\n" + then
    process = start(script, path)
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["held\n", "forked\n"]
        with pytest.raises(SessionInUseError):
            SessionLock(path)  # the child's closing has not freed it either
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        SessionLock(path).release()
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the child; it has a session of its own with its parent
        process.communicate(timeout=PATIENCE)


def test_a_child_by_exec_does_not_keep_it(path: Path) -> None:
    then = (
        "import subprocess\n"
        "words = [sys.executable, '-c', 'input()']\n"
        "child = subprocess.Popen(words, stdin=subprocess.PIPE, close_fds=False)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with held(path, then) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.kill()
        process.wait(PATIENCE)
        SessionLock(path).release()


def test_looking_does_not_take_it(path: Path) -> None:
    """An open that comes while someone looks waits for a moment instead of giving up."""
    then = (
        "lock.release()\n"
        "from pace_local.sessions import holder_of\n"
        "while True: holder_of(Path(sys.argv[1]))\n"
    )
    with held(path, then):
        for _ in range(200):
            SessionLock(path).release()


def test_a_lock_file_that_was_deleted_meanwhile_does_not_count(path: Path) -> None:
    """Who opened it before it was deleted must not have a lock that others do not see."""
    first = SessionLock(path)
    path.unlink()
    second = SessionLock(path)  # a new file
    with pytest.raises(SessionInUseError):
        SessionLock(path)
    first.release()
    with pytest.raises(SessionInUseError):
        SessionLock(path)
    second.release()


def test_what_a_holder_has_not_said_yet(path: Path) -> None:
    with SessionLock(path):
        for content in (b"", b"{", b"[]", b'{"pid":"x","since":1}'):
            path.write_bytes(content)
            assert holder_of(path) == Holder(None, None)
            with pytest.raises(
                SessionInUseError, match="the session session is in use by another process; close"
            ):
                SessionLock(path)


def test_a_lock_that_cannot_be_had(path: Path) -> None:
    assert holder_of(path) is None
    with without_rights(path.parent):
        for act in (SessionLock, holder_of):
            with pytest.raises(StorageError, match=r"cannot (lock|read) .*: Permission denied"):
                act(path)
    with pytest.raises(StorageError, match=r"cannot lock .*: No such file or directory"):
        SessionLock(path.parent / "none" / "lock")


def test_a_full_disk_does_not_keep_the_lock_from_anyone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has it could not be noted; so a session on a full disk could be neither opened nor deleted."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    store(path.parent / "s", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with SessionLock(path):
            assert holder_of(path) == Holder(None, None)
            with pytest.raises(SessionInUseError, match="in use by another process"):
                SessionLock(path)
        assert holder_of(path) is None
        StoredSession.open(path.parent / "s").close()
        remove_session(path.parent / "s")
    assert not (path.parent / "s").exists()


# Whole sessions


def test_two_processes_on_one_session(tmp_path: Path) -> None:
    """The second is refused and changes nothing; the first goes on."""
    folder = tmp_path / "s"
    told = store(folder, 5)[-1]
    with held(lock_path(folder)) as process:
        before = {item: item.read_bytes() for item in folder.iterdir()}
        said = f"the session s is in use by process {process.pid} since "
        for act in (StoredSession.open, remove_session):
            with pytest.raises(SessionInUseError, match=re.escape(said)):
                act(folder)
        assert {item: item.read_bytes() for item in folder.iterdir()} == before
        (summary,) = list_sessions(tmp_path)
        assert summary.in_use
        assert summary.holder is not None
        assert summary.holder.pid == process.pid
        assert (summary.problem, summary.turns) == (None, told.n_turns)
    StoredSession.open(folder).close()
    assert not list_sessions(tmp_path)[0].in_use


def test_a_session_killed_at_any_time_opens_with_all_that_was_written(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from sessions_samples import HEADER, Story\n"
        "from pace_local.sessions import StoredSession\n"
        "story = Story(1)\n"
        "with StoredSession.create(Path(sys.argv[1]), HEADER) as stored:\n"
        "    while True:\n"
        "        stored.append(story.step())\n"
        "        print(stored.state.n_records, flush=True)\n"
    )
    for number in range(3):
        folder = tmp_path / str(number)
        process = start(script, folder, Path(__file__).parent)
        assert process.stdout is not None
        for _ in range(3 + 17 * number):
            assert process.stdout.readline()
        process.kill()
        rest, _ = process.communicate(timeout=PATIENCE)
        with StoredSession.open(folder) as stored:
            said = [int(line) for line in rest.split("\n")[:-1]]
            assert stored.state.n_records >= max(said, default=3 + 17 * number)
            assert stored.problem is None or "it was never finished" in stored.problem


def test_a_session_that_cannot_begin_is_not_held(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with StoredSession.create(folder, HEADER) as stored:
        stored.append(turn_record())
    (folder / "pace-session.jsonl").write_bytes(b"")
    with pytest.raises(FileError, match="it is empty"):
        StoredSession.open(folder)
    assert holder_of(lock_path(folder)) is None
