"""Bytes of tokens become text: never half a character, never a part of a stop text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from session_pair import QUICK, TALKER, Scripted, before_stop, tiny_session

from pace_local import Model, events
from pace_local.answer_text import AnswerText
from pace_local.testing import TinySpec

fast = settings(deadline=None, max_examples=200)
some_text = st.text(alphabet="abé漢🙂\n", max_size=30)
stops = st.lists(st.text(alphabet="abé🙂", min_size=1, max_size=4), max_size=3)
cuts = st.lists(st.integers(0, 90), max_size=12)


def split(data: bytes, places: Sequence[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[start:stop] for start, stop in pairwise(borders)]


@fast
@given(text=some_text, stop=stops, places=cuts)
@example(text="abab", stop=["abab"], places=[1, 2, 3])
@example(text="aab", stop=["ab"], places=[1, 2])
@example(text="abcd", stop=["abcd", "bc"], places=[])
@example(text="aé", stop=["a"], places=[2])
@example(text="🙂", stop=[], places=[1, 2, 3])
def test_however_it_is_cut_the_text_is_the_same(text: str, stop: list[str], places: list[int]) -> None:
    """Also with a stop text that shares its token with half a character: that was shown as a broken one."""
    answer, written, was_stopped = AnswerText(stop), [], False
    for piece in split(text.encode(), places):
        new, was_stopped = answer.add(piece)
        written.append(new)
        if was_stopped:
            break
    written.append(answer.finish())
    assert "".join(written) == answer.text == before_stop(text, stop)
    assert was_stopped == any(end in text for end in stop)


@fast
@given(text=some_text, stop=stops, places=cuts)
def test_what_is_shown_is_never_taken_back_and_comes_as_soon_as_it_is_certain(
    text: str, stop: list[str], places: list[int]
) -> None:
    answer, seen, shown = AnswerText(stop), b"", ""
    for piece in split(text.encode(), places):
        new, was_stopped = answer.add(piece)
        seen, shown = seen + piece, shown + new
        assert "�" not in shown
        assert before_stop(text, stop).startswith(shown)
        if was_stopped:
            break
        whole = seen.decode(errors="ignore")
        starts = [n for end in stop for n in range(1, len(end)) if whole.endswith(end[:n])]
        assert len(whole) - len(shown) == max(starts, default=0)


@fast
@given(data=st.binary(max_size=40), places=cuts)
def test_bytes_that_are_no_text_are_shown_as_such_and_once(data: bytes, places: list[int]) -> None:
    answer = AnswerText(())
    shown = "".join(answer.add(piece)[0] for piece in split(data, places)) + answer.finish()
    assert shown == answer.text == data.decode("utf-8", errors="replace")


# In a session


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def stream_of(
    model: Model, text: str, monkeypatch: pytest.MonkeyPatch, stop: Sequence[str] = (), max_tokens: int = 100
) -> list[events.Event]:
    with tiny_session(model) as session:
        tokens = [*model.tokenize(text), *model.tokenize("<|im_end|>", special=True)]
        monkeypatch.setattr(session.engine, "sampler", lambda sampling: Scripted(tokens))
        return list(session.generate("say it", max_tokens=max_tokens, stop=stop))


def texts(stream: Sequence[events.Event]) -> list[tuple[str, int]]:
    return [(event.written, event.tokens) for event in stream if isinstance(event, events.Text)]


def finished(stream: Sequence[events.Event]) -> events.Finished:
    assert isinstance(stream[-1], events.Finished)
    return stream[-1]


def test_a_character_comes_when_it_is_whole(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this vocabulary a character outside ASCII takes a token for each byte."""
    stream = stream_of(model, "a🙂é漢b", monkeypatch)
    assert texts(stream) == [("a", 1), ("🙂", 5), ("é", 7), ("漢", 10), ("b", 11)]
    assert (finished(stream).reason, finished(stream).answer) == ("stop", "a🙂é漢b")


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_character_that_is_never_finished_is_shown_as_broken_at_the_end(
    model: Model, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    stream = stream_of(model, "a🙂", monkeypatch, max_tokens=length)
    assert texts(stream) == [("a", 1), ("�", length)]
    assert (finished(stream).reason, finished(stream).answer) == ("length", "a�")


def test_a_stop_text_over_several_tokens(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(model, "xyz###more", monkeypatch, stop=["###"])
    assert texts(stream) == [("x", 1), ("y", 2), ("z", 3)]
    assert (finished(stream).reason, finished(stream).answer) == ("stop", "xyz")
    assert finished(stream).stats.generated_tokens == 6


def test_what_only_began_like_a_stop_text_is_shown(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(model, "x##y##", monkeypatch, stop=["###"])
    assert texts(stream) == [("x", 1), ("##y", 4), ("##", 6)]
    assert finished(stream).answer == "x##y##"


def test_a_stop_text_within_one_token(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(model.tokenize(" return")) == 1
    stream = stream_of(model, "x return y", monkeypatch, stop=["tur", "zzz"])
    assert finished(stream).answer == "x re"
    assert texts(stream)[-1] == (" re", 2)


def test_a_stop_text_at_once_leaves_an_empty_answer(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(model, "###", monkeypatch, stop=["#"])
    assert texts(stream) == []
    assert (finished(stream).reason, finished(stream).answer) == ("stop", "")


def test_any_bytes_from_the_model(load_tiny: Callable[[TinySpec], Model]) -> None:
    model = load_tiny(replace(QUICK, speech="bytes"))
    with tiny_session(model) as session:
        stream = list(session.generate("go on", name="answer", max_tokens=200))
        tokens = session.tokens_of(session.segments.named("answer"))
        data = b"".join(model.piece(token) for token in tokens)
        assert "�" in finished(stream).answer
        assert (
            "".join(event.text for event in stream)
            == finished(stream).answer
            == data.decode(errors="replace")
        )


def test_only_text_events_have_text(model: Model) -> None:
    with tiny_session(model) as session:
        stream = list(session.generate("return the self and other " * 10, max_tokens=60))
        assert {event.type for event in stream} >= {"progress", "evicted", "text", "renumbered", "finished"}
        assert all((event.text != "") == (event.type == "text") for event in stream)
