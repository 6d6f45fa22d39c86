"""A turn that fails is withdrawn whole, and the session goes on as if it had never been tried.

Of the table of known trouble: a failed call leaves all as it was, and nothing more is removed than asked
(28007, 22534).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from session_driver import plain
from session_pair import QUICK, TALKER, tiny_session

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError, ContextFullError, NativeError
from pace_local.testing import TinySpec

ROOMY: dict[str, Any] = {"budget": 400, "position_cap": 2000}
"""Nothing is evicted."""

LONG = "return the self and other " * 12


class Relay:
    """A listener that can be given something to do later."""

    def __init__(self) -> None:
        self.heard: list[events.Event] = []
        self.act: Callable[[events.Event], None] = lambda event: None

    def __call__(self, event: events.Event) -> None:
        self.heard.append(event)
        self.act(event)

    def at(self, number: int, act: Callable[[], None]) -> None:
        """Do something at the number-th event from now, from 1."""
        self.heard.clear()
        self.act = lambda event: act() if len(self.heard) == number else None


def fail(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(QUICK)


@pytest.fixture
def relay() -> Relay:
    return Relay()


def started(model: Model, **settings: Any) -> Session:
    session = tiny_session(model, **{**ROOMY, **settings})
    session.append("the first file", kind="file", name="first")
    list(session.generate("what is it?", max_tokens=8))
    return session


def state_of(session: Session) -> dict[str, Any]:
    """All of a session but its counters."""
    return {
        "segments": list(session.segments),
        "tokens": [session.tokens_of(segment) for segment in session.segments],
        "residents": session.residents.token_index.tolist(),
        "positions": session.residents.position.tolist(),
        "plan": session.plan,
        "role": session._role,
        "pending": session._pending,
        "prompt": session._prompt,
        "turns": session._n_turns,
        "told": set(session._cache.told),
    }


def goes_on(session: Session) -> list[int]:
    """What comes after, token for token."""
    session.append("and another file", kind="file", name="other")
    list(session.generate("what now?", name="last", max_tokens=24))
    return [token for segment in session.segments for token in session.tokens_of(segment)]


# Nothing was evicted: it is as if it had never been tried


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ValueError("the listener's own")], ids=repr)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_turn_that_is_interrupted_anywhere_was_never_there(
    model: Model, relay: Relay, error: BaseException | None, is_first: bool
) -> None:
    session: Session
    for at in range(1, 99):
        begin = tiny_session if is_first else started
        with begin(model, listener=relay, **ROOMY) as session, begin(model, **ROOMY) as untried:
            before = state_of(session)
            relay.at(at, session.cancel if error is None else fail(error))
            try:
                session.append(LONG, kind="file", name="long")
            except (CancelledError, KeyboardInterrupt, ValueError):
                pass
            else:
                break
            assert state_of(session) == before
            session.check()
            relay.at(0, session.cancel)
            assert goes_on(session) == goes_on(untried)
            assert state_of(session) == state_of(untried)
    assert at >= 10, "there were events to fail at, and every one of them was tried"


def test_a_prompt_that_is_cancelled_was_never_there(model: Model, relay: Relay) -> None:
    with started(model, listener=relay) as session, started(model) as untried:
        before = state_of(session)
        relay.at(2, session.cancel)
        stream = list(session.generate(LONG, max_tokens=8))
        assert [plain(event)[0] for event in stream] == ["progress", "progress", "finished"]
        finished = stream[-1]
        assert isinstance(finished, events.Finished)
        assert (finished.reason, finished.answer) == ("cancelled", "")
        assert state_of(session) == before
        assert goes_on(session) == goes_on(untried)


def read(session: Session, text: str, way: str) -> None:
    if way == "append":
        session.append(text)
    else:
        list(session.generate(text))


@pytest.mark.parametrize("way", ["append", "generate"])
def test_a_turn_that_does_not_fit_was_never_there(model: Model, way: str) -> None:
    settings = {"policy": "none", "budget": 240, "position_cap": 400}
    with started(model, **settings) as session, started(model, **settings) as untried:
        before = state_of(session)
        with pytest.raises(
            ContextFullError, match="budget of 240 tokens is full; raise the budget or choose"
        ):
            read(session, LONG * 2, way)
        assert state_of(session) == before
        assert goes_on(session) == goes_on(untried)


@pytest.mark.parametrize("way", ["append", "generate"])
def test_a_turn_whose_decode_fails_was_never_there(
    model: Model, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(model) as session, started(model) as untried:
        before = state_of(session)
        decode, calls = session.engine.decode, []

        def fails_at_the_third(tokens: Any, position: int) -> None:
            calls.append(position)
            if len(calls) == 3:
                raise NativeError("DECODE", "the device is gone for a moment")
            decode(tokens, position)

        monkeypatch.setattr(session.engine, "decode", fails_at_the_third)
        with pytest.raises(NativeError, match="gone for a moment"):
            read(session, LONG, way)
        assert state_of(session) == before
        session.check()
        assert goes_on(session) == goes_on(untried)


def test_a_turn_too_large_to_pin_reads_nothing(model: Model) -> None:
    with tiny_session(model) as session:
        with pytest.raises(ConfigError, match=r"'system' takes \d+ tokens with its role markers"):
            session.append(LONG, kind="system")
        assert session.session_length == session.stats.prompt_tokens == 0


# After evictions: what is gone stays gone, all else is as before


@pytest.mark.parametrize(
    ("policy", "point"), [("plan", "plan"), ("streaming", "plan"), ("pace", "plan"), ("pace", "allocate")]
)
def test_a_native_failure_withdraws_the_turn_and_loses_nothing_else(
    model: Model, policy: str, point: str
) -> None:
    # Nothing is saved, which may fail without any harm.
    with tiny_session(model, policy=policy, recall=False) as session:
        session.append(LONG, name="first")
        assert session.engine.cache is not None
        session.engine.cache.fail_next(point)
        failed = None
        while failed is None:
            before, evicted = state_of(session), session.stats.evicted_in_session
            try:
                session.append("a little more text ")
            except NativeError as error:
                failed = error
        assert failed.status == "NO_MEMORY"
        session.check()
        after = state_of(session)
        assert set(after["residents"]) <= set(before["residents"])
        withdrawn = session.stats.evicted_in_session - evicted
        assert len(before["residents"]) - len(after["residents"]) <= withdrawn
        for key in ("segments", "tokens", "role", "prompt", "turns", "plan"):
            assert after[key] == before[key], key
        list(session.generate("go on", max_tokens=20))


def test_an_answer_that_fails_midway_is_closed_and_stays(
    load_tiny: Callable[[TinySpec], Model], relay: Relay
) -> None:
    with tiny_session(load_tiny(TALKER), listener=relay, recall=False) as session:
        session.append(LONG)
        cache = session.engine.cache
        assert cache is not None
        relay.act = lambda event: cache.fail_next("plan") if isinstance(event, events.Text) else None
        texts: list[str] = []
        with pytest.raises(NativeError, match="no memory to plan"):
            texts.extend(event.text for event in session.generate("go on", max_tokens=60))
        relay.at(0, session.cancel)
        answer = session.segments.named("answer:3")
        assert session.text_of(answer) == "".join(texts) != ""
        assert [event.type for event in session.generate("and?", max_tokens=4)][-1] == "finished"
        following = session.segments[answer.id + 1]
        assert (following.kind, following.turn) == ("framing", answer.turn)
        assert session.text_of(following) == "<|im_end|>\n"


# What a listener did meanwhile


def test_a_plan_that_names_a_withdrawn_segment_is_withdrawn_too(model: Model, relay: Relay) -> None:
    """A listener planned to read the turn that was being read; the session could not evict ever after."""
    with tiny_session(model, listener=relay) as session:
        session.append("a spec", name="spec")
        old = session.plan = Plan([Step("read it", reads=["spec"])])

        def plan_and_cancel() -> None:
            session.plan = Plan([Step("read it", reads=["late", "spec"])])
            session.cancel()

        relay.at(2, plan_and_cancel)
        with pytest.raises(CancelledError):
            session.append(LONG, name="late")
        assert session.plan == old
        assert [each.name for each in session.stats.reads] == ["spec"]
        session.append(LONG)


def test_a_plan_that_a_listener_made_otherwise_stays(model: Model, relay: Relay) -> None:
    with tiny_session(model, listener=relay) as session:
        session.append("a spec", name="spec")
        new = Plan([Step("read it", reads=["spec"])])

        def plan_and_cancel() -> None:
            session.plan = new
            session.cancel()

        relay.at(2, plan_and_cancel)
        with pytest.raises(CancelledError):
            session.append(LONG)
        assert session.plan == new


def test_names_of_withdrawn_turns_are_free_again(model: Model, relay: Relay) -> None:
    """A file read a second time was named x#3, since x#2 had been withdrawn."""
    with started(model, listener=relay) as session:
        session.append("x", name="x")
        relay.at(1, fail(ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            session.append("x", name="x")
        relay.at(0, session.cancel)
        assert session.append("x", name="x").name == "x#2"


def test_what_was_told_of_a_withdrawn_read_is_told_again(model: Model, relay: Relay) -> None:
    """A read over budget went unsaid, since one of a withdrawn turn had been just like it."""
    with tiny_session(model, listener=relay, recent=40) as session:
        session.append("the beginning")

        def fail_when_over_budget(event: events.Event) -> None:
            if isinstance(event, events.ReadsOverBudget):
                raise ValueError("seen")

        relay.act = fail_when_over_budget
        for _ in range(3):
            with pytest.raises(ValueError, match="seen"):
                list(session.generate("x" * 50, max_tokens=1))
