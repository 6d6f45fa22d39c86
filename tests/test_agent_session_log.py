from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_agent_events import ARGUMENTS

from pace_agent.events import EVENTS, AgentEvent, Called, Ended, Prompted, Undone, Warned, Wrote
from pace_agent.sessions.events import EventFile, read_events, whole_lines
from pace_agent.sessions.log import SessionFolder, delete, follow, list_sessions, session_path
from pace_agent.sessions.places import agents_root
from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.sessions.folder import log_path
from pace_local.sessions.lock import SessionInUseError
from pace_local.sessions.testing import Disk

FIRST_OF_MARCH = 1_772_375_400.25  # 2026-03-01 14:30:00.25 UTC

ANY_EVENT = st.sampled_from(list(EVENTS.values())).flatmap(
    lambda kind: st.builds(kind, **ARGUMENTS.get(kind, {}))
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "agents"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    path.mkdir()
    return path


class Clock:
    """A clock that goes on by a second each time it is asked."""

    def __init__(self, now: float = FIRST_OF_MARCH) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 1
        return self.now - 1


def prompted(text: str, number: int) -> Prompted:
    return Prompted(text, f"user:{number}", number)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_sessions_lie_in_the_data_folder_or_where_the_variable_says(tmp_path: Path) -> None:
    assert agents_root({}) == platformdirs.user_data_path("pace-local", appauthor=False) / "agents"
    assert agents_root({"PACE_AGENTS_DIR": str(tmp_path)}) == tmp_path
    with pytest.raises(ConfigError, match="PACE_AGENTS_DIR is '~no-such-user-here/a'"):
        agents_root({"PACE_AGENTS_DIR": "~no-such-user-here/a"})
    assert session_path("a", tmp_path) == tmp_path / "a"


def test_names_tell_time_and_repository_and_sort_by_age(root: Path, shop: Path) -> None:
    names = []
    for now in (FIRST_OF_MARCH, FIRST_OF_MARCH, FIRST_OF_MARCH + 1):
        with SessionFolder.create(None, shop, root=root, clock=lambda now=now: now) as session:
            names.append(session.name)
    assert names == ["2026-03-01-143000-shop", "2026-03-01-143000-shop-2", "2026-03-01-143001-shop"]
    assert sorted(names) == names


@pytest.mark.parametrize(
    ("folder", "slug"), [("Ä b.c", "-b-c"), ("日本", ""), ("x" * 60, "-" + "x" * 40), ("-.-", "")]
)
def test_any_repository_s_name_gives_a_name(tmp_path: Path, root: Path, folder: str, slug: str) -> None:
    (tmp_path / folder).mkdir()
    with SessionFolder.create(None, tmp_path / folder, root=root, clock=lambda: FIRST_OF_MARCH) as session:
        name = session.name
    assert name == f"2026-03-01-143000{slug}"
    SessionFolder.open(name, root=root).close()


def test_the_folder_is_its_user_s_alone(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
        session.save_state({"a": 1})
        assert mode_of(root) == mode_of(session.path) == 0o700
        for folder in (session.journal, session.output):
            assert mode_of(folder) == 0o700
        files = [path for path in session.path.iterdir() if path.is_file()]
        assert {path.name for path in files} == {"session.json", "events.jsonl", "state.json", "lock"}
        assert {mode_of(path) for path in files} == {0o600}
        assert session.kv == session.path / "kv"
        assert not session.kv.exists()  # the library makes it


def test_events_come_back_with_their_times_also_in_another_process(root: Path, shop: Path) -> None:
    events: list[AgentEvent] = [prompted("fix it", 1), Wrote("ä\n\ud800"), Ended("done", "ok", 1, 0.5)]
    clock = Clock()
    with SessionFolder.create("one", shop, root=root, clock=clock) as session:
        for event in events[:2]:
            session.log(event)
        first = list(session.events())
        assert session.started == FIRST_OF_MARCH
    assert first == [(FIRST_OF_MARCH + 1, events[0]), (FIRST_OF_MARCH + 2, events[1])]
    with SessionFolder.open("one", root=root, clock=clock) as session:
        assert (session.repository, session.started) == (shop, FIRST_OF_MARCH)
        session.log(events[2])
        assert list(session.events()) == [*first, (FIRST_OF_MARCH + 3, events[2])]
        assert session.skipped == 0
    lines = (root / "one" / "events.jsonl").read_text("ascii").splitlines()
    assert json.loads(lines[0]) == {
        "at": FIRST_OF_MARCH + 1,
        "type": "prompted",
        "prompt": "fix it",
        "segment": "user:1",
        "number": 1,
    }


@settings(max_examples=60, deadline=None)
@given(events=st.lists(ANY_EVENT, max_size=5), data=st.data())
def test_what_was_logged_comes_back_also_after_a_cut_at_any_byte(
    tmp_path_factory: pytest.TempPathFactory, events: list[AgentEvent], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("agents")
    with SessionFolder.create("one", root, root=root, clock=lambda: FIRST_OF_MARCH) as session:
        ends = [0]
        for event in events:
            session.log(event)
            ends.append((session.path / "events.jsonl").stat().st_size)
        assert as_text(event for _, event in session.events()) == as_text(events)
        assert session.skipped == 0
    cut = data.draw(st.integers(0, ends[-1]))
    path = session.path / "events.jsonl"
    os.truncate(path, cut)
    left = sum(end <= cut for end in ends) - 1
    with SessionFolder.open("one", root=root) as session:
        assert path.stat().st_size == ends[left]
        session.log(Warned("after"))
        found = [event for _, event in session.events()]
    assert as_text(found) == as_text([*events[:left], Warned("after")])
    shutil.rmtree(root)


def test_no_cut_loses_more_than_the_line_that_it_goes_through(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events: list[AgentEvent] = [Wrote("a\n"), Called(1, "read", {"path": "b"}), Warned("c")]
    file = EventFile(path, lambda: FIRST_OF_MARCH)
    for event in events:
        file.add(event)
    file.close()
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        left = whole[:cut].count(b"\n")
        again = EventFile(path, lambda: FIRST_OF_MARCH)
        assert [event for _, event in read_events(path)] == events[:left]
        for event in events[left:]:
            again.add(event)
        again.close()
        assert path.read_bytes() == whole


def as_text(events: Any) -> list[str]:
    """Events by what is in them: NaN is not equal to itself."""
    return [repr(event) for event in events]


def test_a_line_longer_than_a_block_that_was_cut_is_cut_off(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
        size = (session.path / "events.jsonl").stat().st_size
        session.log(Wrote("b" * 300_000))
    os.truncate(session.path / "events.jsonl", size + 250_000)
    with SessionFolder.open("one", root=root) as session:
        assert (session.path / "events.jsonl").stat().st_size == size
        assert [event for _, event in session.events()] == [Wrote("a")]


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 40,
        b"{}",
        b"[1]",
        b'{"at": 1, "type": "from_a_later_version"}',
        b'{"at": "x", "type": "wrote", "written": "a"}',
        b'{"at": true, "type": "wrote", "written": "a"}',
        b'{"type": "wrote", "written": "a"}',
        b'{"at": 1, "type": "wrote"}',
        b'{"at": 1' + b"0" * 400 + b', "type": "wrote", "written": "a"}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_line_that_cannot_be_read_is_left_out_and_counted(root: Path, shop: Path, line: bytes) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
        with (session.path / "events.jsonl").open("ab") as file:
            file.write(line + b"\n")
    with SessionFolder.open("one", root=root) as session:
        session.log(Wrote("b"))
        for _ in range(2):
            assert [event for _, event in session.events()] == [Wrote("a"), Wrote("b")]
            assert session.skipped == 1


def test_fields_of_a_later_version_do_no_harm(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        (session.path / "events.jsonl").write_text('{"at": 1, "type": "wrote", "written": "a", "new": 1}\n')
        assert list(session.events()) == [(1.0, Wrote("a"))]


def test_events_of_several_threads_do_not_mix(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        threads = [
            threading.Thread(target=lambda: [session.log(Wrote("x" * 3_000)) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [event for _, event in session.events()] == [Wrote("x" * 3_000)] * 200


@pytest.mark.parametrize("room", [0, 1, 60])
def test_a_full_disk_loses_only_what_did_not_fit(root: Path, shop: Path, room: int) -> None:
    disk = Disk()
    with SessionFolder.create("one", shop, root=root, open_file=disk.open_file) as session:
        session.log(Wrote("a"))
        disk.room = room
        with pytest.raises(StorageError, match=r"cannot write .*events\.jsonl: No space left"):
            session.log(Wrote("b" * 100))
        assert [event for _, event in session.events()] == [Wrote("a")]
        with pytest.raises(StorageError, match="No space left"):
            session.log(Wrote("c" * 100))
        disk.room = None
        session.log(Wrote("d"))
        assert [event for _, event in session.events()] == [Wrote("a"), Wrote("d")]
        assert session.skipped == 0


def test_a_disk_that_cannot_even_cut_off_half_a_line_keeps_the_rest_whole(root: Path, shop: Path) -> None:
    disk = Disk()
    with SessionFolder.create("one", shop, root=root, open_file=disk.open_file) as session:
        session.log(Wrote("a"))
        disk.room, disk.refuses_truncate = 10, True
        for _ in range(2):
            with pytest.raises(StorageError):
                session.log(Wrote("b"))
        disk.room = None
        with pytest.raises(StorageError):  # half a line is still there
            session.log(Wrote("c"))
    with SessionFolder.open("one", root=root) as session:
        session.log(Wrote("d"))
        assert [event for _, event in session.events()] == [Wrote("a"), Wrote("d")]


def test_a_writer_that_writes_little_by_little_still_writes_all(root: Path, shop: Path) -> None:
    class Slow(Disk):
        def open_file(self, path: Path, *, create: bool = False) -> Any:
            file = super().open_file(path, create=create)
            whole = file.write
            file.write = lambda data: whole(data[:7])  # type: ignore[method-assign]
            return file

    with SessionFolder.create("one", shop, root=root, open_file=Slow().open_file) as session:
        session.log(Wrote("a" * 100))
        assert [event for _, event in session.events()] == [Wrote("a" * 100)]


def test_the_state_is_as_last_saved(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        assert session.state() == {}
        session.save_state({"turn": 1, "list": [1, None], "text": "ä\ud800"})
        with pytest.raises(TypeError):
            session.save_state({"turn": object()})
    with SessionFolder.open("one", root=root) as session:
        assert session.state() == {"turn": 1, "list": [1, None], "text": "ä\ud800"}
        session.save_state({})
        assert session.state() == {}


@pytest.mark.parametrize("text", ["{", "[]", "1", "\0"])
def test_a_broken_state_is_refused(root: Path, shop: Path, text: str) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.save_state({})
        (session.path / "state.json").write_text(text)
        with pytest.raises(FileError, match=r"state\.json"):
            session.state()


@pytest.mark.skipif(os.name != "posix", reason="rights of others")
def test_a_state_that_others_could_have_written_is_refused(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.save_state({})
        (session.path / "state.json").chmod(0o666)
        with pytest.raises(FileError, match="other users"):
            session.state()


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "a/b", "a\\b", "a b", "a\0", "ä", "a" * 101])
def test_a_name_that_cannot_be_one_is_refused(root: Path, shop: Path, name: str) -> None:
    actions: list[Callable[[], object]] = [
        lambda: SessionFolder.create(name, shop, root=root),
        lambda: SessionFolder.open(name, root=root),
        lambda: delete(name, root=root),
    ]
    for action in actions:
        with pytest.raises(ConfigError, match="is no name of a session"):
            action()
    assert not root.exists()


def test_a_name_that_is_taken_is_refused(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
    with pytest.raises(FileError, match="there is a session one already"):
        SessionFolder.create("one", shop, root=root)
    (root / "two").mkdir()
    (root / "two" / "thesis.txt").write_text("x")
    (root / "three").write_text("x")
    (root / "four").mkdir()
    (root / "four" / "events.jsonl").write_text("{}\n")
    for name in ("two", "three", "four"):
        with pytest.raises(FileError, match="is no session; give another name"):
            SessionFolder.create(name, shop, root=root)
    assert (root / "two" / "thesis.txt").read_text() == "x"


def test_what_was_killed_before_it_began_is_begun_again(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        pass
    (session.path / "session.json").unlink()
    assert list_sessions(root=root) == []
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
    assert [each.name for each in list_sessions(root=root)] == ["one"]


def test_a_failed_beginning_lets_go_of_the_lock(root: Path, shop: Path) -> None:
    disk = Disk()

    def refuse(path: Path, *, create: bool = False) -> Any:
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        SessionFolder.create("one", shop, root=root, open_file=refuse)
    SessionFolder.create("one", shop, root=root, open_file=disk.open_file).close()
    with pytest.raises(StorageError, match="No space left"):
        SessionFolder.open("one", root=root, open_file=refuse)
    SessionFolder.open("one", root=root).close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, shop: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot make"):
        SessionFolder.create("one", shop, root=tmp_path / "file" / "agents")


@pytest.mark.parametrize("name", ["no", "file", "empty"])
def test_what_is_no_session_cannot_be_gone_on_with(root: Path, name: str) -> None:
    root.mkdir()
    (root / "file").write_text("x")
    (root / "empty").mkdir()
    with pytest.raises(FileError, match=f"there is no session {name}"):
        SessionFolder.open(name, root=root)
    with pytest.raises(FileError, match=f"there is no session {name}"):
        delete(name, root=root)
    assert not (root / "empty" / "lock").exists()


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('{"format": 2, "repository": "/a", "started": 1}', "is of format 2, not 1"),
        ('{"format": 1, "repository": 3, "started": 1}', "no repository and time"),
        ('{"format": 1, "repository": "/a", "started": true}', "no repository and time"),
        ('{"format": 1, "repository": "/a", "started": NaN}', "no repository and time"),
        ("{", "not valid JSON"),
    ],
)
def test_a_broken_head_is_refused_and_listed_with_its_trouble(
    root: Path, shop: Path, head: str, says: str
) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        pass
    (session.path / "session.json").write_text(head)
    with pytest.raises(FileError, match=says):
        SessionFolder.open("one", root=root)
    (found,) = list_sessions(root=root)
    assert says in found.problem
    assert found.repository == ""
    delete("one", root=root)
    assert list_sessions(root=root) == []


def test_one_process_at_a_time_has_it(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(prompted("a", 1))
        for action in (SessionFolder.open, delete):
            with pytest.raises(SessionInUseError, match="session one is in use by this process"):
                action("one", root=root)
        with pytest.raises(SessionInUseError):
            SessionFolder.latest(shop, root=root)
        (found,) = list_sessions(root=root)
        assert found.holder is not None
        assert found.holder.pid == os.getpid()
    session.close()
    (found,) = list_sessions(root=root)
    assert found.holder is None
    SessionFolder.open("one", root=root).close()


@pytest.mark.skipif(os.name != "posix", reason="kill")
def test_a_killed_process_leaves_a_session_to_go_on_with(root: Path, shop: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from pace_agent.events import Wrote\n"
        "from pace_agent.sessions.log import SessionFolder\n"
        "session = SessionFolder.create('one', sys.argv[2], root=Path(sys.argv[1]))\n"
        "session.log(Wrote('a'))\n"
        "with (session.path / 'events.jsonl').open('ab') as file:\n"
        '    file.write(b\'{"at": 1, "type": "wro\')\n'
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(root), str(shop)], env=environ, check=False)
    assert done.returncode == -signal.SIGKILL
    with SessionFolder.open("one", root=root) as session:
        session.log(Wrote("b"))
        assert [event for _, event in session.events()] == [Wrote("a"), Wrote("b")]


def test_a_closed_session_takes_nothing_more(root: Path, shop: Path) -> None:
    session = SessionFolder.create("one", shop, root=root)
    session.log(Wrote("a"))
    session.close()
    with pytest.raises(ConfigError, match="closed"):
        session.log(Wrote("b"))
    with pytest.raises(ConfigError, match="closed"):
        session.save_state({})
    assert [event for _, event in session.events()] == [Wrote("a")]


def test_sessions_are_listed_by_last_use_with_their_prompts(tmp_path: Path, root: Path, shop: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    logged: dict[str, tuple[Path, list[AgentEvent]]] = {
        "a": (shop, [Wrote('{"type": "prompted"'), prompted("first", 1), prompted("second", 2)]),
        "b": (other, []),
        "d": (other, [prompted("kept", 1), prompted("taken back", 2), Undone(2, (), ())]),
        "c": (
            shop,
            [
                prompted("one", 1),
                prompted("two", 2),
                Undone(2, (), ()),
                Undone(1, (), ()),
                prompted("new", 1),
            ],
        ),
    }
    clock = Clock()
    for name, (folder, events) in logged.items():
        with SessionFolder.create(name, folder, root=root, clock=clock) as session:
            for event in events:
                session.log(event)
            session.kv.mkdir()
            log_path(session.kv).touch()
    with SessionFolder.create("e", shop, root=root, clock=clock) as session:
        assert {each.problem for each in list_sessions(root=root)} == {""}  # it may yet begin
        with pytest.raises(FileError, match="session e was ended before it began; `pace history delete e`"):
            session.check_begun()
    assert list_sessions(root=root)[0].problem.startswith("session e was ended before it began")
    with SessionFolder.latest(shop, root=root) as session:
        session.check_begun()
        assert session.name != "e"
    delete("e", root=root)
    for used, name in enumerate(("b", "d", "c", "a")):
        os.utime(root / name / "events.jsonl", (used, used))
    (root / "stray").mkdir()
    (root / "file").write_text("x")
    found = list_sessions(root=root)
    assert [(each.name, each.first_prompt, each.prompts, each.last_used) for each in found] == [
        ("a", "first", 2, 3.0),
        ("c", "new", 1, 2.0),
        ("d", "kept", 1, 1.0),
        ("b", "", 0, 0.0),
    ]
    assert [each.repository for each in found] == [str(shop), str(shop), str(other), str(other)]
    assert found[0].started == FIRST_OF_MARCH
    assert {each.problem for each in found} == {""}
    link = tmp_path / "link"
    link.symlink_to(shop)
    assert [each.name for each in list_sessions(link, root=root)] == ["a", "c"]
    with SessionFolder.latest(link, root=root) as session:
        assert session.name == "a"
    with pytest.raises(FileError, match=r"there is no session of .* to go on with"):
        SessionFolder.latest(tmp_path, root=root)


def test_without_any_session_the_list_is_empty(root: Path, tmp_path: Path) -> None:
    assert list_sessions(root=root) == []
    (tmp_path / "file").write_text("x")
    assert list_sessions(root=tmp_path / "file") == []


def test_what_is_deleted_is_gone(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
        session.save_state({"a": 1})
        (session.output / "1.txt").write_text("long")
        session.kv.mkdir()
        (session.kv / "block").write_bytes(b"x")
        (session.path / "state.json.0123abcd.new").write_text("of a killed process")
    delete("one", root=root)
    assert list(root.iterdir()) == []


def test_files_of_others_are_never_deleted(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
    (session.path / "thesis.txt").write_text("x")
    with pytest.raises(FileError, match=r"also holds 'thesis\.txt'"):
        delete("one", root=root)
    assert (session.path / "thesis.txt").exists()
    with SessionFolder.open("one", root=root) as session:
        assert [event for _, event in session.events()] == [Wrote("a")]


def test_a_link_in_the_folder_is_deleted_not_what_it_leads_to(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        (shop / "precious").write_text("x")
        session.kv.symlink_to(shop)
    delete("one", root=root)
    assert (shop / "precious").exists()
    assert not session.path.exists()


def texts(found: Iterator[tuple[float, AgentEvent]]) -> list[str]:
    return [event.text for _, event in found]


def steps(*actions: Callable[[], object]) -> Callable[[], bool]:
    """A pause in which one thing happens each; after the last there is one more look."""
    waiting = [*actions, lambda: None]

    def pause() -> bool:
        if waiting:
            waiting.pop(0)()
        return not waiting

    return pause


def test_events_are_followed_while_they_are_logged(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        path = session.path
        session.log(Wrote("a"))
        line = b'{"at": 1, "type": "wrote", "written": "half"}\n'

        def append(data: bytes) -> None:
            with (path / "events.jsonl").open("ab") as file:
                file.write(data)

        pause = steps(
            lambda: session.log(Wrote("b")),
            lambda: None,
            lambda: append(line[:20]),
            lambda: append(line[20:]),
            lambda: append(b"broken\n"),
            lambda: session.log(Wrote("c")),
        )
        assert texts(follow(path, pause=pause)) == ["a", "b", "half", "c"]
        assert texts(follow(path, from_start=False, pause=steps(lambda: session.log(Wrote("d"))))) == ["d"]


def test_nothing_comes_twice_when_the_file_is_cut(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        path = session.path / "events.jsonl"
        for text in "abc":
            session.log(Wrote(text))
        sizes = [0]
        for line in path.read_bytes().splitlines(keepends=True):
            sizes.append(sizes[-1] + len(line))
    assert len(sizes) == 4

    def go_on(*events: str) -> None:
        with SessionFolder.open("one", root=root) as again:
            for each in events:
                again.log(Wrote(each))

    pause = steps(
        lambda: os.truncate(path, sizes[2] + 5),  # within c
        lambda: go_on("d"),
        lambda: os.truncate(path, sizes[1] + 3),  # within b
        lambda: None,
        lambda: go_on(),  # cuts off the rest of b
        lambda: go_on("e", "f" * 200),
    )
    assert texts(follow(session.path, pause=pause)) == ["a", "b", "c", "d", "e", "f" * 200]


def test_a_cut_and_growth_between_two_looks_gives_whole_lines_only(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        for text in "abc":
            session.log(Wrote(text))
    path = session.path / "events.jsonl"

    def replace() -> None:
        os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
        with SessionFolder.open("one", root=root) as again:
            again.log(Wrote("long " * 50))
            again.log(Wrote("last"))

    found = texts(follow(session.path, pause=steps(replace)))
    assert found == ["a", "b", "c", "long " * 50, "last"]


def test_the_rest_of_a_line_that_grows_is_no_line() -> None:
    assert list(whole_lines([b"a\n", b"ha", b"lf\n", b"b\n"])) == [b"a\n"]
    assert list(whole_lines([b"a\n", b"\n"])) == [b"a\n", b"\n"]


def test_lines_that_grow_while_they_are_read_come_once_and_whole(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root, clock=lambda: FIRST_OF_MARCH) as session:
        path = session.path / "events.jsonl"
        session.log(Wrote("x"))
        line = path.read_bytes()
        os.truncate(path, 0)
        over = threading.Event()

        def write() -> None:
            with path.open("ab", buffering=0) as file:
                for number in range(1_500):
                    whole = line.replace(b'"x"', b'"%d "' % number)
                    file.write(whole[: number % len(whole)])
                    file.write(whole[number % len(whole) :])
            over.set()

        thread = threading.Thread(target=write)
        thread.start()
        looks = iter([False, True])  # one more look after the end
        found = texts(follow(session.path, pause=lambda: over.is_set() and next(looks)))
        thread.join()
    assert found == [f"{number} " for number in range(1_500)]


def test_following_ends_when_the_session_is_deleted(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))
    looks = []

    def pause() -> bool:
        looks.append(1)
        if len(looks) == 1:
            delete("one", root=root)
        return len(looks) > 10

    assert texts(follow(session.path, pause=pause)) == ["a"]
    assert len(looks) == 1


def test_another_session_of_the_name_is_followed_from_its_start(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        session.log(Wrote("a"))

    def replace() -> None:
        delete("one", root=root)
        with SessionFolder.create("one", shop, root=root) as again:
            again.log(Wrote("b"))
            again.log(Wrote("c"))

    assert texts(follow(session.path, pause=steps(replace))) == ["a", "b", "c"]


def test_following_waits_for_the_first_event(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        (session.path / "events.jsonl").rename(session.path / "away")
        pause = steps(
            lambda: None,
            lambda: (session.path / "away").rename(session.path / "events.jsonl"),
            lambda: session.log(Wrote("a")),
        )
        assert texts(follow(session.path, pause=pause)) == ["a"]


def test_following_without_a_pause_of_one_s_own_sees_what_another_thread_logs(root: Path, shop: Path) -> None:
    with SessionFolder.create("one", shop, root=root) as session:
        timer = threading.Timer(0.15, lambda: session.log(Wrote("late")))
        timer.start()
        found = follow(session.path)
        assert next(found)[1] == Wrote("late")
        found.close()  # type: ignore[attr-defined]
        timer.join()
