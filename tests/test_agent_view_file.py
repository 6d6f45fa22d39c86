"""A kept session's folder says what its memory holds, for other processes, at little cost."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, SHOP, Runs, make_repository
from session_pair import TALKER, tiny_session

from pace_agent.events import AgentEvent, Ended, Memory, Prompted, Started, Turned, Undone, Warned, Wrote
from pace_agent.memory_view import memory_view
from pace_agent.sessions.log import delete, session_path
from pace_agent.sessions.places import check_parts
from pace_agent.sessions.view_file import ViewFile, read_view
from pace_local import Model, Session
from pace_local.testing import TinySpec

EVICTED = Memory({"type": "evicted", "count": 3})
PROGRESS = Memory({"type": "progress", "done": 1, "total": 2})
TURNED = Turned(1, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
STARTED = Started("one", "shop", "tiny", "tools", "ask", "pace_focus", 96, 160)


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_AGENTS_DIR", str(tmp_path / "agents"))


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def session(model: Model) -> Iterator[Session]:
    with tiny_session(model) as session:
        yield session


class Looker:
    """A view file, its clock, and when it was written."""

    def __init__(self, folder: Path, session: Session) -> None:
        self.now = 1_000.0
        self.worked = self.costs = 0.0
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.file = ViewFile(folder, session, lambda: self.now, self._timer)

    def _timer(self) -> float:
        self.worked += self.costs
        return self.worked

    def hear(self, event: AgentEvent, *, after: float) -> bool:
        """Whether an event that comes so many seconds later is worth a view."""
        self.now += after
        self.file.hear(event)
        timed = read_view(self.folder)
        return timed is not None and timed.at == self.now


def test_a_view_at_each_rest_and_once_a_second_at_work(tmp_path: Path, session: Session) -> None:
    looker = Looker(tmp_path / "one", session)
    assert not looker.hear(Warned("careful"), after=5)
    assert looker.hear(STARTED, after=0.1)
    assert looker.hear(EVICTED, after=0.1)  # the user's own command: nothing else follows
    assert not looker.hear(Prompted("do it", "prompt:1", 1), after=0.1)
    assert not looker.hear(EVICTED, after=0.5)
    assert looker.hear(EVICTED, after=0.5)
    assert not looker.hear(Wrote("a"), after=0.9)
    assert not looker.hear(PROGRESS, after=1)  # residents may be set aside just now
    assert looker.hear(Wrote("b"), after=0.1)
    for at_rest in (TURNED, Undone(1, (), ()), Ended("done", "", 1, 1.0)):
        assert looker.hear(at_rest, after=0.01), at_rest
    looker.now -= 3_600  # the clock was set back
    looker.hear(Prompted("again", "prompt:2", 2), after=0)
    assert looker.hear(EVICTED, after=0.1)


def test_where_a_view_takes_long_they_are_rarer(tmp_path: Path, session: Session) -> None:
    """Half a percent of the time, at most."""
    looker = Looker(tmp_path / "one", session)
    looker.costs = 0.02
    assert looker.hear(STARTED, after=1)
    looker.hear(Prompted("do it", "prompt:1", 1), after=0)
    assert not looker.hear(EVICTED, after=3.9)
    assert looker.hear(EVICTED, after=0.2)
    assert looker.hear(TURNED, after=0.1)  # one at each rest, all the same
    looker.costs = 0.001
    assert looker.hear(EVICTED, after=4.1)
    assert looker.hear(EVICTED, after=1.1)


def test_it_is_the_user_s_alone_and_replaced_in_one_step(tmp_path: Path, session: Session) -> None:
    looker = Looker(tmp_path / "one", session)
    before = os.umask(0)
    try:
        assert looker.hear(STARTED, after=1)
    finally:
        os.umask(before)
    path = looker.folder / "memory.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("rb") as old:  # whoever reads it meanwhile reads it whole
        session.append("more text")
        assert looker.hear(TURNED, after=1)
        document = json.loads(old.read())
    assert (document["at"], document["view"]["session_tokens"]) == (1_001.0, 0)
    assert os.listdir(looker.folder) == ["memory.json"]
    timed = read_view(looker.folder)
    assert timed is not None
    assert timed.view.session_tokens == session.session_length


def test_a_disk_that_takes_nothing_stops_no_work(tmp_path: Path, session: Session) -> None:
    looker = Looker(tmp_path / "one", session)
    shutil.rmtree(looker.folder)
    assert not looker.hear(STARTED, after=1)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"format": 2, "at": 1, "view": {}}', b'{"format": 1, "at": "x", "view": {}}',
     b'{"format": 1, "at": 1, "view": {"budget": 3}}', b'{"format": 1, "at": 1, "view": 7}', b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_view_is_none(tmp_path: Path, content: bytes) -> None:
    assert read_view(tmp_path) is None
    (tmp_path / "memory.json").write_bytes(content)
    assert read_view(tmp_path) is None


def test_one_that_others_could_have_written_is_none(tmp_path: Path, session: Session) -> None:
    looker = Looker(tmp_path / "one", session)
    assert looker.hear(STARTED, after=1)
    (looker.folder / "memory.json").chmod(0o666)
    assert read_view(looker.folder) is None


def test_an_agent_s_session_has_it_until_it_is_deleted(model: Model, tmp_path: Path) -> None:
    """What lies there is what the agent's session holds, after a run and after an undo."""
    shop = make_repository(tmp_path / "shop", SHOP)
    with Runs(model, shop, [PLAN, EDIT, DONE], session="cart") as runs:
        folder = session_path("cart")

        def is_as_it_is() -> bool:
            timed, now = read_view(folder), memory_view(runs.agent.session)
            assert timed is not None
            return (timed.view.residents, timed.view.segments) == (now.residents, now.segments)

        assert runs.run(FIX).reason == "done"
        assert is_as_it_is()
        runs.agent.undo()
        assert is_as_it_is()
        other = next(row.name for row in memory_view(runs.agent.session).segments if not row.pinned)
        runs.agent.session.evict(other)
        assert is_as_it_is()
    (folder / "memory.json.0123abcd.new").write_text("{")  # its writer was killed
    assert "memory.json" in check_parts(folder)
    delete("cart")
    assert not folder.exists()


def test_a_session_that_is_not_kept_leaves_none(model: Model, tmp_path: Path) -> None:
    shop = make_repository(tmp_path / "shop", SHOP)
    with Runs(model, shop, [PLAN, EDIT, DONE], session="") as runs:
        assert runs.run(FIX).reason == "done"
        assert not list(tmp_path.rglob("memory.json"))
