"""Turns that are withdrawn, caches that are lost and calls that fail leave entries that fit the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from merge_watch import LONG, SPEC, TEXT, MergeWatch, entries_of, merger_of, merging_session, read_much

from pace_local import Model, Session, events
from pace_local.errors import CancelledError, NativeError
from pace_local.merging import MergedEntries
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(SPEC)


def of_type(heard: Sequence[events.Event], kind: type[events.Event]) -> list[Any]:
    return [event for event in heard if isinstance(event, kind)]


def well_formed(session: Session) -> None:
    """Entries name tokens of the session, each at most once in a layer, and belong to residents."""
    session.check()
    entries = entries_of(session)
    assert set(entries) <= set(session.residents.token_index.tolist())
    for layer in merger_of(session).layers:
        parts = [of[layer] for of in entries.values() if layer in of]
        named = [token for members, _ in parts for token in members]
        assert len(named) == len(set(named)), "a token is in two entries"
        assert all(members == sorted(members) for members, _ in parts)
        assert all(0 <= token < session.session_length for token in named)
        assert all(count >= max(1, len(members)) for members, count in parts)


def test_a_withdrawn_turn_is_in_no_entry(model: Model) -> None:
    """At whichever event it is cancelled; and a second time. Its rows stay merged."""
    for at in range(1, 60, 3):
        heard: list[events.Event] = []
        with merging_session(model, listener=heard.append) as session:
            session.append(TEXT * 3, name="first")

            def listen(
                event: events.Event,
                session: Session = session,
                at: int = at,
                heard: list[events.Event] = heard,
            ) -> None:
                heard.append(event)
                if len(heard) == at:
                    session.cancel()

            session._listener = listen
            for _ in range(2):
                heard.clear()
                length = session.session_length
                try:
                    session.append(LONG, name="withdrawn")
                except CancelledError:
                    assert session.session_length == length
                    well_formed(session)
                else:
                    assert at > 20
                    return
            session._listener = None
            read_much(session)
            well_formed(session)


def test_a_device_that_fails_at_a_read_costs_a_merge_alone(model: Model) -> None:
    """All was decoded again, though reading takes references and touches nothing else. Three times."""
    heard: list[events.Event] = []
    with merging_session(model, listener=heard.append) as session:
        watch = MergeWatch(session)
        for attempt in range(3):
            for _ in range(3):
                session.append(TEXT * 2)
            entries, n_merges = entries_of(session), len(watch.merges)
            assert entries
            assert session.engine.cache is not None
            heard.clear()
            session.engine.cache.fail_next("compute")
            while not of_type(heard, events.Evicted):
                session.append("x")
            assert not of_type(heard, events.Rebuilt), attempt
            assert len(watch.merges) == n_merges, "what left, left unmerged"
            assert entries_of(session).items() <= entries.items()
            well_formed(session)
        read_much(session)
        assert len(watch.merges) > n_merges
        well_formed(session)


@pytest.mark.parametrize("after_rows", [0, 1])
def test_a_cache_that_is_lost_at_a_write_is_decoded_again(model: Model, after_rows: int) -> None:
    """Lost at the first write, and at a later one."""
    heard: list[events.Event] = []
    with merging_session(model, listener=heard.append, policy_options={"early": 1.0}) as session:
        session.append(TEXT * 2, name="first")
        watch, merger = MergeWatch(session), merger_of(session)
        write, calls = merger._cache.write_rows, []

        def fails(*args: Any, **options: Any) -> None:
            calls.append(args[0])
            if len(calls) == after_rows + 1:
                assert session.engine.cache is not None
                session.engine.cache.fail_next("compute")
            write(*args, **options)

        merger._cache.write_rows = fails  # type: ignore[method-assign]
        while not calls:
            session.append("and so on")
        assert calls == list(range(after_rows + 1))
        assert len(of_type(heard, events.Rebuilt)) == 1
        assert entries_of(session) == {}
        well_formed(session)
        assert len(session.residents) == session.engine.cache.count()  # type: ignore[union-attr]
        read_much(session)
        assert watch.merges
        well_formed(session)


@pytest.mark.parametrize("point", ["plan", "allocate"])
def test_a_native_failure_withdraws_the_turn(model: Model, point: str) -> None:
    with merging_session(model) as session:
        read_much(session)
        assert session.engine.cache is not None
        session.engine.cache.fail_next(point)
        failed = None
        while failed is None:
            length = session.session_length
            try:
                session.append("a little more text ")
            except NativeError as error:
                failed = error
        assert failed.status == "NO_MEMORY"
        assert session.session_length == length
        well_formed(session)
        read_much(session)
        well_formed(session)


@pytest.mark.parametrize("where", ["the second layer", "the eviction"])
def test_a_failure_after_rows_were_merged_names_no_token_twice(model: Model, where: str) -> None:
    """Layers that were merged already double count what stayed after all, under one name each."""
    with merging_session(model) as session:
        read_much(session)
        merger, cache = merger_of(session), session.engine.cache
        target: Any = merger._cache if where == "the second layer" else cache
        name = "write_rows" if where == "the second layer" else "retain"
        original, failed = getattr(target, name), []

        def fails(*args: Any) -> None:
            if not failed and (name == "retain" or args[0] == 1):
                failed.append(args)
                raise NativeError("NO_MEMORY", "no device memory for rows")
            original(*args)

        setattr(target, name, fails)
        while not failed:
            length = session.session_length
            try:
                session.append("a little more text ")
            except NativeError:
                assert session.session_length == length
        session.check()
        read_much(session)
        session.check()
        for layer in merger.layers:
            for host in entries_of(session):
                members = merger.entries.members(layer, host).tolist()
                assert members == sorted(set(members))
                assert merger.entries.count(layer, host) >= len(members)


def test_a_device_that_stays_broken_leaves_what_could_be_decoded(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is lost at a write, and decoding its residents again fails at the third micro-batch."""
    with merging_session(model) as session:
        read_much(session)
        merger, decode, broken = merger_of(session), session.engine.decode, []
        write = merger._cache.write_rows

        def loses(*args: Any) -> None:
            assert session.engine.cache is not None
            session.engine.cache.fail_next("compute")
            broken.append(args)
            write(*args)

        def fails(tokens: Any, position: int) -> None:
            if broken and position >= 32:
                raise NativeError("DECODE", "still broken")
            decode(tokens, position)

        monkeypatch.setattr(merger._cache, "write_rows", loses)
        monkeypatch.setattr(session.engine, "decode", fails)
        failed = None
        while failed is None:
            length = session.session_length
            try:
                session.append("a little more text ")
            except NativeError as error:
                failed = error
        assert str(failed).endswith("still broken")
        assert session.session_length == length
        assert session.n_residents == 32
        well_formed(session)
        monkeypatch.undo()
        read_much(session)
        well_formed(session)


def test_an_eviction_that_fails_after_a_lost_cache_leaves_what_was_there(model: Model) -> None:
    """In an answer, of which no more is withdrawn than its last token. Positions are others by then."""
    with merging_session(model) as session:
        read_much(session)
        merger, cache = merger_of(session), session.engine.cache
        assert cache is not None
        write, retain = merger._cache.write_rows, cache.retain

        def loses(*args: Any) -> None:
            cache.fail_next("compute")
            write(*args)

        def fails(*args: Any) -> Any:
            raise NativeError("NO_MEMORY", "no memory to plan")

        merger._cache.write_rows, cache.retain = loses, fails  # type: ignore[method-assign]
        with pytest.raises(NativeError, match="no memory to plan"):
            list(session.generate(max_tokens=60))
        well_formed(session)
        merger._cache.write_rows, cache.retain = write, retain  # type: ignore[method-assign]
        read_much(session)
        well_formed(session)


# Names of what an entry stands for


@st.composite
def histories(draw: Any) -> list[tuple[str, Any]]:
    """Merges of some residents into some of them, evictions and withdrawals, of 40 tokens."""
    history: list[tuple[str, Any]] = []
    for name in draw(st.lists(st.sampled_from(["join", "join", "forget", "keep", "clear"]), max_size=10)):
        if name == "join":
            residents = draw(st.permutations(range(40)))
            n_groups = draw(st.integers(1, 4))
            groups = [residents[5 * each : 5 * each + draw(st.integers(1, 5))] for each in range(n_groups)]
            zone = [token for group in groups for token in group]
            history.append(("join", (draw(st.permutations(zone))[:n_groups], groups)))
        elif name == "forget":
            history.append(("forget", draw(st.integers(0, 40))))
        elif name == "keep":
            history.append(("keep", draw(st.sets(st.integers(0, 39), min_size=20))))
        else:
            history.append(("clear", None))
    return history


@given(histories())
def test_entries_are_what_plain_sets_say(history: list[tuple[str, Any]]) -> None:
    """An entry whose members had all been withdrawn broke the second withdrawal."""
    entries = MergedEntries()
    slow: dict[int, set[int]] = {}
    counts: dict[int, int] = {}
    for name, value in history:
        if name == "join":
            hosts, groups = value
            sizes = [sum(counts.get(token, 1) for token in group) for group in groups]
            unions = [set().union(*(slow.get(token, {token}) for token in group)) for group in groups]
            entries.join(1, hosts, groups, sizes)
            slow.update(zip(hosts, unions, strict=True))
            counts.update(zip(hosts, sizes, strict=True))
        elif name == "keep":
            entries.keep(np.array(sorted(value), dtype=np.int64))
            slow = {token: members for token, members in slow.items() if token in value}
        elif name == "forget":
            entries.forget(value)
            slow = {
                token: {each for each in members if each < value}
                for token, members in slow.items()
                if token < value
            }
        else:
            entries.clear()
            slow = {}
        counts = {token: count for token, count in counts.items() if token in slow}
        assert entries.hosts() == set(slow)
        for token in range(40):
            assert entries.members(1, token).tolist() == sorted(slow.get(token, {token}))
            assert entries.count(1, token) == counts.get(token, 1)
            assert (entries.members(0, token).tolist(), entries.count(0, token)) == ([token], 1)
            named = {layer: each.tolist() for layer, each in entries.of_token(token).items()}
            assert named == ({1: sorted(slow[token])} if token in slow else {})


def test_entries_of_a_long_session_lie_in_few_runs() -> None:
    """Each merge copied all that was ever merged: twice the session, twice the time of each merge."""
    entries = MergedEntries()
    copied, longest = 0, 0
    for first in range(1, 20_000, 50):
        entries.join(0, [0], [[0, *range(first, first + 50)]], [first + 50])
        runs = entries._members[0, 0]
        copied += len(runs[0])  # the shortest is the one that was made last
        longest = max(longest, len(runs))
    assert entries.members(0, 0).tolist() == list(range(20_001))
    assert longest <= 10
    assert copied < 20 * 20_000, f"{copied} indices were copied for 20,000"
