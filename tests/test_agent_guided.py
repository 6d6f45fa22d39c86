"""Guided style: what the machine does for a model that cannot call tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import SHOP, Runs, make_repository
from session_pair import TALKER

from pace_agent.events import (
    Answer,
    Asked,
    Called,
    Changed,
    Planned,
    Returned,
    StepStarted,
    Turned,
    Warned,
)
from pace_local import Model
from pace_local.testing import TinySpec

RIGHT = (
    "Here it is:\n```python\ndef total(prices):\n"
    '    """Sum of all prices."""\n    return sum(prices)\n```\nThat is all.'
)
WRONG = RIGHT.replace("sum(prices)", "sum(prices) + 1")
FIX = "Make the failing test in tests/test_cart.py pass"


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", {**SHOP, "conftest.py": "", "pytest.ini": "[pytest]\n"})


def guided(model: Model, shop: Path, *lines: str, **settings: object) -> Runs:
    return Runs(model, shop, lines, **{"style": "guided", "mode": "auto", **settings})


def test_a_failing_test_is_repaired(model: Model, shop: Path) -> None:
    before = (shop / "shop/cart.py").read_text()
    with guided(model, shop, RIGHT) as runs:
        end = runs.run(FIX)
        assert (end.reason, end.changed) == ("done", ("shop/cart.py",))
        assert end.turns == 1  # the place was known: no plan was asked for
    after = (shop / "shop/cart.py").read_text()
    head, tail = before.index("def total"), before.index("\n\n\ndef with_tax")
    assert after == before[:head] + RIGHT.split("```")[1].removeprefix("python\n").rstrip() + before[tail:]
    assert [event.tool for event in runs.of(Called)] == ["shell", "shell"]
    assert [event.ok for event in runs.of(Returned)] == [False, True]
    (started,) = runs.of(StepStarted)
    assert "test_total" in started.step or any("test_cart" in name for name in started.reads)


def test_what_the_check_says_goes_back_to_the_model(model: Model, shop: Path) -> None:
    with guided(model, shop, WRONG, RIGHT) as runs:
        end = runs.run(FIX)
        assert (end.reason, end.turns) == ("done", 2)
        asked = [runs.text_of(part.name) for part in runs.agent.session.segments if part.kind == "user"]
        assert any("7" in text and "6" in text for text in asked[2:])
        assert "sum(prices) + 1" in asked[-1]  # it is shown what it wrote, not what was there first


def test_attempts_are_limited(model: Model, shop: Path) -> None:
    with guided(model, shop, WRONG, WRONG.replace("+ 1", "+ 2"), WRONG, tries=3) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.turns) == ("failed", 3)
    assert "3 attempts" in end.result


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("I would add them all up.", "no code"),
        ("```python\ndef total(prices):\n    # ... rest of the code\n```", "left out|leaves|does not parse"),
        ("```python\ndef total(prices:\n    return 1\n```", "parse|syntax"),
        ("```python\ndef sums(prices):\n    return sum(prices)\n```", "total"),
    ],
)
def test_what_cannot_be_used_is_said_and_asked_for_again(
    model: Model, shop: Path, bad: str, said: str
) -> None:
    import re

    with guided(model, shop, bad, RIGHT) as runs:
        assert runs.run(FIX).reason == "done"
        (warned,) = runs.of(Warned)
        assert re.search(said, warned.message), warned.message
        assert len(runs.of(Changed)) == 1


def test_a_rename_goes_through_all_callers(model: Model, shop: Path) -> None:
    (shop / "shop/report.py").write_text(
        "from shop.cart import total\n\n\ndef line(prices):\n    return f'sum: {total(prices)}'\n"
    )

    tests = "def test_total():\n    assert sum_of([1, 2, 3]) == 6"
    lines = [
        SHOP["shop/cart.py"].split("\n\n\n")[1].replace("total", "sum_of"),
        SHOP["shop/cart.py"].split("\n\n\n")[2].replace("total", "sum_of"),
        "def line(prices):\n    return f'sum: {sum_of(prices)}'",
        tests,
        "from shop.cart import sum_of",
        "from shop.cart import sum_of",
    ]
    fenced = [f"```python\n{line}\n```" for line in lines]
    with Runs(model, shop, fenced, style="guided", mode="auto", check="true") as runs:
        end = runs.run("Rename the function total to sum_of, and its callers")
        assert end.reason == "done", end.result
        steps = runs.of(Planned)[0].steps
        assert len(steps) >= 3
    for path in ("shop/cart.py", "shop/report.py"):
        text = (shop / path).read_text()
        assert "sum_of(prices)" in text
        assert "total(" not in text
    assert "from shop.cart import sum_of" in (shop / "shop/report.py").read_text()
    assert {"shop/cart.py", "shop/report.py"} <= set(end.changed)


def test_a_question_is_answered_in_words(model: Model, shop: Path) -> None:
    with guided(model, shop, "It is 19.") as runs:
        end = runs.run("What is RATE in shop/cart.py?")
    assert (end.reason, end.result, end.changed) == ("done", "It is 19.", ())
    (started,) = runs.of(StepStarted)
    assert any("shop/cart.py" in name for name in started.reads)


def test_a_new_file_is_made(model: Model, shop: Path) -> None:
    plan = '{"steps": [{"do": "write shop/money.py", "files": ["shop/money.py"], "symbols": []}]}'
    answer = "```python\ndef euros(cents):\n    return f'{cents / 100:.2f}'\n```"
    with guided(model, shop, plan, answer, check="true") as runs:
        end = runs.run("Write a module shop/money.py with a function euros(cents)")
    assert end.reason == "done", end.result
    assert "def euros" in (shop / "shop/money.py").read_text()


def test_without_leave_to_run_it_the_check_is_left_out_and_that_is_said(model: Model, shop: Path) -> None:
    with guided(model, shop, RIGHT, mode="accept-edits") as runs:
        end = runs.run("Fix the function total in shop/cart.py: it leaves out the first price")
    assert (end.reason, end.changed) == ("done", ("shop/cart.py",))
    assert [event.tool for event in runs.of(Called)] == []
    assert any("not run" in event.message for event in runs.of(Warned))


def test_without_leave_to_write_the_run_ends(model: Model, shop: Path) -> None:
    with guided(model, shop, RIGHT, mode="ask") as runs:
        end = runs.run("Fix the function total in shop/cart.py: it leaves out the first price")
    assert end.reason == "refused"
    assert "prices[1:]" in (shop / "shop/cart.py").read_text()


@pytest.mark.parametrize("is_repeated", [False, True])
def test_the_next_attempt_is_what_the_user_wants_instead(model: Model, shop: Path, is_repeated: bool) -> None:
    """A no with words ended the run, and the words were thrown away."""
    answers = iter([Answer("no", "use sum()"), Answer("once")])
    lines = [WRONG, *[WRONG] * is_repeated, RIGHT]
    settings = {"mode": "ask", "check": "true", "approve": lambda asked: next(answers)}
    with guided(model, shop, *lines, **settings) as runs:
        end = runs.run("Fix the function total in shop/cart.py: it leaves out the first price")
        assert (end.reason, end.changed, end.turns) == ("done", ("shop/cart.py",), len(lines))
        assert all("not right yet:\nuse sum()" in text for text in asked(runs)[2:])
    assert len(runs.of(Asked)) == 2


@pytest.mark.parametrize(("words", "turns"), [("", 1), ("use sum()", 2)])
def test_a_no_ends_the_run_at_once_or_after_all_attempts(
    model: Model, shop: Path, words: str, turns: int
) -> None:
    settings = {"mode": "ask", "tries": 2, "approve": lambda asked: Answer("no", words)}
    with guided(model, shop, WRONG, RIGHT, **settings) as runs:
        end = runs.run("Fix the function total in shop/cart.py: it leaves out the first price")
    assert (end.reason, end.changed, end.turns) == ("refused", (), turns)
    assert words in end.result


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (None, "there are no tests"),
        ("no-such-command", "exit code 127"),
        ("echo 'python3: No module named pytest'; false", "no pytest"),
    ],
)
def test_a_check_that_does_not_run_finds_no_fault(
    model: Model, shop: Path, check: str | None, why: str
) -> None:
    """The model was told that its answer was not right yet, and the run failed."""
    (shop / "tests/test_cart.py").unlink()
    with guided(model, shop, RIGHT, **({} if check is None else {"check": check})) as runs:
        end = runs.run("Fix the function total in shop/cart.py: it leaves out the first price")
        assert (end.reason, end.changed, end.turns) == ("done", ("shop/cart.py",), 1)
        (warned,) = runs.of(Warned)
    assert "did not run" in warned.message
    assert why in warned.message


TAXED = "```python\ndef with_tax(prices):\n    return total(prices) * (100 + RATE) / 100\n```"
"""What puts the second fault right."""


def with_two_faults(shop: Path) -> None:
    """Put a second fault beside the first, and tests of both."""
    cart = shop / "shop/cart.py"
    cart.write_text(cart.read_text().replace("(100 + RATE) / 100", "(100 - RATE) / 100"))
    (shop / "tests/test_cart.py").write_text(
        "from shop.cart import total, with_tax\n\n\n"
        "def test_total():\n    assert total([1, 2, 3]) == 6\n\n\n"
        "def test_with_tax():\n    assert with_tax([0, 100]) == 119\n"
    )


def test_a_no_to_the_check_is_no_fault_and_no_success(model: Model, shop: Path) -> None:
    with_two_faults(shop)
    runs_it = iter([Answer("once"), Answer("no")])

    def approve(asked: Asked) -> Answer:
        return next(runs_it) if asked.tool == "shell" else Answer("once")

    with guided(model, shop, RIGHT, TAXED, mode="ask", approve=approve) as runs:
        end = runs.run("Make the failing tests pass")
        assert (end.reason, end.turns) == ("done", 2), end.result
        assert [event.tool for event in runs.of(Called)] == ["shell", "shell"]
        assert [event.message.partition(": ")[2] for event in runs.of(Warned)] == ["the user said no"]
        assert not any("not right yet" in text for text in asked(runs))


def test_the_limit_of_turns_counts_attempts(model: Model, shop: Path) -> None:
    with guided(model, shop, WRONG, WRONG) as runs:
        end = runs.run(FIX, max_turns=1)
    assert (end.reason, end.turns) == ("turn_limit", 1)
    assert len(runs.of(Turned)) == 1


def test_one_repair_can_be_all_that_several_failures_need(model: Model, shop: Path) -> None:
    (shop / "tests/test_cart.py").write_text(
        "from shop.cart import total, with_tax\n\n\n"
        "def test_total():\n    assert total([1, 2, 3]) == 6\n\n\n"
        "def test_with_tax():\n    assert with_tax([100]) == 119\n"
    )
    with guided(model, shop, RIGHT) as runs:
        end = runs.run("Make the failing tests pass")
        assert (end.reason, end.turns) == ("done", 1)
        assert len(runs.of(Planned)[0].steps) == 2
        assert [event.tool for event in runs.of(Called)] == ["shell", "shell"]


def test_two_faults_are_repaired_one_after_the_other(model: Model, shop: Path) -> None:
    with_two_faults(shop)
    with guided(model, shop, RIGHT, TAXED) as runs:
        end = runs.run("Make the failing tests pass")
        assert (end.reason, end.turns) == ("done", 2), end.result


def test_what_the_model_does_not_rename_the_machine_does(model: Model, shop: Path) -> None:
    (shop / "tests/test_cart.py").unlink()
    before = (shop / "shop/cart.py").read_text()
    with guided(model, shop, *["I will rename it."] * 4, check="true", tries=2) as runs:
        end = runs.run("Rename the function total to sum_of, and its callers")
        assert end.reason == "done", end.result
        assert sum("by the machine" in event.message for event in runs.of(Warned)) == 2
    assert (shop / "shop/cart.py").read_text() == before.replace("total", "sum_of")


def test_of_a_file_that_is_asked_for_whole_nothing_is_lost(model: Model, shop: Path) -> None:
    """As it is where a place of the plan is a file: an answer with one of its functions replaces that one."""
    before = (shop / "shop/cart.py").read_text()
    plan = '{"steps": [{"do": "add all prices up", "files": ["shop/cart.py"], "symbols": []}]}'
    with guided(model, shop, plan, RIGHT, check="true") as runs:
        end = runs.run("Correct the sum in shop/cart.py")
        assert (end.reason, end.changed) == ("done", ("shop/cart.py",)), end.result
    after = (shop / "shop/cart.py").read_text()
    assert "return sum(prices)" in after
    assert after.endswith(before[before.index("def with_tax") :])
    assert after.startswith(before[: before.index("def total")])


def asked(runs: Runs) -> list[str]:
    """What the model was asked, in order."""
    return [runs.text_of(part.name) for part in runs.agent.session.segments if part.kind == "user"]


def python(code: str) -> str:
    return f"```python\n{code.rstrip()}\n```"


def test_a_file_too_long_for_an_answer_is_changed_by_the_lines_that_change(model: Model, shop: Path) -> None:
    text = "# Guide\n\n" + "".join(f"line {at} of the guide\n" for at in range(60))
    (shop / "README.md").write_text(text)
    plan = '{"steps": [{"do": "change the title", "files": ["README.md"], "symbols": []}]}'
    whole = f"```markdown\n{text.replace('Guide', 'New guide')}```"
    change = "<<<<<<< SEARCH\n# Guide\n=======\n# New guide\n>>>>>>> REPLACE\n"
    with guided(model, shop, plan, whole, change, check="true", max_tokens=600, budget=8192) as runs:
        end = runs.run("Change the title in README.md to New guide")
        assert (end.reason, end.turns) == ("done", 3), end.result
        (warned,) = [event.message for event in runs.of(Warned) if "attempt 1" in event.message]
        assert "ends in the middle" in warned
        assert "<<<<<<< SEARCH" in asked(runs)[-1]
    assert (shop / "README.md").read_text() == text.replace("# Guide", "# New guide")


def test_a_rename_finds_lines_that_it_has_moved(model: Model, shop: Path) -> None:
    before = (
        "def first(prices):\n    return prices[0]\n\n\nprices = [1, 2]\nprint('all')\nprint(total(prices))\n"
    )
    (shop / "tests/test_cart.py").unlink()
    (shop / "shop/cart.py").write_text(f"def total(prices):\n    return sum(prices)\n\n\n{before}")
    new = 'def sum_of(prices):\n    """Sum of all."""\n    return sum(prices)\n'
    answers = [python(new), python("print(sum_of(prices))")]
    with guided(model, shop, *answers, check="true") as runs:
        end = runs.run("Rename total to sum_of in shop/cart.py")
        assert (end.reason, end.turns) == ("done", 2), end.result
        assert "Lines 12 to 12 of shop/cart.py are now:\n```python\nprint(total(prices))" in asked(runs)[-1]
        assert runs.agent._parts.planner.plan.steps[-1].planned.reads == ("shop/cart.py:12-12",)
    assert (shop / "shop/cart.py").read_text() == f"{new}\n\n{before.replace('total', 'sum_of')}"


def test_a_rename_ends_where_nothing_uses_the_old_name_any_more(model: Model, shop: Path) -> None:
    (shop / "tests/test_cart.py").unlink()
    (shop / "shop/cart.py").write_text("def total(prices):\n    return sum(prices)\n\n\nprint(total([1]))\n")
    both = (
        "<<<<<<< SEARCH\ndef total(prices):\n=======\ndef sum_of(prices):\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\nprint(total([1]))\n=======\nprint(sum_of([1]))\n>>>>>>> REPLACE\n"
    )
    with guided(model, shop, both, check="true") as runs:
        end = runs.run("Rename total to sum_of in shop/cart.py")
        assert (end.reason, end.turns) == ("done", 1), end.result
        assert "uses total no more" in end.result
        assert [event.tool for event in runs.of(Called)] == ["shell"]  # it is checked all the same
    assert (
        shop / "shop/cart.py"
    ).read_text() == "def sum_of(prices):\n    return sum(prices)\n\n\nprint(sum_of([1]))\n"


def test_a_change_that_renames_nothing_is_no_renaming(model: Model, shop: Path) -> None:
    (shop / "tests/test_cart.py").unlink()
    (shop / "shop/cart.py").write_text(
        "def total(prices):\n    return sum(prices)\n\n\ndef main():\n    print(total([1]))\n"
    )
    answers = [
        'def total(prices):\n    """Sum of all."""\n    return sum(prices)',
        'def sum_of(prices):\n    """Sum of all."""\n    return sum(prices)',
        'def main():\n    """Print it."""\n    print(total([1]))',
        "def main():\n    print(sum_of([1]))",
    ]
    with guided(model, shop, *map(python, answers), check="true") as runs:
        end = runs.run("Rename total to sum_of in shop/cart.py")
        assert (end.reason, end.turns) == ("done", 4), end.result
        warned = [event.message for event in runs.of(Warned)]
    assert "still calls it total; it is called sum_of now" in warned[0]
    assert "does not use sum_of in the place of total" in warned[1]
    assert (shop / "shop/cart.py").read_text() == f"{answers[1]}\n\n\n{answers[3]}\n"


ITEM = """\
class Item:
    def __init__(self):
        self._price = 0

    @property
    def price(self):
        return self._price

    @price.setter
    def price(self, value):
        self._price = value + 1
"""
SETTER = "@price.setter\ndef price(self, value):\n    self._price = value"
NO_SETTER = "def price(self, value):\n    self._price = value"


@pytest.mark.parametrize("place", ["Item.price in shop/item.py", "what is wrong at shop/item.py:11"])
def test_of_a_name_that_a_file_defines_twice_the_one_that_is_meant_is_changed(
    model: Model, shop: Path, place: str
) -> None:
    (shop / "shop/item.py").write_text(ITEM)
    with guided(model, shop, python(NO_SETTER), python(SETTER), check="true") as runs:
        end = runs.run(f"Fix {place}: the setter adds one")
        assert end.reason == "done", end.result
        first = asked(runs)[1]
        assert "@price.setter\ndef price(self, value):\n    self._price = value + 1" in first
        assert ("@property\ndef price" in first) is place.startswith("Item")
    assert (shop / "shop/item.py").read_text() == ITEM.replace("value + 1", "value")


def test_a_value_that_is_set_twice_is_shown_with_what_stands_between(model: Model, shop: Path) -> None:
    text = "import sys\n\nif sys.argv:\n    MOST_ITEMS = 1\nelse:\n    MOST_ITEMS = 2\n"
    (shop / "shop/limits.py").write_text(text)
    answer = python("    MOST_ITEMS = 1\nelse:\n    MOST_ITEMS = 3")
    with guided(model, shop, answer, check="true") as runs:
        end = runs.run("Fix MOST_ITEMS in shop/limits.py: the second is 3")
        assert (end.reason, end.turns) == ("done", 1), end.result
    assert (shop / "shop/limits.py").read_text() == text.replace("2", "3")


def test_of_several_files_in_an_answer_the_one_that_is_asked_for_is_made(model: Model, shop: Path) -> None:
    plan = '{"steps": [{"do": "make shop/tax.py", "files": ["shop/tax.py"], "symbols": []}]}'
    own = "# shop/tax.py\ndef tax(x):\n    return x * 19 // 100"
    test = "# tests/test_tax.py\nfrom shop.tax import tax\n\n\ndef test_tax():\n    assert tax(100) == 19"
    answers = [python(test), f"{python(own)}\nAnd a test:\n{python(test)}"]
    with guided(model, shop, plan, *answers, check="true") as runs:
        end = runs.run("Make a new file shop/tax.py with a function tax")
        assert (end.reason, end.changed) == ("done", ("shop/tax.py",)), end.result
        (warned,) = [event.message for event in runs.of(Warned) if "attempt 1" in event.message]
    assert "gives tests/test_tax.py; give shop/tax.py" in warned
    assert (shop / "shop/tax.py").read_text() == "def tax(x):\n    return x * 19 // 100\n"
