"""A replay holds the same tokens as the recorded session, however its answers ended and whatever it keeps."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_sessions import (
    EXACT,
    TIGHT,
    TOLERANCE,
    WIDE,
    all_tokens,
    cache_state,
    history,
    recorded,
    scratch_logits,
    slow_log_probabilities,
)
from session_pair import QUICK, TALKER, Scripted

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import ConfigError, ContextFullError, FileError, PaceError
from pace_local.recording import Generated, RecordedSession, Recording, force, replay
from pace_local.testing import TinySpec
from pace_local.testing.vocab import tiny_vocab

END = tiny_vocab().turn_end
OTHER_END = tiny_vocab().end_of_text
LONG = "return the self and other "


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def say(session: Session, tokens: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model's next answer be these tokens."""
    monkeypatch.setattr(session.engine, "sampler", lambda sampling: Scripted(tokens))


# Every way in which an answer ends


def ends_by_itself(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, [*session.model.tokenize("it is so"), END], monkeypatch)
    list(session.generate("say it", name="said"))


def ends_with_another_end_token(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, [*session.model.tokenize("it is so"), OTHER_END], monkeypatch)
    list(session.generate("say it", name="said"))


def ends_before_it_began(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, [END], monkeypatch)
    list(session.generate("say it", name="said"))


def ends_at_its_limit(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    list(session.generate("say it", name="said", max_tokens=9))


def ends_in_half_a_character(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, session.model.tokenize("a🙂"), monkeypatch)
    list(session.generate("say it", name="said", max_tokens=3))


def ends_at_a_stop_text(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, session.model.tokenize("it is so.\n\nAnd more"), monkeypatch)
    list(session.generate("say it", name="said", stop=["so.\n\nA"]))


def is_cancelled(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for event in session.generate("say it", name="said"):
        if isinstance(event, events.Text) and event.tokens >= 5:
            session.cancel()


def is_cancelled_before_it_began(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = session.generate("say it", name="said")
    next(stream)
    session.cancel()
    list(stream)


def is_left_early(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for event in session.generate("say it", name="said"):
        if isinstance(event, events.Text) and event.tokens >= 5:
            break


def is_left_before_its_first_token(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = session.generate("say it", name="said")
    next(stream)
    stream.close()  # type: ignore[attr-defined]


def fails(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    decode, left = session._cache.decode, [6]

    def sometimes(tokens: Any, segment: Any, *others: Any) -> None:
        if segment.kind == "answer":
            left[0] -= 1
            if not left[0]:
                raise ContextFullError("full")
        decode(tokens, segment, *others)

    monkeypatch.setattr(session._cache, "decode", sometimes)
    with pytest.raises(ContextFullError):
        list(session.generate("say it", name="said"))
    monkeypatch.setattr(session._cache, "decode", decode)


def answers_what_was_read(session: RecordedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    list(session.generate(name="said", max_tokens=9))


ENDINGS = {
    ends_by_itself: ("stop", 6, True),
    ends_with_another_end_token: ("stop", 6, True),
    ends_before_it_began: ("stop", 0, True),
    ends_at_its_limit: ("length", 9, False),
    ends_in_half_a_character: ("length", 3, False),
    ends_at_a_stop_text: ("stop", 10, False),
    is_cancelled: ("cancelled", 5, False),
    is_cancelled_before_it_began: ("cancelled", 0, False),
    is_left_early: ("cancelled", 5, False),
    is_left_before_its_first_token: ("cancelled", 0, False),
    fails: ("cancelled", 5, False),
    answers_what_was_read: ("length", 9, False),
}
"""How it ends -> the reason, tokens of the answer, and whether a token ended it."""


@pytest.mark.parametrize("evicts", [False, True], ids=["all stays", "evictions"])
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_a_replay_holds_the_same_tokens(
    ending: Callable[[RecordedSession, pytest.MonkeyPatch], None],
    evicts: bool,
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = TIGHT if evicts else WIDE
    path = tmp_path / "session.jsonl"
    with RecordedSession(model, path, **settings) as session:
        session.append("Answer with care.", kind="system")
        session.append(LONG * 4, name="notes")
        ending(session, monkeypatch)
        monkeypatch.undo()
        middle = history(session)
        # The end of the answer is read with what comes next.
        session.append("go on", name="next")
        list(session.generate("and then?", max_tokens=3))
        said, recorded_cache = history(session), cache_state(session)
        was_evicted = session.stats.evicted_in_session > 0
        answer = session.tokens_of(session.segments.named("said"))
    assert was_evicted == evicts

    recording = Recording.load(path)
    turn = next(turn for turn in recording.turns if isinstance(turn, Generated))
    finish, count, has_end_token = ENDINGS[ending]
    assert (turn.finish, len(turn.tokens), turn.end_token is not None) == (finish, count, has_end_token)
    assert list(turn.tokens) == answer
    assert recording.length == len(said["tokens"]) - 2, "the closing markers of the last turn are not read"

    for other in (settings, {**WIDE, "policy": "none"}, {**TIGHT, "policy": "streaming", "budget": 64}):
        with Session(model, **other) as again:
            replay(recording, again)
            assert history(again) == said
            if other is settings:
                assert cache_state(again) == recorded_cache
        with Session(model, **other) as again:
            replay(recording, again, until=3)
            assert history(again) == middle


def test_the_text_is_what_was_seen(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonl"
    with recorded(model, path) as session:
        ends_at_a_stop_text(session, monkeypatch)
        ends_in_half_a_character(session, monkeypatch)
        ends_by_itself(session, monkeypatch)
        monkeypatch.undo()
        seen = ""
        for event in session.generate("more"):
            seen += event.text
            if isinstance(event, events.Text) and event.tokens >= 4:
                break
    texts = [turn.text for turn in Recording.load(path).turns if isinstance(turn, Generated)]
    assert texts == ["it is ", "a�", "it is so", seen]
    assert seen


# Anything that is done to a session


def do_anything(session: RecordedSession, seed: int) -> None:
    draw = random.Random(seed)
    names: list[str] = []
    for number in range(14):
        action = draw.choice(["append", "append", "generate", "plan", "step", "pin", "empty", "cancelled"])
        if action == "append":
            text = draw.choice(
                ["a", LONG * draw.randint(1, 6), "漢🙂", "lone \udcff surrogate", "<|im_end|>"]
            )
            kind = draw.choice(["user", "file", "tool", "answer"])
            name = draw.choice([None, "same", f"text {number}"])
            names.append(session.append(text, name=name, kind=kind, next_use=draw.choice([None, 1])).name)
        elif action == "generate" and session.session_length:
            prompt = draw.choice([None, "why?", LONG])
            list(session.generate(prompt, max_tokens=draw.randint(1, 12), next_use=draw.choice([None, 0])))
        elif action == "plan":
            session.plan = Plan(Step(f"step {n}", draw.sample(names, min(len(names), n))) for n in range(3))
        elif action == "step":
            session.step_done()
        elif action == "pin" and names:
            try:
                session.pin(draw.choice(names), draw.random() < 0.7)
            except ConfigError:
                assert session.segments.pinned  # no more can be pinned
        elif action == "empty":
            with pytest.raises(ConfigError):
                session.append("  ", name="nothing")
        elif action == "cancelled":
            session._listener = lambda event: session.cancel()
            try:
                session.append(LONG * 3, name="same")
            except PaceError:
                pass
            finally:
                session._listener = None


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_done_to_a_session(
    seed: int, load_tiny: Callable[[TinySpec], Model], tmp_path: Path
) -> None:
    model = load_tiny(QUICK)
    path = tmp_path / "session.jsonl"
    with recorded(model, path, policy="plan", budget=256, position_cap=512) as session:
        do_anything(session, seed)
        said = history(session)
    recording = Recording.load(path)
    assert recording.turns
    # Those of texts that failed are gone, but had their part in who is resident: there, nothing is compared.
    for other in (
        {**WIDE, "policy": "none"},
        {**TIGHT, "policy": "pace", "budget": 384, "position_cap": 512},
    ):
        with Session(model, **other) as again:
            replay(recording, again)
            assert history(again) == said


def test_on_turn_and_until(model: Model, tmp_path: Path) -> None:
    with recorded(model, tmp_path / "s") as session:
        session.append("one")
        session.plan = Plan([Step("s", ["user:1"])])
        list(session.generate("two", max_tokens=2))
        session.step_done()
        session.pin("user:1")
    recording = Recording.load(tmp_path / "s")
    assert [turn.type for turn in recording.turns] == ["append", "plan", "generate", "step_done", "pin"]
    for until, total in ((None, 5), (3, 3), (0, 0), (99, 5)):
        calls: list[tuple[int, int]] = []
        with Session(model, **WIDE) as again:
            replay(recording, again, until=until, on_turn=lambda *done: calls.append(done))  # noqa: B023
            assert (again.session_length > 0) == (total > 0)
        assert calls == [(n, total) for n in range(1, total + 1)]


def test_a_replay_needs_a_fresh_session(model: Model, tmp_path: Path) -> None:
    with recorded(model, tmp_path / "s") as session:
        session.append("one")
        length = session.session_length
        with pytest.raises(ConfigError, match=f"fresh session, and this one has {length} tokens"):
            replay(Recording.load(tmp_path / "s"), session)


def test_another_vocabulary_or_text_is_noticed(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with recorded(model, path) as session:
        session.append("one")
        list(session.generate("two", max_tokens=2))
    whole = path.read_text()
    # The same number of tokens, but others.
    path.write_text(whole.replace('"text":"one"', '"text":"eno"'))
    with Session(model, **WIDE) as again, pytest.raises(FileError, match="turn 1: its tokens are others"):
        replay(Recording.load(path), again)
    path.write_text(whole.replace('"prompt":"two"', '"prompt":"twoo"'))
    with Session(model, **WIDE) as again, pytest.raises(FileError, match="turn 2: its tokens are others"):
        replay(Recording.load(path), again)


@pytest.mark.parametrize(
    "change", [('"end_token":null', '"end_token":99999'), ('"tokens":[', '"tokens":[99999,')]
)
def test_tokens_that_the_model_does_not_have(change: tuple[str, str], model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with recorded(model, path) as session:
        list(session.generate("two", max_tokens=2))
    path.write_text(path.read_text().replace(*change))
    with Session(model, **WIDE) as again, pytest.raises(FileError, match="turn 1: its tokens are others"):
        replay(Recording.load(path), again)


# Forcing


def test_forced_log_probabilities_are_those_of_the_whole_text_read_anew(model: Model, tmp_path: Path) -> None:
    """Also of the first token, whose logits come from the markers before the answer."""
    tokens = model.tokenize("the other, in return")
    with Session(model, **EXACT) as session:
        session.append(LONG)
        found = force(session, tokens, prompt="what is it?", name="it", end_token=END)
        answer = session.segments.named("it")
        everything = list(session._cache.tokens)
        assert session.tokens_of(answer) == tokens
        assert session.stats.generated_tokens == len(tokens)
        assert session._pending[0] == END
    slow = [
        float(slow_log_probabilities(scratch_logits(model, everything[: answer.start + n]))[token])
        for n, token in enumerate(tokens)
    ]
    worst = float(np.max(np.abs(np.array(found) - slow)))
    print(f"largest difference {worst:.2e}")
    assert worst < TOLERANCE
    assert np.ptp(found) > 0.1, "tokens differ in how likely they are"


def test_forced_log_probabilities_depend_on_what_is_resident(model: Model) -> None:
    tokens = model.tokenize("the other, in return")
    found = []
    for settings in (WIDE, {**TIGHT, "policy": "streaming"}):
        with Session(model, **settings) as session:
            session.append(LONG * 8)
            found.append(force(session, tokens, prompt="what is it?"))
    assert np.max(np.abs(np.subtract(*found))) > 1e-3


def test_what_the_model_wrote_is_what_it_finds_likeliest(model: Model, tmp_path: Path) -> None:
    with recorded(model, tmp_path / "s") as session:
        session.append(LONG * 8)
        list(session.generate("go on", max_tokens=20))
    recording = Recording.load(tmp_path / "s")
    looks: list[bool] = []
    with Session(model, **TIGHT) as again:
        replay(recording, again, look=lambda token, logits: looks.append(int(np.argmax(logits)) == token))
    assert looks == [True] * 20


@pytest.mark.parametrize("bad", [-1, 10**6])
def test_a_token_that_the_model_does_not_have(bad: int, model: Model) -> None:
    with Session(model, **WIDE) as session:
        session.append("one")
        before = history(session)
        with pytest.raises(ConfigError, match=f"token {bad} is none of .*; its tokens are 0 to"):
            force(session, [1, bad])
        with pytest.raises(ConfigError, match=f"token {bad} is none of"):
            force(session, [1], end_token=bad)
        assert history(session) == before


def test_forcing_is_all_or_nothing(model: Model) -> None:
    with Session(model, **{**TIGHT, "policy": "none"}) as session:
        session.append("one")
        before = history(session)
        with pytest.raises(ContextFullError):
            force(session, [5] * 96, prompt="two")
        assert history(session) == before
        assert len(force(session, [5] * 4, prompt="two")) == 4


def test_forcing_needs_something_to_answer(model: Model) -> None:
    with Session(model, **WIDE) as session:
        with pytest.raises(ConfigError, match="nothing to answer"):
            force(session, [1])
        with pytest.raises(ConfigError, match="the prompt is empty"):
            force(session, [1], prompt=" ")
        assert all_tokens(session) == []


def test_what_is_written_and_what_is_done_aside(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with RecordedSession(model, path, **WIDE) as session:
        session.append("the rate is nine", name="rate")
        with session.aside():
            session.append("never mind", name="aside")
            session.pin("rate")
            session.plan = Plan([Step("x", reads=["aside"])])
            list(session.generate("a question aside", max_tokens=4))
        written = session.write(model.tokenize("so it is"), prompt="say it", name="said")
        list(session.generate("go on", max_tokens=4))
        tokens, text = all_tokens(session), session.text_of(written)
    recording = Recording.load(path)
    assert next(turn.text for turn in recording.turns if isinstance(turn, Generated)) == text
    with Session(model, **WIDE) as session:
        replay(recording, session)
        assert all_tokens(session) == tokens
        assert not session.segments.named("rate").pinned


def test_what_a_recording_cannot_say_is_refused(model: Model, tmp_path: Path) -> None:
    """Each gave a recording that no session could play."""
    with RecordedSession(model, tmp_path / "r.jsonl", **WIDE) as session:
        with pytest.raises(ConfigError, match="cannot go back"):
            session.checkpoint()
        with pytest.raises(ConfigError, match="begins with its session"):
            RecordedSession.open(model, tmp_path / "kept")
