"""Names in prompts, and the words that texts are compared by."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_local.excerpts import Name, prompt_names
from pace_local.excerpts.names import looks_like_name, named_files, names_in_prose
from pace_local.excerpts.words import word_terms

# How long one example takes says nothing on a busy machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def named(prompt: str) -> str:
    """The names of a prompt, written short: ``name``, ``name?`` if it is not sure, ``"phrase"``."""
    return " ".join(
        f'"{name.text}"' if name.is_phrase else name.text + "?" * (not name.is_sure)
        for name in prompt_names(prompt)
    )


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("What discount do gold customers get?", ""),
        ("What does parse_order do?", "parse_order"),
        ("What is `rate`?", "rate"),
        ("What is `rate = parse(x)` for?", "rate parse"),
        ("What do ``Order.total()`` and `Claim::payout` give?", "Order.total Claim.payout"),
        ("Explain total() and split(a, b).", "total split"),
        ("Explain Order#total and self->rate", "Order.total? self.rate?"),
        ("Is the customer(s) list empty, or the branch(es)?", ""),
        ("Where is maxLines set, and OrderBook?", "maxLines OrderBook"),
        ("Why MAX_LINES and SHA256 and RATE?", "MAX_LINES SHA256 RATE?"),
        ("How does __init__ differ from _hidden?", "__init__ _hidden"),
        ("Does Order keep a State? Then say so. And Line too.", "Order? State? Line?"),
        ("The thing. What is it? Nothing here.", ""),
        ("Look at orders.total, e.g. in a loop, i.e. here.", "orders.total?"),
        ("Use np.random.default_rng please", "np.random.default_rng"),
        ("What is 'gold tier' and \"silver\"?", '"gold tier" "silver" silver?'),
        ("the customer's and the shop's names", ""),
        ("“Not found” appears", '"Not found"'),
        ("What do --dry-run and -fast do, well-known - as ever?", '"--dry-run" "-fast"'),
        ("What do `--dry-run` and `idle-minutes` do?", '"--dry-run" "idle-minutes"'),
        ("rate rate `rate` parse_it parse_it", "rate parse_it"),
        ("Order.total and `Order.total` and the Order.total", "Order.total"),
        ("", ""),
        ("größe_max and naïveCase", "größe_max"),
    ],
)
def test_names_of_a_prompt(prompt: str, expected: str) -> None:
    assert named(prompt) == expected


def test_leaf_of_a_name() -> None:
    assert Name("a.b.c", True).leaf == "c"
    assert Name("a. b", True, True).leaf == "a. b"


@unhurried
@given(st.text())
def test_any_prompt_gives_distinct_names_that_it_holds(prompt: str) -> None:
    names = prompt_names(prompt)
    assert len({(name.text, name.is_phrase) for name in names}) == len(names)
    for name in names:
        assert name.leaf in prompt
        assert name.text.strip()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("parse_order", True),
        ("parseOrder", True),
        ("ParseOrder", True),
        ("HTTPServer", True),
        ("MAX_LINES", True),
        ("UTF8", True),
        ("a.b_c", True),
        ("_x", True),
        ("order", False),
        ("Order", False),
        ("RATE", False),
        ("a.b", False),
        ("x1", False),
        ("_", False),
        ("URLs", False),
    ],
)
def test_form_of_a_name(word: str, expected: bool) -> None:
    assert looks_like_name(word) is expected


def test_names_in_prose() -> None:
    text = "Set `a.b` and `x = 1`, call run(now) or Shop::open(); keep MAX, OrderBook, not Order."
    assert set(names_in_prose(text)) == {"a", "b", "x", "run", "Shop", "open", "MAX", "OrderBook"}


PATHS = ["src/orders.py", "tests/orders.py", "docs/my guide.md", "Makefile", "license", "a.py", "x-orders.py"]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("What is in orders.py?", ["src/orders.py", "tests/orders.py"]),
        ("What is in src/orders.py?", ["src/orders.py"]),
        ("What is in ./tests/orders.py.", ["tests/orders.py"]),
        ("What is in tests\\orders.py, please", ["tests/orders.py"]),
        ("Read `Orders.PY` now", ["src/orders.py", "tests/orders.py"]),
        ("The my guide.md says", ["docs/my guide.md"]),
        ("Which targets has the Makefile?", ["Makefile"]),
        ("Under which license is this?", []),
        ("Look at data.py and orders.pyc and orders.py2", []),
        ("Look at x-orders.py", ["x-orders.py"]),
        ("Compare a.py to x-orders.py", ["a.py", "x-orders.py"]),
        ("No file", []),
    ],
)
def test_files_that_a_prompt_names(prompt: str, expected: list[str]) -> None:
    assert named_files(prompt, PATHS) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("discounts", "discount"),
        ("charged", "charging"),
        ("charges", "charge"),
        ("rated", "rates"),
        ("shipped", "shipping"),
        ("ships", "ship"),
        ("policies", "policy"),
        ("carried", "carry"),
        ("boxes", "box"),
        ("batches", "batch"),
        ("addresses", "address"),
        ("added", "add"),
        ("rated", "rating"),
        ("notes", "note"),
        ("noted", "note"),
        ("sizing", "sizes"),
        ("stored", "store"),
        ("running", "run"),
        ("fixed", "fix"),
        ("delayed", "delay"),
        ("GOLD", "gold"),
        ("Straße", "STRASSE"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert word_terms(one) == word_terms(other)


@pytest.mark.parametrize(
    ("one", "other"), [("notes", "not"), ("rated", "rat"), ("string", "str"), ("process", "proces")]
)
def test_different_words_are_different_terms(one: str, other: str) -> None:
    assert word_terms(one) != word_terms(other)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("parse_order", ("pars", "order", "parsorder")),
        ("parseOrder", ("pars", "order", "parsorder")),
        ("PARSE_ORDER", ("pars", "order", "parsorder")),
        ("HTTPServer2", ("http", "server", "2", "httpserver2")),
        ("_x", ("x",)),
        ("53", ("53",)),
        ("class", ("class",)),
        ("status", ("status",)),
        ("less", ("less",)),
        ("king", ("king",)),
        ("red", ("red",)),
        ("ユーザー名", ("ユー", "ーザ", "ザー", "ー名")),
        ("数値", ("数値",)),
        ("größe", ("grösse",)),
    ],
)
def test_terms_of_a_word(word: str, expected: tuple[str, ...]) -> None:
    assert word_terms(word) == expected


@unhurried
@given(st.text())
def test_any_word_has_terms_of_lower_case(word: str) -> None:
    assert all(term and term == term.casefold() for term in word_terms(word))


def test_data_is_no_word() -> None:
    assert word_terms("aB" * 5_000) == ("ab" * 40,)
