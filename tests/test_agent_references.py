from __future__ import annotations

from pathlib import Path

import pytest
from agent_repositories import GO, PYTHON, SCRIPT, make_repository
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.plain_words import is_plain
from pace_agent.repository.references import References, references

MORE = PYTHON | {
    "shop/stock.py": "\n\n".join(f"def {name}(x):\n    pass\n" for name in ("open", "tokenise", "report")),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("shop"), MORE), deadline=60)


def symbols(found: References) -> list[str]:
    return [place.name for place in found.symbols]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Make order_total faster", ["shop/orders.py:order_total"]),
        ("Fix `total`", ["shop/orders.py:Order.total"]),
        ("total() is wrong", ["shop/orders.py:Order.total"]),
        ("Order.total is wrong", ["shop/orders.py:Order.total"]),
        ("order.total is wrong", ["shop/orders.py:Order.total"]),
        ("see orders.Order.is_empty", ["shop/orders.py:Order.is_empty"]),
        ("shop.rates.rounded rounds up", ["shop/rates.py:rounded"]),
        ("use VAT_RATE", ["shop/rates.py:VAT_RATE"]),
        ("the function total is slow", ["shop/orders.py:Order.total"]),
        ("the open function leaks", ["shop/stock.py:open"]),
        ("rename total to sum_up", ["shop/orders.py:Order.total"]),
        ("does it tokenise well", ["shop/stock.py:tokenise"]),
        ("look at shop/rates.py:8", ["shop/rates.py:rounded"]),
        ("tests/test_orders.py::test_total_of_nothing fails", ["tests/test_orders.py:test_total_of_nothing"]),
    ],
)
def test_definitions_that_a_text_names(shop: RepositoryIndex, text: str, expected: list[str]) -> None:
    assert symbols(references(text, shop)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "the total is wrong",
        "please open the door and describe the report",
        "Open the file and write a report of the total",
        "in main, the lines are read twice",
        "Make it faster.",
        "what is an order?",
        "",
    ],
)
def test_words_of_english_name_nothing(shop: RepositoryIndex, text: str) -> None:
    found = references(text, shop)
    assert found.symbols == ()
    assert found.paths == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("edit shop/orders.py", ["shop/orders.py"]),
        ("edit orders.py, then cli.py.", ["shop/orders.py", "shop/cli.py"]),
        ("edit `shop/orders`", ["shop/orders.py"]),
        ("in shop.orders the sum is wrong", ["shop/orders.py"]),
        ("the orders module", ["shop/orders.py"]),
        ("the file cli", ["shop/cli.py"]),
        ("see README.md", ["README.md"]),
        ("edit shop/nothing.py", []),
        ("e.g. this, i.e. that, version 1.2.3 of example.org/shop", []),
    ],
)
def test_files_that_a_text_names(shop: RepositoryIndex, text: str, expected: list[str]) -> None:
    assert list(references(text, shop).paths) == expected


def test_a_definition_in_a_named_file_is_preferred(tmp_path: Path) -> None:
    files = {"a.py": "def load_all(): pass\n", "b.py": "def load_all(): pass\n"}
    index = RepositoryIndex(make_repository(tmp_path, files), deadline=60)
    assert symbols(references("fix load_all", index)) == ["a.py:load_all", "b.py:load_all"]
    assert symbols(references("fix load_all in b.py", index)) == ["b.py:load_all"]


def test_a_pasted_traceback_names_its_places_and_not_its_code(shop: RepositoryIndex) -> None:
    text = f"""It fails:

Traceback (most recent call last):
  File "{shop.root}/shop/report.py", line 7, in report_lines
    return [f"{{order_total(order):.2f}}" for order in orders if not order.is_empty()]
  File "/usr/lib/python3/json/decoder.py", line 3, in decode
    obj, end = self.raw_decode(s)
  File "shop/rates.py", line 8, in rounded
    return round(amount, 2)
TypeError: type NoneType doesn't define __round__ method
"""
    found = references(text, shop)
    assert found.lines == (("shop/report.py", 7), ("shop/rates.py", 8))
    assert symbols(found) == ["shop/report.py:report_lines", "shop/rates.py:rounded"]
    assert found.paths == ("shop/report.py", "shop/rates.py")
    assert "raw_decode" not in found.identifiers


def test_tests_commands_and_quoted_texts(shop: RepositoryIndex) -> None:
    found = references(
        "Run `pytest -q tests/test_orders.py` until tests/test_orders.py::test_patched[a b] passes; "
        'the message "not found here" and the option --dry-run are new',
        shop,
    )
    assert found.commands == ("pytest -q tests/test_orders.py",)
    assert found.tests == ("tests/test_orders.py::test_patched[a b]",)
    assert found.paths == ("tests/test_orders.py",)
    assert "not found here" in found.quoted
    assert "--dry-run" in found.quoted


def test_names_that_are_still_to_be_made(shop: RepositoryIndex) -> None:
    found = references("Rename order_total to grand_total and add a class `PriceList`", shop)
    assert symbols(found) == ["shop/orders.py:order_total"]
    assert found.identifiers == ("grand_total", "PriceList")


def test_what_is_local_to_a_function_is_not_named(shop: RepositoryIndex) -> None:
    assert symbols(references("fix line_text", shop)) == []


def test_typescript_and_go(tmp_path: Path) -> None:
    script = RepositoryIndex(make_repository(tmp_path / "script", SCRIPT), deadline=60)
    assert symbols(references("Cart#grandTotal is NaN at cart.ts:12:5", script)) == [
        "src/cart.ts:Cart.grandTotal"
    ]
    go = RepositoryIndex(make_repository(tmp_path / "go", GO), deadline=60)
    found = references("panic at orders/orders.go:7 +0x1b in PriceWithTax", go)
    assert symbols(found) == ["orders/orders.go:OrderTotal", "orders/line.go:Line.PriceWithTax"]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            ["order_total", "`total`", "shop/", ".py", ":", "::", 'File "', '", line ', "(", "1", "\n", " "]
        )
        | st.text(max_size=5),
        max_size=20,
    ).map("".join)
)
def test_any_text_can_be_read(shop: RepositoryIndex, text: str) -> None:
    found = references(text, shop)
    assert set(found.paths) <= set(shop.paths)
    assert len(set(found.symbols)) == len(found.symbols)


@pytest.mark.parametrize(
    "word", ["total", "open", "orders", "adding", "failed", "Report", "is", "x", "update"]
)
def test_plain_words(word: str) -> None:
    assert is_plain(word)


@pytest.mark.parametrize("word", ["tokenise", "order_total", "OrderTotal", "renumber", "VAT_RATE"])
def test_words_that_can_be_names(word: str) -> None:
    assert not is_plain(word)


def test_names_behind_pasted_data_and_many_words_are_found(shop: RepositoryIndex) -> None:
    words = " ".join(f"word{'abcdefghij'[number % 10]}{number}" for number in range(500))
    found = references(f"{'QUJD' * 1000} {words} and order_total", shop)
    assert symbols(found) == ["shop/orders.py:order_total"]
