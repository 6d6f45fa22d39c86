"""Names and constants of a text, and the tokens that hold them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace_local import Model, entities, entity_code
from pace_local.entities import LARGEST_PARSED, entity_spans, entity_tokens, mark_tokens
from pace_local.testing import TinySpec

NAMES = [
    None,
    "a.py",
    "a.rs",
    "a.rb",
    "a.yaml",
    "a.md",
    "a.tsx:1-3#2",
    "a.cpp",
    "a.go",
    "A.java",
    "a.c",
    "a.js",
]


def found(text: str, name: str | None = None) -> list[str]:
    """The entities of a text in order, and that their offsets are as promised."""
    data = text.encode("utf-8", "surrogatepass")
    spans = entity_spans(text, name)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(set(edges)), "spans overlap, touch or are out of order"
    assert all(0 <= edge <= len(data) for edge in edges)
    return [data[start:end].decode("utf-8", "surrogateescape") for start, end in spans]


# Code


def test_code_of_a_grammar() -> None:
    text = '''\
import math

PIER_FEE = 4171

def surcharge(tonnes, n=0):
    """What a ship pays beside the pier fee, see PIER_FEE and late_fee."""
    self.cache[1] = "late fee"  # unlike berth_fee
    return len(tonnes) + PIER_FEE * 29.5
'''
    assert found(text, "terms.py") == [
        *("math", "PIER_FEE", "4171", "surcharge", "tonnes", "PIER_FEE", "late_fee", "cache", "late fee"),
        *("berth_fee", "tonnes", "PIER_FEE", "29.5"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.js",
            "const maxDepth = 12; obj.#secret = 'on call';",
            ["maxDepth", "12", "obj", "#secret", "on call"],
        ),
        ("a.ts", "interface Berth { quay: number }", ["Berth", "quay"]),
        ("a.tsx", "const x: Quay = `two words`;", ["Quay", "two words"]),
        ("a.go", 'const Limit = 0x1F\nvar s = "pier"', ["Limit", "0x1F", "pier"]),
        ("a.rs", 'const LIMIT: u32 = 64; // by max_len\nlet s = "pier";', ["LIMIT", "64", "max_len", "pier"]),
        (
            "a.c",
            '#include <stdio.h>\nint limit_of = 64; char *s = "pier";',
            ["<stdio.h>", "limit_of", "64", "pier"],
        ),
        ("a.cpp", "namespace quay { double fee = 2.5; }", ["quay", "fee", "2.5"]),
        (
            "A.java",
            'class Berth { int fee = 42; String s = "pier"; }',
            ["Berth", "fee", "42", "pier"],
        ),
    ],
)
def test_every_grammar(name: str, text: str, expected: list[str]) -> None:
    assert found(text, name) == expected


def test_the_name_of_an_excerpt_tells_the_language() -> None:
    assert found("fee = other_fee", "src/terms.py:3-9") == ["fee", "other_fee"]
    assert found("fee = other_fee", "src/terms.py:3-9#2") == ["fee", "other_fee"]
    assert found("fee = other_fee", "user:3") == ["other_fee"]


def test_an_excerpt_between_fences_is_code_of_its_name() -> None:
    text = "terms.py:3-9\n````\nclass Quay:\n…\n    def berth(self, ships):\n        return ships\n````"
    assert found(text, "terms.py:3-9") == ["terms.py", "Quay", "berth", "ships", "ships"]


def test_a_fence_within_code_is_part_of_it() -> None:
    comment = "```\nwords, one after another, so that it is long, and max_len\n```"
    text = f'quay = 44\nberth = quay\n"""\n{comment}\n"""\nship = berth\n'
    assert found(text, "a.py") == ["quay", "44", "berth", "quay", "max_len", "ship", "berth"]


def test_what_the_grammar_does_not_understand_is_read_by_patterns() -> None:
    assert found("The quick brown fox jumps over the lazy dog. " * 5, "a.py") == []
    assert found("The quick brown fox jumps over `the_dog` quickly. " * 2, "a.py") == ["the_dog"] * 2


def test_broken_code_still_has_names() -> None:
    assert found("def surcharge(tonnes:\n    return PIER_FEE +\n", "a.py") == [
        "surcharge",
        "tonnes",
        "PIER_FEE",
    ]


def test_code_without_a_grammar() -> None:
    text = "def total(x)\n  puts berth.size\n  if(x) pay_now(quay)\n  Limit = 12\nend\n"
    assert found(text, "a.rb") == ["total", "berth.size", "pay_now", "Limit", "12"]


def test_settings() -> None:
    text = '[quays]\nport = 8080\nhost: "pier.example.com"\n- name: x\nfor = 1\n'
    assert found(text, "a.toml") == ["port", "8080", "host", "pier.example.com", "name"]


def test_above_the_limit_no_grammar_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a grammar was asked")

    code = "quay = berth_of\n"
    long = code * (LARGEST_PARSED // len(code) + 1)
    assert len(found(code * (LARGEST_PARSED // len(code)), "a.py")) == 2 * (LARGEST_PARSED // len(code))
    monkeypatch.setattr(entities, "read_code", refuse)
    assert found(long, "a.py")[:2] == ["quay", "berth_of"]
    with pytest.raises(AssertionError, match="a grammar was asked"):
        entity_spans(code, "a.py")


def test_a_grammar_that_is_missing_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_code, "grammar_of", lambda _language: None)
    assert found("quay = berth_of\n", "a.py") == ["quay", "berth_of"]


# Prose


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call parse_order or parseOrder or HTTPServer", ["parse_order", "parseOrder", "HTTPServer"]),
        ("RATE and MAX_LEN, sha256, NOT I", ["RATE", "MAX_LEN", "sha256"]),
        ("see orders.py and os.path.join, e.g. i.e. end.", ["orders.py", "os.path.join"]),
        ("std::vector and ship->berth", ["std::vector", "ship->berth"]),
        ("run flush() for file(s) or if(x)", ["flush"]),
        (
            "5 ms, 16K, 99 %, $4, 3 things, 1st, 12:30, 1,024 and 7",
            ["5 ms", "16K", "99 %", "$4", "12:30", "1,024"],
        ),
        ("commit 3f2a91c of 53 in 2.5", ["3f2a91c", "53", "2.5"]),
        ('it said "late fee" and "no", not "All is well."', ["late fee"]),
        ("don't take dogs' or 'pier' or `berth`", ["pier", "berth"]),
        ('"this is a whole sentence, which is no constant"', []),
        ("“quay nine”", ["quay nine"]),
        ("Größe_max über naïveName", ["Größe_max", "naïveName"]),
        ("Plain words make a plain sentence. Another one follows it.", []),
        ("", []),
    ],
)
def test_prose(text: str, expected: list[str]) -> None:
    assert found(text) == expected
    assert found(f"漢 é 😀 {text}") == expected, "offsets are in bytes"


def test_blocks_of_code_in_prose() -> None:
    text = (
        "Use fee:\n```python\ndef quay(berth):\n    return berth  # as max_len\n```\nthen berth.\n"
        "~~~golang\nvar pier = 44\n~~~\n```\nship(dock)\n```\n```text\nship: dock\n```\n``` not `a_fence`"
    )
    expected = ["quay", "berth", "berth", "max_len", "pier", "44", "ship"]
    assert found(text) == [*expected, "a_fence"]


def test_a_block_that_is_still_being_written() -> None:
    assert found("So:\n```py\nquay = berth") == ["quay", "berth"]


def test_a_longer_fence_is_closed_by_its_like_only() -> None:
    assert found("````py\nquay = 1\n```\nberth = ship\n````\nquay") == ["quay", "berth", "ship"]


@given(st.text(), st.sampled_from(NAMES))
@example("\ud800 quay_x", "a.py")
@example("`" * 50 + "~" * 50 + "`", None)
@settings(max_examples=300, deadline=None)
def test_no_text_fails(text: str, name: str | None) -> None:
    found(text, name)


@given(st.binary(), st.sampled_from(NAMES))
@settings(max_examples=200, deadline=None)
def test_no_bytes_fail(data: bytes, name: str | None) -> None:
    assert all(0 <= start < end <= len(data) for start, end in entity_spans(data, name))


@given(
    st.lists(
        st.sampled_from(
            ["def ", "(", ")", "{", "}", '"', "'", "`", "```", "\n", "x_y", "é", "12", "#", "//", ": "]
        )
    ),
    st.sampled_from(NAMES),
)
@settings(max_examples=300, deadline=None)
def test_no_broken_code_fails(parts: list[str], name: str | None) -> None:
    found("".join(parts), name)


@pytest.mark.parametrize(
    "unit",
    ["(", "{[", '"', "'", "`", "~", " ", "\t", "a", "A", "_", "1", "1.", "ab.", "$", "::", "# ", "\n", "é"],
)
@pytest.mark.parametrize("ending", ["", "`", "\n"])
@pytest.mark.parametrize("name", [None, "a.py", "a.rb"])
@pytest.mark.timeout(60)
def test_time_is_linear(unit: str, ending: str, name: str | None) -> None:
    """Quadratic, these would take minutes; a query of tree-sitter does for a row of brackets."""
    text = unit * (LARGEST_PARSED // len(unit) - 1) + ending
    entity_spans(text, name)


# Tokens


@given(
    st.lists(st.integers(0, 5)), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6))), st.integers(0, 1)
)
def test_tokens_that_overlap(lengths: list[int], gaps: list[tuple[int, int]], shift: int) -> None:
    spans, at = [], -1
    for gap, length in gaps:
        spans.append((at + 1 + gap, at + 1 + gap + length))
        at = spans[-1][1]
    inside = {byte + shift for start, end in spans for byte in range(start, end)}
    edges = np.concatenate([[0], np.cumsum(lengths)]).astype(int).tolist()
    expected = [any(b in inside for b in range(a, z)) for a, z in itertools.pairwise(edges)]
    marks = mark_tokens(spans, lengths, shift=shift)
    assert marks.dtype == np.bool_
    assert marks.tolist() == expected


def test_tokens_of_a_model(load_tiny: Callable[[TinySpec], Model]) -> None:
    model = load_tiny(TinySpec(n_layer=1, n_head=2, n_head_kv=1, head_dim=8, n_ff=16))
    text = "for the 漢字_name and PIER_FEE, é"
    tokens = model.tokenize(text)
    pieces = [model.piece(token) for token in tokens]
    assert b"".join(pieces) == text.encode()
    marks = entity_tokens(pieces, None, text)
    marked = b"".join(piece for piece, is_marked in zip(pieces, marks, strict=True) if is_marked)
    assert marked.decode().replace(" ", "") == "漢字_namePIER_FEE"
    assert np.array_equal(marks, entity_tokens(pieces))


def test_a_space_that_the_tokenizer_put_first() -> None:
    text = "if quay:\n    berth = 44\n"
    pieces = [b" if", b" quay", b":\n", b"    ", b"berth", b" =", b" 44", b"\n"]
    expected = [False, True, False, False, True, False, True, False]
    assert entity_tokens(pieces, "a.py", text).tolist() == expected
    assert entity_tokens([b"quay", *pieces[2:]], "a.py", "quay:\n    berth = 44\n").tolist()[0]


def test_pieces_that_are_not_the_text_are_read_themselves() -> None:
    """A tokenizer without bytes for a character drops it."""
    assert entity_tokens([b"see ", b"max", b"_len", b""], None, "see max_len é").tolist() == [
        *(False, True, True, False),
    ]


def test_no_tokens() -> None:
    assert entity_tokens([]).tolist() == []
    assert mark_tokens([(0, 3)], []).tolist() == []
    assert mark_tokens([], [1, 2]).tolist() == [False, False]
