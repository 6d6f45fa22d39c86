"""Ten prompts of about 40,000 tokens, of which the last needs what the first one said.

The user states a limit and three codes once. Then modules of Python's own library are pasted, one a prompt,
and asked about. The last prompt asks for a function with the limit and the codes, which are in no file.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pace_local.eval.answers import code_blocks
from pace_local.eval.sandbox import run_checks

_FIRST = (
    "Rules of our orders, for later: an order has at most 4711 pieces. More than that is the error code "
    "E_TOO_MANY. Less than 1 piece is the error code E_NONE. Everything else is OK_37. Keep that in mind."
)
_LAST = (
    "Write a Python function check_order(pieces) that returns the error code or the OK code of our orders as "
    "a string, with the limit that I gave at the beginning. Answer with one code block."
)
_MODULES = ("heapq", "calendar", "difflib", "configparser", "argparse", "zipfile", "tarfile", "inspect")
_CHECKS = (
    ("check_order(1)", "OK_37"),
    ("check_order(4711)", "OK_37"),
    ("check_order(4712)", "E_TOO_MANY"),
    ("check_order(0)", "E_NONE"),
    ("check_order(-3)", "E_NONE"),
)
FACTS = ("4711", "E_TOO_MANY", "E_NONE", "OK_37")


@dataclass(frozen=True)
class LongSession:
    """The prompts, and how the last answer is judged."""

    name: str = "long"
    tokens: int = 40_000
    modules: tuple[str, ...] = _MODULES
    answers: tuple[str, ...] = field(
        default=(
            "There is nothing to plan.",
            "Noted.",
            *("It is a module of the standard library.",) * len(_MODULES),
            "There is nothing to plan.",
            "```python\ndef check_order(pieces):\n    if pieces < 1:\n        return 'E_NONE'\n"
            "    return 'OK_37' if pieces <= 4711 else 'E_TOO_MANY'\n```",
        )
    )

    def prompts(self, count: Callable[[str], int]) -> Iterator[str]:
        """The ten prompts.

        Args:
            count: tokens of a text.
        """
        yield _FIRST
        room = (self.tokens - count(_FIRST) - count(_LAST)) // len(self.modules)
        for name in self.modules:
            source = _source(name, room, count)
            yield f"What is this module for? Answer in one sentence.\n\n```python\n{source}```"
        yield _LAST

    def judge(self, answer: str) -> tuple[int, int]:
        """Checks that the last answer passes, of five, and facts that it holds, of four."""
        checks = [f"assert {call} == {expected!r}" for call, expected in _CHECKS]
        passed = sum(outcome.passed for outcome in run_checks(code_blocks(answer), checks).outcomes)
        return passed, sum(fact in answer for fact in FACTS)


def _source(name: str, tokens: int, count: Callable[[str], int]) -> str:
    """The beginning of a module's source, cut at the border of a line to about so many tokens."""
    text = (Path(sysconfig.get_path("stdlib")) / f"{name}.py").read_text(encoding="utf-8")
    kept, left = [], tokens
    for line in text.splitlines(keepends=True):
        left -= count(line)
        if left < 0:
            break
        kept.append(line)
    return "".join(kept)


LONG_SESSION = LongSession()
