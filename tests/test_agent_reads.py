from __future__ import annotations

from pathlib import Path

import pytest
from agent_repositories import GO, PYTHON, SCRIPT, line_count, make_repository
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pace_agent.planning.reads import Excerpt, Known, Reads, complete_reads
from pace_agent.repository.file_outline import outline_text
from pace_agent.repository.index import RepositoryIndex

LARGE = "shop/large.py"
FILES = PYTHON | {
    LARGE: '"""Large."""\n\nfrom shop.rates import rounded\n\n\n'
    + "\n\n".join(f"def part_{number}(value):\n" + "    value += 1\n" * 8 for number in range(30))
    + "\n\nclass Wide:\n"
    + "".join(f"    def method_{number}(self):\n" + "        pass\n" * 5 for number in range(20)),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("shop"), FILES), deadline=60)


def reads(
    index: RepositoryIndex,
    text: str = "",
    named: tuple[str, ...] = (),
    *,
    known: tuple[Known, ...] = (),
    always: tuple[str, ...] = (),
    budget: int = 10_000,
) -> Reads:
    return complete_reads(
        text, named, index, known=known, always=always, budget_tokens=budget, count=line_count
    )


def symbols(found: Reads) -> list[str]:
    return [one.symbol for one in found.missing]


def text_of(one: Excerpt, index: RepositoryIndex) -> str:
    if one.is_outline:
        whole = index.text_of(one.path) or ""
        return outline_text(whole, one.path, one.most_characters, first=one.first, last=one.last)
    return index.lines_of(one.path, one.first, one.last)


def test_a_symbol_is_read_as_its_definition_with_what_it_uses(shop: RepositoryIndex) -> None:
    """One hop: the same file first, then what it imports, the smaller first; not what nothing there uses."""
    found = reads(shop, "Make it right", ("order_total",))
    assert symbols(found) == ["order_total", "SHIPPING_COST", "Order.total", "VAT_RATE", "rounded"]
    assert found.missing[0].why == "listed for this step"
    assert found.reasons["shop/rates.py:7-8"] == "order_total uses it"
    assert shop.lines_of("shop/rates.py", 7, 8).startswith("def rounded")


def test_what_the_text_names_comes_behind_what_was_listed(shop: RepositoryIndex) -> None:
    found = reads(shop, "Let `report_lines` round", ("rounded",))
    assert symbols(found)[:2] == ["rounded", "report_lines"]
    assert found.reasons[found.missing[1].name] == "the step names it"


def test_a_small_file_is_read_whole_and_a_large_one_in_outline(shop: RepositoryIndex) -> None:
    small = reads(shop, named=("shop/rates.py",)).missing
    assert [(one.path, one.first, one.last, one.is_outline) for one in small] == [
        ("shop/rates.py", 1, 12, False)
    ]
    (large,) = reads(shop, named=(LARGE,), budget=400).missing
    assert large.is_outline
    assert large.tokens <= 100
    assert "def part_0(value):" in text_of(large, shop)


def test_a_definition_comes_before_the_outline_of_its_file(shop: RepositoryIndex) -> None:
    found = reads(shop, named=(LARGE, f"{LARGE}:part_7"), budget=400)
    assert [(one.symbol, one.is_outline) for one in found.missing] == [("part_7", False), ("", True)]


def test_lines_can_be_listed(shop: RepositoryIndex) -> None:
    found = reads(shop, named=("shop/rates.py:3-4",))
    assert [(one.first, one.last) for one in found.missing] == [(3, 4)]
    found = reads(shop, named=("shop/rates.py:8",))
    assert symbols(found) == ["rounded"]
    found = reads(shop, named=("shop/rates.py:3-4000",))
    assert (found.missing[0].first, found.missing[0].last) == (3, 12)


def test_a_segment_that_holds_the_lines_takes_their_place(shop: RepositoryIndex) -> None:
    (place,) = shop.definitions_of("rounded")
    known = (
        Known("stale", "shop/rates.py", 1, 12, stale=True),
        Known("wide", "shop/rates.py", 1, 12),
        Known("own", "shop/rates.py", place.first, place.last),
        Known("other", "shop/cli.py", 1, 50),
    )
    found = reads(shop, named=("rounded",), known=known)
    assert (found.segments, found.missing) == (("own",), ())
    found = reads(shop, named=("rounded",), known=known[:2])
    assert (found.segments, found.missing) == (("wide",), ())
    found = reads(shop, named=("rounded",), known=known[:1])
    assert (found.segments, symbols(found)) == ((), ["rounded"])


def test_segments_that_hold_the_lines_together(shop: RepositoryIndex) -> None:
    halves = (Known("a", "shop/rates.py", 1, 7), Known("b", "shop/rates.py", 8, 12))
    assert reads(shop, named=("shop/rates.py",), known=halves).segments == ("a", "b")
    gap = (halves[0], Known("b", "shop/rates.py", 9, 12))
    assert reads(shop, named=("shop/rates.py",), known=gap).segments == ()


def test_a_large_segment_is_not_taken_for_a_few_lines(shop: RepositoryIndex) -> None:
    known = (Known("whole", LARGE, 1, 400),)
    found = reads(shop, named=(f"{LARGE}:part_7",), known=known, budget=2_000)
    assert found.segments == ()
    assert symbols(found) == ["part_7"]


def test_segments_can_be_listed_by_name(shop: RepositoryIndex) -> None:
    found = reads(
        shop, named=("tool:3", "gone:1"), known=(Known("tool:3", tokens=50),), always=("rules", "user:1")
    )
    assert found.segments == ("rules", "user:1", "tool:3")
    assert found.left_out == ("gone:1",)
    found = reads(shop, named=("tool:3",), known=(Known("tool:3", tokens=50),), budget=49)
    assert (found.segments, found.left_out) == ((), ("tool:3",))


def test_the_outline_of_a_file_may_be_there_already(shop: RepositoryIndex) -> None:
    found = reads(shop, named=(LARGE,), known=(Known("outline", LARGE, 0, 0, tokens=80),), budget=400)
    assert (found.segments, found.missing) == (("outline",), ())


def test_what_does_not_fit_is_cut_and_then_left_out(shop: RepositoryIndex) -> None:
    found = reads(shop, named=(f"{LARGE}:part_1",), budget=12)
    (one,) = found.missing
    assert one.why == "listed for this step; cut"
    assert one.last < shop.definitions_of("part_1")[0].last
    assert reads(shop, named=(f"{LARGE}:part_1",), budget=1).left_out == (f"{LARGE}:part_1",)
    assert reads(shop, named=("order_total",), budget=0).missing == ()


def test_named_reads_leave_half_of_the_budget_to_what_they_use(shop: RepositoryIndex) -> None:
    named = tuple(f"{LARGE}:part_{number}" for number in range(20))
    found = reads(shop, named=("order_total", *named), budget=300)
    used = found.missing.index(next(one for one in found.missing if "uses it" in one.why))
    assert sum(one.tokens for one in found.missing[:used]) <= 150
    assert sum(one.tokens for one in found.missing) > 250  # what is left over goes to what was named


def test_a_large_type_that_is_used_is_read_in_outline(tmp_path: Path) -> None:
    files = {
        "wide.py": FILES[LARGE][FILES[LARGE].index("class Wide") :],
        "user.py": "from wide import Wide\n\n\ndef made():\n    return Wide()\n",
    }
    index = RepositoryIndex(make_repository(tmp_path, files), deadline=60)
    found = reads(index, named=("made",), budget=600)
    assert [(one.symbol, one.is_outline) for one in found.missing] == [("made", False), ("Wide", True)]


def test_typescript_and_go(tmp_path: Path) -> None:
    script = RepositoryIndex(make_repository(tmp_path / "script", SCRIPT), deadline=60)
    assert symbols(reads(script, named=("Cart.grandTotal",))) == ["Cart.grandTotal", "toCents"]
    go = RepositoryIndex(make_repository(tmp_path / "go", GO), deadline=60)
    assert set(symbols(reads(go, named=("OrderTotal",)))) == {
        "OrderTotal",
        "Line",
        "Line.PriceWithTax",
        "roundedSum",
    }


NAMES = st.sampled_from(
    [
        "order_total",
        "Order",
        "rounded",
        LARGE,
        "shop/orders.py",
        "shop/cli.py:3-9",
        "Wide",
        "nothing",
        "seg1",
        "main",
        "",
    ]
)
KNOWN = st.builds(
    Known,
    st.sampled_from(["seg1", "seg2", "seg3"]),
    st.sampled_from([LARGE, "shop/orders.py", "shop/rates.py"]),
    st.integers(0, 20),
    st.integers(20, 60),
    st.booleans(),
    st.integers(1, 200),
)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(NAMES, max_size=6),
    st.lists(KNOWN, max_size=3, unique_by=lambda one: one.segment),
    st.integers(0, 1500),
    st.sampled_from(["", "Fix order_total and report_lines", f"Split {LARGE}"]),
)
@example([LARGE, "Wide"], [], 40, "")
def test_the_budget_is_never_exceeded(
    shop: RepositoryIndex, named: list[str], known: list[Known], budget: int, text: str
) -> None:
    found = reads(shop, text, tuple(named), known=tuple(known), budget=budget)
    costs = {one.segment: one.tokens for one in known}
    real = [line_count(text_of(one, shop)) for one in found.missing]
    assert real == [one.tokens for one in found.missing]
    assert sum(costs[name] for name in found.segments) + sum(real) <= budget
    assert len(set(found.segments)) == len(found.segments)
    assert not {one.segment for one in known if one.stale} & set(found.segments)
    assert set(found.reasons) == {*found.segments, *(one.name for one in found.missing)}
    whole = [one for one in found.missing if not one.is_outline]
    lines = [(one.path, line) for one in whole for line in range(one.first, one.last + 1)]
    assert all(1 <= one.first <= one.last for one in whole)
    if not known and not any(":" in name for name in named):
        # A type and something in it may both be named; else no line is read twice.
        nested = {"Order", "Wide"} & set(named)
        assert nested or len(set(lines)) == len(lines)


@settings(deadline=None)
@given(st.integers(0, 4_000), st.sampled_from(sorted(FILES)))
def test_an_outline_keeps_to_its_size(most: int, path: str) -> None:
    text = FILES[path]
    shown = outline_text(text, path, most)
    assert len(shown) <= most
    lines = text.splitlines()
    for line in shown.splitlines():
        if not line.startswith("…"):
            number, _, rest = line.partition(": ")
            assert lines[int(number) - 1].startswith(rest.removesuffix("…"))


def test_an_outline_leaves_out_what_is_deepest_first() -> None:
    text = PYTHON["shop/orders.py"]
    whole = outline_text(text, "orders.py", 10_000)
    assert whole.splitlines()[:3] == [
        "7: SHIPPING_COST = 5",
        "10: class Order:",
        "13:     def __init__(self, lines):",
    ]
    assert "line_text" in whole
    part = outline_text(text, "orders.py", 120)
    assert "10: class Order:" in part
    assert "line_text" not in part
    assert part.splitlines()[-1].startswith("… ")
    assert outline_text(text, "orders.py", 10_000, first=10, last=20).splitlines()[0] == "10: class Order:"
    assert outline_text("just\n\nwords\n", "a.md", 100) == "1: just\n3: words"
    assert outline_text("", "a.py", 100) == ""
