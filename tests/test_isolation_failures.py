"""A reading in isolation that fails, at whatever point, is withdrawn, and what was set aside is back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from session_pair import TALKER
from working_set_views import (
    TALK,
    Hearing,
    NthFails,
    chatter,
    is_whole,
    plain_rows,
    read_isolated,
    read_specs,
    state_of,
    working_session,
)

from pace_local import Model, Session, events
from pace_local.errors import CancelledError, NativeError
from pace_local.testing import TinySpec

TEXT = "def price(item): return RATE * item.amount + 17 # " + TALK * 3


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def started(model: Model, hearing: Hearing | None = None) -> Session:
    """With room for the text, so that nothing has to be evicted for it."""
    session = working_session(model, hearing)
    read_specs(session, ["spec:mail"])
    session.append("what is it?")
    return session


def goes_on(session: Session) -> list[Any]:
    """What comes after, token for token and bit for bit."""
    read_isolated(session, TEXT, "other")
    list(session.generate("what now?", max_tokens=12))
    return [list(session.tokens), session.residents.token_index.tolist(), plain_rows(session, "other")]


def test_cancelled_at_any_event_it_was_never_there(model: Model) -> None:
    for at in itertools.count(1):
        hearing = Hearing()
        with started(model, hearing) as session:
            before = state_of(session)
            hearing.heard.clear()
            hearing.act = lambda event: session.cancel() if len(hearing.heard) == at else None  # noqa: B023
            try:
                read_isolated(session, TEXT)
            except CancelledError:
                assert state_of(session) == before
                session.check()
                assert not hearing.of(events.Isolated)
                assert "file" not in session.segments
                hearing.act = lambda event: None
                with started(model) as untried:
                    assert goes_on(session) == goes_on(untried)
            else:
                break
    assert at > 2, "there were micro-batches to be cancelled at"


def test_a_decode_that_fails_in_isolation_is_withdrawn(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(1, 6):
        with started(model) as session, monkeypatch.context() as patch:
            before = state_of(session)
            decode, calls = session.engine.decode, []

            def fails(tokens: Any, position: int) -> None:
                calls.append(position)  # noqa: B023
                if len(calls) == at:  # noqa: B023
                    raise NativeError("DECODE", "the device is gone for a moment")
                decode(tokens, position)  # noqa: B023

            patch.setattr(session.engine, "decode", fails)
            try:
                read_isolated(session, TEXT)
            except NativeError:
                patch.undo()
                assert state_of(session) == before
                session.check()
            else:
                assert len(calls) == at - 1
                break
    assert at == 5, "four batches: role markers, two of the text, the end of the turn"


@pytest.mark.parametrize("point", ["plan", "allocate", "compute"])
def test_a_native_failure_at_any_point_loses_nothing(model: Model, point: str) -> None:
    """What was set aside was gone for good where it could not be given its positions again."""
    failed = 0
    for at in itertools.count(1):
        hearing = Hearing()
        with started(model, hearing) as session:
            before = state_of(session)
            operations = NthFails(session, at, point)
            try:
                read_isolated(session, TEXT)
            except NativeError:
                failed += 1
                operations.stop()
                after = state_of(session)
                rebuilt = hearing.of(events.Rebuilt)
                if rebuilt:  # decoded again, among each other, from position 0 on
                    before.pop("rows"), after.pop("rows")
                    before.pop("positions"), after.pop("positions")
                assert after == before, f"operation {at}"
            else:
                operations.stop()
                n = len(before["residents"])
                assert session.residents.token_index.tolist()[:n] == before["residents"], f"operation {at}"
                assert is_whole(session, "file")
            session.check()
            assert is_whole(session, "rules")
            read_isolated(session, TEXT, "again")
            list(session.generate("so?", max_tokens=3))
        if operations.count < at:
            break
    assert at > 4, "save, retain, place, load and save"
    assert failed or point == "compute"


@pytest.mark.parametrize("point", ["plan", "allocate", "compute"])
def test_after_evictions_for_it_the_rest_is_as_before(model: Model, point: str) -> None:
    """Evictions made for a turn that is withdrawn stay; nothing else is lost."""
    for at in itertools.count(1):
        with working_session(model) as session:
            chatter(session, 8)
            before = state_of(session)
            operations = NthFails(session, at, point)
            with suppress(NativeError):
                read_isolated(session, TEXT)
            operations.stop()
            session.check()
            after = state_of(session)
            room = session.config.budget - len(TEXT) - 17
            kept = [index for index in after["residents"] if index < len(before["tokens"])]
            assert set(kept) <= set(before["residents"])
            assert len(kept) >= min(room, len(before["residents"])) - 60
            if "file" not in session.segments:
                for key in ("segments", "tokens", "role", "prompt", "turns", "pending"):
                    assert after[key] == before[key], key
            assert is_whole(session, "rules")
            session.append("go on")
        if operations.count < at:
            break
    assert at > 5


def test_a_listener_that_raises_brings_all_back(model: Model) -> None:
    hearing = Hearing()
    with started(model, hearing) as session:
        before = state_of(session)

        def raises(event: events.Event) -> None:
            if isinstance(event, events.Progress):
                raise ValueError("the listener's own")

        hearing.act = raises
        with pytest.raises(ValueError, match="own"):
            read_isolated(session, TEXT)
        hearing.act = lambda event: None
        assert state_of(session) == before
        session.check()
        assert not session._memory.store.pieces_of(len(before["segments"]) + 1)
        with started(model) as untried:
            assert goes_on(session) == goes_on(untried)
