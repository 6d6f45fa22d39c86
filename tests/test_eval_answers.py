"""Extraction of code from answers as models write them."""

from __future__ import annotations

import pytest

from pace_local.eval.answers import code_blocks, joined_code

ONE = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"```python\n{ONE}```", [ONE]),
        (f"Sure! Here it is:\n\n```python\n{ONE}```\n\nIt returns x.", [ONE]),
        (f"```\n{ONE}```", [ONE]),
        (f"```Python\n{ONE}```", [ONE]),
        (f"```py title=orders.py\n{ONE}```", [ONE]),
        (f"~~~python\n{ONE}~~~", [ONE]),
        (f"````python\n{ONE}````", [ONE]),
        (f"``` python\n{ONE}```", [ONE]),
        (f"```python\n{ONE}```".replace("\n", "\r\n"), [ONE]),
    ],
)
def test_one_block(answer: str, expected: list[str]) -> None:
    assert list(code_blocks(answer)) == expected


def test_constants_in_one_block_and_the_function_in_the_next() -> None:
    answer = f"The constants:\n```python\nRATE = 53\n```\nand the function:\n```python\n{ONE}```\nDone."
    assert code_blocks(answer) == ("RATE = 53\n", ONE)
    assert joined_code(answer) == f"RATE = 53\n\n{ONE}".rstrip("\n")


def test_a_last_block_that_is_never_closed_counts() -> None:
    assert code_blocks(f"```python\nA = 1\n```\n```python\n{ONE}") == ("A = 1\n", ONE)


def test_a_block_opened_while_another_is_open_closes_it() -> None:
    assert code_blocks(f"```python\nA = 1\n\n```python\n{ONE}```") == ("A = 1\n\n", ONE)


def test_a_fence_at_the_end_of_the_last_line_of_code_closes() -> None:
    assert code_blocks("```python\ndef f(x):\n    return x```\nprose `x` here") == (ONE,)


def test_a_block_in_a_list_is_unindented() -> None:
    indented = "".join(f"   {line}\n" for line in ["```python", *ONE.splitlines(), "```"])
    assert code_blocks(f"1. First:\n{indented}2. Then") == (ONE,)


def test_blocks_of_other_languages_and_of_output_do_not_count() -> None:
    before, after = "```bash\npip install x\n```", "Output:\n```\nprice: 53 cents\n```\n```json\n1\n```"
    answer = f"{before}\n```python\n{ONE}```\n{after}"
    assert code_blocks(answer) == (ONE,)


def test_a_python_block_that_does_not_parse_is_kept_for_its_error() -> None:
    assert code_blocks("```python\ndef f(:\n```") == ("def f(:\n",)


def test_no_fence_but_code() -> None:
    assert code_blocks(ONE) == (ONE,)


@pytest.mark.parametrize(
    "answer", ["", "  \n", "I cannot do that.", "The rate is 53, I believe.", "```python\n\n```"]
)
def test_no_code(answer: str) -> None:
    assert code_blocks(answer) == ()
    assert joined_code(answer) == ""


def test_an_answer_that_no_parser_bears_is_no_code() -> None:
    assert code_blocks("(" * 100_000) == ()
    assert code_blocks("x = '\0'") == ()


def test_code_within_a_line_opens_nothing() -> None:
    assert code_blocks("Use ```f(x)``` here.\n") == ()
