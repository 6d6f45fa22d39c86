"""Picking: what comes first and why, and what fits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_local.errors import ConfigError
from pace_local.excerpts import Excerpt, ExcerptIndex, Pick, cut, pick
from pace_local.files import SourceText

ROOT = Path(__file__).parent.parent

# How long one example takes says nothing on a busy machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def quarter(text: str) -> int:
    return len(text) // 4


def excerpts_of(files: dict[str, str], max_tokens: int = 30) -> list[Excerpt]:
    return [
        excerpt
        for path, text in files.items()
        for excerpt in cut(SourceText(path, text, "utf-8", "\n"), max_tokens, quarter)
    ]


def reasons(picks: list[Pick]) -> list[str]:
    return [one.reason for one in picks]


def function(name: str, body: str) -> str:
    return f"def {name}(a, b, c):\n    first = a + b + c\n    second = first * a\n    return {body}\n\n\n"


FILES = {
    "rates.py": "RATE = 53  # what one parcel costs in cents, before anything is taken off from that\n\n\n"
    + "LIMIT = 9  # so many parcels are sent on one day, not more, and the others have to wait\n\n\n",
    "orders.py": function("total", "second * RATE")
    + function("weight", "second - 1")
    + function("ship", "total(a, b, c) + weight(a, b, c)"),
    "notes.md": "# Notes\n\nThe total of an order is checked by `total_check` each night, at two.\n\n"
    "# More\n\nGold customers pay less for express parcels, silver ones pay as all the others do.\n",
}


@pytest.fixture(scope="module")
def excerpts() -> list[Excerpt]:
    found = excerpts_of(FILES)
    assert len(found) >= 7
    return found


def test_definitions_then_what_they_use_then_mentions(excerpts: list[Excerpt]) -> None:
    picks = pick("What does `total` multiply by?", excerpts, 1_000, quarter)
    assert reasons(picks)[:3] == ["defines total", "defines RATE, used by total", "mentions total"]
    assert picks[0].excerpt.names == ("total",)
    assert picks[1].excerpt.names == ("RATE",)
    assert "ship" in picks[2].excerpt.names
    assert all(reason.startswith("bm25") for reason in reasons(picks)[3:])


def test_constants_come_before_other_definitions_that_are_used() -> None:
    files = {
        "a.py": function("helper", "a") + function("main", "helper(first, 1, 2) + FEE"),
        "b.py": "FEE = 3\n",
    }
    found = reasons(pick("Explain `main`", excerpts_of(files), 1_000, quarter))
    assert found[:3] == ["defines main", "defines FEE, used by main", "defines helper, used by main"]


def test_only_the_named_definition_counts_for_what_is_used() -> None:
    """An excerpt may hold several definitions; what its others use is not followed."""
    files = {
        "a.py": "def one():\n    return FEE\n\n\ndef two():\n    return TAX\n",
        "b.py": "FEE = 1\n",
        "c.py": "TAX = 2\n",
    }
    found = reasons(pick("Explain `one`", excerpts_of(files, 400), 1_000, quarter))
    assert "defines FEE, used by one" in found
    assert not any("TAX" in reason for reason in found)


def test_a_local_name_is_not_taken_for_another_files_definition() -> None:
    files = {"a.py": "def one(order):\n    return order\n", "b.py": "def order():\n    return 1\n"}
    assert reasons(pick("Explain `one`", excerpts_of(files), 1_000, quarter)) == ["defines one"]


def test_a_prompt_without_names_goes_by_words(excerpts: list[Excerpt]) -> None:
    picks = pick("What discount do gold customers get?", excerpts, 1_000, quarter)
    assert "Gold customers" in picks[0].excerpt.text
    assert picks[0].reason.startswith("bm25 ")
    assert picks[0].score > 0


def test_words_are_found_inside_identifiers_and_in_other_forms() -> None:
    files = {"a.py": function("computeShippingFees", "1"), "b.py": function("other", "2")}
    (only,) = pick("shipping fee?", excerpts_of(files), 1_000, quarter)
    assert only.excerpt.names == ("computeShippingFees",)


def test_a_prompt_without_names_brings_the_constants_of_the_best_excerpt() -> None:
    files = {
        "a.py": function("refuse_heavy_parcels", "WAIT + a > MAX_GRAMS"),
        "b.py": "MAX_GRAMS = 31_500\n",
        "d.py": "WAIT = 1\n",
        **{f"c{at}.py": function(f"parcel_{at}", "1") for at in range(9)},
    }
    picks = pick("How many grams may heavy parcels have?", excerpts_of(files), 200, quarter)
    assert reasons(picks)[1] == "defines MAX_GRAMS, used at a.py:1"


def test_words_in_a_row_are_found_as_one_identifier() -> None:
    files = {
        f"f{at}.py": f"position = cap + {at}  # the position of the cap, and the cap\n" for at in range(9)
    }
    files["g.py"] = "position_cap = 8\n"
    picks = pick("What is the position cap?", excerpts_of(files), 1_000, quarter)
    assert picks[0].excerpt.path == "g.py"


def test_a_term_of_prose_is_not_taken_for_what_code_uses() -> None:
    """Code that mentions CPU does not need the document that says "CPU: …"; LIMIT_MS is a name."""
    files = {
        "a.py": function("one", "CPU + LIMIT_MS"),
        "b.md": "CPU: two cores are enough for that.\n",
        "c.md": "`LIMIT_MS` is 40 on all machines.\n",
    }
    assert reasons(pick("Explain `one`", excerpts_of(files), 1_000, quarter)) == [
        "defines one",
        "defines LIMIT_MS, used by one",
    ]


def test_a_name_that_is_mentioned_everywhere_does_not_push_out_the_words() -> None:
    files = {f"f{at}.py": f"value_{at} = Order({at})\n" for at in range(60)}
    files["order.py"] = "class Order:\n    pass\n"
    files["g.md"] = "A hotline may lower the price of what is bought on birthdays.\n"
    picks = pick("In `Order`, who may lower the price on birthdays?", excerpts_of(files), 40, quarter)
    assert [one.excerpt.path for one in picks[:2]] == ["order.py", "g.md"]


def test_the_other_parts_of_a_long_definition_follow_the_most_relevant_first() -> None:
    body = "".join(f"    step_{at} = prepare_{at}(value)\n" for at in range(40))
    text = f"def long(value):\n{body}    bonus = value // 7\n    return bonus\n"
    picks = pick("What is the bonus in `long`?", excerpts_of({"a.py": text}, 60), 300, quarter)
    assert reasons(picks)[:3] == ["defines long", "part of long", "part of long"]
    assert "value // 7" in picks[1].excerpt.text


def test_dotted_names_choose_among_definitions_of_one_name() -> None:
    files = {
        "a.py": "class Order:\n    def total(self):\n        return 1\n",
        "b.py": "class Basket:\n    def total(self):\n        return 2\n",
        "shop.py": "def total():\n    return 3\n",
    }
    found = excerpts_of(files, 400)
    for name, path in [
        ("Basket.total", "b.py"),
        ("basket.total()", "b.py"),
        ("Order::total", "a.py"),
        ("shop.total", "shop.py"),
    ]:
        picks = pick(f"What does `{name}` give?", found, 1_000, quarter)
        assert picks[0].excerpt.path == path
        assert not reasons(picks)[1].startswith("defines")


def test_each_named_definition_comes_before_the_second_of_any() -> None:
    files = {f"f{at}.py": function("one", str(at)) for at in range(3)} | {"g.py": function("two", "1")}
    picks = pick("How do `one` and `two` differ?", excerpts_of(files), 1_000, quarter)
    assert reasons(picks) == ["defines one", "defines two", "defines one", "defines one"]


def test_a_name_that_is_defined_everywhere_does_not_fill_the_budget() -> None:
    files = {f"f{at}.py": function("run", str(at)) for at in range(20)} | {
        "g.py": function("special_case", "1")
    }
    picks = pick("What does `run` do in the special case?", excerpts_of(files), 180, quarter)
    assert reasons(picks)[:3] == ["defines run"] * 3
    assert any(one.excerpt.path == "g.py" for one in picks)


def test_a_file_that_is_named_comes_before_others(excerpts: list[Excerpt]) -> None:
    picks = pick("What do parcels cost according to notes.md?", excerpts, 1_000, quarter)
    assert picks[0].excerpt.path == "notes.md"
    assert picks[0].reason == "named file notes.md"
    assert {one.excerpt.path for one in picks} == {"notes.md", "rates.py"}


def test_a_file_that_is_named_comes_whole_where_nothing_else_is_asked(excerpts: list[Excerpt]) -> None:
    picks = pick("Summarise notes.md", excerpts, 1_000, quarter)
    assert [one.excerpt.path for one in picks] == ["notes.md"] * len(picks)
    assert (
        "".join(one.excerpt.text for one in sorted(picks, key=lambda one: one.excerpt.start_line))
        == FILES["notes.md"]
    )


def test_of_two_definitions_that_of_the_named_file_is_first() -> None:
    files = {"a.py": function("one", "1"), "b.py": function("one", "2")}
    picks = pick("What is `one` in b.py?", excerpts_of(files), 1_000, quarter)
    assert [one.excerpt.path for one in picks] == ["b.py", "a.py"]


def test_quoted_text_is_found_as_it_stands() -> None:
    files = {"a.py": 'x = "gold tier"\n', "b.py": "tier = gold\n", "c.py": "# Gold Tier here\n"}
    picks = pick('Where is "gold tier"?', excerpts_of(files), 1_000, quarter)
    assert {one.excerpt.path for one in picks[:2]} == {"a.py", "c.py"}
    assert reasons(picks)[:2] == ["mentions gold tier"] * 2


def test_a_word_with_a_capital_is_a_name_only_where_it_is_rare() -> None:
    files = {f"f{at}.md": f"The Order number {at} was sent to somebody.\n" for at in range(30)}
    files["g.md"] = "An `Order` is cancelled by the hotline alone.\n"
    picks = pick("Who may cancel an Order?", excerpts_of(files), 30, quarter)
    assert picks[0].excerpt.path == "g.md"


@pytest.mark.parametrize("prompt", ["Xyzzy?", "", "???", "What is this about?"])
def test_nothing_in_common_gives_the_beginnings(prompt: str) -> None:
    files = {"a.py": function("one", "1") * 3, "b.py": function("two", "2")}
    picks = pick(prompt, excerpts_of(files, 40), 45, quarter)
    assert reasons(picks) == ["beginning of a.py", "beginning of b.py"]


def test_other_scripts_are_searched_too() -> None:
    files = {
        "a.md": "ユーザー名は最大20文字です。\n",
        "b.md": "注文は30日以内に返品できます。\n",
        "c.md": "Größere Pakete kosten mehr.\n",
    }
    found = excerpts_of(files)
    assert pick("返品はいつまでできますか", found, 1_000, quarter)[0].excerpt.path == "b.md"
    assert pick("ユーザー名の長さは", found, 1_000, quarter)[0].excerpt.path == "a.md"
    assert pick("Was kosten größere Pakete?", found, 1_000, quarter)[0].excerpt.path == "c.md"


# --- budget --------------------------------------------------------------------------------------


def test_picks_fill_the_budget_and_no_more(excerpts: list[Excerpt]) -> None:
    for budget in range(10, 250, 7):
        picks = pick(
            "What does `total` multiply by, and what do gold customers pay?", excerpts, budget, quarter
        )
        if picks[0].too_large:
            assert len(picks) == 1
            assert picks[0].tokens > budget
            continue
        assert sum(one.tokens for one in picks) <= budget
        assert all(one.tokens == quarter(one.excerpt.text) for one in picks)
        assert not any(one.too_large for one in picks)


def test_what_does_not_fit_is_passed_over() -> None:
    files = {
        "a.py": function("one", "1"),
        "b.py": function("two", "2 + " * 60 + "2"),
        "c.py": function("three", "3"),
    }
    picks = pick("Compare `one`, `two` and `three`.", excerpts_of(files, 400), 60, quarter)
    assert [one.excerpt.path for one in picks] == ["a.py", "c.py"]


def test_a_first_excerpt_that_is_too_large_is_returned_alone(excerpts: list[Excerpt]) -> None:
    (only,) = pick("What is `total`?", excerpts, 1, quarter)
    assert only.too_large
    assert only.reason == "defines total"
    assert only.tokens > 1


def test_a_first_pick_may_take_more_than_its_groups_share() -> None:
    files = {"a.md": "See `parse_it` " + "and more words " * 20 + ".\n", "b.md": "Parse something.\n"}
    picks = pick("Where is parse_it described?", excerpts_of(files, 400), 90, quarter)
    assert picks[0].excerpt.path == "a.md"
    assert picks[0].tokens > 45


@pytest.mark.parametrize("budget", [0, -5])
def test_bad_budget_is_refused(budget: int, excerpts: list[Excerpt]) -> None:
    with pytest.raises(ConfigError, match=str(budget)):
        pick("x", excerpts, budget, quarter)


def test_no_excerpts_and_blank_excerpts_give_no_picks() -> None:
    assert pick("x", [], 100, quarter) == []
    assert pick("x", excerpts_of({"a.py": "\n\n\n"}), 100, quarter) == []
    assert pick("x", excerpts_of({"a.txt": "--- *** ---\n"}), 100, quarter)[0].reason == "beginning of a.txt"


def test_tokens_are_counted_only_of_what_may_be_picked() -> None:
    calls = 0

    def count(text: str) -> int:
        nonlocal calls
        calls += 1
        return quarter(text)

    found = excerpts_of({f"f{at}.py": function(f"name_{at}", "parcel") for at in range(300)})
    pick("Where is the parcel?", found, 65, count)
    assert 0 < calls < 60


# --- order ---------------------------------------------------------------------------------------


def test_equal_excerpts_stand_in_the_order_given() -> None:
    text = function("one", "parcel")
    files = dict.fromkeys(("c.py", "a.py", "b.py"), text)
    for prompt in ("Where is `one`?", "Where is a parcel?"):
        picks = pick(prompt, excerpts_of(files), 1_000, quarter)
        assert [one.excerpt.path for one in picks] == ["c.py", "a.py", "b.py"]


prompts = st.lists(
    st.sampled_from(
        ["`total`", "RATE", "gold", "customers", "notes.md", "ship()", "express", '"cents"', "weight"]
    ),
    max_size=5,
).map(" ".join)


@unhurried
@given(prompts | st.text(max_size=60), st.integers(1, 300))
def test_any_prompt_and_budget(excerpts: list[Excerpt], prompt: str, budget: int) -> None:
    index = ExcerptIndex(excerpts)
    picks = pick(prompt, index, budget, quarter)
    assert picks
    assert len({one.excerpt.label for one in picks}) == len(picks)
    assert sum(one.tokens for one in picks) <= budget or (len(picks) == 1 and picks[0].too_large)
    assert all(one.reason and one.score >= 0 for one in picks)
    assert picks == pick(prompt, excerpts, budget, quarter)


def test_picks_do_not_depend_on_how_strings_are_hashed() -> None:
    program = (
        "from tests.test_excerpts_rank import *\n"
        "for prompt in ['What does `total` use?', 'gold parcels in cents', 'notes.md and RATE', 'order']:\n"
        "    picks = pick(prompt, excerpts_of(FILES), 99, quarter)\n"
        "    print([(one.excerpt.label, one.reason, one.score) for one in picks])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert "defines total" in outputs.pop()
