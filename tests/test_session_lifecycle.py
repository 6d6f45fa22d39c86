"""Open, busy, closed: a session says what is the matter, and never takes the process down."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Session, events
from pace_local.errors import ConfigError, ModelError
from pace_local.testing import TinySpec, tiny_model


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def test_one_thing_at_a_time(model: Model) -> None:
    with tiny_session(model) as session:
        stream = session.generate("go on", max_tokens=5)
        next(iter(stream))
        for attempt in (
            lambda: session.append("more"),
            lambda: list(session.generate("another question")),
        ):
            with pytest.raises(ConfigError, match="busy: finish or close the running generation"):
                attempt()
        assert len([event for event in stream if event.text]) == 5
        session.append("more")


def test_a_generator_that_was_left_frees_the_session(model: Model) -> None:
    with tiny_session(model) as session:
        for event in session.generate("go on", max_tokens=50):
            if event.text:
                break
        session.append("more")
        assert session.stats.session_tokens == session.session_length


def test_a_generator_that_was_never_started_changes_nothing(model: Model) -> None:
    with tiny_session(model) as session:
        stream = session.generate("go on", max_tokens=50)
        session.append("more")
        assert [segment.name for segment in session.segments if segment.kind != "framing"] == [
            "system",
            "user:1",
        ]
        del stream


def test_closing_twice_and_figures_after(model: Model) -> None:
    session = tiny_session(model)
    session.append("some text")
    session.close()
    session.close()
    assert session.stats.session_tokens == session.session_length
    assert session.stats.kv_bytes == 0


def test_a_closed_session_is_named_as_such(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("some text")
    with pytest.raises(ConfigError, match="the session is closed; make a new one"):
        session.append("more")
    with pytest.raises(ConfigError, match="the session is closed"):
        list(session.generate("go on"))
    session.cancel()


def test_closed_while_an_answer_is_written(model: Model) -> None:
    """The process died in the next token's sampling."""
    session = tiny_session(model)
    stream = session.generate("go on", max_tokens=50)
    for event in stream:
        if event.text:
            session.close()
            break
    with pytest.raises(ConfigError, match="the session is closed"):
        list(stream)


@pytest.mark.parametrize("way", ["append", "generate", "write"])
def test_closed_by_a_listener_that_fails(way: str, model: Model) -> None:
    """The process died when what had been read was to be taken back."""

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Evicted):
            session.close()
            raise LookupError("the listener's own")

    def work() -> None:
        if way == "append":
            session.append("return the self and other " * 20)
        elif way == "write":
            session.write(model.tokenize("return the self and other " * 20), prompt="say it")
        else:
            list(session.generate("say it", max_tokens=200))

    session = tiny_session(model, listener=listen)
    with pytest.raises(LookupError, match="the listener's own"):
        work()
    session.close()


def test_an_answer_that_outlives_session_and_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The generator was collected after both were closed, and read freed memory."""
    path = tiny_model(TALKER, tmp_path_factory.mktemp("gone"))
    with Model.load(path) as model, tiny_session(model) as session:
        stream = session.generate("go on", max_tokens=50)
        next(iter(stream))
    stream.close()  # type: ignore[attr-defined]


def test_a_closed_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = Model.load(tiny_model(TALKER, tmp_path_factory.mktemp("closed")))
    model.close()
    with pytest.raises(ModelError, match="is closed; load it again"):
        Session(model)


def test_a_session_that_cannot_be_made_frees_its_context(model: Model) -> None:
    """A hundred attempts would otherwise hold a hundred caches."""
    import psutil

    def used() -> int:
        return int(psutil.Process().memory_info().rss)

    def attempt() -> None:
        with pytest.raises(ConfigError):
            Session(model, budget=16384, position_cap=32768, key_type="q8_0", threads=1)

    attempt()
    before = used()
    for _ in range(100):
        attempt()
    assert used() - before < 20e6
