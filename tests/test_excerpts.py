"""Cutting: nothing lost, nothing too large, borders where a reader would put them."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pace_local.errors import ConfigError
from pace_local.excerpts import Excerpt, cut, languages
from pace_local.files import SourceText, read_text

SHOP = Path(__file__).parent / "data" / "excerpts"

# How long one example takes says nothing on a busy machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def quarter(text: str) -> int:
    return len(text) // 4


def source(path: str, text: str) -> SourceText:
    return SourceText(path, text, "utf-8", "\n")


def cut_text(path: str, text: str, max_tokens: int = 400) -> list[Excerpt]:
    return cut(source(path, text), max_tokens, quarter)


def find(excerpts: list[Excerpt], words: str) -> Excerpt:
    (found,) = [excerpt for excerpt in excerpts if words in excerpt.text]
    return found


# --- what holds for any file ---------------------------------------------------------------------

COUNTERS: dict[str, Callable[[str], int]] = {
    "quarter": quarter,
    "characters": len,
    "bytes": lambda text: len(text.encode("utf-8", "replace")),
    "words": lambda text: len(text.split()),
}
FRAGMENTS = [
    "def f(a,\n      b):\n    x = 1\n    return x  # done\n\n\n",
    "@deco\nclass C(Base):\n    '''Doc.'''\n    y = 3\n\n    def g(self):\n        return self.y\n\n",
    "RATE = {\n    'gold': 1,\n    'silver': 2,\n}\n",
    "export class A extends B {\n  x = 1;\n  get y() { return 2 }\n}\n",
    "func (t *T) Total(a int) int {\n\treturn a\n}\n",
    "/// Doc\npub fn new() -> Self { Foo { a: 1 } }\n",
    "#define RATE 53\nstatic int f(int a)\n{\n  return a;\n}\n",
    "# Title\n\nText of a paragraph. It has two sentences.\n\n## Part\n\n- one\n- two\n",
    "Title\n=====\n\n```\n# no heading\n```\n",
    "[table]\nkey = 'value'\n",
    '{"a": [1, 2],\n "b": {\n  "c": null\n }\n}\n',
    "((((((((\n",
    ")\n}\n]\n",
    "'''open string\n",
    "a" * 300,
    "x = 1; y = 2; " * 40,
    "größe = '数値' # ユーザー名は最大20文字です。\n",
    "😀😀😀",
    "\r\n\r\n",
    "\r",
    "\x0b\x0c\x1c\u2028\u0085",
    "   \t \n",
    "\ud800",
    "",
]
SUFFIXES = sorted([*languages._SUFFIXES, ".md", ".rst", ".txt", ".toml", ".json", ".rb", ".sh", ""])

texts = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=40)), max_size=8).map("".join),
    st.text(),
)


def line_number(text: str, offset: int) -> int:
    """Number of the line that holds a character; the parts of a line end belong to the line that it ends."""
    return 1 + sum(end.end() <= offset for end in re.finditer(r"\r\n|\r|\n", text))


@unhurried
@given(texts, st.sampled_from(SUFFIXES), st.integers(1, 120), st.sampled_from(sorted(COUNTERS)))
@example("😀", ".txt", 1, "bytes")
@example("a\r\n" * 9, ".txt", 1, "characters")
@example("def f():\n" + "    x\n" * 99, ".py", 3, "quarter")
def test_excerpts_are_the_file(text: str, suffix: str, max_tokens: int, counter: str) -> None:
    count = COUNTERS[counter]
    excerpts = cut(source(f"some/file{suffix}", text), max_tokens, count)
    assert "".join(excerpt.text for excerpt in excerpts) == text
    at = 0
    for excerpt in excerpts:
        assert excerpt.text
        assert count(excerpt.text) <= max_tokens or len(excerpt.text) == 1
        assert excerpt.path == f"some/file{suffix}"
        assert excerpt.offset == at
        assert excerpt.start_line == line_number(text, at)
        at += len(excerpt.text)
        assert excerpt.end_line == line_number(text, at - 1)
        assert bool(excerpt.head) == bool(excerpt.scope)
        for definition in excerpt.defines:
            assert definition.name
            assert definition.start_line <= definition.end_line
            assert excerpt.start_line <= definition.end_line
            assert definition.start_line <= excerpt.end_line


@unhurried
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=9), st.sampled_from(SUFFIXES))
def test_cutting_is_deterministic(parts: list[str], suffix: str) -> None:
    given_source = source(f"file{suffix}", "".join(parts))
    assert cut(given_source, 50, quarter) == cut(given_source, 50, quarter)


@pytest.mark.parametrize("path", sorted(SHOP.iterdir()), ids=lambda path: path.name)
@pytest.mark.parametrize("max_tokens", [30, 100, 400])
def test_files_of_every_language_come_back(path: Path, max_tokens: int) -> None:
    text = read_text(path)
    excerpts = cut(text, max_tokens, quarter)
    assert "".join(excerpt.text for excerpt in excerpts) == text.text
    assert max(quarter(excerpt.text) for excerpt in excerpts) <= max_tokens


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_bad_size_is_refused(max_tokens: int) -> None:
    with pytest.raises(ConfigError, match=str(max_tokens)):
        cut_text("a.py", "x = 1\n", max_tokens)


def test_empty_text_gives_no_excerpts() -> None:
    assert cut_text("a.py", "") == []


# --- borders -------------------------------------------------------------------------------------

PYTHON = '''"""Module."""

import os

# The rate,
# in cents.
RATE = 53


@cached
@traced("f")
def first(a: int) -> int:
    """First."""
    return a + RATE  # trailing


# About C.
class C:
    """Class."""

    def __init__(self) -> None:
        self.a = 1
        # the end of it

    # About method.
    @property
    def method(
        self,
    ) -> int:
        value = os.getpid() + self.a

        if value > 10:
            value = 10
        else:
            value = 20
        # about the loop
        for step in range(value):
            value += step
        return value
'''


def test_small_neighbours_share_an_excerpt() -> None:
    (whole,) = cut_text("a.py", PYTHON)
    assert whole.names == ("RATE", "first", "C", "C.__init__", "C.a", "C.method")
    first = cut_text("a.py", PYTHON, 100)[0]
    assert first.names == ("RATE", "first")


def test_comments_and_decorators_stay_with_what_they_precede() -> None:
    excerpts = cut_text("a.py", PYTHON, 60)
    starts = [excerpt.text.lstrip("\n").splitlines()[0] for excerpt in excerpts]
    assert find(excerpts, "RATE = 53").text.startswith(('"""Module', "# The rate,\n"))
    assert '@cached\n@traced("f")\ndef first' in find(excerpts, "def first").text
    assert find(excerpts, "trailing") is find(excerpts, "def first")
    assert "# About C.\nclass C:" in find(excerpts, "class C").text
    assert find(excerpts, "the end of it") is find(excerpts, "self.a = 1")
    assert "# About method.\n    @property\n    def method(" in find(excerpts, "def method").text
    assert not any(start.strip().startswith(("return a", ")", '"""First')) for start in starts)


def test_a_long_definition_is_cut_at_statements_and_its_head_is_known() -> None:
    excerpts = cut_text("a.py", PYTHON, 25)
    loop = find(excerpts, "for step")
    assert loop.text.startswith("        # about the loop\n        for step")
    assert loop.kind == "part"
    assert loop.scope == "C.method"
    assert loop.head == "class C:\n    def method(\n        self,\n    ) -> int:"
    assert loop.names == ()
    method = find(excerpts, "def method")
    assert method.scope == "C"
    assert method.head == "class C:"
    assert method.kind == "definitions"
    (imports,) = cut_text("b.py", "import os\n")
    assert imports.kind == "statements"


def test_parts_of_one_definition_are_of_like_size() -> None:
    body = "".join(f"    total += weigh(item_{at}, {at})\n" for at in range(41))
    excerpts = cut_text("a.py", f"def long():\n{body}", 300)
    sizes = [quarter(excerpt.text) for excerpt in excerpts]
    assert len(sizes) == 2
    assert min(sizes) > 0.6 * max(sizes)


def test_the_last_part_still_knows_its_definition() -> None:
    """The blank lines after a definition stay with its last part, which ends beyond the definition."""
    body = "".join(f"    step_{at}()\n" for at in range(60))
    excerpts = cut_text("a.py", f"def long():\n{body}\n\ndef next_one():\n    pass\n", 80)
    last = find(excerpts, "step_59")
    assert last.text.endswith("\n\n\n")
    assert last.scope == "long"
    assert find(excerpts, "next_one").scope == ""


def test_members_of_a_class_are_not_cut() -> None:
    methods = "".join(
        f"\n    def method_{at}(self):\n        a = {at}\n        return a * self.factor_{at}\n"
        for at in range(30)
    )
    excerpts = cut_text("a.py", f"class C:\n{methods}", 100)
    assert len(excerpts) > 5
    for excerpt in excerpts[1:]:
        assert excerpt.text.lstrip("\n").startswith("    def method_")
        assert excerpt.scope == "C"
    assert all(excerpt.text.count("def ") == excerpt.text.count("return ") for excerpt in excerpts)


@pytest.mark.parametrize(
    ("path", "comment", "definition", "inner", "close"),
    [
        ("a.js", "// about it", "function name_{at}(a) {{", "  return a + {at};", "}}"),
        ("a.ts", "/** about it */", "export function name_{at}(a: number): number {{", "  return a;", "}}"),
        ("a.go", "// about it", "func name_{at}(a int) int {{", "\treturn a", "}}"),
        ("a.rs", "/// about it\n#[inline]", "pub fn name_{at}(a: u32) -> u32 {{", "    a", "}}"),
        ("a.c", "/* about it */", "static int name_{at}(int a)\n{{", "    return a;", "}}"),
        ("a.cpp", "// about it", "template <class T> T name_{at}(T a)\n{{", "    return a;", "}}"),
        ("a.py", "# about it\n@deco", "def name_{at}(a):", "    return a", ""),
        ("a.rb", "# about it", "def name_{at}(a)", "  a", "end"),
    ],
)
def test_functions_of_every_language_are_kept_whole(
    path: str, comment: str, definition: str, inner: str, close: str
) -> None:
    one = f"{comment}\n{definition}\n{inner}\n{inner}\n{close}\n\n"
    excerpts = cut_text(path, "".join(one.format(at=at) for at in range(40)), 120)
    assert len(excerpts) > 3
    for excerpt in excerpts:
        assert excerpt.text.startswith(comment)
        assert len(excerpt.names) == excerpt.text.count(comment)


def test_large_literals_are_cut_between_entries() -> None:
    entries = "".join(f'    "key_{at}": ("value", {at}),\n' for at in range(100))
    excerpts = cut_text("a.py", f"TABLE = {{\n{entries}}}\n", 100)
    assert len(excerpts) > 5
    assert all(excerpt.scope == "TABLE" for excerpt in excerpts[1:])
    assert all(excerpt.text.startswith('    "key_') for excerpt in excerpts[1:])
    assert excerpts[-1].text.endswith("),\n}\n")


def test_markdown_is_cut_at_headings_then_paragraphs() -> None:
    paragraph = "Some words that fill a paragraph, more or less.\n" * 3
    first = f"## First\n\n{paragraph}\n{paragraph}\n"
    text = f"# Top\n\n{paragraph}\n{first}## Second\n\n{paragraph}\n### Deep\n\nEnd.\n"
    excerpts = cut_text("a.md", text, 60)
    assert [excerpt.text.splitlines()[0] for excerpt in excerpts] == [
        "# Top",
        "## First",
        "Some words that fill a paragraph, more or less.",
        "## Second",
    ]
    second = excerpts[2]
    assert (second.kind, second.scope, second.head) == ("section", "First", "# Top\n## First")
    assert excerpts[3].names == ("Second", "Deep")
    assert [(one.start_line, one.end_line) for one in excerpts[0].defines] == [(1, text.count("\n"))]


def test_code_in_markdown_is_no_heading_and_kept_whole() -> None:
    block = "```sh\n" + "# comment\nmake all\n\n" * 8 + "```\n"
    excerpts = cut_text("a.md", f"# Top\n\nBefore.\n\n{block}\nAfter.\n\n" + "Words here.\n\n" * 20, 60)
    assert block in find(excerpts, "```sh").text
    assert [name for excerpt in excerpts for name in excerpt.names] == ["Top"]


def test_paragraphs_of_plain_text_are_kept_whole() -> None:
    paragraphs = [f"Paragraph {at} has\ntwo lines.\n\n" for at in range(60)]
    for excerpt in cut_text("a.txt", "".join(paragraphs), 40):
        assert excerpt.text.startswith("Paragraph ")
        assert excerpt.text.endswith("lines.\n\n")
        assert excerpt.kind == "text"


def test_settings_are_cut_at_the_smallest_indentation() -> None:
    blocks = [f"service_{at}:\n  port: {at}\n  hosts:\n    - a\n    - b\n" for at in range(40)]
    excerpts = cut_text("a.yaml", "".join(blocks), 60)
    assert len(excerpts) > 5
    assert all(excerpt.text.startswith("service_") for excerpt in excerpts)


def test_a_long_line_is_cut_after_sentences() -> None:
    text = "This is one sentence of a long line. " * 100
    excerpts = cut_text("a.txt", text, 50)
    assert "".join(excerpt.text for excerpt in excerpts) == text
    assert all(excerpt.text.endswith("line. ") for excerpt in excerpts)
    assert {(excerpt.start_line, excerpt.end_line) for excerpt in excerpts} == {(1, 1)}


# --- cost ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def megabyte() -> str:
    text = ""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text += read_text(path).text
        if len(text) > 1_000_000:
            return text
    raise AssertionError("the standard library has less than a megabyte of modules")


@pytest.mark.parametrize("path", ["a.py", "a.md", "a.rb"])
def test_a_megabyte_is_counted_hardly_more_than_once(path: str, megabyte: str) -> None:
    counted = calls = 0

    def count(text: str) -> int:
        nonlocal counted, calls
        counted, calls = counted + len(text), calls + 1
        return len(text) // 4

    excerpts = cut(source(path, megabyte), 400, count)
    print(f"{path}: {len(excerpts)} excerpts, {calls} calls, {counted / len(megabyte):.2f} x the text")
    assert counted < 1.6 * len(megabyte)
    assert calls < 2 * len(excerpts)
    assert sum(map(len, (excerpt.text for excerpt in excerpts))) / len(excerpts) > 2 * 400


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("closing.txt", ")" * 300_000 + "x"),
        ("opening.py", "(\n" * 50_000),
        ("spaces.md", "# " + " " * 300_000 + "x"),
        ("hashes.md", "#" * 300_000),
        ("ticks.md", "`" * 300_000),
        ("word.txt", "a" * 300_000),
        ("words.md", "aA" * 150_000),
        ("minified.js", "var a=1;foo(b);" * 20_000),
        ("blank.md", "\n" * 300_000),
        ("headings.md", "# h\n" * 60_000),
        ("nested.py", "".join(" " * depth + "if x:\n" for depth in range(900))),
        ("garbage.ts", "if ( { [ ; => ` ' template < :: /* \n" * 3_000),
        ("keys.json", '{"a":\n' * 20_000),
    ],
)
@pytest.mark.timeout(120)  # all but the garbage take well below a second
def test_odd_files_take_no_odd_time(name: str, text: str) -> None:
    excerpts = cut_text(name, text)
    assert "".join(excerpt.text for excerpt in excerpts) == text
    assert all(before.end_line <= after.start_line for before, after in pairwise(excerpts))
