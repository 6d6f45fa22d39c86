"""Framing of turns against the full render of the same conversation, for templates of many kinds."""

from __future__ import annotations

import datetime
import functools
import os
from pathlib import Path

import pytest
from chat_templates import ALTERNATING, BOS, EOS, NO_SYSTEM, TEMPLATES
from hypothesis import given
from hypothesis import strategies as st

from pace_local import _native
from pace_local.chat import ChatTemplate, Framing
from pace_local.errors import ConfigError, ModelError


@functools.cache
def plain(name: str) -> ChatTemplate:
    return make(name)


def make(name: str, **settings: object) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], bos=BOS, eos=EOS, name=name, **settings)  # type: ignore[arg-type]


def compose(template: ChatTemplate, turns: list[tuple[str, str]], *, generate: bool = False) -> str:
    """What a session decodes: each turn's framing and content after what is there."""
    text, previous = "", None
    for role, content in turns:
        framing = template.frame(role, first=previous is None, previous=previous)
        text += framing.prefix + content + framing.suffix
        previous = role
    assert previous is not None
    return text + (template.generation_prefix(previous) if generate else "")


def render(template: ChatTemplate, turns: list[tuple[str, str]], *, generate: bool = False) -> str:
    parts = template.name == "parts"
    messages = [
        {"role": role, "content": [{"type": "text", "text": text}] if parts else text} for role, text in turns
    ]
    return template.render(messages, add_generation_prompt=generate)


contents = st.text("abc {}%<é", min_size=1, max_size=12).map(lambda text: f"x{text}x")


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - {"thinking"}))
@given(data=st.data())
def test_turns_put_one_after_another_are_the_full_render(name: str, data: st.DataObject) -> None:
    template = plain(name)
    exchanges = data.draw(st.integers(0, 3))
    roles = ["system"] * data.draw(st.integers(0, int(name not in NO_SYSTEM)))
    roles += ["user", "assistant"] * exchanges + ["user"]
    turns = [(role, data.draw(contents)) for role in roles]
    # The full render ends as if nothing followed; only then is it comparable with a generation prompt.
    if name not in ("ignores_prompt", "trailer"):
        assert compose(template, turns) == render(template, turns)
    if name != "ignores_prompt":
        assert compose(template, turns, generate=True) == render(template, turns, generate=True)


@given(st.lists(contents, min_size=1, max_size=4), st.lists(contents, min_size=4, max_size=4))
def test_with_history_rewritten_each_turn_is_as_it_was_when_it_was_last(
    questions: list[str], answers: list[str]
) -> None:
    template = plain("thinking")
    assert template.rewrites_history
    decoded = ""
    turns: list[tuple[str, str]] = []
    previous: str | None = None
    for question, answer in zip(questions, answers, strict=False):
        framing = template.frame("user", first=previous is None, previous=previous)
        decoded += framing.prefix + question + framing.suffix + template.generation_prefix("user")
        turns.append(("user", question))
        # What was rendered for this turn alone, whatever became of the turns before it.
        assert render(template, turns, generate=True).endswith(
            framing.prefix + question + framing.suffix + template.generation_prefix("user")
        )
        generated = f"<think>\nwhy\n</think>\n\n{answer}"
        closing = template.close_turn("assistant")
        turns.append(("assistant", generated))
        last = template.generation_prefix("user") + generated + closing.text
        assert render(template, turns).endswith(last)
        decoded += generated + closing.text
        previous = "assistant"
    # The session keeps the reasoning that the template would have dropped.
    assert decoded.count("why") == len(questions[:4])
    assert render(template, [*turns, ("user", "x")]).count("why") == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default_system", (True, False, False)),
        ("thinking", (True, False, True)),
        ("headers", (True, False, False)),
        ("alternating", (False, True, False)),
        ("embedded_system", (True, True, False)),
        ("no_system", (False, True, False)),
        ("trailer", (True, False, False)),
        ("bare", (True, False, True)),
    ],
)
def test_facts_about_a_template(name: str, expected: tuple[bool, bool, bool]) -> None:
    template = make(name)
    assert (template.supports_system, template.needs_alternation, template.rewrites_history) == expected


def test_default_system_prompt_is_told_apart_from_the_first_turn() -> None:
    framing = make("default_system").frame("user", first=True, previous=None)
    assert framing.implied_system == "<|im_start|>system\nBe good.<|im_end|>\n"
    assert framing.own_prefix == "<|im_start|>user\n"
    assert framing.prefix == framing.implied_system + framing.own_prefix
    assert not framing.has_bos


def test_system_turn_of_the_session_displaces_the_default_one() -> None:
    template = make("default_system")
    framing = template.frame("system", first=True, previous=None)
    assert framing == Framing("<|im_start|>system\n", "<|im_end|>\n")
    assert template.frame("user", first=False, previous="system").prefix == "<|im_start|>user\n"


def test_block_with_the_date_is_an_implied_system_turn_and_does_not_change() -> None:
    day = datetime.datetime(2025, 7, 26, 23, 59)
    template = make("headers", now=day)
    framing = template.frame("user", first=True, previous=None)
    assert framing.implied_system == "<s><|head|>system<|/head|>\n\nToday: 26 Jul 2025\n\n<|eot|>"
    assert framing.own_prefix == "<|head|>user<|/head|>\n\n"
    assert framing.has_bos
    assert not template.frame("user", first=False, previous="assistant").has_bos


def test_default_system_text_inside_the_first_user_turn_is_told_apart_too() -> None:
    source = TEMPLATES["embedded_system"].replace(
        "set start = ''", "set start = '<<SYS>>\\nBe good.\\n<</SYS>>\\n\\n'"
    )
    framing = ChatTemplate(source, bos=BOS, eos=EOS).frame("user", first=True, previous=None)
    assert framing.implied_system == "<s>[INST] <<SYS>>\nBe good.\n<</SYS>>\n\n"
    assert (framing.own_prefix, framing.suffix) == ("", " [/INST]")


@pytest.mark.parametrize("role", ["assistant", "tool"])
def test_session_may_start_with_any_turn(role: str) -> None:
    framing = make("default_system").frame(role, first=True, previous=None)
    assert framing.implied_system == "<|im_start|>system\nBe good.<|im_end|>\n"
    assert (framing.own_prefix, framing.suffix) == (f"<|im_start|>{role}\n", "<|im_end|>\n")
    assert make("bare").frame(role, first=True, previous=None).has_bos


def test_bos_alone_is_no_implied_system_turn() -> None:
    framing = make("bare").frame("user", first=True, previous=None)
    assert framing == Framing("<s><User>", "", "", has_bos=True)


@pytest.mark.parametrize("name", sorted(NO_SYSTEM))
def test_refused_system_text_is_the_first_paragraph_of_the_user_turn(name: str) -> None:
    template = make(name)
    joined = compose(template, [("system", "Be brief."), ("user", "Why?")], generate=True)
    assert joined == render(template, [("user", "Be brief.\n\nWhy?")], generate=True)
    later = [("user", "a"), ("assistant", "b"), ("system", "Be long."), ("user", "c")]
    assert compose(template, later) == render(template, [*later[:2], ("user", "Be long.\n\nc")])


def test_answer_to_system_text_alone_closes_the_user_turn_first() -> None:
    turns = [("system", "Be brief.")]
    assert compose(make("alternating"), turns, generate=True) == "<s>[INST] Be brief.\n\n [/INST]"
    assert (
        compose(make("no_system"), turns, generate=True) == "<s><turn>user\nBe brief.\n\n<end>\n<turn>model\n"
    )
    embedded = compose(make("embedded_system"), turns, generate=True)
    assert embedded == "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n [/INST]"


def test_system_text_that_may_only_stand_first_is_a_user_turn_later() -> None:
    template = make("headers")
    turns = [("user", "a"), ("assistant", "b"), ("system", "note"), ("user", "c")]
    assert compose(template, turns).count("<|head|>system") == 2  # this one takes it anywhere
    strict = ChatTemplate(
        TEMPLATES["default_system"].replace(
            "{%- for m in messages %}",
            "{%- for m in messages %}{%- if m.role == 'system' and not loop.first %}"
            "{{- raise_exception('system must be first') }}{%- endif %}",
        ),
        bos="",
        eos="",
    )
    assert compose(strict, turns).endswith(
        "<|im_start|>user\nnote<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
    )


@pytest.mark.parametrize("name", sorted(ALTERNATING))
def test_second_user_turn_in_a_row_is_framed_as_after_an_answer(name: str) -> None:
    template = make(name)
    after_answer = template.frame("user", first=False, previous="assistant")
    assert template.frame("user", first=False, previous="user") == after_answer
    with pytest.raises(ModelError, match="must alternate"):
        render(template, [("user", "a"), ("user", "b")])


def test_tool_results_follow_the_template_or_become_user_turns() -> None:
    template = make("tools")
    assert template.supports_tool
    turns = [("user", "a"), ("assistant", "b"), ("tool", "r"), ("assistant", "c"), ("user", "d")]
    assert compose(template, turns, generate=True) == render(template, turns, generate=True)
    # The first result's turn is closed already when the second comes: it opens one of its own.
    twice = compose(template, [*turns[:3], ("tool", "s")])
    assert twice.endswith(
        "<|im_start|>user\n<result>\nr\n</result><|im_end|>\n<|im_start|>user\n<result>\ns\n</result><|im_end|>\n"
    )
    other = make("alternating")
    assert not other.supports_tool
    asked = other.frame("user", first=False, previous="assistant")
    assert other.frame("tool", first=False, previous="assistant") == asked


def test_closing_is_cut_at_the_token_that_ends_a_turn() -> None:
    def parts(name: str, **settings: object) -> tuple[str, str, str]:
        closing = make(name, **settings).close_turn("assistant")
        assert closing.text == make(name).frame("assistant", first=False, previous="user").suffix
        return closing.lead, closing.end, closing.rest

    assert parts("default_system") == ("", "<|im_end|>", "\n")
    assert parts("embedded_system") == (" ", "</s>", "")
    assert parts("trailer") == ("", "<|end|>", "\n")
    assert parts("trailer", end_tokens=["<|end|>", "<|other|>"]) == ("", "<|end|>", "\n")
    assert parts("trailer", end_tokens=["<|other|>"]) == ("", "", "<|end|>\n")
    assert parts("other_last") == ("", "<|end|>", "")


def test_generation_prompt_that_is_ignored_is_what_stands_before_an_answer() -> None:
    assert make("ignores_prompt").generation_prefix("user") == "ASSISTANT: "
    # White space alone is left to the model, as that template does.
    assert make("alternating").generation_prefix("user") == ""


def test_option_reaches_the_template() -> None:
    assert make("thinking").generation_prefix("user") == "<|im_start|>assistant\n"
    quiet = make("thinking", options={"enable_thinking": False})
    assert quiet.generation_prefix("user") == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    with pytest.raises(ConfigError, match="'messages' is set by the session"):
        make("thinking", options={"messages": []})


def test_model_without_template_gets_a_stand_in_that_says_so() -> None:
    chatml = ChatTemplate.from_model(None, bos="", eos="<|im_end|>", has_chatml=True, name="tiny")
    assert compose(chatml, [("system", "s"), ("user", "u")], generate=True) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )
    assert chatml.warning == "tiny brings no chat template; turns are written as ChatML"
    bare = ChatTemplate.from_model("", bos=BOS, eos=EOS, has_chatml=False)
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v")]
    assert compose(bare, turns, generate=True) == "s\n\nUser: u\nAssistant: a\nUser: v\nAssistant:"
    assert bare.warning
    own = ChatTemplate.from_model(TEMPLATES["bare"], bos=BOS, eos=EOS, has_chatml=True)
    assert (own.warning, own.source) == ("", TEMPLATES["bare"])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% for m in messages %}{{ m.content }", "unexpected '}'"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe|not safely callable"),
        ("{{ raise_exception('not\nfor you') }}", "not for you"),
        ("constant", "drops or repeats the text"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "drops or repeats"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_broken_template_is_one_line_that_names_the_model(source: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason) as caught:
        ChatTemplate(source, bos=BOS, eos=EOS, name="some-model")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("chat template of some-model cannot be used")
    assert caught.value.exit_code == 2


def test_unknown_role_is_refused() -> None:
    template = make("bare")
    with pytest.raises(ConfigError, match="'robot'"):
        template.frame("robot", first=True, previous=None)
    with pytest.raises(ConfigError, match="None"):
        template.frame("user", first=False, previous=None)


def test_json_is_written_as_models_know_it() -> None:
    source = "{{ {'b': '<é>', 'a': 1} | tojson }}{{ messages[-1].content }}" + TEMPLATES["bare"]
    with pytest.raises(ModelError, match="repeats"):
        ChatTemplate(source, bos=BOS, eos=EOS)
    source = "{{ {'b': '<é>', 'a': 1} | tojson }}" + TEMPLATES["bare"]
    framing = ChatTemplate(source, bos=BOS, eos=EOS).frame("user", first=True, previous=None)
    assert framing.prefix.startswith('{"b": "<é>", "a": 1}<s>')


@pytest.mark.model
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "smollm2-135m"])
def test_template_of_a_real_model(small_models: dict[str, Path], name: str) -> None:
    llama = _native.llama
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(os.fsencode(small_models[name]), params)
    try:
        vocab = llama.llama_model_get_vocab(model)
        source = llama.llama_model_chat_template(model, None).decode()
        bos, eos = (
            llama.llama_vocab_get_text(vocab, token).decode()
            for token in (llama.llama_vocab_bos(vocab), llama.llama_vocab_eos(vocab))
        )
    finally:
        llama.llama_model_free(model)
    template = ChatTemplate(source, bos=bos, eos=eos, name=name)
    turns = [("user", "Hi"), ("assistant", "Hello"), ("user", "Bye")]
    for conversation in (turns, [("system", "Be brief."), *turns]):
        assert compose(template, conversation, generate=True) == render(template, conversation, generate=True)
    assert template.frame("user", first=True, previous=None).implied_system.startswith(
        "<|im_start|>system\nYou are"
    )
    assert template.close_turn("assistant").end == eos == "<|im_end|>"
