"""What is asked aside leaves no trace: not in the session, not on the disk, not in what it does next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_pair import TALKER
from test_checkpoints import differences, read_before, rows_of, seen_of, work
from test_session_disk import WINDOWED, begin, copy_of, go_on
from working_set_views import SPECS, TALK, working_session

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError
from pace_local.policies import POLICIES
from pace_local.sessions import log_path
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def begun(model: Model, **settings: Any) -> Session:
    session = working_session(model, **settings)
    read_before(session, 3)
    return session


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"none", "attention"}))
def test_a_session_goes_on_as_if_nothing_had_been_asked(model: Model, policy: str) -> None:
    with begun(model, policy=policy) as plain, begun(model, policy=policy) as asked:
        before, rows = seen_of(asked), rows_of(asked)
        with asked.aside():
            work(asked)
            assert seen_of(asked) != before
        assert seen_of(asked) == before
        assert rows_of(asked) == rows
        asked.check()
        plain._cache.tidy()  # cells lie in order after a restore, whatever they did before
        assert differences(work(plain), work(asked)) == []


def test_asides_within_asides(model: Model) -> None:
    with begun(model) as session:
        outer = seen_of(session)
        with session.aside():
            session.append(TALK, name="first")
            inner = seen_of(session)
            with session.aside():
                work(session)
            assert seen_of(session) == inner
        assert seen_of(session) == outer
        assert "first" not in session.segments


def test_an_error_inside_leaves_no_trace_either(model: Model) -> None:
    with begun(model) as session:
        before, checkpoints = seen_of(session), len(session._checkpoints)

        def fails() -> None:
            with session.aside():
                session.append(TALK * 5)
                session.plan = Plan([Step("x", reads=[next(iter(SPECS))])])
                raise CancelledError("cancelled")

        with pytest.raises(CancelledError):
            fails()
        assert seen_of(session) == before
        assert len(session._checkpoints) == checkpoints


def test_a_generation_must_be_over_before_an_aside_is(model: Model) -> None:
    with begun(model) as session:
        answer = session.generate(TALK, max_tokens=9)
        aside = session.aside()
        aside.__enter__()
        next(answer)
        with pytest.raises(ConfigError, match="busy"):
            aside.__exit__(None, None, None)
        answer.close()


def test_closing_inside_is_no_error(model: Model) -> None:
    with begun(model) as session, session.aside():
        session.close()


# On disk


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"none", "merge"} - WINDOWED))
def test_killed_within_an_aside_the_disk_has_the_session_before_it(
    model: Model, tmp_path: Path, policy: str
) -> None:
    with begin(model, tmp_path / "first", policy=policy) as first:
        residents, length = first.residents.token_index.tolist(), first.session_length
        log = log_path(tmp_path / "first").read_bytes()
        with first.aside():
            go_on(first)
            # All that is on the disk in this instant is copied, as a killed process would leave it.
            first._memory.store.flush()
            copy_of(first, tmp_path / "second")
            assert log_path(tmp_path / "first").read_bytes() == log
        assert first.residents.token_index.tolist() == residents
        rebuilt: list[events.Event] = []
        with Session.open(model, tmp_path / "second", listener=rebuilt.append) as second:
            assert not [event for event in rebuilt if isinstance(event, events.Rebuilt)]
            assert (second.session_length, second.residents.token_index.tolist()) == (length, residents)
            assert go_on(second) == go_on(first)


def test_what_comes_after_an_aside_is_written_and_nothing_of_it(model: Model, tmp_path: Path) -> None:
    with begin(model, tmp_path / "first", policy="pace_focus") as first:
        with first.aside():
            first.append("aside aside aside", name="aside")
            first.plan = Plan([Step("x", reads=["aside"])])
        first.append("after", name="after")
        copy_of(first, tmp_path / "second")
        with Session.open(model, tmp_path / "second") as second:
            assert "aside" not in second.segments
            assert second.segments.named("after") == first.segments.named("after")
            assert second.plan == first.plan
            assert go_on(second) == go_on(first)
