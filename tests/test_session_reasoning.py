"""Reasoning is a segment of its own, which can be released; evicting by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_pair import TALKER

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import ConfigError, PlanError
from pace_local.reasoning import ReasoningSplit
from pace_local.testing import Script, TinySpec

THINK = (("<think>", "</think>"),)
OPENS = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"
)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def session_of(model: Model, *lines: str, **settings: Any) -> Session:
    return Session(
        model, **{"budget": 512, "position_cap": 2048, "check": True, **settings}, writer=Script(lines)
    )


def answer(session: Session, prompt: str | None = "go on", **options: Any) -> events.Finished:
    *_, last = session.generate(prompt, reasoning=THINK, **options)
    assert isinstance(last, events.Finished)
    return last


def thoughts(session: Session) -> str:
    (name,) = (part.name for part in session.segments if part.kind == "reasoning")
    return name


def content(session: Session) -> list[tuple[str, str]]:
    return [
        (part.kind, session.text_of(part))
        for part in session.segments
        if part.kind in ("reasoning", "answer")
    ]


@given(
    st.sampled_from(["", " \n", "no "]),
    st.text(st.sampled_from("<>/think é中 "), max_size=20).filter(lambda text: "</think>" not in text),
    st.text(st.sampled_from("<>/think é"), max_size=12),
    st.data(),
)
def test_the_split_does_not_depend_on_how_the_answer_is_cut(
    before: str, thought: str, rest: str, data: st.DataObject
) -> None:
    raw = f"{before}<think>{thought}</think>{rest}".encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1))))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    split = ReasoningSplit(THINK)
    end = None
    for at, piece in enumerate(pieces):
        if split.add(piece) == "closed":
            assert end is None
            end = at
    if before.strip():
        assert end is None
    else:
        # In the piece that completes the closing text, and no other.
        whole = len(f"{before}<think>".encode()) + (thought + "</think>").encode().index(b"</think>") + 8
        assert end is not None
        assert sum(map(len, pieces[:end])) < whole <= sum(map(len, pieces[: end + 1]))


def test_reasoning_and_answer_are_two_segments_of_one_turn(model: Model) -> None:
    with session_of(model, "<think>it is two</think>two", "plain") as session:
        said = answer(session, "one and one", name="sum")
        assert said.answer == "<think>it is two</think>two"
        assert content(session) == [("reasoning", "<think>it is two</think>"), ("answer", "two")]
        assert session.segments.named("sum").kind == "answer"
        assert len({part.turn for part in session.segments if part.kind in ("reasoning", "answer")}) == 1
        answer(session, "more")
        assert content(session)[2:] == [("answer", "plain")]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("<think>never ended", [("reasoning", "<think>never ended")]),
        ("a <think>late</think> b", [("answer", "a <think>late</think> b")]),
        ("<thin", [("answer", "<thin")]),
        ("<think></think>", [("reasoning", "<think></think>"), ("answer", "")]),
        (
            "<think>a</think><think>b</think>",
            [("reasoning", "<think>a</think>"), ("answer", "<think>b</think>")],
        ),
    ],
)
def test_other_forms(model: Model, line: str, parts: list[tuple[str, str]]) -> None:
    with session_of(model, line, "next") as session:
        answer(session)
        assert content(session) == parts
        answer(session)
        assert content(session) == [*parts, ("answer", "next")]


def test_a_template_may_open_the_reasoning(load_tiny: Callable[[TinySpec], Model]) -> None:
    from dataclasses import replace

    with session_of(load_tiny(replace(TALKER, chat_template=OPENS)), "why</think>so") as session:
        answer(session)
        assert content(session) == [("reasoning", "why</think>"), ("answer", "so")]


def test_without_being_told_nothing_is_reasoning(model: Model) -> None:
    with session_of(model, "<think>a</think>b") as session:
        *_, _ = session.generate("go on")
        assert content(session) == [("answer", "<think>a</think>b")]
        with pytest.raises(ConfigError, match="empty"):
            session.generate("go on", reasoning=(("<think>", ""),))


@pytest.mark.parametrize("policy", ["pace", "pace_focus", "streaming", "hybrid"])
def test_released_reasoning_leaves_the_answer_and_its_turn(model: Model, policy: str) -> None:
    with session_of(model, "<think>" + "so " * 40 + "</think>two", "more", policy=policy) as session:
        session.append("be brief", kind="system")
        answer(session, "one and one", name="sum")
        before = session.n_residents
        seen: list[events.Event] = []
        session._listener = seen.append
        name = thoughts(session)
        session.evict(name)
        gone = len(session.segments.named(name))
        assert session.n_residents == before - gone
        assert [event.segments for event in seen if isinstance(event, events.Evicted)] == [{name: gone}]
        answer(session, "and?")
        held = set(session.residents.segment.tolist())
        assert session.segments.named("sum").id in held
        assert session.segments.named(name).id not in held
        session.evict(name)  # once more: nothing is left to evict


def test_an_answer_without_its_reasoning_comes_back_as_it_was(model: Model) -> None:
    with session_of(model, "<think>why</think>" + "two " * 20, "more", policy="pace") as session:
        session.append("be brief", kind="system")
        answer(session, "one and one", name="sum")
        session.append("next", kind="user")
        session.evict(thoughts(session))
        unit = session._memory.working_set.unit(session.segments.named("sum").id)
        session.evict("sum")
        assert not set(unit.tolist()) & set(session.residents.token_index.tolist())
        session.recall("sum")
        assert set(unit.tolist()) <= set(session.residents.token_index.tolist())
        assert session.arrivals[session.segments.named("sum").id].startswith("spliced")


def test_evicting_while_the_answer_is_not_framed_yet(model: Model) -> None:
    with session_of(model, "two", "three", policy="pace") as session:
        answer(session, "one", name="sum")
        session.evict("sum")
        answer(session, "and?")
        assert session.text_of(session.segments.named("sum")) == "two"


def test_all_can_be_evicted(model: Model) -> None:
    with session_of(model, "two", "three", policy="pace") as session:
        session.append("one", name="a")
        for part in list(session.segments):
            if part.kind != "framing":
                session.pin(part.name, False)
                session.evict(part.name)
        answer(session, "and?")


def test_what_cannot_be_evicted_is_said(model: Model) -> None:
    with session_of(model, "two") as session:
        session.append("be brief", kind="system", name="rules")
        with pytest.raises(ConfigError, match="unpin"):
            session.evict("rules")
        with pytest.raises(PlanError, match="no segment"):
            session.evict("rulez")
        session.append("one", name="a")
        session.plan = Plan([Step("look", ["a"])])
        session.evict("a")  # its next step brings it back
        answer(session, "and?")
        assert session.segments.named("a").id in session.residents.segment


def test_a_session_on_disk_knows_its_reasoning(model: Model, tmp_path: Path) -> None:
    with session_of(model, "<think>why</think>two", policy="pace", folder=tmp_path / "s") as session:
        answer(session, "one", name="sum")
        session.evict(thoughts(session))
        was = content(session), session.residents.token_index.tolist()
    with Session.open(model, tmp_path / "s", writer=Script(["more"])) as session:
        assert (content(session), session.residents.token_index.tolist()) == was
        assert thoughts(session) in session.segments
        assert "sum" in session.segments
        answer(session)
