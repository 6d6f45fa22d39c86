"""Tools of functions, calls in answers, and the grammar that holds them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from byte_tokens import bytes_of
from pydantic import Field

from pace_agent.calls.formats import FORMATS, HERMES, LLAMA, PLAIN, CallFormat, format_of_template
from pace_agent.calls.grammar import calling, grammar
from pace_agent.calls.parsing import Call, parse_answer, split_reasoning
from pace_agent.errors import ToolError
from pace_agent.tool_type import Tool, make_tool, tool
from pace_local import Model, Sampling
from pace_local.errors import ConfigError
from pace_local.grammar import check_grammar
from pace_local.sampling import NativeSampler
from pace_local.testing import TinySpec


@tool("read")
def read(path: str, first: int = 1, last: int | None = None) -> str:
    """Show lines of a file.

    Args:
        path: relative to the
            repository.
        first: line, from 1.
    """
    return f"{path} {first} {last}"


@tool("write")
def change(
    path: str, content: str, mode: Literal["whole", "part"], tags: list[str], sure: bool = False
) -> str:
    """Change a file."""
    return path


@tool("nothing")
def done() -> str:
    """Say that the work is done."""
    return ""


TOOLS = (read, change, done)


# Tools


def test_a_tool_is_what_its_function_says() -> None:
    assert (read.name, read.need, read.description) == ("read", "read", "Show lines of a file.")
    assert read.signature == "read(path, first?, last?)"
    properties = read.parameters["properties"]
    assert list(properties) == ["path", "first", "last"]
    assert properties["path"] == {"type": "string", "description": "relative to the repository."}
    assert read.parameters["required"] == ["path"]
    assert "title" not in json.dumps(read.parameters)
    assert done.signature == "done()"
    assert read.function("a", 2) == "a 2 None"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"path": "a"}, {"path": "a"}),
        ({"path": "a", "first": "3", "last": 5}, {"path": "a", "first": 3, "last": 5}),
        ({"path": "a", "last": None}, {"path": "a", "last": None}),
    ],
)
def test_arguments_are_taken_for_what_they_say(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert read.check(given) == taken


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "read: path: Field required; it takes read(path, first?, last?)"),
        ({"path": 1}, "path: Input should be a valid string"),
        ({"path": "a", "first": "x"}, "first: Input should be a valid integer"),
        ({"path": "a", "lines": 3}, "lines: Extra inputs are not permitted"),
        ([], "arguments: Input should be a valid dictionary"),
        (None, "arguments: "),
    ],
)
def test_arguments_that_are_wrong_are_named(given: Any, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        read.check(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def bare(path: str) -> str:
    return path


def untyped(path) -> str:  # type: ignore[no-untyped-def]
    """Do it."""
    return str(path)


def starred(*paths: str) -> str:
    """Do it."""
    return str(paths)


def odd(path: Callable[[], None]) -> str:
    """Do it."""
    return str(path)


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        (bare, None, "tool 'bare' has no docstring"),
        (untyped, None, "parameter 'path' of tool 'untyped' has no type"),
        (starred, None, "tool 'starred' takes *paths"),
        (odd, None, "tool 'odd' takes what JSON cannot hold"),
        (starred, "Bad Name", "'Bad Name' is no name of a tool"),
    ],
)
def test_functions_that_cannot_be_tools(function: Any, name: str | None, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_tool(function, "read", name)
    assert said in str(caught.value)


# Calls in answers


def one(form: CallFormat, **arguments: Any) -> str:
    return form.write("read", arguments)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_what_is_written_in_a_form_is_read_in_it(form: CallFormat) -> None:
    text = f"I look.\n{one(form, path='a b', first=2)}\nThen more."
    parsed = parse_answer(text, form, TOOLS)
    assert parsed.calls == (Call("read", {"path": "a b", "first": 2}),)
    assert parsed.problems == ()
    assert parsed.text.split() == ["I", "look.", "Then", "more."]
    assert form.write("<tool name>", {"<parameter>": "<value>"}) in form.instructions(TOOLS)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_several_calls_in_order(form: CallFormat) -> None:
    text = f"{one(form, path='a')}\n{one(form, path='b')}\nand {form.write('done', {})}"
    assert [call.arguments for call in parse_answer(text, form, TOOLS).calls] == [
        {"path": "a"}, {"path": "b"}, {}
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_a_call_in_reasoning_that_the_template_opened_is_none(form: CallFormat) -> None:
    text = f"I could {one(form, path='a')} or not.\n</think>\n\nNow: {one(form, path='b')}"
    parsed = parse_answer(text, form, TOOLS, is_reasoning=True)
    assert [call.arguments["path"] for call in parsed.calls] == ["b"]
    assert (parsed.text, parsed.reasoning[:7]) == ("Now:", "I could")
    unended = parse_answer(f"I could {one(form, path='a')}", form, TOOLS, is_reasoning=True)
    assert (unended.calls, unended.text) == ((), "")


def test_without_tools_all_but_reasoning_is_prose() -> None:
    code = '```python\nMARKS = ("<think>", "</think>")\n```\n'
    parsed = parse_answer(f"<think>\nso\n</think>\n\n{code}", None, ())
    assert (parsed.text, parsed.reasoning) == (code, "so")


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_a_call_in_reasoning_is_none(form: CallFormat) -> None:
    thought = f"<think>I could {one(form, path='a')} or not.</think>"
    parsed = parse_answer(f"{thought}Now: {one(form, path='b')}", form, TOOLS)
    assert [call.arguments["path"] for call in parsed.calls] == ["b"]
    assert "I could" in parsed.reasoning
    unended = parse_answer(f"<think>I could {one(form, path='a')}", form, TOOLS)
    assert (unended.calls, unended.text) == ((), "")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<tool_call>\n{"name": "read", "arguments": {"path": "a"}}', 1),  # never closed
        ('<tool_call>{"name": "read", "arguments": {"path": "a"}}<tool_call>{"name": "done"}</tool_call>', 2),
        ('<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}</tool_call>', 1),
        ('<tool_call>{"name": "read", "parameters": {"path": "a"}}</tool_call>', 1),
        ('<tool_call>[{"name": "read", "arguments": {"path": "a"}}]</tool_call>', 1),
        ('<tool_call>{"type": "function", "function": {"name": "done"}}</tool_call>', 1),
        ('<tool_call>{"name": "read", "arguments": {"path": "a\nb"}}</tool_call>', 1),  # a bare line break
        ('```json\n{"name": "read", "arguments": {"path": "a"}}\n```', 1),
        ('```\n{"name": "done"}\n```', 1),
        ('```tool\n{"name": "done"}\n```', 1),
        ('```json\n{"name": "Anna", "age": 3}\n```', 0),  # an example, not a call
        ('```python\nread("a")\n```', 0),
        ('The object {"name": "read"} is prose.', 0),
        ('{"name": "read", "arguments": {"path": "a"}}', 1),
        ('I look.\n{\n  "name": "read",\n  "arguments": {"path": "a"}\n}\n', 1),
        ('<tools>\n{"name": "done", "arguments": {}}\n{"name": "done", "arguments": {}}\n</tools>', 2),
        ('<function_call>{"name": "read", "arguments": {"path": "a"}}</function_call>', 1),
        ('{"name": "read"}', 0),  # without arguments
        ('{"name": "Anna", "arguments": {}}', 0),
        ('Write {"name": "read", "arguments": {"path": "a"}}', 0),
        ('{"name": "read", "arguments": {"path": "a"}} is a call.', 0),
        ('```python\n{"name": "read", "arguments": {"path": "a"}}\n```', 0),
        ("nothing", 0),
    ],
)
def test_what_small_models_make_of_it(text: str, calls: int) -> None:
    parsed = parse_answer(text, HERMES, TOOLS)
    assert (len(parsed.calls), parsed.problems) == (calls, ())
    assert parsed.text == (text if not calls else "I look." if text.startswith("I") else "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"name": "read", "arguments": {"path": ', "the call is no JSON object: "),
        ('{"arguments": {}}', 'the call has no "name"'),
        ('{"name": "rm", "arguments": {}}', "there is no tool 'rm'; there are change, done, read"),
        ('{"name": "read", "arguments": [1]}', "the arguments of 'read' are no object"),
        ('{"name": "read", "arguments": "a"}', "the arguments of 'read' are no object"),
        ("[" * 100_000, "the call is no JSON object"),
    ],
)
def test_calls_that_cannot_be_read_are_told(body: str, said: str) -> None:
    parsed = parse_answer(f"Well. <tool_call>{body}</tool_call>", HERMES, TOOLS)
    assert parsed.calls == ()
    assert len(parsed.problems) == 1
    assert said in parsed.problems[0]
    assert parsed.text == "Well."


def test_what_follows_a_call_that_cannot_be_read_waits_for_it() -> None:
    broken = '<tool_call>{"name": "read", "arguments": </tool_call>'
    calls = [one(HERMES, path="a"), broken, HERMES.write("done", {})]
    parsed = parse_answer("\n".join(calls), HERMES, TOOLS)
    assert parsed.calls == (Call("read", {"path": "a"}),)
    assert (len(parsed.problems), parsed.text) == (1, "")


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_a_call_holds_what_opens_and_closes_calls(form: CallFormat) -> None:
    """Content with a block of code ended the call in the middle of its JSON."""
    content = '# Notes\n\n```console\n$ pytest\n```\n```tool\n<tool_call></tool_call>\n<think>\\n"}</think>\n'
    text = form.write("change", {"path": "a", "content": content, "mode": "whole", "tags": []})
    parsed = parse_answer(f"I write.\n{text}\n{one(form, path='b')}", form, TOOLS)
    assert (parsed.problems, parsed.text) == ((), "I write.")
    assert [call.name for call in parsed.calls] == ["change", "read"]
    assert parsed.calls[0].arguments["content"] == content


def test_a_fence_within_a_call_is_part_of_it() -> None:
    content = '```json\n{"name": "done"}\n```\n'
    text = HERMES.write("change", {"path": "a", "content": content, "mode": "whole", "tags": []})
    parsed = parse_answer(f"{text} x", HERMES, TOOLS)
    assert [call.name for call in parsed.calls] == ["change"]
    assert parsed.calls[0].arguments["content"] == content


def test_reasoning_in_parts() -> None:
    assert split_reasoning("a<think>b</think>c<think> d </think>e") == ("b\nd", "ace")
    assert split_reasoning("no </think> here") == ("", "no </think> here")


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("…<tool_call>…", HERMES),
        ("…<|python_tag|>…", LLAMA),
        ('{"name": "x", "parameters": ', LLAMA),
        ("{{ messages }}", PLAIN),
        ("", PLAIN),
    ],
)
def test_the_form_is_that_of_the_template(template: str, form: CallFormat) -> None:
    assert format_of_template(template) is form


# Grammar


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TinySpec(n_layer=1))


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_the_grammar_takes_right_calls_and_prose(model: Model, form: CallFormat) -> None:
    check_grammar(grammar(TOOLS, form))
    right = [
        form.write("read", {"path": "a/b.py"}),
        form.write("read", {"path": 'ä" \\ \n', "first": -3, "last": None}),
        form.write("change", {"path": "a", "content": "x" * 900, "mode": "part", "tags": []}),
        form.write("change", {"path": "a", "content": "", "mode": "whole", "tags": ["b", "c"], "sure": True}),
        form.write("done", {}),
        "prose { and } more",
    ]
    with NativeSampler(model.vocab, calling(TOOLS, form)) as sampler:
        for text in right:
            for token in bytes_of(model, f"First {text} then. "):
                sampler.accept(token)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write", {}),
        ("read", {}),
        ("read", {"path": 3}),
        ("read", {"path": "a", "first": 1.5}),
        ("read", {"path": "a" * 500}),
        ("read", {"path": "a", "more": 1}),
        ("read", {"first": 1, "path": "a"}),
        ("change", {"path": "a", "content": "", "mode": "half", "tags": []}),
        ("done", {"path": "a"}),
    ],
)
def test_the_grammar_refuses_wrong_calls(
    model: Model, form: CallFormat, name: str, arguments: dict[str, Any]
) -> None:
    def write() -> None:
        for token in bytes_of(model, form.write(name, arguments)):
            sampler.accept(token)

    with (
        NativeSampler(model.vocab, calling(TOOLS, form)) as sampler,
        pytest.raises(ConfigError, match="does not allow"),
    ):
        write()


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_whatever_a_model_writes_once_begun_is_a_call(model: Model, form: CallFormat) -> None:
    """Random logits that like ends of texts, so that the calls get done."""
    rng = np.random.default_rng(7)
    ends = bytes_of(model, '"}]')
    for number in range(6):
        with NativeSampler(model.vocab, calling(TOOLS, form, Sampling())) as sampler:
            assert sampler._grammar is not None
            for token in bytes_of(model, form.opening):
                sampler.accept(token)
            written = form.opening.encode()
            for _ in range(3000):
                logits = rng.normal(size=model.shape.n_vocab).astype(np.float32)
                logits[ends] += 4
                written += model.piece(sampler._sample_within(sampler._grammar, logits), special=True)
                if not sampler._grammar.is_active:  # type: ignore[union-attr]
                    break
            parsed = parse_answer(written.decode(), form, TOOLS)
            assert (len(parsed.calls), parsed.problems) == (1, ()), (number, written)
            (call,) = parsed.calls
            called = next(each for each in TOOLS if each.name == call.name)
            called.check(call.arguments)


def test_every_type_of_a_schema_has_a_rule(model: Model) -> None:
    def many(
        share: float,
        flag: bool | None,
        pairs: list[list[int]],
        choice: Literal["a", 'b"c', 3],
        either: int | str,
        bounded: Annotated[str, Field(min_length=1)] = "x",
        last: int = 0,
    ) -> str:
        """Take all of it."""
        return ""

    made = make_tool(many, "nothing")
    arguments = {"share": 1.25, "flag": None, "pairs": [[1, 2], []], "choice": 'b"c', "either": "x"}
    with NativeSampler(model.vocab, calling([made], HERMES)) as sampler:
        for given in (arguments, {**arguments, "last": 4}, {**arguments, "bounded": "q", "flag": True}):
            for token in bytes_of(model, HERMES.write("many", given)):
                sampler.accept(token)
            made.check(given)


def test_optional_arguments_in_any_choice(model: Model) -> None:
    def some(a: int = 0, b: int = 0, c: int = 0) -> str:
        """Take some."""
        return ""

    made = make_tool(some, "nothing")
    rng = random.Random(0)
    with NativeSampler(model.vocab, calling([made], HERMES)) as sampler:
        for _ in range(8):
            given = {name: 1 for name in "abc" if rng.random() < 0.5}
            for token in bytes_of(model, HERMES.write("some", given)):
                sampler.accept(token)


def test_no_tools_have_no_grammar() -> None:
    with pytest.raises(ConfigError, match="there is no tool"):
        grammar([], HERMES)


def test_tools_are_frozen() -> None:
    with pytest.raises(AttributeError):
        read.name = "x"  # type: ignore[misc]
    assert isinstance(read, Tool)
