from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_agent.calls.answer_stream import AnswerStream
from pace_agent.calls.formats import FORMATS, HERMES, LLAMA, PLAIN, CallFormat

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "```tool",
        "```",
        '{"name": "',
        '{"a": "',
        '\\"',
        '"}',
        "a",
        "<",
        "é\n",
        "</t",
    ]
)


def parts(stream: AnswerStream, pieces: list[str]) -> list[tuple[str, str]]:
    """All parts, neighbours of one kind put together."""
    found: list[tuple[str, str]] = []
    for piece in pieces:
        found += stream.add(piece)
    found += stream.finish()
    joined: list[tuple[str, str]] = []
    for kind, text in found:
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


@given(st.lists(PIECES, max_size=8), st.data(), st.sampled_from([None, *FORMATS.values()]), st.booleans())
def test_where_the_text_is_cut_makes_no_difference(
    pieces: list[str], data: st.DataObject, form: CallFormat | None, opened: bool
) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    cut = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parts(AnswerStream(form, is_reasoning=opened), cut) == parts(
        AnswerStream(form, is_reasoning=opened), [text]
    )


@given(st.lists(PIECES, max_size=8), st.sampled_from([None, *FORMATS.values()]))
def test_nothing_is_lost_but_the_marks_of_reasoning(pieces: list[str], form: CallFormat | None) -> None:
    text = "".join(pieces)
    said = "".join(part for _, part in parts(AnswerStream(form), [text]))
    left = text
    for mark in ("<think>", "</think>"):
        left, said = left.replace(mark, ""), said.replace(mark, "")
    assert said == left


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (HERMES, "I.\n<tool_call>{}</tool_call>", [("prose", "I.\n"), ("call", "<tool_call>{}</tool_call>")]),
        (HERMES, "<think>so <tool_call></think>no", [("reasoning", "so <tool_call>"), ("prose", "no")]),
        (HERMES, "<tool_call>{}", [("call", "<tool_call>{}")]),
        (LLAMA, 'a {"name": "x"} b', [("prose", "a "), ("call", '{"name": "x"}'), ("prose", " b")]),
        (LLAMA, '{"name": "}"}<think>', [("call", '{"name": "}"}')]),
        (HERMES, '<tool_call>{"a": "\\"</tool_call>"}</tool_call>.',
         [("call", '<tool_call>{"a": "\\"</tool_call>"}</tool_call>'), ("prose", ".")]),
        (PLAIN, '```tool\n{"a": "<think>```"}\n```\nb',
         [("call", '```tool\n{"a": "<think>```"}\n```'), ("prose", "\nb")]),
        (HERMES, '<tool_call>{"a": 1}<think>b', [("call", '<tool_call>{"a": 1}'), ("reasoning", "b")]),
        (None, "```\n<think>\n```\na<think>b",
         [("prose", "```\n<think>\n```\na"), ("reasoning", "b")]),
        (PLAIN, "a\n```tool\n{}\n```\nb", [("prose", "a\n"), ("call", "```tool\n{}\n```"), ("prose", "\nb")]),
        (None, "<tool_call>{}</tool_call>", [("prose", "<tool_call>{}</tool_call>")]),
    ],
)  # fmt: skip
def test_parts(form: CallFormat | None, text: str, expected: list[tuple[str, str]]) -> None:
    assert parts(AnswerStream(form), [text]) == expected


def test_text_is_given_as_soon_as_it_is_certain() -> None:
    stream = AnswerStream(HERMES)
    assert stream.add("I ") == [("prose", "I ")]
    assert stream.add("see <to") == [("prose", "see ")]
    assert stream.add("k") == [("prose", "<tok")]
    assert stream.add("<") == []
    assert stream.finish() == [("prose", "<")]


def test_an_answer_may_begin_within_reasoning() -> None:
    assert parts(AnswerStream(HERMES, is_reasoning=True), ["why</think>so"]) == [
        ("reasoning", "why"),
        ("prose", "so"),
    ]
