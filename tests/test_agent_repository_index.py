from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from agent_repositories import GO, PYTHON, SCRIPT, make_repository
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace_agent.repository.file_facts import facts_of
from pace_agent.repository.index import Place, RepositoryIndex
from pace_agent.repository.path_names import PathNames, is_test
from pace_agent.repository.word_postings import WordPostings, words_of


@pytest.fixture
def shop(tmp_path: Path) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path, PYTHON), deadline=60)


@pytest.fixture
def script(tmp_path: Path) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path, SCRIPT), deadline=60)


@pytest.fixture
def go(tmp_path: Path) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path, GO), deadline=60)


def names(places: tuple[Place, ...]) -> list[str]:
    return [place.name for place in places]


def test_files_are_listed_without_ignored_ones(shop: RepositoryIndex) -> None:
    assert set(shop.paths) == set(PYTHON) - {"build/generated.py"}
    assert shop.notes() == []


def test_a_definition_is_found_by_name_and_by_the_end_of_its_qualified_name(shop: RepositoryIndex) -> None:
    source = PYTHON["shop/orders.py"].splitlines()
    (found,) = shop.definitions_of("order_total")
    assert (found.path, found.symbol, found.kind) == ("shop/orders.py", "order_total", "function")
    assert source[found.first - 1] == "def order_total(order):"
    assert source[found.last - 1].strip().startswith("return rounded")
    assert names(shop.definitions_of("total")) == ["shop/orders.py:Order.total"]
    for name in (
        "Order.total",
        "orders.Order.total",
        "shop.orders.Order.total",
        "Order::total",
        "`Order.total()`",
    ):
        assert names(shop.definitions_of(name)) == ["shop/orders.py:Order.total"], name
    assert names(shop.definitions_of("shop/orders.py:total")) == ["shop/orders.py:Order.total"]
    assert names(shop.definitions_of("shop/orders.py::order_total")) == ["shop/orders.py:order_total"]
    for name in ("Line.total", "shop/rates.py:total", "nothing.py:total", "", ":", "..", "nothing_here"):
        assert shop.definitions_of(name) == (), name


def test_users_are_definitions_and_lines_outside_of_them(shop: RepositoryIndex) -> None:
    assert names(shop.users_of("order_total")) == [
        "shop/__init__.py",
        "shop/__init__.py:__all__",
        "shop/orders.py:describe",
        "shop/report.py",
        "shop/report.py:report_lines",
        "shop/report.py",
        "tests/test_orders.py",
        "tests/test_orders.py:test_total_of_nothing",
        "tests/test_orders.py:test_patched",
    ]
    lines = {place.first: place for place in shop.users_of("order_total") if place.path == "shop/report.py"}
    assert lines[3].kind == "lines"
    assert lines[11].last == 11


def test_the_docstring_and_the_definition_itself_are_no_users(shop: RepositoryIndex) -> None:
    assert "shop/orders.py:Order" not in names(shop.users_of("order_total"))
    assert "shop/orders.py:order_total" not in names(shop.users_of("order_total"))


def test_a_recursive_function_uses_itself(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.py": "def again(n):\n    return again(n - 1)\n"})
    assert names(RepositoryIndex(tmp_path).users_of("again")) == ["a.py:again"]


def test_typescript_and_javascript(script: RepositoryIndex) -> None:
    assert names(script.definitions_of("Cart.grandTotal")) == ["src/cart.ts:Cart.grandTotal"]
    assert names(script.definitions_of("emptyCart")) == ["src/cart.ts:emptyCart"]
    assert names(script.users_of("toCents")) == ["src/cart.ts", "src/cart.ts:Cart.grandTotal"]
    assert names(script.users_of("emptyCart")) == ["bin/run.js", "bin/run.js:run"]
    assert script.imports_of("src/cart.ts") == ("src/money.ts",)
    assert script.imports_of("bin/run.js") == ("src/cart.ts",)
    assert script.imports_of("src/index.ts") == ("src/cart.ts",)


def test_go(go: RepositoryIndex) -> None:
    assert names(go.definitions_of("Line.PriceWithTax")) == ["orders/line.go:Line.PriceWithTax"]
    assert names(go.users_of("OrderTotal")) == ["main.go:main", "orders/orders_test.go:TestOrderTotal"]
    assert "orders/orders.go" in go.imports_of("main.go")


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("a.js", "class A {\n  append(x) {\n    return x;\n  }\n}\n", "append"),
        ("a.js", "const a = {\n  async append(x) {\n    return x;\n  },\n};\n", "append"),
        ("a.js", "exports.append = function (x) {\n  return x;\n};\n", "append"),
        ("a.c", "static int *\nappend(int a)\n{\n    return 0;\n}\n", "append"),
        ("a.cpp", "int A::append(int a) {\n    return 0;\n}\n", "append"),
        ("A.java", "class A {\n    List<String> append(int a) {\n        return null;\n    }\n}\n", "append"),
        ("a.rs", "impl A {\n    pub fn append<T>(&self) -> u8 {\n        1\n    }\n}\n", "append"),
        ("a.go", "package a\n\nfunc (a *A) append(b int) {\n}\n", "append"),
        ("a.rb", "class A\n  def append(b)\n    b\n  end\nend\n", "append"),
        ("a.py", "class A:\n    def __init__(self):\n        self.append = 1\n", "append"),
        ("a.py", "class A:\n    append: int\n", "append"),
        ("a.py", "first, append = 1, 2\n", "append"),
        ("a.sh", "function append {\n  true\n}\n", "append"),
    ],
)
def test_definitions_in_many_forms(tmp_path: Path, path: str, text: str, name: str) -> None:
    """Files are parsed only where their text may define a name; no form of a definition may be missed."""
    index = RepositoryIndex(make_repository(tmp_path, {path: text}), deadline=60)
    assert [place.leaf for place in index.definitions_of(name)] == [name]


def test_files_that_only_call_a_name_are_not_parsed(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.py": "x = []\nx.append(1)\n", "b.py": "def append(x):\n    pass\n"})
    index = RepositoryIndex(tmp_path)
    assert names(index.definitions_of("append")) == ["b.py:append"]
    assert "a.py" not in index._facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop/orders.py", "shop/orders.py"),
        ("./shop/orders.py", "shop/orders.py"),
        ("`orders.py`", "shop/orders.py"),
        ("orders.py:12", "shop/orders.py"),
        ("orders.py:12:3", "shop/orders.py"),
        ("orders.py:10-12", "shop/orders.py"),
        ("shop/orders.py#L10-L12", "shop/orders.py"),
        ("shop.orders", "shop/orders.py"),
        ("shop::orders", "shop/orders.py"),
        ("shop/orders", "shop/orders.py"),
        ("orders", "shop/orders.py"),
        ("Orders.py", "shop/orders.py"),
        ("shop\\orders.py", "shop/orders.py"),
        ("tests/test_orders.py::test_patched", "tests/test_orders.py"),
        ("shop", "shop/__init__.py"),
        ("README", "README.md"),
        ("(shop/orders.py),", "shop/orders.py"),
    ],
)
def test_paths_as_people_write_them(shop: RepositoryIndex, text: str, expected: str) -> None:
    assert shop.find_path(text) == (expected,)


def test_paths_that_are_not_there(shop: RepositoryIndex) -> None:
    for text in (
        "orders.js",
        "hop/orders.py",
        "build/generated.py",
        "shop.nothing",
        "",
        "/",
        ".",
        ":3",
        "../x.py",
    ):
        assert shop.find_path(text) == (), text


def test_an_absolute_path_in_the_repository(shop: RepositoryIndex) -> None:
    assert shop.find_path(f"{shop.root}/shop/cli.py:3") == ("shop/cli.py",)


def test_of_several_files_the_nearest_comes_first_and_tests_last(tmp_path: Path) -> None:
    files = dict.fromkeys(["z/a.py", "a/b/a.py", "tests/a.py", "b/a.py"], "")
    index = RepositoryIndex(make_repository(tmp_path, files))
    assert index.find_path("a.py") == ("b/a.py", "z/a.py", "tests/a.py", "a/b/a.py")
    assert index.find_path("b/a.py") == ("b/a.py",)


PARTS = st.text("ab.:_-# '`()é/\\", min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))


@settings(deadline=None)
@given(st.lists(PARTS.map(lambda part: part.strip("/").replace("//", "/")), min_size=1, max_size=12))
@example(["a:12", "a", "'a'", "a.py", "a::b", "a\\b"])
def test_every_path_finds_itself_alone(paths: list[str]) -> None:
    known = PathNames(Path("/repository"))
    paths = [path for path in paths if path and not path.startswith("/")]
    for path in paths:
        known.add(path)
    for path in paths:
        assert known.find(path) == (path,)
    for path in paths:
        known.remove(path)
    assert all(known.find(path) == () for path in paths)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_finding_a_path_never_fails(text: str) -> None:
    known = PathNames(Path("/repository"))
    for path in PYTHON:
        known.add(path)
    assert set(known.find(text)) <= set(PYTHON)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("src/test_a.py", True),
        ("a_test.go", True),
        ("a.test.ts", True),
        ("a.spec.js", True),
        ("conftest.py", True),
        ("OrderTest.java", True),
        ("src/contest.py", False),
        ("src/latest.ts", False),
        ("attest/a.py", False),
        ("src/testimony.py", False),
    ],
)
def test_which_files_are_tests(path: str, expected: bool) -> None:
    assert is_test(path) is expected


def test_changes_are_seen_after_a_refresh(shop: RepositoryIndex) -> None:
    assert shop.definitions_of("fresh_name") == ()
    (shop.root / "shop/new.py").write_text("def fresh_name():\n    return order_total\n")
    (shop.root / "shop/rates.py").write_text("NOTHING_ELSE = 1\n")
    shop.refresh(["shop/new.py", "shop/rates.py"])
    assert names(shop.definitions_of("fresh_name")) == ["shop/new.py:fresh_name"]
    assert "shop/new.py:fresh_name" in names(shop.users_of("order_total"))
    assert shop.definitions_of("unrelated_rate") == ()
    (shop.root / "shop/new.py").unlink()
    shop.refresh(["shop/new.py"])
    assert shop.definitions_of("fresh_name") == ()
    assert shop.find_path("new.py") == ()


def test_a_refresh_of_everything_and_of_folders(shop: RepositoryIndex) -> None:
    assert shop.find_path("later.py") == ()
    (shop.root / "more").mkdir()
    (shop.root / "more/later.py").write_text("def later_one(): pass\n")
    shop.refresh(["more"])
    assert names(shop.definitions_of("later_one")) == ["more/later.py:later_one"]
    os.unlink(shop.root / "more/later.py")
    (shop.root / "top.py").write_text("def top_one(): pass\n")
    shop.refresh()
    assert names(shop.definitions_of("top_one")) == ["top.py:top_one"]
    assert shop.definitions_of("later_one") == ()
    assert "more/later.py" not in shop.paths


def test_a_changed_file_is_parsed_again_without_a_refresh(shop: RepositoryIndex) -> None:
    assert shop.definitions_of("rounded")[0].first == 7
    text = "\n\n" + PYTHON["shop/rates.py"]
    (shop.root / "shop/rates.py").write_text(text)
    assert shop.definitions_of("rounded")[0].first == 9
    assert shop.lines_of("shop/rates.py", 9, 9) == "def rounded(amount):\n"


def test_secrets_links_and_binary_files_are_not_read(shop: RepositoryIndex) -> None:
    (shop.root / "data.py").write_bytes(b"def hidden_name(): \0\n")
    (shop.root / "key.py").write_text("-----BEGIN PRIVATE KEY-----\ndef hidden_name(): pass\n")
    (shop.root / "linked.py").symlink_to("shop/orders.py")
    shop.refresh()
    assert shop.definitions_of("hidden_name") == ()
    assert shop.text_of(".env") is None
    assert shop.text_of("key.py") is None
    assert shop.find_path("linked.py") == ()
    assert shop.files_with("SECRET_TOKEN") == []


def test_utf_16_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_bytes("def wide_name():\r\n    pass\r\n".encode("utf-16"))
    (found,) = RepositoryIndex(tmp_path).definitions_of("wide_name")
    assert (found.first, found.last) == (1, 2)


def test_a_file_of_50_mb_is_left_out_and_said(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.py": "def small_one(): pass\n"})
    with (tmp_path / "huge.py").open("wb") as file:
        file.write(b"def huge_one(): pass\n")
        file.truncate(50 * 2**20)
    index = RepositoryIndex(tmp_path, deadline=60)
    assert names(index.definitions_of("small_one")) == ["a.py:small_one"]
    assert index.definitions_of("huge_one") == ()
    assert index.notes() == ["1 files of more than 2 MiB were not searched for names"]
    assert index.find_path("huge.py") == ("huge.py",)


def test_more_files_than_are_looked_at(tmp_path: Path) -> None:
    make_repository(tmp_path, {f"f{number:02}.py": f"def name_{number}(): pass\n" for number in range(20)})
    index = RepositoryIndex(tmp_path, most_files=10)
    assert len(index.paths) == 10
    assert "more than 10 files" in index.notes()[0]


def test_a_question_stops_at_its_deadline_and_the_next_goes_on(tmp_path: Path) -> None:
    """With a clock that moves at each look, a question does a bounded part; asking again completes it."""
    make_repository(tmp_path, {f"f{number:02}.py": f"def name_{number}(): pass\n" for number in range(40)})
    ticks = itertools.count()
    index = RepositoryIndex(tmp_path, deadline=5, clock=lambda: float(next(ticks)))
    assert index.definitions_of("name_39") == ()
    assert not index.is_complete
    assert "listed by now" in index.notes()[0]
    said = set()
    for _ in range(100):
        found = index.definitions_of("name_39")
        said.update(index.notes())
        if index.is_complete:
            break
    assert names(found) == ["f39.py:name_39"]
    assert any("not searched for names yet" in note for note in said)
    assert index.notes() == []


def test_questions_inside_share_a_deadline(tmp_path: Path) -> None:
    make_repository(tmp_path, {f"f{number:02}.py": f"def name_{number}(): pass\n" for number in range(40)})
    ticks = itertools.count()
    index = RepositoryIndex(tmp_path, deadline=5, clock=lambda: float(next(ticks)))
    with index.within():
        for _ in range(30):
            index.definitions_of("name_39")
    assert not index.is_complete


@pytest.mark.parametrize("text", ["[" * 60_000, "[\n" * 60_000, "x = 1;" * 60_000, "((((\n" * 20_000])
def test_hostile_text_takes_no_time(text: str) -> None:
    facts = facts_of(text, "a.py")
    assert facts.definitions == ()


@settings(deadline=None)
@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=300),
    st.sampled_from(["a.py", "a.ts", "a.go", "a.rb", "a.toml"]),
)
def test_facts_of_any_text_lie_in_it(text: str, path: str) -> None:
    facts = facts_of(text, path)
    for place in facts.definitions:
        assert 1 <= place.first <= place.last
    for name, lines in (facts.uses or {}).items():
        assert all(name in text for _ in lines)


def test_what_is_inside_a_function_belongs_to_it(shop: RepositoryIndex) -> None:
    line = (
        PYTHON["shop/orders.py"].splitlines().index('        return f"{line.name}: {order_total(order)}"') + 1
    )
    place = shop.definition_at("shop/orders.py", line)
    assert place is not None
    assert place.symbol == "describe"
    assert shop.definition_at("shop/orders.py", 1) is None
    assert shop.definition_at("nothing.py", 1) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sets(st.sampled_from("vwxyz"))), max_size=40))
def test_postings_are_those_of_the_last_state(puts: list[tuple[str, set[str]]]) -> None:
    postings = WordPostings()
    state: dict[str, set[str]] = {}
    for path, words in puts:
        if words:
            postings.put(path, words)
            state[path] = words
        else:
            postings.remove(path)
            state.pop(path, None)
        for word in "vwxyz":
            assert postings.paths_with(word) == sorted(path for path in state if word in state[path])
            assert postings.count_with(word) == len(postings.paths_with(word))
    assert len(postings) == len(state)


def test_many_changes_do_not_pile_up() -> None:
    postings = WordPostings()
    for number in range(5_000):
        postings.put("a", {"same", f"w{number}"})
    assert postings.paths_with("same") == ["a"]
    assert len(postings._postings) < 2_000


def test_words_of_data_are_bounded() -> None:
    assert len(words_of(" ".join(f"w{number}" for number in range(50_000)))) == 20_000
    assert words_of("x" * 1_000) == set()
