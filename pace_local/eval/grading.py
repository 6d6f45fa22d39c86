"""Grades of an answer: hidden checks passed, and facts recalled."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pace_local.eval.answers import code_blocks
from pace_local.eval.sandbox import Limits, Outcome, run_checks
from pace_local.eval.specification import Question
from pace_local.eval.workloads.text_checks import without_thousands

_DIGIT_GROUPS = re.compile(r"(?<=\d)_(?=\d)")


@dataclass(frozen=True)
class Grade:
    """How good one answer is. Checks and facts count different things: report both."""

    outcomes: tuple[Outcome, ...]
    """Of each check, in order."""

    facts: tuple[str, ...]
    missing_facts: tuple[str, ...]
    is_answered: bool
    """Whether the answer holds what is asked for at all: any Python code, or any text."""

    missing_guards: frozenset[str]
    """Guards of the sandbox that this system lacks."""

    @property
    def checks_passed(self) -> int:
        return sum(outcome.passed for outcome in self.outcomes)

    @property
    def checks_total(self) -> int:
        return len(self.outcomes)

    @property
    def facts_recalled(self) -> int:
        return len(self.facts) - len(self.missing_facts)

    @property
    def facts_total(self) -> int:
        return len(self.facts)

    @property
    def failures(self) -> tuple[str, ...]:
        """Error text of each check that failed, with its number from 1."""
        return tuple(
            f"check {number}: {outcome.error}"
            for number, outcome in enumerate(self.outcomes, 1)
            if not outcome.passed
        )


def grade(question: Question, answer: str, limits: Limits | None = None) -> Grade:
    """Grade an answer.

    Its code, and whatever looks at its text, runs in a sandbox, never in this process. Facts are counted
    anywhere in the answer. In code, a number can also be the width of a format; in text, upper and lower case
    are the same, and ``1,530`` is 1530.
    """
    if question.answers_with == "code":
        blocks, lacking = code_blocks(answer), "no code in the answer"
    else:
        blocks, lacking = ((f"ANSWER = {answer!r}",) if answer.strip() else ()), "no answer"
    if blocks:
        run = run_checks([question.prelude, *blocks], question.checks, limits)
        outcomes, guards = run.outcomes, run.missing
    else:
        outcomes, guards = (Outcome(False, lacking),) * len(question.checks), frozenset()
    if question.answers_with == "code":
        missing = tuple(
            fact for fact in question.facts if not has_fact(answer, fact) and not _has_width(answer, fact)
        )
    else:
        said = without_thousands(answer.casefold())
        missing = tuple(
            fact for fact in question.facts if not has_fact(said, without_thousands(fact.casefold()))
        )
    return Grade(outcomes, tuple(question.facts), missing, bool(blocks), guards)


def has_fact(answer: str, fact: str) -> bool:
    """Whether a constant, name or code stands in an answer as a whole word: 53 is not in 153 or 1.53.

    ``1_053`` is 1053. Upper and lower case differ.
    """
    text = _DIGIT_GROUPS.sub("", answer)
    before = r"(?<!\w)(?<!\d\.)" if fact[0].isdigit() else r"(?<!\w)" if _is_word(fact[0]) else ""
    after = r"(?!\w)(?!\.\d)" if fact[-1].isdigit() else r"(?!\w)" if _is_word(fact[-1]) else ""
    return re.search(before + re.escape(fact) + after, text) is not None


def _has_width(code: str, fact: str) -> bool:
    """Whether a number is the width of a whole number's format: 11 in ``f"{n:011d}"`` and ``"%011d" % n``."""
    return (
        fact.isdecimal()
        and re.search(rf"[:%'\"<>^=]0?{fact}d(?!\w)|[:%'\"]0{fact}(?![\w.])", code) is not None
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
