"""What was read in isolation is the same bits, whatever was resident then and whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import (
    CACHES,
    SPECS,
    TALK,
    WIDE,
    Hearing,
    cached_rows,
    chatter,
    check_rotations,
    is_whole,
    plain_rows,
    plain_rows_at,
    ranks_of,
    read_isolated,
    read_specs,
    saved_bytes,
    working_session,
)

from pace_local import Model, Plan, Session, events
from pace_local.testing import TinySpec

TEXT = "def price(item): return RATE * item.amount + 17 # " + TALK * 3
"""Longer than a micro-batch with its markers."""


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def wide(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(WIDE)


def nothing(session: Session) -> None:
    del session


def some_talk(session: Session) -> None:
    chatter(session, 2)


def an_answer(session: Session) -> None:
    list(session.generate("go on", max_tokens=9))


def others_in_isolation(session: Session) -> None:
    read_specs(session)


def evictions(session: Session) -> None:
    chatter(session, 7)
    assert session.stats.evicted_in_session > 100
    assert session.stats.renumberings_in_session == 0


def renumberings(session: Session) -> None:
    chatter(session, 16)
    assert session.stats.renumberings_in_session > 0


def near_copies(session: Session) -> None:
    for number in range(3):
        session.append(TEXT.replace("17", str(number)), isolated=False)


def a_recall(session: Session) -> None:
    read_specs(session)
    chatter(session, 8)
    session.recall("spec:mail")


NEIGHBOURS = [
    some_talk,
    an_answer,
    others_in_isolation,
    evictions,
    renumberings,
    near_copies,
    a_recall,
]


@pytest.mark.parametrize("cache", CACHES)
def test_its_rows_do_not_depend_on_what_else_is_resident(wide: Model, cache: str) -> None:
    seen = {}
    for prepare in (nothing, *NEIGHBOURS):
        with working_session(wide, **CACHES[cache]) as session:
            prepare(session)
            segment = read_isolated(session, TEXT)
            assert segment.isolated
            seen[prepare.__name__] = plain_rows(session, "file"), saved_bytes(session, "file")
    for name, rows in seen.items():
        assert rows == seen["nothing"], name


@pytest.mark.parametrize("cache", CACHES)
def test_it_is_what_a_session_with_nothing_else_computes(wide: Model, cache: str) -> None:
    """The reference knows nothing of isolation: it has the prefix and the text alone."""
    with working_session(wide, policy="streaming", **CACHES[cache]) as plain:
        segment = plain.append(TEXT, kind="file", name="file")
        assert not segment.isolated
        expected = plain_rows(plain, "file")
    with working_session(wide, **CACHES[cache]) as session:
        renumberings(session)
        read_isolated(session, TEXT)
        assert plain_rows(session, "file") == expected
        check_rotations(session, WIDE)


@pytest.mark.parametrize("cache", CACHES)
def test_it_stays_the_same_when_it_moves_leaves_and_comes_back(wide: Model, cache: str) -> None:
    with working_session(wide, **CACHES[cache]) as session:
        some_talk(session)
        read_isolated(session, TEXT)
        first, saved = plain_rows(session, "file"), saved_bytes(session, "file")
        for _ in range(3):
            session.plan = Plan()  # or what was asked for stays
            chatter(session, 8)
            assert not len(ranks_of(session, "file"))
            session.recall("file")
            assert plain_rows(session, "file") == first
            assert saved_bytes(session, "file") == saved
            check_rotations(session, WIDE)
        assert session.stats.renumberings_in_session > 0


def test_without_a_system_prompt_it_sees_the_sinks(model: Model) -> None:
    seen = []
    for prepare in (nothing, some_talk, evictions):
        with Session(model, policy="pace_focus", threads=1, check=True, budget=256, headroom=64) as session:
            session.append("the first words")
            prepare(session)
            read_isolated(session, TEXT)
            seen.append(plain_rows(session, "file"))
    assert seen[0] == seen[1] == seen[2]


def test_every_pinned_turn_at_the_start_is_seen(model: Model) -> None:
    seen = []
    for extra in (None, "RATE is 53", "RATE is 54"):
        with working_session(model) as session:
            if extra is not None:
                session.append(extra, pinned=True)
            some_talk(session)
            read_isolated(session, TEXT)
            seen.append(plain_rows(session, "file"))
    assert len(set(map(tuple, seen))) == 3, "each prefix gives other keys and values"


def test_it_is_other_than_what_is_read_among_others(model: Model) -> None:
    """Else all of the above would hold of any text."""
    with working_session(model) as session:
        some_talk(session)
        session.append(TEXT, kind="file", name="file", isolated=False)
        among = plain_rows(session, "file")
    with working_session(model) as session:
        some_talk(session)
        read_isolated(session, TEXT)
        assert plain_rows(session, "file") != among


# The others


def read_close_to_the_cap(session: Session, n_tokens: int) -> None:
    """Read on until so many tokens fit in the budget, but not below the cap."""
    for _ in range(99):
        session.append("xxx")
        if (
            session.next_position + n_tokens > session.config.position_cap
            and session.n_residents + n_tokens <= session.config.budget
        ):
            return
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("cache", CACHES)
def test_the_others_stay_bit_for_bit_where_they_are(wide: Model, cache: str) -> None:
    """Quantised keys may be rounded once more, when they are made from their references."""
    with working_session(wide, **CACHES[cache]) as session:
        read_specs(session, list(SPECS)[:2])
        chatter(session, 1)
        before = session.residents.position.tolist()
        n = len(before)
        if session.config.key_type == "q8_0":
            plain = plain_rows_at(session, slice(None))
            read_isolated(session, "once")
            assert plain_rows_at(session, slice(n)) == plain
        rows = cached_rows(session, slice(n))
        read_isolated(session, TALK)
        assert session.residents.position[:n].tolist() == before
        assert cached_rows(session, slice(n)) == rows
        assert session.residents.token_index.tolist() == list(range(session.session_length))
        check_rotations(session, WIDE)


@pytest.mark.parametrize("cache", ["f16", "q8_0", "f16 without flash"])
def test_the_others_move_compactly_where_the_cap_asks_for_it(wide: Model, cache: str) -> None:
    with working_session(wide, position_cap=400, soft_target=0.5, **CACHES[cache]) as session:
        read_close_to_the_cap(session, 32)
        index = session.residents.token_index.tolist()
        rows = plain_rows_at(session, slice(None))
        read_isolated(session, "x" * 25)
        n = len(index)
        assert session.residents.token_index[:n].tolist() == index
        assert session.residents.position.tolist() == list(range(session.n_residents))
        assert plain_rows_at(session, slice(n)) == rows
        check_rotations(session, WIDE)


def test_logits_after_it_are_those_of_a_session_that_saw_all(model: Model) -> None:
    """What is set aside comes back whole: what follows sees it and the isolated text alike."""
    with working_session(model, check=False) as session, working_session(model, check=False) as other:
        chatter(session, 2)
        length = session.session_length
        read_isolated(session, TEXT)
        list(session.generate("so?", max_tokens=1))
        other.append(TEXT, kind="file", name="file", isolated=False)  # sees the prefix alone
        list(other.generate("so?", max_tokens=1))
        assert not np.array_equal(session.engine.logits(), other.engine.logits())
        assert session.residents.token_index[:length].tolist() == list(range(length))


def test_the_budget_holds_in_every_phase(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing, budget=128, position_cap=200, headroom=16) as session:
        cache = session.engine.cache
        assert cache is not None
        counts: list[int] = []
        decode = session.engine.decode

        def looks(tokens: Any, position: int) -> None:
            counts.append(cache.count())
            decode(tokens, position)
            counts.append(cache.count())

        session.engine.decode = looks  # type: ignore[method-assign]
        hearing.act = lambda event: counts.append(cache.count())
        for number in range(8):
            read_isolated(session, TALK * 3 + str(number), f"file:{number}")
            chatter(session, 2)
            assert session.n_residents <= 128
            assert is_whole(session, "rules")
        assert max(counts) <= 128 + 16
        assert len(hearing.of(events.Isolated)) == 8


def test_a_segment_pinned_later_stays_whole(model: Model) -> None:
    """Room for the text was made at the cost of what is pinned."""
    with working_session(model) as session:
        session.append("hello")
        session.append(TALK * 10, name="kept", pinned=True)
        read_isolated(session, TALK * 13)
        assert is_whole(session, "kept")
        assert is_whole(session, "rules")
        assert session.n_residents <= session.config.budget


# Events and counts


def test_it_is_told(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing) as session:
        chatter(session, 1)
        aside = session.n_residents - 17
        segment = read_isolated(session, TEXT)
        (event,) = hearing.of(events.Isolated)
        assert (event.segment, event.tokens, event.aside) == ("file", len(segment), aside)
        assert event.seconds >= 0
        assert hearing.of(events.Progress)[-1].done == len(segment)
        assert session.stats.prompt_tokens == session.session_length
