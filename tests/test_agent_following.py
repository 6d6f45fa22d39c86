"""Another process's session is followed: while its log grows, is cut, is replaced and deleted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, SHOP, Runs, call, make_repository
from session_pair import TALKER

from pace_agent.events import AgentEvent, Ended, Memory, Missed, Prompted, Started, Turned, Undone, Wrote
from pace_agent.sessions.events import read_events
from pace_agent.sessions.following import SessionFollower, choose_session
from pace_agent.sessions.log import SessionFolder, delete, session_path
from pace_local import Model
from pace_local.errors import ConfigError, FileError
from pace_local.testing import TinySpec

STARTED = Started("one", "shop", "tiny", "tools", "ask", "pace_focus", 96, 160)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACE_AGENTS_DIR", str(tmp_path / "agents"))
    return tmp_path / "agents"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    path.mkdir()
    return path


def turned(number: int, *, decoded: int = 10, generated: int = 4) -> Turned:
    return Turned(number, 100 * number, decoded, 2, generated, 100 * number + 14, 90, 95, 1.5, 0.5)


def memory(kind: str, **values: int) -> Memory:
    return Memory({"type": kind, **values})


# Totals


def test_totals_follow_a_log_that_grows(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session, SessionFollower(session.path) as follower:
        assert follower.look() == []
        assert follower.started is None
        for event in (STARTED, Prompted("do it", "prompt:1", 1), Wrote("text"), turned(1)):
            session.log(event)
        assert [event.type for _, event in follower.look()] == ["started", "prompted", "turned"]
        assert follower.started == STARTED
        totals = follower.totals
        assert (totals.turns, totals.reused, totals.decoded, totals.generated) == (1, 100, 10, 4)
        assert totals.is_running
        for event in (
            memory("progress", done=1, total=2), memory("evicted", count=7), memory("evicted", count=5),
            memory("renumbered"), memory("recalled", tokens=9), Missed("a", "spliced", "why"), turned(2),
            Ended("done", "", 2, 1.0),
        ):  # fmt: skip
            session.log(event)
        follower.look()
        assert (totals.evictions, totals.evicted, totals.renumberings) == (2, 12, 1)
        assert (totals.recalls, totals.misses, totals.turns, totals.decoded_again) == (1, 1, 2, 4)
        assert not totals.is_running
        assert totals.last == turned(2)
        assert [(point.session_tokens, point.seconds) for point in totals.history] == [(114, 2.0), (214, 2.0)]
        assert follower.look() == []
        assert totals.turns == 2
        session.log(Undone(1, (), ()))
        follower.look()
        assert totals.prompts == 0


def test_half_a_line_waits_for_its_rest(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session, SessionFollower(session.path) as follower:
        session.log(turned(1))
        path = session.path / "events.jsonl"
        line = path.read_bytes()
        for end in (1, 20, len(line) - 1):
            os.truncate(path, 0)
            with path.open("ab") as file:
                file.write(line[:end])
            assert follower.look() == []
        with path.open("ab") as file:
            file.write(line[-1:])
        assert [event for _, event in follower.look()] == [turned(1)]
        assert follower.totals.turns == 1


def test_a_log_that_was_cut_is_gone_on_with_and_nothing_counts_twice(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session:
        session.log(turned(1))
        session.log(turned(2))
    path = session.path / "events.jsonl"
    with SessionFollower(session.path) as follower:
        follower.look()
        os.truncate(path, path.stat().st_size - 5)  # as after a power cut
        assert follower.look() == []
        with SessionFolder.open("one") as again:  # which cuts off half a line
            again.log(turned(3))
            follower.look()
        assert follower.totals.last == turned(3)
        assert follower.totals.turns == 3


def test_broken_lines_and_those_of_a_later_version_are_left_out(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session, SessionFollower(session.path) as follower:
        with (session.path / "events.jsonl").open("ab") as file:
            file.write(b'broken\n\xff\n[]\n\n{"at": 1, "type": "turned"}\n{"at": 1, "type": "later"}\n')
        session.log(turned(1))
        assert [event for _, event in follower.look()] == [turned(1)]


def test_a_deleted_session_is_gone_and_another_of_its_name_begins_anew(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session:
        session.log(turned(1))
    with SessionFollower(session.path) as follower:
        follower.look()
        assert (follower.totals.turns, follower.is_gone, follower.files) == (1, False, 1)
        delete("one")
        assert follower.look() == []
        assert follower.is_gone
        assert follower.holder is None
        assert follower.totals.turns == 1  # what is known stays
        with SessionFolder.create("one", shop) as again:
            again.log(turned(2))
            again.log(turned(3))
            assert follower.look() != []
            assert (follower.totals.turns, follower.is_gone, follower.files) == (2, False, 2)
            assert follower.holder is not None
        delete("one")
        with SessionFolder.create("one", shop):
            assert follower.look() == []
            assert (follower.totals.turns, follower.files) == (0, 3)


def test_a_log_that_was_moved_away_is_waited_for(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session, SessionFollower(session.path) as follower:
        session.log(turned(1))
        path, away = session.path / "events.jsonl", session.path / "away"
        path.rename(away)
        assert follower.look() == []
        assert not follower.is_gone
        away.rename(path)
        assert [event for _, event in follower.look()] == [turned(1)]


def test_a_long_log_comes_in_parts_and_its_history_is_thinned_out(shop: Path) -> None:
    with SessionFolder.create("one", shop) as session, SessionFollower(session.path) as follower:
        for number in range(1, 4_501):
            session.log(turned(number, decoded=number))
        sizes = []
        while news := follower.look(1_000):
            sizes.append(len(news))
        assert sizes == [1_000] * 4 + [500]
        assert follower.totals.turns == 4_500
        assert follower.totals.decoded == sum(range(1, 4_501))
        seen = [point.session_tokens for point in follower.totals.history]
        assert len(seen) <= 2_000
        assert seen == sorted(set(seen))
        assert (seen[0], seen[-1]) == (114, 450_014)
        assert seen[-500:] == [100 * number + 14 for number in range(4_001, 4_501)]


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def test_what_is_followed_of_an_agent_is_what_its_whole_log_says(model: Model, tmp_path: Path) -> None:
    """A budget that makes it evict; counted once more from the log, without a follower."""
    shop = make_repository(tmp_path / "shop", SHOP)
    read = call("read", path="tests/test_cart.py")
    reads = [call("read", path="shop/cart.py"), read, call("read", path="README.md")]
    views: list[float] = []
    with (
        Runs(model, shop, [PLAN, *reads, EDIT, DONE], session="cart", budget=2_048) as runs,
        SessionFollower(session_path("cart")) as follower,
    ):

        def look(event: AgentEvent) -> None:
            follower.look()
            if isinstance(event, Turned) and follower.view is not None:
                views.append(follower.view.at)

        runs.listen(look)
        runs.run(FIX)
        follower.look()
        totals, view = follower.totals, follower.view
        assert follower.holder is not None
        assert follower.holder.pid == os.getpid()
        runs.agent.close()
        follower.look()
        assert follower.holder is None
    events: list[AgentEvent] = [event for _, event in read_events(session_path("cart") / "events.jsonl")]
    turns = [event for event in events if isinstance(event, Turned)]
    counted = [event.event for event in events if isinstance(event, Memory)]
    evicted = [each["count"] for each in counted if each["type"] == "evicted"]
    assert evicted
    assert (totals.evictions, totals.evicted) == (len(evicted), sum(evicted))
    assert totals.decoded == sum(turn.decoded for turn in turns)
    assert totals.generated == sum(turn.generated for turn in turns)
    assert [point.residents for point in totals.history] == [turn.residents for turn in turns]
    assert views == sorted(views)
    assert len(set(views)) > 1
    assert view is not None
    assert view.view.session_tokens == turns[-1].session_tokens
    assert view.view.evicted == sum(evicted)


# Choosing


def begun(name: str, repository: Path, used: float) -> SessionFolder:
    """A session that is held, last used then."""
    session = SessionFolder.create(name, repository)
    os.utime(session.path / "events.jsonl", (used, used))
    return session


def test_the_running_session_of_the_repository_comes_first_then_any_that_runs(
    shop: Path, tmp_path: Path
) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    begun("ended", shop, 9_000).close()
    with begun("old", shop, 1_000), begun("other", fleet, 8_000), begun("new", shop, 2_000) as new:
        (begun("broken", shop, 9_500).path / "session.json").write_text("{")
        assert choose_session(None, shop).name == "new"
        new.close()
        assert choose_session(None, shop).name == "old"
        assert choose_session(None, fleet).name == "other"
        assert choose_session(None, tmp_path).name == "other"
        with pytest.raises(FileError, match=r"no session is running, and .* has none"):
            choose_session(None, tmp_path, elsewhere=False)
        assert choose_session("ended", tmp_path).name == "ended"


def test_where_none_runs_those_that_there_are_are_said(shop: Path, root: Path) -> None:
    with pytest.raises(FileError, match="has none; `pace` or `pace run` begins one"):
        choose_session(None, shop)
    for number in range(7):
        begun(f"s{number}", shop, 1_000 + number).close()
    with pytest.raises(FileError, match="has s6, s5, s4, s3, s2 and 2 more: `pace top NAME` shows"):
        choose_session(None, shop)
    with pytest.raises(FileError, match="no session nothing"):
        choose_session("nothing", shop)
    with pytest.raises(ConfigError, match="no name of a session"):
        choose_session("../shop", shop)
    shutil.rmtree(root)
    root.write_text("a file")
    with pytest.raises(FileError, match="has none"):
        choose_session(None, shop)
