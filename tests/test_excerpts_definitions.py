"""Definitions and mentions in every language, and what happens where a grammar cannot help."""

from __future__ import annotations

import sys

import pytest

from pace_local.excerpts import Excerpt, cut, languages
from pace_local.files import SourceText


def cut_text(path: str, text: str, max_tokens: int = 400) -> list[Excerpt]:
    return cut(SourceText(path, text, "utf-8", "\n"), max_tokens, lambda part: len(part) // 4)


DEFINITIONS = {
    "a.py": (
        "RATE: int = 53\nA, B = 1, 2\nA.x = 5\nx = y = 3\n"
        "def f(a):\n    local = 1\n    key = lambda: 1\n    def inner(): pass\n"
        "class C:\n    z: int\n    LIMIT = 3\n    def __init__(self):\n        self.q = 1\n"
        "        self.r.s = 2\n"
        "        other = 4\n    def g(self):\n        self.later = 1\n    class D:\n"
        "        async def h(self): pass\n"
        "if True:\n    W = 3\nshort = lambda v: v\n",
        "value RATE, value A, value B, value x, value y, function f, function f.inner, type C, field C.z,"
        " field C.LIMIT, function C.__init__, field C.q, function C.g, type C.D, function C.D.h, value W,"
        " function short",
    ),
    "a.js": (
        "const RATE = 53, f = () => { const local = 1; };\nfunction g() { let a = 2; function h() {} }\n"
        "class A { static x = 3; get foo() { return 1 } }\nmodule.exports.bar = function () {};\n"
        "A.prototype.baz = () => 1;\nconst o = { m() {}, n: 3 };\n(function () { var hidden = 1; })();\n",
        "value RATE, function f, function g, function g.h, type A, field A.x, function A.foo, function bar,"
        " function A.baz, value o, function o.m",
    ),
    "a.ts": (
        "export const RATE = 53;\ninterface I { p: string; m(): void }\nexport type T = { a: string };\n"
        "enum E { X, Y = 2 }\nnamespace N { export function q() {} }\n"
        "export abstract class Z { y: number; abstract m(): void; constructor() { } }\n"
        "declare function k(): void;\n",
        "value RATE, type I, field I.p, function I.m, type T, field T.a, type E, field E.X, field E.Y, "
        "module N,"
        " function N.q, type Z, field Z.y, function Z.m, function Z.constructor, function k",
    ),
    "a.tsx": ("export const App = () => <div>{1}</div>;\n", "function App"),
    "a.go": (
        "package main\nconst Rate = 3\nconst (\n\tA = iota\n\tB\n)\nvar x, y int = 1, 2\n"
        "type T struct { F int; G, H string }\ntype I interface { M() int }\ntype Al = int\n"
        "func (t *T) Total(a int) int { var q = 3; return q }\nfunc (t T[K]) Gen() {}\nfunc main() {}\n",
        "value Rate, value A, value B, value x, value y, type T, field T.F, field T.G, field T.H, type I,"
        " function I.M, type Al, function T.Total, function T.Gen, function main",
    ),
    "a.rs": (
        "pub const RATE: u32 = 3;\nstatic S: u32 = 1;\npub struct T { pub f: u32 }\nenum E { A, B(u32) }\n"
        "trait Tr { fn m(&self); const K: u8; }\nimpl<T> Tr for Foo<T> { fn m(&self) { const C: u8 = 1; } }\n"
        "mod inner { pub fn q() {} }\nmod elsewhere;\nmacro_rules! mm { () => {} }\ntype X = u32;\n",
        "value RATE, value S, type T, field T.f, type E, field E.A, field E.B, type Tr, function Tr.m, "
        "field Tr.K,"
        " function Foo.m, module inner, function inner.q, macro mm, type X",
    ),
    "a.c": (
        "#define RATE 53\n#define MAXX(a,b) ((a)>(b)?(a):(b))\n#ifdef X\nstatic const int lim = 3, "
        "*lim2;\n#endif\n"
        "typedef struct node { int a; struct node *next; } node_t;\ntypedef struct { int u; } bare_t;\n"
        "enum E { P, Q = 2 };\ntypedef int (*cb)(int);\nint proto(int a);\nstruct S;\n"
        "static int *f(int a)\n{\n  int local = 3;\n  return 0;\n}\n",
        "macro RATE, macro MAXX, value lim, value lim2, type node, field node.a, field node.next, "
        "type node_t,"
        " field bare_t.u, type bare_t, type E, field E.P, field E.Q, type cb, function proto, function f",
    ),
    "a.cpp": (
        "namespace a::b {\nclass K : public J { public: K(); int m() const; static constexpr int R = 3; };\n"
        "template <typename T> T mx(T a) { return a; }\nusing X = int;\n}\n"
        "int a::b::K::m() const { return 3; }\n"
        "enum class Col { Red };\nconstexpr int kRate = 53;\nauto &ref(int &a) { return a; }\n",
        "module a.b, type a.b.K, function a.b.K.K, function a.b.K.m, field a.b.K.R, function a.b.mx, "
        "type a.b.X,"
        " function a.b.K.m, type Col, field Col.Red, value kRate, function ref",
    ),
    "a.h": ("namespace n { class K { int v; }; }\n", "module n, type n.K, field n.K.v"),
    "A.java": (
        "public class A extends B {\n  public static final int RATE = 53, Q = 2;\n  A() {}\n"
        "  int m(int a) { int l = 1; return a; }\n  enum E { X, Y(2) }\n"
        "  interface I { void z(); int K = 3; }\n"
        "  record R(int a) {}\n}\n",
        "type A, field A.RATE, field A.Q, function A.A, function A.m, type A.E, field A.E.X, "
        "field A.E.Y, type A.I,"
        " function A.I.z, field A.I.K, type A.R",
    ),
    "tool": ("#!/usr/bin/env python3\ndef f(): pass\n", "function f"),
    "a.rb": (
        "module Shop\n  RATE = 53\n  class Order\n    def total?\n      x = 1\n    end\n  end\nend\n",
        "type Shop, value RATE, type Order, function total?",
    ),
    "a.cs": (
        "public class Order {\n  public const int RATE = 53;\n  public decimal Total(int a) { return 1; }\n"
        "  public int Count { get; }\n}\n",
        "type Order, value RATE, function Total, value Count",
    ),
    "a.sh": ("RATE=53\nusage() {\n  x=1\n}\nfunction stop {\n}\n", "value RATE, function stop"),
    "a.toml": ('[tool.shop]\nrate = 53\n"odd-key" = 1\n# c = 2\n', "key tool.shop, key rate, key odd-key"),
    "a.yaml": (
        "shop:\n  rate: 53\n  - name: x\nurl: http://a.b/c\n",
        "key shop, key rate, key name, key url",
    ),
    "a.json": ('{\n  "rate": 53,\n  "deep": {"more": 1}\n}\n', "key rate, key deep"),
    "a.md": (
        "# Orders\n\nThe `RATE` is 53. LIMIT: 9. We say A is good. Let me be: let us type of order.\n\n"
        "- `fee` means 3\n- `parse_order()` returns an order\n\n## `Order.total` ##\n\n"
        "```python\ndef hidden():\n    pass\n# no heading\n```\n",
        "section Orders, key RATE, key LIMIT, key fee, key parse_order, section Order.total, function hidden",
    ),
    "a.rst": ("Orders\n======\n\nText.\n\nRates\n-----\n\n- no\n- list\n", "section Orders, section Rates"),
    "a.txt": ("Nothing is defined here, for the class of orders and the type in use.\n", ""),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "dos"])
@pytest.mark.parametrize("path", DEFINITIONS)
def test_definitions_are_found_and_qualified(path: str, newline: str) -> None:
    text, expected = DEFINITIONS[path]
    (excerpt,) = cut_text(path, text.replace("\n", newline))
    found = ", ".join(f"{definition.kind} {definition.name}" for definition in excerpt.defines)
    assert found == expected


def test_definition_lines_and_leaf() -> None:
    text = "import a\n\n# about f\n@deco\ndef f():\n    return 1\n\n\nclass C:\n    x = 1\n"
    (excerpt,) = cut_text("a.py", text)
    assert [(one.name, one.start_line, one.end_line, one.leaf) for one in excerpt.defines] == [
        ("f", 4, 6, "f"),
        ("C", 9, 10, "C"),
        ("C.x", 10, 10, "x"),
    ]
    assert excerpt.names == ("f", "C", "C.x")
    assert excerpt.label == "a.py:1-10"


def test_mentions_are_the_identifiers_of_code_and_the_names_in_words() -> None:
    text = '# see parse_order and the rate\ndef f(order):\n    return order.total(RATE) + g("gold tier")\n'
    (excerpt,) = cut_text("a.py", text)
    assert excerpt.mentions == {"parse_order", "f", "order", "total", "RATE", "g"}


def test_mentions_of_prose_are_only_what_looks_like_a_name() -> None:
    text = (
        "Call `total` or split(x) on the order; parse_order, OrderBook and RATE are ready. Nothing else is.\n"
    )
    (excerpt,) = cut_text("a.md", text)
    assert excerpt.mentions == {"total", "split", "parse_order", "OrderBook", "RATE"}


def test_non_ascii_text_does_not_shift_what_is_found() -> None:
    lines = [f'NAME_{at} = "größe 数値 😀"  # é\n' for at in range(200)]
    excerpts = cut_text("a.py", "".join(lines), 40)
    assert len(excerpts) > 10
    for excerpt in excerpts:
        expected = [f"NAME_{at - 1}" for at in range(excerpt.start_line, excerpt.end_line + 1)]
        assert list(excerpt.names) == expected
        assert excerpt.mentions == set(expected)


MODULE = """import os

# The rate, in cents.
RATE = 53


@cached
def first(a: int) -> int:
    return a + RATE


class C:
    def method(self) -> int:
        return os.getpid()
"""


def test_missing_grammar_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    languages._loaded.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_python", None)
    try:
        excerpts = cut_text("a.py", MODULE, 40)
    finally:
        languages._loaded.cache_clear()
    assert "".join(excerpt.text for excerpt in excerpts) == MODULE
    assert {"RATE", "first", "C", "method"} <= {name for excerpt in excerpts for name in excerpt.names}
    assert [excerpt.text.splitlines()[0] for excerpt in excerpts] == ["import os", "@cached", "class C:"]


def test_broken_code_keeps_what_can_be_read() -> None:
    text = (
        "def good(a):\n    return a\n\n\ndef broken(:\n    return ((\n\n\n"
        + "def after(b):\n    return b\n\n\n" * 5
    )
    excerpts = cut_text("a.py", text)
    names = [name for excerpt in excerpts for name in excerpt.names]
    assert names[0] == "good"
    assert "after" in names
    assert any("broken" in name for name in names)


def test_code_of_another_language_is_cut_as_text() -> None:
    text = "".join(f"SELECT a_{at} FROM ((b WHERE c = '{at}';\n)) %% $$ ;;\n\n" for at in range(50))
    excerpts = cut_text("a.py", text, 60)
    assert "".join(excerpt.text for excerpt in excerpts) == text
    assert all(excerpt.text.startswith("SELECT") for excerpt in excerpts)


def test_node_types_exist_in_the_installed_grammars() -> None:
    """A misspelt node type would silently find nothing."""
    for language in {id(one): one for one in languages._SUFFIXES.values()}.values():
        loaded = languages._loaded(language.module, language.function)
        assert loaded is not None, f"grammar of {language.name} is not installed"
        unknown = [kind for kind in language.definitions if not loaded.id_for_node_kind(kind, True)]
        # What the grammars of one family share is listed once.
        allowed = {
            "typescript": {"field_definition"},
            "tsx": {"field_definition"},
        }.get(language.name, set())
        assert set(unknown) <= allowed, (language.name, unknown)
