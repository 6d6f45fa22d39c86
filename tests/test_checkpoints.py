"""Going back gives the session that it was: the same answers, logits, residents, positions, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import (
    CACHES,
    ROOM,
    SPECS,
    TALK,
    WIDE,
    Hearing,
    chatter,
    is_whole,
    plain_rows,
    read_specs,
    working_session,
)

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def seen_of(session: Session) -> dict[str, Any]:
    """What a checkpoint is to bring back."""
    return {
        "segments": list(session.segments),
        "tokens": list(session.tokens),
        "residents": session.residents.token_index.tolist(),
        "positions": session.residents.position.tolist(),
        "plan": session.plan,
        "reads": session.reads(),
        "pinned": session.segments.pinned,
        "pool": session.policy.pool(),
        "prompt": session._prompt,
        "role": session._role,
        "pending": list(session._pending),
        "turns": session._n_turns,
    }


def rows_of(session: Session) -> list[bytes]:
    """Keys where they are and values, of all residents."""
    cache = session.engine.cache
    assert cache is not None
    return [
        cache.read_rows(kind, layer).tobytes()
        for layer in range(session.engine.capabilities.n_layers)
        for kind in ("key", "value")
    ]


def work(session: Session, rounds: int = 3) -> list[Any]:
    """Read, write, plan and evict, and note all that came of it."""
    seen: list[Any] = []
    for number in range(rounds):
        answer = list(session.generate(f"{TALK * 3} {number}", name=f"answer {number}", max_tokens=9))
        seen += ["".join(event.text for event in answer), session.engine.logits().tobytes()]
        session.plan = Plan([Step("x", reads=[list(SPECS)[number % 3]])])
        session.append(f"{number} " + TALK * 4)
        seen += [session.engine.logits().tobytes(), seen_of(session), rows_of(session)]
    return seen


def differences(first: list[Any], second: list[Any]) -> list[int]:
    return [number for number, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]


def read_before(session: Session, times: int) -> None:
    read_specs(session)
    session.plan = Plan([Step("first", reads=["spec:stock"]), Step("second", reads=["spec:mail"])])
    chatter(session, times)


# Whatever the policy


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "none"])
@pytest.mark.parametrize("times", [1, 9])
def test_all_that_follows_is_the_same(model: Model, policy: str, times: int) -> None:
    """Policy ``attention`` alone goes by a window of steps, which starts anew."""
    with working_session(model, policy=policy) as session:
        read_before(session, times)
        checkpoint = session.checkpoint()
        before, rows = seen_of(session), rows_of(session)
        first = work(session)
        assert session.stats.evicted_in_session > 0
        for _ in range(2):
            session.restore(checkpoint)
            session.check()
            assert seen_of(session) == before
            assert rows_of(session) == rows
            again = work(session)
            assert policy == "attention" or differences(again, first) == []


def test_with_policy_none(model: Model) -> None:
    with working_session(model, policy="none", budget=900, position_cap=1000) as session:
        read_before(session, 1)
        checkpoint, before = session.checkpoint(), seen_of(session)
        first = work(session)
        session.restore(checkpoint)
        assert seen_of(session) == before
        assert differences(work(session), first) == []


@pytest.mark.parametrize("cache", CACHES)
def test_whatever_the_cache(load_tiny: Callable[[TinySpec], Model], cache: str) -> None:
    """Quantised keys are rounded once more when they are first made from their references."""
    with working_session(load_tiny(WIDE), **CACHES[cache]) as session:
        read_before(session, 4)
        checkpoint = session.checkpoint()
        work(session)
        session.restore(checkpoint)
        before, rows = seen_of(session), rows_of(session)
        first = work(session)
        session.restore(checkpoint)
        assert seen_of(session) == before
        assert rows_of(session) == rows
        assert differences(work(session), first) == []


@pytest.mark.parametrize("every", [1, 7, 50])
def test_the_pace_of_evictions_goes_on_as_it_did(model: Model, every: int) -> None:
    with working_session(model, policy="streaming", evict_every=every, soft_target=0.5) as session:
        session.append("x" * 100)
        for length in (3, 19, 31):
            session.append("x" * length)
            checkpoint = session.checkpoint()
            seen = []
            for _ in range(2):
                session.append("x" * 23)
                list(session.generate("go on", max_tokens=25))
                seen.append((session.residents.token_index.tolist(), session.engine.logits().tobytes()))
                session.restore(checkpoint)
            assert seen[0] == seen[1]


# What it brings back


def test_plan_pins_and_names(model: Model) -> None:
    with working_session(model) as session:
        read_before(session, 2)
        session.recall("spec:orders")
        checkpoint, before = session.checkpoint(), seen_of(session)
        session.pin("spec:mail")
        session.step_done()
        session.plan = Plan([Step("another", reads=["spec:orders"])])
        session.append("RATE is 54", name="spec:stock")
        assert "spec:stock#2" in session.segments
        session.restore(checkpoint)
        assert seen_of(session) == before
        assert not session.segments.named("spec:mail").pinned
        assert session.append("RATE is 54", name="spec:stock").name == "spec:stock#2"


def test_a_step_that_was_due_is_due_again(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing) as session:
        read_specs(session)
        session.plan = Plan([Step("do it", reads=["spec:stock"])])
        checkpoint = session.checkpoint()
        for _ in range(2):
            session.append("use it")
            session.restore(checkpoint)
        assert len(hearing.of(events.Focused)) == 2


def test_a_name_means_what_it_meant_before_it_was_reread(model: Model) -> None:
    with working_session(model, means="reread") as session:
        read_specs(session)
        list(session.generate("go on", max_tokens=3))
        old, rows = session.segments.named("spec:stock"), plain_rows(session, "spec:stock")
        checkpoint = session.checkpoint()
        session.plan = Plan([Step("do it", reads=["spec:stock"])])
        session.append("use it")
        assert session.segments.named("spec:stock").id != old.id
        session.restore(checkpoint)
        assert session.segments.named("spec:stock") == old
        assert plain_rows(session, "spec:stock") == rows


def test_after_what_was_computed_again_it_has_what_was_first(model: Model) -> None:
    """The same tokens with other keys and values, and without a seat left for the old ones."""
    with working_session(model, isolate=False, means="recomputed") as session:
        read_specs(session)
        list(session.generate("go on", max_tokens=3))
        rows = rows_of(session)
        checkpoint = session.checkpoint()
        session.plan = Plan([Step("do it", reads=["spec:mail"])])
        session.append("use it")
        assert session.segments.named("spec:mail").isolated
        session.restore(checkpoint)
        assert rows_of(session) == rows
        assert not session.segments.named("spec:mail").isolated


def test_it_is_told(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing) as session:
        read_before(session, 1)
        n, length = session.n_residents, session.session_length
        checkpoint = session.checkpoint()
        stays = set(session.residents.stay.tolist())
        session.append("a little more")
        withdrawn = session.session_length - length
        session.restore(checkpoint)
        (event,) = hearing.of(events.Restored)
        assert (event.checkpoint, event.withdrawn, event.loaded) == (checkpoint, withdrawn, 0)
        chatter(session, 9)
        left = len(stays & set(session.residents.stay.tolist()))
        withdrawn = session.session_length - length
        session.restore(checkpoint)
        event = hearing.of(events.Restored)[-1]
        assert (event.withdrawn, event.loaded) == (withdrawn, n - left)
        assert set(session.residents.stay.tolist()) == stays


def test_counters_go_on(model: Model) -> None:
    with working_session(model) as session:
        read_before(session, 2)
        checkpoint = session.checkpoint()
        work(session)
        before = session.stats
        session.restore(checkpoint)
        assert session.stats.evicted_in_session == before.evicted_in_session
        assert session.stats.session_tokens == session.session_length < before.session_tokens


# Undo


def test_a_turn_that_was_cancelled_is_undone_with_its_evictions(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing, policy="pace") as session:
        chatter(session, 3)
        checkpoint, before, rows = session.checkpoint(), seen_of(session), rows_of(session)

        def cancels(event: events.Event) -> None:
            if isinstance(event, events.Evicted):
                session.cancel()

        hearing.act = cancels
        with pytest.raises(CancelledError):
            session.append(TALK * 20, kind="file")
        hearing.act = lambda event: None
        assert session.n_residents < len(before["residents"]), "evictions made for it stay"
        session.restore(checkpoint)
        assert seen_of(session) == before
        assert rows_of(session) == rows


def test_an_answer_that_was_left_is_undone(model: Model) -> None:
    with working_session(model) as session:
        session.append("what is it?")
        checkpoint, before = session.checkpoint(), seen_of(session)
        full = "".join(event.text for event in session.generate(max_tokens=12))
        session.restore(checkpoint)
        stream = session.generate(max_tokens=12)
        for event in stream:
            if event.text:
                break
        stream.close()  # type: ignore[attr-defined]
        session.restore(checkpoint)
        assert seen_of(session) == before
        assert "".join(event.text for event in session.generate(max_tokens=12)) == full


def test_within_an_answer_it_waits(model: Model) -> None:
    with working_session(model) as session:
        checkpoint = session.checkpoint()
        stream = session.generate("go on", max_tokens=12)
        next(iter(stream))
        for act in (session.checkpoint, lambda: session.restore(checkpoint)):
            with pytest.raises(ConfigError, match="busy"):
                act()
        stream.close()  # type: ignore[attr-defined]
        session.restore(checkpoint)


def test_of_a_session_without_a_token(model: Model) -> None:
    with Session(model, policy="pace_focus", threads=1, check=True, **ROOM) as session:
        checkpoint = session.checkpoint()
        first = work_from_nothing(session)
        session.restore(checkpoint)
        assert session.n_residents == session.session_length == len(session.segments) == 0
        assert work_from_nothing(session) == first


def work_from_nothing(session: Session) -> list[Any]:
    session.append("be brief", kind="system", name="rules")
    read_specs(session)
    chatter(session, 6)
    list(session.generate("go on", max_tokens=8))
    return [seen_of(session), rows_of(session), session.engine.logits().tobytes()]


def test_what_is_recalled_after_it(model: Model) -> None:
    """The store forgets what was read after the checkpoint, and has what was read before."""
    hearing = Hearing()
    with working_session(model, hearing) as session:
        read_specs(session)
        rows = plain_rows(session, "spec:stock")
        checkpoint = session.checkpoint()
        session.append("RATE is 54", name="late")
        late = session.segments.named("late")
        chatter(session, 8)
        session.restore(checkpoint)
        assert not session._memory.store.pieces_of(late.id)
        assert is_whole(session, "spec:stock")
        chatter(session, 8)
        assert not is_whole(session, "spec:stock")
        session.recall("spec:stock")
        assert hearing.recalled() == [("spec:stock", "spliced")]
        assert plain_rows(session, "spec:stock") == rows
        assert np.all(np.diff(session.residents.position) > 0)
