"""Which texts are read in isolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from session_pair import TALKER
from working_set_views import TALK, Hearing, chatter, is_whole, working_session

from pace_local import Model, events
from pace_local.errors import ContextFullError
from pace_local.testing import TinySpec

TEXT = "RATE is 53"


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


BY_DEFAULT = [
    ("file", None, True),
    ("file", "spec", True),
    ("tool", None, True),
    ("text", None, True),
    ("user", "spec", True),
    ("user", None, False),
    ("system", None, False),
    ("system", "spec", False),
    ("plan", "spec", False),
    ("answer", "spec", False),
    ("reasoning", "spec", False),
]


@pytest.mark.parametrize(("kind", "name", "expected"), BY_DEFAULT)
def test_by_default_what_a_plan_may_read(model: Model, kind: Any, name: str | None, expected: bool) -> None:
    with working_session(model) as session:
        chatter(session, 1)
        assert session.append(TEXT, kind=kind, name=name).isolated == expected


@pytest.mark.parametrize("kind", ["file", "user", "answer", "plan"])
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_the_caller_decides(model: Model, kind: Any, asked: bool, policy: str) -> None:
    hearing = Hearing()
    with working_session(model, hearing, policy=policy) as session:
        chatter(session, 1)
        segment = session.append(TEXT, kind=kind, name="spec", isolated=asked)
        assert segment.isolated == asked
        assert session.segments.named("spec").isolated == asked
        assert len(hearing.of(events.Isolated)) == asked


@pytest.mark.parametrize(
    ("policy", "isolate", "expected"),
    [
        ("pace", None, False),
        ("pace", True, True),
        ("streaming", None, False),
        ("streaming", True, True),
        ("h2o", True, True),
        ("pace_focus", None, True),
        ("pace_focus", False, False),
    ],
)
def test_the_setting_decides(model: Model, policy: str, isolate: bool | None, expected: bool) -> None:
    with working_session(model, policy=policy, isolate=isolate) as session:
        chatter(session, 1)
        assert session.append(TEXT, kind="file").isolated == expected


def test_what_is_pinned_is_read_as_usual(model: Model) -> None:
    """It is resident whatever comes, among all others."""
    with working_session(model) as session:
        chatter(session, 1)
        assert not session.append(TEXT, kind="file", pinned=True).isolated
        assert not session.append(TEXT, kind="file", pinned=True, isolated=True).isolated


def test_what_is_too_long_is_read_as_usual(model: Model) -> None:
    hearing = Hearing()
    with working_session(model, hearing) as session:
        fits = session.config.soft_budget - session.config.recent_tokens - 17
        for n, expected in ((fits, True), (fits + 1, False)):
            text = "x" * (n - 7)
            segment = session.append(text, kind="file", isolated=True)
            assert len(segment) == n - 7, "a letter is a token"
            assert segment.isolated == expected
            assert session.n_residents <= session.config.budget
            assert is_whole(session, "rules")
        assert len(hearing.of(events.Isolated)) == 1


def test_policy_none_says_that_it_is_full(model: Model) -> None:
    """It evicted, to make room for a text in isolation."""
    with working_session(model, policy="none", isolate=True) as session:
        while session.n_residents < 230:
            session.append(TALK, kind="file")
        with pytest.raises(ContextFullError, match="budget of 256 tokens is full"):
            session.append(TALK * 2, kind="file")
        assert session.n_residents == session.session_length
        assert session.stats.evicted_in_session == 0


def test_a_named_user_turn_is_a_text_and_not_the_question(model: Model) -> None:
    with working_session(model) as session:
        session.append("what is it?", name=None)
        question = session._prompt
        session.append(TEXT, name="spec")
        assert session._prompt == question
        session.append("what now?", name="asked", isolated=False)
        assert session._prompt == session.segments.named("asked").id
