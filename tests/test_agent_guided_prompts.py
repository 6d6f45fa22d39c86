from __future__ import annotations

import inspect
import re

import pytest

from pace_agent import guided_prompts
from pace_agent.editing.code_blocks import code_blocks
from pace_agent.editing.symbols import find_definition

CODE = "def total(orders):\n    return sum(orders[1:])\n"
TASK = "Make the failing test pass."
STEP = "Correct the sum in total"
PROBLEM = "tests/test_orders.py:8, in test_total: assert 3 == 5"


def asked(**changes: object) -> str:
    arguments = {"path": "shop/orders.py", "name": "Basket.total", "code": CODE, "step": STEP, **changes}
    return guided_prompts.definition(**arguments)  # type: ignore[arg-type]


def test_a_definition_is_shown_whole_with_what_to_do_and_how_to_answer() -> None:
    text = asked(task=TASK)
    assert f"```python\n{CODE}```" in text
    assert "`Basket.total` in shop/orders.py is now:" in text
    assert TASK in text
    assert STEP in text
    assert text.index(CODE) < text.index(TASK) < text.index(STEP)
    assert text.endswith("Then give the whole `total` in one code block: every line of it, nothing left out.")
    assert len(text) - len(CODE) - len(TASK) - len(STEP) < 250
    assert "last answer" not in text


def test_line_numbers_are_outside_the_code() -> None:
    text = asked(lines=(10, 11))
    assert "(lines 10 to 11)" in text
    (block,) = code_blocks(text)
    assert block.text == CODE


def test_a_new_attempt_says_what_was_wrong() -> None:
    text = asked(problem=PROBLEM)
    assert f"Your last answer is not right yet:\n{PROBLEM}" in text
    assert "Do not give the same code again." in text
    assert text.index(CODE) < text.index(PROBLEM) < text.index("Then give")


def test_a_long_problem_is_cut_to_what_matters() -> None:
    long = "noise of the run\n" * 500 + "E   AssertionError: assert 3 == 5\n" + "more noise\n" * 500
    text = asked(problem=long)
    assert "assert 3 == 5" in text
    assert len(text) < 2_000


def test_the_same_is_not_said_twice_and_a_long_task_not_again() -> None:
    assert asked(step=TASK, task=TASK).count(TASK) == 1
    assert asked(step="total", task="Correct total.").count("Correct total.") == 1
    assert "x" * 700 not in asked(task="x" * 700)
    assert TASK in asked(step="", task=TASK)


def test_a_new_name_is_asked_for() -> None:
    text = asked(new_name="amount")
    assert "Then give the whole `amount` in one code block" in text
    assert "It is called `amount` now." in text


def test_code_with_fences_in_it_stays_one_block() -> None:
    code = 'DOC = """\n```python\nx\n```\n"""\n'
    (block,) = code_blocks(asked(code=code))
    assert block.text == code


def test_a_whole_file_and_some_lines_and_a_new_file() -> None:
    whole = guided_prompts.whole_file("notes.md", "# Title\n", STEP, TASK, PROBLEM)
    assert "notes.md is now:\n```\n# Title\n```" in whole
    assert "the whole of notes.md in one code block" in whole
    assert PROBLEM in whole
    lines = guided_prompts.lines_of_file("a.py", (3, 4), "RATE = 53\n", STEP)
    assert "Lines 3 to 4 of a.py are now:\n```python\nRATE = 53\n```" in lines
    assert "all of them, and no others" in lines
    new = guided_prompts.new_file("shop/new.py", STEP, TASK)
    assert "shop/new.py does not exist yet" in new
    assert "the whole file in one code block" in new
    assert "```" not in new


def test_a_question_and_a_retry() -> None:
    text = guided_prompts.question("What does total do? ", "shop/orders.py, line 12")
    assert text.startswith("What does total do?\n")
    assert "This is about shop/orders.py, line 12." in text
    assert "Change nothing." in text
    assert "This is about" not in guided_prompts.question("Why?")
    again = guided_prompts.retry("total", PROBLEM)
    assert PROBLEM in again
    assert "the whole `total` in one code block" in again
    assert len(again) < 250


@pytest.mark.parametrize("tab", ["    ", "\t"])
def test_a_method_is_shown_without_its_indentation(tab: str) -> None:
    text = f"class A:\n{tab}@cached\n{tab}def total(self):\n{tab * 2}return 1\n\n{tab}def b(self): pass\n"
    found = find_definition(text, "a.py", "A.total")
    assert found is not None
    assert guided_prompts.shown_code(text, found) == f"@cached\ndef total(self):\n{tab}return 1\n"


def test_all_texts_are_plain_and_short() -> None:
    """Small models follow short sentences; what is not the caller's stays under a hundred words."""
    texts = [
        asked(task=TASK, problem="x"),
        guided_prompts.whole_file("a.py", "x", "y", "z", "p"),
        guided_prompts.lines_of_file("a.py", (1, 2), "x", "y", "z", "p"),
        guided_prompts.new_file("a.py", "y", "z", "p"),
        guided_prompts.retry("a", "p"),
        guided_prompts.question("a", "b"),
    ]
    for text in texts:
        assert len(text.split()) < 100
        assert max(len(sentence.split()) for sentence in re.split(r"[.:\n]", text)) < 25
        assert "\n\n\n" not in text
    assert all(
        inspect.signature(one).return_annotation == "str"
        for name, one in vars(guided_prompts).items()
        if inspect.isfunction(one) and one.__module__ == guided_prompts.__name__
    )
