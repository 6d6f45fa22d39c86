"""A step that reads several texts reads them as a sequence: each as it is behind those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import (
    COPIES,
    SPECS,
    WIDE,
    Hearing,
    chatter,
    check_rotations,
    computed_for_step,
    is_whole,
    length_of,
    plain_rows,
    plain_rows_at,
    ranks_of,
    read_specs,
    resident_names,
    working_session,
    working_set_of,
)

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, NativeError
from pace_local.events import Means
from pace_local.sessions import log_path, state_of
from pace_local.testing import TinySpec

TEXTS = {**SPECS, **COPIES}
A, B, C = SPECS
REASON = "the step reads several texts, each behind the last"
NO_STORE: dict[str, Any] = {"host_bytes": 0, "disk_bytes": 0}


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


def roomy_session(model: Model, hearing: Hearing, **settings: Any) -> Session:
    return working_session(model, hearing, **{"budget": 320, **settings})


def reading(session: Session, names: Iterable[str], **settings: Any) -> None:
    for name in names:
        session.append(TEXTS[name], name=name, **settings)


def one_after_the_other(model: Model, names: Iterable[str], **settings: Any) -> list[bytes]:
    """Rows of a fresh session that reads only the prefix and these texts, with nothing between."""
    with working_session(model, isolate=False, **{"budget": 448, **settings}) as fresh:
        prefix = fresh.session_length
        reading(fresh, names)
        assert fresh.n_residents == fresh.session_length
        return plain_rows_at(fresh, slice(prefix, None))


def rows_of(session: Session, names: Iterable[str]) -> list[bytes]:
    ranks = np.sort(np.concatenate([ranks_of(session, name) for name in names]))
    return plain_rows_at(session, ranks)


def started(hearing: Hearing) -> dict[str, Means]:
    """By what means each read of the last step came."""
    return hearing.of(events.Focused)[-1].reads


def owner_of(session: Session, names: Iterable[str]) -> int:
    """What the last of a sequence is saved under."""
    ids = [session.segments.named(name).id for name in names]
    (owner,) = (owner for owner, *group in working_set_of(session).groups() if group == ids)
    return owner


# What it computes


@pytest.mark.parametrize(
    "names", [(A, B), (A, C), (A, B, C), tuple(COPIES)[1:], tuple(COPIES), (B, "copy:mail")]
)
@pytest.mark.parametrize("isolated", [None, False])
def test_its_rows_are_those_of_a_session_with_nothing_else(
    model: Model, hearing: Hearing, names: tuple[str, ...], isolated: bool | None
) -> None:
    """Whatever was resident, and however each of them was read first; alike or not."""
    with roomy_session(model, hearing) as session:
        chatter(session, 2)
        reading(session, TEXTS if isolated is None else names, isolated=isolated)
        chatter(session, 3)
        computed_for_step(session, hearing, *reversed(names))
        assert resident_names(session) - {"rules"} >= set(names)
        assert rows_of(session, names) == one_after_the_other(model, names)
        assert {event.reason for event in hearing.of(events.Recalled)} == {REASON}


def test_the_rows_depend_on_what_is_before(model: Model, hearing: Hearing) -> None:
    """Else none of the comparisons here would be worth its while."""
    with roomy_session(model, hearing) as session:
        read_specs(session)
        seen = {}
        for names in ([C], [A, C], [B, C], [A, B, C]):
            computed_for_step(session, hearing, *names)
            seen[tuple(names)] = plain_rows(session, C)[2]  # of a layer that saw what is before
        assert len(set(seen.values())) == len(seen)


@pytest.mark.parametrize("evicted", [False, True])
def test_only_what_is_new_is_computed(model: Model, hearing: Hearing, evicted: bool) -> None:
    """Each step takes from those before it what it can, and always has the rows that it must have."""
    steps: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((A,), ()),
        ((A, B), (B,)),
        ((A, B, C), (C,)),
        ((B, C), (C,)),
        ((A,), ()),
        ((A, C), (C,)),
        ((B,), ()),
        ((C,), ()),
        ((A, B, C), ()),
        ((B, C), ()),
        ((A, C), ()),
    ]
    with roomy_session(model, hearing) as session:
        read_specs(session)
        for names, new in steps:
            if evicted:
                assert computed_for_step(session, hearing) == 0
                assert not resident_names(session) & set(SPECS)
            hearing.heard.clear()
            assert computed_for_step(session, hearing, *names) == length_of(session, *new), names
            reads = started(hearing)
            assert {name for name in names if reads[name] == "together"} == set(new)
            assert all(reads[name] in ("kept", "spliced") for name in names if name not in new)
            arrived = [(name, reads[name]) for name in names if reads[name] != "kept"]
            assert sorted(hearing.recalled()) == sorted(arrived)
            assert {event.segment for event in hearing.of(events.Isolated)} == set(new)
            assert rows_of(session, names) == one_after_the_other(model, names), names


def test_what_is_resident_as_it_is_to_be_is_kept(model: Model, hearing: Hearing) -> None:
    with roomy_session(model, hearing) as session:
        read_specs(session)
        computed_for_step(session, hearing, A, B)
        stays = session.residents.stay[np.isin(session.residents.segment, [1, 2])].tolist()
        hearing.heard.clear()
        assert computed_for_step(session, hearing, B, A) == 0
        assert started(hearing) == {B: "kept", A: "kept"}
        assert not hearing.recalled()
        assert session.residents.stay[np.isin(session.residents.segment, [1, 2])].tolist() == stays


@pytest.mark.parametrize("means", ["auto", "together"])
def test_a_first_that_was_read_as_usual_is_isolated_from_then_on(
    model: Model, hearing: Hearing, means: str
) -> None:
    with roomy_session(model, hearing, means=means) as session:
        reading(session, [A, B], isolated=False)
        as_usual = plain_rows(session, B)
        hearing.heard.clear()
        assert computed_for_step(session, hearing, A, B) == length_of(session, A, B)
        assert started(hearing) == {A: "together", B: "together"}
        assert [event.segment for event in hearing.of(events.Isolated)] == [A, B]
        assert session.segments.named(A).isolated
        assert not session.segments.named(B).isolated
        assert computed_for_step(session, hearing, A) == 0
        with working_session(model) as fresh:
            reading(fresh, [A])
            assert plain_rows(session, A) == plain_rows(fresh, A)
        if means == "auto":
            assert computed_for_step(session, hearing, B) == 0
            assert plain_rows(session, B) == as_usual, "as it was read first"


def test_keys_stay_right_when_they_come_and_go(
    load_tiny: Callable[[TinySpec], Model], hearing: Hearing
) -> None:
    with working_session(load_tiny(WIDE), hearing) as session:
        reading(session, COPIES)
        pair = ["copy:orders", "copy:mail"]
        computed_for_step(session, hearing, *pair)
        rows = rows_of(session, pair)
        computed_for_step(session, hearing)
        chatter(session, 9)
        assert not is_whole(session, "copy:mail")
        assert computed_for_step(session, hearing, *pair) == 0
        assert rows_of(session, pair) == rows
        check_rotations(session, WIDE)


# What is lost, and what goes wrong


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_only_what_is_lost_is_computed_again(model: Model, hearing: Hearing, lost: int) -> None:
    names = [A, B, C]
    with roomy_session(model, hearing) as session:
        read_specs(session)
        computed_for_step(session, hearing, *names)
        computed_for_step(session, hearing)
        owner = owner_of(session, names[: lost + 1]) if lost else session.segments.named(A).id
        store = working_set_of(session).store
        assert store.pieces_of(owner)
        store.drop(owner)
        hearing.heard.clear()
        assert computed_for_step(session, hearing, *names) == length_of(session, names[lost])
        assert {name for name, how in started(hearing).items() if how == "together"} == {names[lost]}
        assert rows_of(session, names) == one_after_the_other(model, names)
        computed_for_step(session, hearing)
        assert computed_for_step(session, hearing, *names) == 0, "it was saved again"


def test_where_nothing_can_be_saved_all_is_computed_each_time(model: Model, hearing: Hearing) -> None:
    """One that was read behind others was taken for itself."""
    with roomy_session(model, hearing, **NO_STORE) as session:
        read_specs(session, [A, B])
        alone = plain_rows(session, B)
        assert computed_for_step(session, hearing, A, B) > 0
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])
        assert computed_for_step(session, hearing, B) == length_of(session, B)
        assert plain_rows(session, B) == alone
        computed_for_step(session, hearing, A, B)
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])


@pytest.mark.parametrize(
    "error", [CancelledError("stop"), NativeError("DECODE", "stop")], ids=["cancelled", "failed"]
)
@pytest.mark.parametrize("at", range(1, 7))
def test_stopped_at_any_decode(
    model: Model, hearing: Hearing, monkeypatch: pytest.MonkeyPatch, at: int, error: Exception
) -> None:
    """What had been computed behind others was taken for the text by itself, and saved as that."""
    with roomy_session(model, hearing) as session:
        read_specs(session)
        alone = {name: plain_rows(session, name) for name in SPECS}
        list(session.generate("go on", max_tokens=5))
        length = session.session_length
        session.plan = Plan([Step("stopped", reads=[A, B, C])])
        decode, calls = session.engine.decode, []

        def stops(tokens: Any, position: int) -> None:
            calls.append(len(tokens))
            if len(calls) == at:
                raise error
            decode(tokens, position)

        with monkeypatch.context() as patch:
            patch.setattr(session.engine, "decode", stops)
            with pytest.raises(type(error), match="stop"):
                session.append("use them")
        session.check()
        assert session.session_length == length
        assert is_whole(session, "rules")
        for names in ([C], [B], [A], [A, B, C]):
            computed_for_step(session, hearing, *names)
            expected = alone[names[0]] if len(names) == 1 else one_after_the_other(model, names)
            assert rows_of(session, names) == expected, names


def test_a_read_that_every_text_sees_stays_where_it_is(model: Model, hearing: Hearing) -> None:
    """The system prompt was taken out, and decoded behind what comes after it."""
    with roomy_session(model, hearing) as session:
        session.append("mind the gap", kind="system", name="more")
        read_specs(session)
        pinned, alone = rows_of(session, ["rules", "more"]), plain_rows(session, B)
        computed_for_step(session, hearing, "rules", B)
        assert rows_of(session, ["rules", "more"]) == pinned
        assert plain_rows(session, B) == alone


@pytest.mark.parametrize("means", ["auto", "together", "recomputed", "reread"])
def test_what_is_pinned_outlives_a_step_that_is_stopped(
    model: Model, hearing: Hearing, monkeypatch: pytest.MonkeyPatch, means: str
) -> None:
    with roomy_session(model, hearing, means=means) as session:
        read_specs(session)
        pinned = plain_rows(session, "rules")
        list(session.generate("go on", max_tokens=5))
        session.plan = Plan([Step("stopped", reads=["rules", B])])

        def stops(tokens: Any, position: int) -> None:
            raise CancelledError("stop")

        with monkeypatch.context() as patch:
            patch.setattr(session.engine, "decode", stops)
            with pytest.raises(CancelledError):
                session.append("use them")
        assert is_whole(session, "rules")
        assert plain_rows(session, "rules") == pinned


# What outlives a process, and a mistake


def test_it_is_there_after_opening(model: Model, hearing: Hearing, tmp_path: Path) -> None:
    with roomy_session(model, hearing) as session:
        session.save(tmp_path / "it")
        read_specs(session)
        alone = plain_rows(session, B)
        computed_for_step(session, hearing, A, B)
    with Session.open(model, tmp_path / "it", listener=hearing) as session:
        assert computed_for_step(session, hearing, A, B) == 0
        assert started(hearing) == {A: "kept", B: "kept"}
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])
        computed_for_step(session, hearing)
    with Session.open(model, tmp_path / "it", listener=hearing) as session:
        assert computed_for_step(session, hearing, A, B) == 0
        assert started(hearing) == {A: "spliced", B: "spliced"}
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])
    with Session.open(model, tmp_path / "it", listener=hearing) as session:
        assert computed_for_step(session, hearing, B) == 0
        assert plain_rows(session, B) == alone, "what is resident behind another is not it"
        assert computed_for_step(session, hearing, A, B, C) == length_of(session, C)
        assert rows_of(session, [A, B, C]) == one_after_the_other(model, [A, B, C])


def test_what_a_killed_process_had_saved_is_not_taken_for_another_sequence(
    model: Model, hearing: Hearing, tmp_path: Path
) -> None:
    """The log did not know of it yet, and the next sequence got its id and its keys and values."""
    with roomy_session(model, hearing, folder=tmp_path / "it") as session:
        read_specs(session)
        log = log_path(tmp_path / "it").read_bytes()
        computed_for_step(session, hearing, A, C)
        killed = owner_of(session, [A, C])
    log_path(tmp_path / "it").write_bytes(log)
    with Session.open(model, tmp_path / "it", listener=hearing) as session:
        assert working_set_of(session).store.pieces_of(killed)
        assert computed_for_step(session, hearing, B, C) == length_of(session, C)
        assert rows_of(session, [B, C]) == one_after_the_other(model, [B, C])


def test_sequences_of_which_nothing_is_left_are_forgotten(
    model: Model, hearing: Hearing, tmp_path: Path
) -> None:
    """Each record named all that there ever had been; and residents could be taken for a later one's."""
    with roomy_session(model, hearing, folder=tmp_path / "it") as session:
        read_specs(session)
        working_set, lowest = working_set_of(session), 0
        for names in ([A, B], [A, C], [B, C]):
            computed_for_step(session, hearing, *names)
            owner = owner_of(session, names)
            assert owner < lowest
            lowest = owner
            working_set.store.drop(owner)
            assert not working_set.groups()
            assert working_set.sequences() == {owner}, "it is resident"
            computed_for_step(session, hearing)
            working_set.store.drop(owner)  # it was saved as it left
            session.append("go on")
            assert not working_set.sequences()
    assert not state_of(tmp_path / "it").policy_state["groups"]


@pytest.mark.parametrize("between", [(), (B,), (A, C), (B, C)])
def test_it_is_there_after_going_back(model: Model, hearing: Hearing, between: tuple[str, ...]) -> None:
    with roomy_session(model, hearing) as session:
        read_specs(session)
        alone = plain_rows(session, B)
        computed_for_step(session, hearing, A, B)
        checkpoint = session.checkpoint()
        computed_for_step(session, hearing, *between)
        session.restore(checkpoint)
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])
        assert computed_for_step(session, hearing, A, B) == 0
        assert rows_of(session, [A, B]) == one_after_the_other(model, [A, B])
        assert computed_for_step(session, hearing, B) == 0
        assert plain_rows(session, B) == alone


def test_another_text_under_the_same_id_is_another(model: Model, hearing: Hearing) -> None:
    """What was read after a checkpoint is no more, nor is any sequence with it."""
    with roomy_session(model, hearing) as session:
        read_specs(session, [A, B])
        list(session.generate("go on", max_tokens=5))
        checkpoint = session.checkpoint()
        reading(session, [C])
        old = session.segments.named(C)
        computed_for_step(session, hearing, A, B, C)
        computed_for_step(session, hearing, A, C)
        session.restore(checkpoint)
        reading(session, ["copy:mail"])
        assert session.segments.named("copy:mail").id == old.id
        names = [A, "copy:mail"]
        assert computed_for_step(session, hearing, *names) == length_of(session, "copy:mail")
        assert rows_of(session, names) == one_after_the_other(model, names)
        names = [A, B, "copy:mail"]
        # B behind A was read after the checkpoint too.
        assert computed_for_step(session, hearing, *names) == length_of(session, B, "copy:mail")
        assert rows_of(session, names) == one_after_the_other(model, names)
