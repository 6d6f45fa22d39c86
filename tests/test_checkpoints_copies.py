"""Checkpoints cost what has left since; they nest, are dropped, and outlast a device that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER
from test_checkpoints import differences, rows_of, seen_of, work
from working_set_views import TALK, Hearing, NthFails, chatter, is_whole, read_specs, working_session

from pace_local import Model, Session, events
from pace_local.checkpoints import Checkpoint
from pace_local.errors import ConfigError, NativeError
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def of(session: Session, checkpoint: int) -> Checkpoint:
    return session._checkpoints.named(checkpoint)


def block_bytes(session: Session, n_tokens: int) -> int:
    """Of so many tokens saved as one block."""
    cache = session.engine.cache
    assert cache is not None
    ranks = np.arange(n_tokens, dtype=np.uint32)
    return cache.save(ranks, session.n_residents, session.engine.identity).nbytes


def left_since(session: Session, checkpoint: int) -> int:
    stays = of(session, checkpoint).rows.stay
    return int(np.count_nonzero(~np.isin(stays, session.residents.stay)))


# What it costs


def test_nothing_is_copied_until_something_leaves(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with working_session(model, policy="pace") as session:
        chatter(session, 2)
        cache = session.engine.cache
        monkeypatch.setattr(cache, "save", None)
        checkpoint = session.checkpoint()
        session.append("and more")
        list(session.generate("go on", max_tokens=6))
        assert of(session, checkpoint).n_bytes == 0
        monkeypatch.setattr(cache, "load", None)
        session.restore(checkpoint)
        session.check()


def test_what_has_left_is_copied_once(model: Model) -> None:
    with working_session(model, policy="pace") as session:
        chatter(session, 3)
        per_token = (block_bytes(session, 40) - block_bytes(session, 20)) / 20
        checkpoints = [session.checkpoint() for _ in range(3)]
        for _ in range(6):
            chatter(session, 1)
            left = {left_since(session, each) for each in checkpoints}
            assert len(left) == 1
            for each in checkpoints:
                tokens = sum(len(held.token_index) for held in of(session, each).held)
                assert tokens == left.copy().pop()
                blocks = len(of(session, each).held)
                header = block_bytes(session, 1)
                assert of(session, each).n_bytes <= per_token * tokens + header * blocks
        assert left != {0}
        shared = [[id(held.block) for held in of(session, each).held] for each in checkpoints]
        assert shared[0] == shared[1] == shared[2], "and shared"


def test_what_came_after_it_is_not_copied(model: Model) -> None:
    with working_session(model, policy="pace") as session:
        checkpoint = session.checkpoint()
        chatter(session, 9)
        assert session.stats.evicted_in_session > 200
        assert of(session, checkpoint).n_bytes == 0, "the system prompt never left"


def test_policies_that_merge_are_copied_at_once(model: Model) -> None:
    with working_session(model, policy="merge") as session:
        chatter(session, 2)
        checkpoint = session.checkpoint()
        (held,) = of(session, checkpoint).held
        assert len(held.token_index) == session.n_residents
        assert len(held.stay) == session.n_residents


def test_a_dropped_one_is_freed(model: Model) -> None:
    with working_session(model, policy="pace") as session:
        chatter(session, 3)
        first, second = session.checkpoint(), session.checkpoint()
        chatter(session, 6)
        bytes_held = of(session, second).n_bytes
        assert bytes_held
        session.drop_checkpoint(first)
        assert [each.id for each in session._checkpoints] == [second]
        assert of(session, second).n_bytes == bytes_held
        session.drop_checkpoint(second)
        assert len(session._checkpoints) == 0
        for act in (session.restore, session.drop_checkpoint):
            with pytest.raises(ConfigError, match=f"no checkpoint has the id {second}; there are: none"):
                act(second)


# Nested


def test_nested(model: Model) -> None:
    with working_session(model) as session:
        read_specs(session)
        ids, seen, rows = [], [], []
        for _ in range(4):
            ids.append(session.checkpoint())
            seen.append(seen_of(session))
            rows.append(rows_of(session))
            chatter(session, 4)
        assert ids == sorted(set(ids))
        for at in (3, 3, 2, 0, 0):
            session.restore(ids[at])
            session.check()
            assert seen_of(session) == seen[at], at
            assert rows_of(session) == rows[at], at
            chatter(session, 3)


def test_of_an_older_one_no_newer_one_is_left(model: Model) -> None:
    with working_session(model) as session:
        older = session.checkpoint()
        chatter(session, 3)
        newer = session.checkpoint()
        chatter(session, 3)
        session.restore(older)
        with pytest.raises(ConfigError, match=f"no checkpoint has the id {newer}; there are: {older}"):
            session.restore(newer)
        assert session.checkpoint() > newer, "ids are not given again"
        session.restore(older)


def test_between_restores_the_older_one_loses_nothing(model: Model) -> None:
    """Going back to the newer one makes room, and what leaves for it may be the older one's."""
    with working_session(model) as session:
        read_specs(session)
        older, seen, rows = session.checkpoint(), seen_of(session), rows_of(session)
        chatter(session, 5)
        newer = session.checkpoint()
        for _ in range(3):
            chatter(session, 5)
            session.recall("spec:mail")
            session.restore(newer)
        session.restore(older)
        assert seen_of(session) == seen
        assert rows_of(session) == rows


@pytest.mark.parametrize("wrong", [0, -1, 7, None, "last"])
def test_a_wrong_id_changes_nothing(model: Model, wrong: int) -> None:
    with working_session(model) as session:
        checkpoint = session.checkpoint()
        chatter(session, 2)
        before = seen_of(session)
        with pytest.raises(ConfigError, match=f"no checkpoint has the id {wrong!r}; there are: {checkpoint}"):
            session.restore(wrong)
        assert seen_of(session) == before
        session.restore(checkpoint)


# Failures


@pytest.mark.parametrize("point", ["plan", "allocate", "compute"])
def test_a_restore_that_fails_can_be_tried_again(model: Model, point: str) -> None:
    """The tokens were withdrawn and their segments were not: the next turn died of it."""
    for at in range(1, 9):
        hearing = Hearing()
        with working_session(model, hearing) as session:
            read_specs(session)
            checkpoint, before, rows = session.checkpoint(), seen_of(session), rows_of(session)
            chatter(session, 6)
            operations = NthFails(session, at, point)
            failed = False
            try:
                session.restore(checkpoint)
            except NativeError:
                failed = True
            operations.stop()
            session.check()
            assert session.segments[len(session.segments) - 1].end == session.session_length
            assert is_whole(session, "rules")
            if failed:
                session.append("go on")
                list(session.generate("and on", max_tokens=3))
                session.restore(checkpoint)
            found = seen_of(session)
            if hearing.of(events.Rebuilt):
                found["positions"] = before["positions"]
            else:
                assert rows_of(session) == rows
            assert found == before, at
            if operations.count < at:
                return
    raise AssertionError("there are more operations than were tried")


def test_what_a_device_has_lost_is_decoded_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    hearing = Hearing()
    with working_session(model, hearing, policy="pace", soft_target=0.6) as session:
        chatter(session, 3)
        checkpoint, before = session.checkpoint(), seen_of(session)
        cache = session.engine.cache
        assert cache is not None
        place = cache.place

        def fails(*arguments: Any) -> Any:
            cache.fail_next("compute")
            return place(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(cache, "place", fails)
            for _ in range(40):
                session.append(TALK)
                if hearing.of(events.Rebuilt):
                    break
        assert hearing.of(events.Rebuilt)
        session.restore(checkpoint)
        session.check()
        after = seen_of(session)
        after["positions"] = before["positions"]
        assert after == before
        list(session.generate("go on", max_tokens=5))


def test_without_checkpoints_nothing_changes(model: Model) -> None:
    """A checkpoint that is never gone back to leaves no trace but for the order of cells."""
    seen = []
    for takes in (False, True):
        with working_session(model) as session:
            read_specs(session)
            session._cache.tidy()
            if takes:
                session.checkpoint()
            seen.append(work(session))
    assert differences(seen[0], seen[1]) == []
