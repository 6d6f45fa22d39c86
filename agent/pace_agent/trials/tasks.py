"""Three tasks as users give them: rename a function, repair a fault, add a command-line option."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 120

_CART = '''\
"""The cart of a small shop."""

RATE = 19


def total(prices):
    """Sum of all prices, in cents."""
    result = 0
    for price in prices:
        result += price
    return result


def with_tax(prices):
    """The same with tax, rounded to whole cents."""
    return round(total(prices) * (100 + RATE) / 100)
'''

_REPORT = '''\
"""Lines of a report."""

from shop.cart import total, with_tax


def summary(prices):
    """One line."""
    return f"{len(prices)} items, {total(prices)} cents, {with_tax(prices)} with tax"
'''

_TESTS = """\
from shop.cart import total, with_tax
from shop.report import summary


def test_total():
    assert total([100, 250, 50]) == 400


def test_with_tax():
    assert with_tax([100]) == 119


def test_summary():
    assert summary([100]) == "1 items, 100 cents, 119 with tax"
"""

_GREET = '''\
"""Greets somebody from the command line."""

import argparse


def greeting(name, polite=False):
    """What to say to somebody."""
    return f"Good day, {name}." if polite else f"Hi {name}!"


def build_parser():
    parser = argparse.ArgumentParser(description="Greet somebody.")
    parser.add_argument("name")
    parser.add_argument("--polite", action="store_true", help="say it politely")
    return parser


def main(argv=None):
    arguments = build_parser().parse_args(argv)
    print(greeting(arguments.name, arguments.polite))


if __name__ == "__main__":
    main()
'''

_SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": _CART,
    "shop/report.py": _REPORT,
    "tests/test_shop.py": _TESTS,
    "conftest.py": "",
}


@dataclass(frozen=True)
class Task:
    """A prompt on a repository."""

    name: str
    files: Mapping[str, str]
    prompt: str
    judge: Callable[[Path], str]
    """Says what is wrong with a repository afterwards; empty: nothing."""

    answers: tuple[str, ...]
    """Answers in guided style that solve it."""


def _run(repository: Path, *command: str) -> str:
    """The output of a Python command; what went wrong in front of it, if something did."""
    done = subprocess.run(
        [sys.executable, *command], cwd=repository, capture_output=True, text=True, timeout=_SECONDS
    )
    return (
        done.stdout.strip() if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout[-300:]}"
    )


def _tests_pass(repository: Path) -> str:
    said = _run(repository, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    return said if said.startswith("exit code") else ""


def _renamed(repository: Path) -> str:
    code = "".join(
        (repository / path).read_text() for path in ("shop/cart.py", "shop/report.py", "tests/test_shop.py")
    )
    # Not once more, and not once less, than the name was there; what is called test_total may stay.
    if code.replace("test_total", "").replace("test_sum_of_prices", "").count("total"):
        return "the old name is still there"
    if code.replace("test_sum_of_prices", "").count("sum_of_prices") != 6:
        return f"the new name is there {code.count('sum_of_prices')} times"
    return _tests_pass(repository)


def _has_flag(repository: Path) -> str:
    for arguments, expected in (
        (("Ann",), "Hi Ann!"),
        (("Ann", "--upper"), "HI ANN!"),
        (("Ann", "--polite"), "Good day, Ann."),
        (("Ann", "--polite", "--upper"), "GOOD DAY, ANN."),
    ):
        said = _run(repository, "greet.py", *arguments)
        if said != expected:
            return f"greet.py {' '.join(arguments)} says {said!r}, not {expected!r}"
    return ""


def _block(code: str) -> str:
    return f"```python\n{code.strip()}\n```"


_FUNCTIONS = dict(zip(("total", "with_tax"), _CART.split("\n\n\n")[1:], strict=True))
_NEW = {name: code.replace("total", "sum_of_prices") for name, code in _FUNCTIONS.items()}

RENAME = Task(
    "rename",
    _SHOP,
    "Rename the function total to sum_of_prices, and its callers",
    _renamed,
    (
        _block(_NEW["total"]),
        _block(_NEW["with_tax"]),
        _block(_REPORT.split("\n\n\n")[1].replace("total", "sum_of_prices")),
        _block(_TESTS.split("\n\n\n")[1].replace("total([", "sum_of_prices([")),
        _block("from shop.cart import sum_of_prices, with_tax"),
        _block("from shop.cart import sum_of_prices, with_tax"),
    ),
)

REPAIR = Task(
    "repair",
    {**_SHOP, "shop/cart.py": _CART.replace("in prices:", "in prices[1:]:")},
    "Make the failing tests pass",
    lambda repository: (
        _tests_pass(repository)
        or ("" if (repository / "tests/test_shop.py").read_text() == _TESTS else "the tests were changed")
    ),
    (_block(_FUNCTIONS["total"]),),
)

FLAG = Task(
    "flag",
    {"greet.py": _GREET},
    "Add a command-line flag --upper to greet.py that prints the greeting in upper case",
    _has_flag,
    (
        _block(
            _GREET.split("\n\n\n")[2].replace(
                "    return parser",
                '    parser.add_argument("--upper", action="store_true")\n    return parser',
            )
        ),
        _block(
            "def main(argv=None):\n"
            "    arguments = build_parser().parse_args(argv)\n"
            "    said = greeting(arguments.name, arguments.polite)\n"
            "    print(said.upper() if arguments.upper else said)"
        ),
    ),
)

TASKS = {task.name: task for task in (RENAME, REPAIR, FLAG)}
