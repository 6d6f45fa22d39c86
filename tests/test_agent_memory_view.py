"""What a screen is shown of a session's memory agrees with the session, and is bounded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from session_pair import TALKER, tiny_session

from pace_agent import memory_view as module
from pace_agent.memory_view import SEVERAL, MemoryView, memory_view
from pace_local import Model, Plan, Session, Step
from pace_local.errors import ConfigError
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def session(model: Model) -> Iterator[Session]:
    with tiny_session(model, budget=256, position_cap=512, policy="pace_focus") as session:
        session.append("be brief", kind="system")
        yield session


def check(view: MemoryView, session: Session) -> None:
    """All that the view says, counted again from the map of residents, token by token."""
    residents = session.residents
    position, owner = residents.position.tolist(), residents.segment.tolist()
    at = 0
    for run in view.residents:
        end = at + run.tokens
        assert position[at] == run.first_position
        assert position[end - 1] == run.last_position
        assert {session.segments[one].name for one in owner[at:end]} == {run.segment}
        assert {session.segments[one].kind for one in owner[at:end]} == {run.kind}
        assert run.reason
        at = end
    assert at == len(residents) == view.resident_tokens == session.n_residents
    assert view.next_position == session.next_position
    assert view.session_tokens == session.session_length
    held = {row.name: row for row in view.segments}
    for name, row in held.items():
        segment = session.segments.named(name)
        own = [place for place, one in zip(position, owner, strict=True) if one == segment.id]
        assert (row.tokens, row.resident) == (len(segment), len(own))
        places = (own[0], own[-1]) if own else (None, None)
        assert (row.first_position, row.last_position) == places
        assert (row.pinned, row.isolated, row.kind) == (segment.pinned, segment.isolated, segment.kind)
        assert (row.why == "evicted") == (not own)
    shown = {session.segments[one].name for one in owner if session.segments[one].kind != "framing"}
    assert shown <= set(held)
    assert "framing" not in {row.kind for row in view.segments}


def test_an_empty_session(model: Model) -> None:
    with tiny_session(model) as session:
        view = memory_view(session)
        assert (view.residents, view.segments, view.resident_tokens, view.next_position) == ((), (), 0, 0)
        assert (view.budget, view.position_cap) == (96, 160)


def test_before_anything_is_evicted(session: Session) -> None:
    session.append("RATE is 53", name="spec", kind="file")
    view = memory_view(session)
    check(view, session)
    assert {run.reason for run in view.residents} == {"everything fits"}
    assert [row.name for row in view.segments] == ["system:0", "spec"]
    assert view.segments[0].pinned
    assert not view.segments[1].pinned
    assert view.segments[1].isolated
    assert view.evicted == 0
    assert view.bytes.keys > 0
    assert view.bytes.values > 0
    assert view.bytes.host > 1 << 20


def test_reads_of_the_current_step_and_why_they_are_there(session: Session) -> None:
    for number in range(8):
        session.append(f"spec {number} says RATE is {number} " * 3, name=f"spec:{number}", kind="file")
    session.plan = Plan([Step("first", reads=["spec:1"]), Step("then", reads=["spec:2"])])
    for _ in session.generate("do the first", max_tokens=8):
        pass
    view = memory_view(session)
    check(view, session)
    read = {run.segment for run in view.residents if run.is_read}
    assert "spec:1" in read
    assert "spec:2" not in read
    rows = {row.name: row for row in view.segments}
    assert rows["spec:1"].resident == rows["spec:1"].tokens
    assert "spliced" in rows["spec:1"].why or "kept" in rows["spec:1"].why
    assert rows["spec:5"].why == "evicted"
    assert view.evicted > 0


def test_it_changes_nothing(session: Session) -> None:
    session.append("one two three " * 8)
    before = (session.session_length, session.residents.position.tolist(), session.counters)
    memory_view(session)
    assert (session.session_length, session.residents.position.tolist(), session.counters) == before
    session.check()


@pytest.mark.parametrize("policy", ["streaming", "h2o", "pace", "none"])
def test_it_agrees_with_the_session_under_every_kind_of_policy(model: Model, policy: str) -> None:
    settings = {"budget": 480, "position_cap": 992} if policy == "none" else {}
    with tiny_session(model, policy=policy, **settings) as session:
        session.append("be brief", kind="system")
        for number in range(6):
            session.append(f"text {number} ABC_{number} is here", name=f"t{number}", kind="text")
            check(memory_view(session), session)
        for _ in session.generate("go on", max_tokens=12):
            check(memory_view(session), session)


def test_it_is_bounded_however_long_the_session_is(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest segments, those that are resident, and no more runs than there may be."""
    monkeypatch.setattr(module, "NEWEST", 5)
    session.append("keep this", name="old", kind="text", pinned=True)
    for number in range(40):
        session.append(f"n {number}", name=f"t{number}", kind="text")
    view = memory_view(session)
    check(view, session)
    names = [row.name for row in view.segments]
    assert "old" in names
    assert names[-5:] == [f"t{number}" for number in range(35, 40)]
    resident = {run.segment for run in view.residents if run.kind != "framing"}
    assert set(names) == resident | set(names[-5:])
    runs = len(view.residents)
    monkeypatch.setattr(module, "MOST_RUNS", 4)
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    small = memory_view(session)
    assert len(small.residents) == 4
    assert small.residents[1:] == view.residents[-3:]
    assert (small.residents[0].kind, small.residents[0].segment) == (SEVERAL, "")
    assert small.residents[0].reason == f"{runs - 3} pieces"
    assert sum(run.tokens for run in small.residents) == view.resident_tokens
    assert small.segments == view.segments[-3:]


def test_it_survives_json(session: Session) -> None:
    session.append("RATE is 53", name="spec", kind="file")
    view = memory_view(session)
    assert MemoryView.from_dict(json.loads(json.dumps(view.as_dict()))) == view
    with pytest.raises(ConfigError, match="no view of a memory"):
        MemoryView.from_dict({"budget": 3})
