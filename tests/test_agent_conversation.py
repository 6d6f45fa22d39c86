from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from session_pair import TALKER
from test_session_reasoning import OPENS

from pace_agent.calls.formats import HERMES
from pace_agent.conversation import Conversation
from pace_agent.events import AgentEvent, Memory, Missed, Noted, Thought, Turned, Wrote
from pace_agent.outbox import Outbox
from pace_agent.tool_type import Tool, tool
from pace_local import Model, Sampling, Session, Step
from pace_local.testing import Script, TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@tool("read")
def look(path: str) -> str:
    """Look at a file."""
    return path


TOOLS: list[Tool] = [look]


class Talk:
    """A conversation with a script, and all that was heard."""

    def __init__(self, model: Model, *lines: str, **settings: Any) -> None:
        self.heard: list[AgentEvent] = []
        outbox = Outbox(self.heard.append)
        options = {"budget": 1024, "position_cap": 4096, "policy": "pace_focus", "check": True, **settings}
        self.session = Session(
            model, **options, writer=Script(lines), listener=lambda event: self.talk.hear(event)
        )
        self.talk = Conversation(self.session, outbox)

    def answer(self, prompt: str | None = None, **options: Any) -> None:
        for _ in self.talk.answer(prompt, **options):
            pass

    def of(self, kind: type[AgentEvent]) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


@pytest.fixture
def talk(model: Model) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def make(*lines: str, **settings: Any) -> Talk:
        made.append(Talk(model, *lines, **settings))
        made[-1].talk.tell("be brief", kind="system", name="system", pinned=True)
        return made[-1]

    yield make
    for each in made:
        each.session.close()


def test_an_answer_is_told_in_parts(talk: Callable[..., Talk]) -> None:
    one = talk(
        '<think>first</think>I look.\n<tool_call>\n{"name": "look", "arguments": {"path": "a"}}\n</tool_call>'
    )
    one.answer("where?", tools=TOOLS, form=HERMES)
    assert "".join(event.written for event in one.of(Thought)) == "first"
    assert "".join(event.text for event in one.of(Wrote)) == "I look.\n"
    assert one.talk.last.reasoning == "first"
    assert [(call.name, call.arguments) for call in one.talk.last.calls] == [("look", {"path": "a"})]


def test_a_call_is_none_within_reasoning_that_the_template_opened(
    load_tiny: Callable[[TinySpec], Model],
) -> None:
    """It has no opening text then, and what the model only considered was called."""
    considered = HERMES.write("look", {"path": "a"})
    called = HERMES.write("look", {"path": "b"})
    one = Talk(
        load_tiny(replace(TALKER, chat_template=OPENS)),
        *[f"{considered} or so.</think>No. {called}"] * 3,
        "{}",
    )
    try:
        for prompt in ("where?", "and then?"):  # the first turn of a session, and one after an answer
            one.answer(prompt, tools=TOOLS, form=HERMES)
            assert [call.arguments for call in one.talk.last.calls] == [{"path": "b"}]
            assert (one.talk.last.text, one.talk.last.reasoning) == ("No.", f"{considered} or so.")
        assert "".join(event.text for event in one.of(Wrote)) == "No. " * 2
        one.answer("without tools?")
        assert one.talk.last.text == f"No. {called}"
        one.answer("an object?", sampling=Sampling(grammar='root ::= "{}"'))
        assert (one.talk.last.text, one.talk.last.reasoning) == ("{}", "")
    finally:
        one.session.close()


def test_without_tools_reasoning_is_no_part_of_what_was_said(talk: Callable[..., Talk]) -> None:
    one = talk("<think>\nThe user asks.\n</think>\n\nIt is 19.")
    one.answer("what?")
    assert (one.talk.last.text, one.talk.last.reasoning) == ("It is 19.", "The user asks.")


def test_every_turn_says_what_was_reused_and_what_was_read(talk: Callable[..., Talk]) -> None:
    one = talk("two", "three", "four")
    one.answer("one")
    one.talk.tell("a result", kind="tool", name="tool:1")
    one.answer()
    turned: list[Turned] = one.of(Turned)
    assert turned[0].reused == 0
    assert turned[1].reused == turned[0].session_tokens
    for before, after in zip([0, turned[0].session_tokens], turned, strict=True):
        assert after.session_tokens == before + after.decoded + after.generated
        assert after.decoded_again == 0
    assert turned[1].decoded > 0


def test_a_rewritten_conversation_is_noticed(talk: Callable[..., Talk]) -> None:
    one = talk("two", "three")
    one.answer("one")
    one.session.tokens[3] += 1
    with pytest.raises(AssertionError, match="rewritten"):
        one.answer("and?")


def test_a_shortened_conversation_is_noticed_unless_it_is_an_undo(talk: Callable[..., Talk]) -> None:
    one = talk("two", "three", "four")
    mark = one.session.checkpoint()
    one.answer("one")
    one.session.restore(mark)
    with pytest.raises(AssertionError, match="shorter"):
        one.answer("and?")
    one.talk.mark_read()
    one.answer("and?")


def test_a_note_is_appended(talk: Callable[..., Talk]) -> None:
    one = talk("two")
    one.talk.note("a.py has changed")
    (noted,) = one.of(Noted)
    assert noted.note == "a.py has changed"
    assert one.session.text_of(one.session.segments.named(noted.segment)) == "a.py has changed"


def test_what_a_step_reads_is_no_miss_and_what_it_fetches_is(talk: Callable[..., Talk]) -> None:
    one = talk("done", "done")
    for name in ("a", "b"):
        one.talk.tell(f"{name} is " + "x " * 60, kind="file", name=f"file:{name}")
    one.talk.start_step([Step("1. use a", ["file:a"])])
    started: list[int] = []
    one.talk.on_focus = lambda event: (started.append(len(one.heard)), one.talk.step_is_running())[0]
    one.answer("use a")
    assert len(started) == 1
    assert one.of(Missed) == []
    resident, tokens = one.talk.residency("file:b")
    assert (resident, tokens > 0) == (0, True)
    assert one.talk.bring("file:b")
    (missed,) = one.of(Missed)
    assert (missed.segment, missed.means) == ("file:b", "spliced")
    assert not one.talk.bring("file:b")
    assert one.talk.misses == 1
    assert one.talk.recalled >= 1
    one.talk.end_steps()
    one.talk.release("file:b")
    assert one.talk.residency("file:b")[0] == 0
    one.talk.bring("file:b")
    assert one.talk.misses == 1


def test_reasoning_is_released_with_its_step(talk: Callable[..., Talk]) -> None:
    one = talk("<think>" + "hm " * 30 + "</think>two")
    began = one.session.session_length
    one.answer("one")
    one.talk.release_reasoning(began)
    (name,) = (part.name for part in one.session.segments if part.kind == "reasoning")
    assert one.talk.residency(name)[0] == 0


def test_the_library_s_events_are_passed_on(talk: Callable[..., Talk]) -> None:
    one = talk("two", budget=128, position_cap=1024)
    one.talk.tell("x " * 400, kind="file", name="file:long", isolated=False)
    kinds = {event.event["type"] for event in one.of(Memory)}
    assert {"progress", "evicted"} <= kinds
    assert "text" not in kinds


def test_an_answer_that_is_cut_off_says_so(talk: Callable[..., Talk]) -> None:
    one = talk("two " * 50)
    one.talk._max_tokens = 5
    one.answer("one")
    assert one.talk.was_cut
    assert not one.talk.was_cancelled


def test_a_cancel_ends_an_answer(talk: Callable[..., Talk]) -> None:
    one = talk("two " * 50)
    one.talk._outbox.open()
    events = one.talk.answer("one")
    for event in events:
        if isinstance(event, Wrote):
            one.session.cancel()
    assert one.talk.was_cancelled
