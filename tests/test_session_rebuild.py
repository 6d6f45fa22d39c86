"""A device loses the cache while cells move: the residents are decoded again, and the session goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Session, events
from pace_local.engine import Engine
from pace_local.errors import CancelledError, NativeError
from pace_local.testing import TinySpec

TEXT = "return the self and other "


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def heard() -> list[events.Event]:
    return []


@pytest.fixture
def session(model: Model, heard: list[events.Event]) -> Iterator[Session]:
    """The next position is the cap: the next token renumbers, and the device fails at it.

    Nothing is saved, which would be where the device fails first.
    """
    with tiny_session(model, listener=heard.append, soft_target=0.6, recall=False) as session:
        session.append("always be brief", kind="system", name="rules")
        markers = 7
        while (left := session.config.position_cap - session.next_position) >= 2 * (markers + 1):
            session.append("x")
        session.append("x" * (left - markers))
        assert session.next_position == session.config.position_cap
        assert session.stats.renumberings_in_session == 0
        fail(session)
        heard.clear()
        yield session


def fail(session: Session) -> None:
    assert session.engine.cache is not None
    session.engine.cache.fail_next("compute")


def of_type(heard: list[events.Event], kind: type[events.Event]) -> list[Any]:
    return [event for event in heard if isinstance(event, kind)]


def test_a_shift_that_fails_is_decoded_again(model: Model, heard: list[events.Event]) -> None:
    """The next decode went on with keys of which some were shifted and some not."""
    with tiny_session(model, listener=heard.append, policy="context_shift") as session:
        fail(session)
        while not of_type(heard, events.Evicted):
            session.append(TEXT)
        (rebuilt,) = of_type(heard, events.Rebuilt)
        assert "shifted" in rebuilt.reason
        residents = session.residents
        assert residents.position.tolist() == list(range(len(residents)))
        session.append(TEXT)
        session.check()


def test_the_residents_are_decoded_again(session: Session, heard: list[events.Event]) -> None:
    residents = session.residents.token_index.copy()
    session.append(TEXT)
    (rebuilt,) = of_type(heard, events.Rebuilt)
    (renumbered, *_) = of_type(heard, events.Renumbered)
    assert rebuilt.residents == renumbered.residents == renumbered.next_position == len(residents)
    assert "failed" in rebuilt.reason
    assert heard.index(rebuilt) == 0
    kept = session.residents.token_index[session.residents.token_index <= residents[-1]]
    assert set(kept) <= set(residents)
    rules = session.segments.named("rules")
    assert np.count_nonzero(session.residents.segment == rules.id) == len(rules)
    assert np.array_equal(session.residents.position, np.sort(session.residents.position))
    assert session.stats.renumberings == 1


def test_the_cache_is_then_that_of_a_fresh_decode(model: Model, session: Session) -> None:
    length = session.session_length
    evicted = session.stats.evicted_in_session
    list(session.generate(max_tokens=1))
    assert session.stats.evicted_in_session == evicted, "else the comparison would have to evict likewise"
    tokens = [token for segment in session.segments for token in session.tokens_of(segment)]
    old = [int(index) for index in session.residents.token_index if index < length]
    new = list(range(length, session.session_length))
    fresh = Engine(model, session.config)
    try:
        position = 0
        size = fresh.n_batch
        for batch in (*(old[i : i + size] for i in range(0, len(old), size)), new[:-1], new[-1:]):
            fresh.decode([tokens[index] for index in batch], position)
            position += len(batch)
        assert np.allclose(fresh.logits(), session.engine.logits(), atol=1e-3)
    finally:
        fresh.close()


def test_it_happens_again(session: Session, heard: list[events.Event]) -> None:
    for _ in range(3):
        fail(session)
        session.append(TEXT * 6)
    assert len(of_type(heard, events.Rebuilt)) == 3


def test_within_an_answer(session: Session) -> None:
    stream = list(session.generate(max_tokens=60))
    assert len(of_type(stream, events.Rebuilt)) == 1
    assert isinstance(stream[-1], events.Finished)
    assert (stream[-1].reason, stream[-1].stats.generated_tokens) == ("length", 60)


def test_a_cancel_waits_until_nothing_can_be_lost(
    session: Session, heard: list[events.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled while the residents were decoded again, the session lost all of them for good."""
    residents = session.residents.token_index.copy()
    decode, positions = session.engine.decode, []

    def cancels(tokens: Any, position: int) -> None:
        positions.append(position)
        if len(positions) == 2:
            session.cancel()
        decode(tokens, position)

    monkeypatch.setattr(session.engine, "decode", cancels)
    with pytest.raises(CancelledError):
        session.append(TEXT)
    assert len(of_type(heard, events.Rebuilt)) == 1
    assert np.array_equal(session.residents.token_index, residents)
    assert positions[:4] == [0, 16, 16, 32]
    monkeypatch.undo()
    session.append(TEXT)


def test_a_device_that_stays_broken_leaves_what_could_be_decoded(
    session: Session, heard: list[events.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = session.engine.decode

    def fails(tokens: Any, position: int) -> None:
        if position >= 32:
            raise NativeError("DECODE", "still broken")
        decode(tokens, position)

    length = session.session_length
    monkeypatch.setattr(session.engine, "decode", fails)
    with pytest.raises(NativeError, match="still broken"):
        session.append(TEXT)
    assert (session.n_residents, session.session_length) == (32, length)
    session.check()
    monkeypatch.undo()
    session.append(TEXT)
    assert [event.reason for event in session.generate(max_tokens=4) if isinstance(event, events.Finished)]


@pytest.mark.parametrize("has_gaps", [False, True])
def test_the_device_fails_while_rows_are_merged(
    model: Model, heard: list[events.Event], has_gaps: bool
) -> None:
    """The native cache still held its residents, so that they could not be decoded again; the session was of
    no use from then on."""
    with tiny_session(model, policy="merge", listener=heard.append, position_cap=400) as session:
        session.append("always be brief", kind="system", name="rules")
        if has_gaps:
            session.append(TEXT * 6)
            assert session.next_position > session.n_residents
        else:
            assert session.next_position == session.n_residents
        cache: Any = session.engine.cache
        write = cache.write_rows

        def loses(*args: Any) -> None:
            cache.write_rows = write
            fail(session)
            write(*args)

        cache.write_rows = loses
        heard.clear()
        session.append(TEXT * 8)
        (rebuilt, *_) = of_type(heard, events.Rebuilt)
        assert rebuilt.residents > session.config.budget, "the eviction comes after it"
        assert session.n_residents <= session.config.budget
        assert (session.next_position < session.session_length) == has_gaps, "gaps were closed"
        list(session.generate(TEXT * 4, max_tokens=40))
        session.check()
        assert len(of_type(heard, events.Rebuilt)) == 1
