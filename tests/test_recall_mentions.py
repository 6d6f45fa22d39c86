"""Names that a text mentions and only evicted segments define."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_texts import NAMES, specifications, unlike_texts

from pace_local.recall import MentionIndex
from pace_local.recall.definitions import Definitions, definitions_of, is_common, owned


def leaves(text: str, name: str) -> set[str]:
    return {key for key in definitions_of(text, name).keys if "." not in key}


def index_of(*segments: tuple[str, str]) -> MentionIndex:
    """Of segments given by name and text, numbered from 0."""
    index = MentionIndex()
    for at, (name, text) in enumerate(segments):
        index.add(at, text, name)
    return index


SPECS = index_of(*((f"spec:{module}", text) for module, text in specifications().items()))
ALIKE = index_of(*((f"spec:{module}", text) for module, text in specifications(common_names=True).items()))
ALL = range(len(NAMES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RATE is 53 percent. MAX_ITEMS is 17.", {"RATE", "MAX_ITEMS"}),
        ("- `total(order)`: the sum.\n* **`add_tax(net, rate)`** is applied", {"total", "add_tax"}),
        (
            "Function `place_order(items)` comes first; method `Order.total()` second",
            {"place_order", "total"},
        ),
        ("`round_cents(x)` returns whole cents", {"round_cents"}),
        ("place_order(items) -> Order: checks\nThen cancel_order(id) is free", {"place_order"}),
        ("1. cancel_order(id) removes it", {"cancel_order"}),
        ("limit_days = 3, and maxRetries means five", {"limit_days", "maxRetries"}),
        ("Please call `total_sum(order)` and then `add_tax(net)`, see RATE and MAX_ITEMS.", set()),
        ("The rate is 5. It = that. A: b. The Order is new.", set()),
        ("if limit_days == 3 then", set()),
        (
            "The function `new_order` has four parameters. A class **`Order`** has exactly two named fields.",
            {"new_order", "Order"},
        ),
        ("The function `new_order` has a bug. Give the function `total_sum` one parameter more.", set()),
        ("Which function has four parameters: `new_order`?", set()),
        ("- `class Parcel` holds it; `def send_all()` sends `class`", {"Parcel", "send_all"}),
        ("~~~\nLIMIT = 3\n  local_sum = 4\n~~~\n````go\nfunc SendAll() {\n```\n}\n", {"LIMIT", "SendAll"}),
        (
            "Sure:\n\n```python\ndef place_order(items):\n    local_sum = 1\n    return local_sum\n```\n",
            {"place_order"},
        ),
    ],
)
def test_what_prose_defines(text: str, expected: set[str]) -> None:
    assert leaves(text, "user:1") == expected


@pytest.mark.parametrize(
    ("name", "some", "used"),
    [
        ("orders.py", {"Order", "MAX_LINES", "parse_order"}, {"Decimal", "self", "dataclass"}),
        ("inventory.go", {"Warehouse", "Reserve", "reorderBatch"}, {"string", "errors"}),
        ("shipping.ts", {"CarrierClient", "backoffMillis"}, {"string", "Promise"}),
        ("refunds.rs", {"Claim", "RETURN_WINDOW", "as_voucher"}, {"Self", "Option"}),
        ("Ledger.java", {"Ledger", "LOCK_AFTER_DAYS"}, {"String", "List"}),
        ("scale.c", {"scale_read", "FRAME_BYTES"}, {"uint8_t"}),
        ("deploy.sh", {"KEEP_RELEASES"}, {"curl"}),
        ("settings.toml", {"pool_size", "cookie_name"}, {"true"}),
        ("loyalty.md", {"EXPIRY_GRACE_DAYS", "grantPoints"}, set[str]()),
    ],
)
def test_what_files_define(name: str, some: set[str], used: set[str]) -> None:
    found = leaves(unlike_texts()[name], f"{name}:1-90#2")
    assert some <= found
    assert not used & found


def test_code_defines_what_others_can_name() -> None:
    text = (
        "import os\nRATE = 53\n\nclass Order:\n    limit_days = 3\n"
        "    def __init__(self):\n        self.lines_left = 1\n"
        "    def total(self, tax):\n        net_sum = tax\n        return net_sum\n"
    )
    found = definitions_of(text, "shop/orders.py:10-42#3")
    assert found.source == "shop/orders.py"
    assert leaves(text, "orders.py") == {"RATE", "Order", "limit_days", "__init__", "lines_left", "total"}
    assert {"order.total", "order.RATE", "order.limit_days"} <= found.keys
    assert not {"net_sum", "tax", "os"} & found.keys


def test_excerpts_shown_between_fences_are_read_as_code() -> None:
    shown = "orders.py:10-12\n```python\nclass Order:\n    def total(self):\n        return 1\n```\n"
    assert {"Order", "total"} <= leaves(shown, "orders.py:10-12")


def test_a_text_that_defines_nothing() -> None:
    assert definitions_of("Hello there.", "user:1") == Definitions("user:1", frozenset())
    assert definitions_of("", "orders.py").keys == frozenset()
    index = index_of(("user:1", "Hello"), ("user:2", ""))
    assert len(index) == 0
    assert index.defines(0) == frozenset()


@settings(deadline=None, max_examples=50)
@given(
    text=st.text(max_size=300), name=st.sampled_from(["user:1", "a.py", "b.ts", "c.md", "d.toml", "e.zig"])
)
def test_any_text_can_be_read(text: str, name: str) -> None:
    index = index_of((name, text))
    assert index.candidates(text, {0}) in ([], [0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write the function `place_order(items)` now.", ["orders"]),
        ("What does place_order do?", ["orders"]),
        ("Then void_invoice and send_parcel.", ["shipping", "billing"]),
        ("issue_invoice, void_invoice, TAX; and send_parcel", ["billing", "shipping"]),
        ("What is TAX?", ["billing"]),
        ("An Invoice inside the sentence: the Invoice holds what?", ["billing"]),
        ("invoice, tax and parcel are plain words; so is Invoice", ["billing"]),
        ("invoice, tax and parcel are plain words", []),
        ("place_orders and PLACE_ORDER are other names", []),
        ("Nothing is named here. It is what it is.", []),
        ("", []),
    ],
)
def test_the_only_definer_of_a_mentioned_name_is_found(text: str, expected: Sequence[str]) -> None:
    assert [NAMES[segment] for segment in SPECS.candidates(text, ALL)] == expected


def test_a_resident_segment_is_no_candidate() -> None:
    assert SPECS.candidates("place_order and issue_invoice", {1}) == [1]
    assert SPECS.candidates("place_order and issue_invoice", set()) == []


@pytest.mark.parametrize(
    "text",
    [
        "What is the discount RATE of the orders API, in percent?",
        "`orders.RATE`, please",
        "Order.RATE?",
        "RATE and MAX_ITEMS for Orders",
    ],
)
def test_an_owner_tells_look_alikes_apart(text: str) -> None:
    """Eight segments define RATE; the word beside it says whose is meant, also while others are resident."""
    assert ALIKE.candidates(text, ALL) == [0]
    assert ALIKE.candidates(text, {0, 3}) == [0]
    assert ALIKE.candidates(text, set(ALL) - {0}) == []


def test_a_name_that_many_define_brings_nothing() -> None:
    assert ALIKE.candidates("What is the RATE?", ALL) == []
    few = index_of(*((f"spec:{name}", "RATE is 5.") for name in NAMES[:3]))
    assert few.candidates("What is the RATE?", range(3)) == [2, 1, 0]
    assert few.candidates("What is the RATE?", range(2)) == []  # one that defines it is resident


def test_of_a_file_read_twice_the_last_time_counts() -> None:
    index = index_of(
        ("orders.py:1-20", "def place_order(): ...\ndef old_rule(): ...\n"),
        ("orders.py:10-42#2", "def place_order(): ...\n"),
    )
    assert index.candidates("place_order", {0, 1}) == [1]
    assert index.candidates("place_order", {1}) == [1]  # the old one may be out of date
    assert index.candidates("place_order", {0}) == []
    assert index.candidates("old_rule", {0, 1}) == [0]


def test_an_answer_that_implements_it_defines_a_name_too() -> None:
    index = index_of(
        ("spec:orders", "`place_order(items)` returns an Order. LIMIT_DAYS is 3."),
        ("answer:2", "```python\ndef place_order(items):\n    return None\n```"),
    )
    assert index.candidates("Call place_order.", {0, 1}) == [1, 0]
    assert index.candidates("Call place_order.", {0}) == []
    assert index.candidates("Call place_order with LIMIT_DAYS.", {0, 1}) == [0, 1]


def test_names_that_are_everywhere_need_an_owner() -> None:
    index = index_of(
        ("cache.py", "class Cache:\n    def pop(self): ...\n    def append(self): ...\n\ndef main(): ...\n")
    )
    for text in ("d.pop(1)", "`append(x)`", "call main()", "pop() it"):
        assert index.candidates(text, {0}) == []
    for text in ("Cache.pop", "cache.append(1)", "pop() of the cache", "`cache.main()`"):
        assert index.candidates(text, {0}) == [0]
    assert all(map(is_common, ["get", "items", "print", "main", "name", "__init__", "Name"]))
    assert not any(map(is_common, ["place_order", "RATE", "OrderBook"]))


def test_an_owners_form_does_not_matter() -> None:
    assert owned("orders", "total") == owned("Order", "total") == owned("ORDER", "total")
    assert owned("OrderBook", "total") == owned("order_book", "total") == owned("orderBooks", "total")
    assert owned("order", "total") != owned("book", "total")


def test_withdrawn_and_replaced_segments_are_forgotten() -> None:
    index = index_of(
        ("a.py", "def first_one(): ..."), ("b.py", "def second_one(): ..."), ("c.py", "def third_one(): ...")
    )
    index.remove_from(1)
    assert index.candidates("first_one second_one third_one", range(9)) == [0]
    index.add(0, "def other_one(): ...", "a.py")
    assert index.defines(0) == {"other_one"}
    assert index.candidates("first_one", range(9)) == []
    index.add(0, "Nothing.", "user:1")
    index.remove_from(0)
    index.remove_from(0)
    assert len(index) == 0
    assert index._sources == {}


names = st.sampled_from([f"name_{letter}" for letter in "abcdef"])


@settings(deadline=None, max_examples=50)
@given(
    texts=st.lists(st.sets(names), max_size=7),
    end=st.integers(0, 7),
    evicted=st.sets(st.integers(0, 7)),
    asked=st.lists(names, unique=True, max_size=4),
)
def test_the_rule_against_a_slow_reading_of_it(
    texts: list[set[str]], end: int, evicted: set[int], asked: list[str]
) -> None:
    index = MentionIndex()
    for segment, defined in enumerate(texts):
        index.add(segment, "".join(f"def {name}(): ...\n" for name in sorted(defined)), f"f{segment % 5}.py")
    index.remove_from(end)
    scores: dict[int, float] = {}
    for name in asked:
        last = {segment % 5: segment for segment, defined in enumerate(texts[:end]) if name in defined}
        if 0 < len(last) <= 3 and set(last.values()) <= evicted:
            for segment in last.values():
                scores[segment] = scores.get(segment, 0) + 1 / len(last)
    expected = sorted(scores, key=lambda segment: (-round(scores[segment], 9), -segment))
    found = index.candidates(" and ".join(asked), evicted)
    assert sorted(found) == sorted(expected)
    assert [round(scores[one], 9) for one in found] == [round(scores[one], 9) for one in expected]


class CountingSet(set[int]):
    """Counts how often it is asked."""

    asked = 0

    def __contains__(self, item: object) -> bool:
        self.asked += 1
        return super().__contains__(item)


def test_many_segments_cost_no_more_than_few() -> None:
    index = MentionIndex()
    for segment in range(2_000):
        index.add(segment, f"RATE is {segment}. `make_part_{segment}(x)` returns it.", f"spec:part{segment}")
    evicted = CountingSet(range(2_000))
    assert index.candidates("What is RATE? And make_part_77, make_part_1500?", evicted) == [1500, 77]
    assert evicted.asked <= 4
    index.remove_from(1_990)
    assert len(index) == 1_990
    assert index.candidates("make_part_1995", evicted) == []


def test_a_store_does_not_bring_grammars() -> None:
    """A session needs the store at once, and the index of names only when it first looks for one."""
    code = (
        "import sys, pace_local.recall as recall\n"
        "def heavy(): return [name for name in sys.modules if 'tree_sitter' in name or 'excerpts' in name]\n"
        "before = heavy()\n"
        "recall.MentionIndex()\n"
        "print(before, bool(heavy()), hasattr(recall, 'Mentions'))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[] True False\n"
