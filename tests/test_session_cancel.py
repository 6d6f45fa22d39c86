"""Cancelling: within one micro-batch, from any thread, and nothing is left half-done.

Of the table of known trouble: cancel was ignored during prompt processing (llama-cpp-python 733).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from session_pair import TALKER, tiny_session
from test_native_abort import Watch

from pace_local import Model, Session, events
from pace_local.errors import CancelledError
from pace_local.testing import TinySpec

LONG = "return the self and other " * 40


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def finished(stream: list[events.Event]) -> events.Finished:
    assert isinstance(stream[-1], events.Finished)
    return stream[-1]


def count_decodes(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches from now on."""
    sizes: list[int] = []
    decode = session.engine.decode

    def counts(tokens: Any, position: int) -> None:
        sizes.append(len(tokens))
        decode(tokens, position)

    monkeypatch.setattr(session.engine, "decode", counts)
    return sizes


def test_without_work_it_does_nothing(model: Model) -> None:
    with tiny_session(model) as session:
        session.cancel()
        session.append("some text")
        session.cancel()
        assert finished(list(session.generate("go on", max_tokens=4))).reason == "length"
        session.cancel()
        assert finished(list(session.generate("go on", max_tokens=4))).reason == "length"


@pytest.mark.parametrize("policy", ["none", "streaming", "pace"])
def test_a_prompt_stops_within_one_micro_batch(
    model: Model, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiny_session(model, policy=policy, budget=1000, position_cap=1100, headroom=32) as session:
        session.append("some text")
        sizes = count_decodes(session, monkeypatch)
        seen = []

        def cancel_at_the_second(event: events.Event) -> None:
            seen.append(event)
            if len(seen) == 2:
                session.cancel()

        monkeypatch.setattr(session, "_listener", cancel_at_the_second)
        with pytest.raises(CancelledError, match="cancelled"):
            session.append(LONG)
        # The markers, two batches, and the one that was refused.
        assert sizes[1:] == [32, 32, 32]


def test_an_answer_stops_after_the_token_at_which_it_was_cancelled(model: Model) -> None:
    with tiny_session(model) as session:
        stream = []
        for event in session.generate("go on", name="cut", max_tokens=50):
            stream.append(event)
            if isinstance(event, events.Text) and event.tokens == 3:
                session.cancel()
        assert finished(stream).reason == "cancelled"
        assert len(session.segments.named("cut")) == 3
        assert finished(stream).answer == session.text_of(session.segments.named("cut"))
        assert finished(list(session.generate("and then", max_tokens=4))).reason == "length"


def test_an_answer_that_is_cancelled_before_it_began_is_empty_and_closed(model: Model) -> None:
    with tiny_session(model) as session:
        stream = session.generate("go on", name="none", max_tokens=50)
        next(iter(stream))
        session.cancel()
        assert finished(list(stream)).answer == ""
        session.append("and then")
        none = session.segments.named("none")
        assert len(none) == 0
        around = [session.text_of(session.segments[none.id + by]) for by in (-1, 1)]
        assert around == ["<|im_start|>assistant\n", "<|im_end|>\n"]


def test_a_cancel_that_comes_too_late_stops_nothing_else(model: Model) -> None:
    with tiny_session(model) as session:
        for event in session.generate("go on", max_tokens=2):
            if isinstance(event, events.Finished):
                session.cancel()
        assert session.append("more").kind == "user"


def test_from_another_thread(model: Model) -> None:
    read_some, has_cancelled = threading.Event(), threading.Event()

    def listener(event: events.Event) -> None:
        if isinstance(event, events.Progress) and event.done >= 64 and event.total > 100:
            read_some.set()
            assert has_cancelled.wait(30)

    with tiny_session(model, listener=listener) as session:

        def cancel() -> None:
            assert read_some.wait(30)
            session.cancel()
            has_cancelled.set()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(CancelledError):
            session.append(LONG)
        thread.join()
        assert session.session_length == 0
        session.check()


def test_in_the_middle_of_a_batch(
    load_tiny: Callable[[TinySpec], Model], llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it comes, the turn is withdrawn whole, and the next answer is as if it had not been tried."""
    heavy, watch = load_tiny(TinySpec(n_layer=6, speech="text")), Watch(llama)
    defaults = llama.llama_context_default_params

    def watched() -> Any:
        params = defaults()
        for name, value in watch.context.items():
            setattr(params, name, value)
        return params

    monkeypatch.setattr(llama, "llama_context_default_params", watched)
    settings = {"budget": 1200, "position_cap": 2000, "headroom": 512}
    with tiny_session(heavy, **settings) as session, tiny_session(heavy, **settings) as untried:
        for each in (session, untried):
            each.append("some text")
        length = session.session_length
        for after_nodes in (1, 40, 150, 300, 450):  # of some 500 in three batches
            thread = watch.act(after_nodes, session.cancel)
            with pytest.raises(CancelledError):
                session.append(LONG)
            thread.join()
            assert session.session_length == length
            session.check()
        answers = [finished(list(each.generate("go on", max_tokens=12))) for each in (session, untried)]
        assert answers[0].answer == answers[1].answer
