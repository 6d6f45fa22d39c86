"""Running the check, the command that says whether the work is right, where that is allowed."""

from __future__ import annotations

import dataclasses
import re

from pace_agent.checking.checks import Check, check_of, narrow
from pace_agent.checking.commands import tool_of
from pace_agent.checking.failures import Failures, parse_failures
from pace_agent.events import Warned
from pace_agent.outbox import Outbox
from pace_agent.outcomes import Failure
from pace_agent.safety.permissions import Verdict
from pace_agent.toolbox import Result, Toolbox


class Checking:
    """Knows the check of one repository.

    Args:
        check: the command; None: there is none.
        toolbox: runs it.
        outbox: takes events.
    """

    def __init__(self, check: Check | None, toolbox: Toolbox, outbox: Outbox) -> None:
        self._usual = check
        self._check = check
        self._toolbox = toolbox
        self._outbox = outbox
        self._warned: set[str] = set()
        self._failing: set[str] | None = None

    @property
    def command(self) -> str:
        """What is run; empty if there is nothing."""
        return "" if self._check is None else self._check.command

    def begin(self, task: str) -> None:
        """Take the check that a task names, if it names one."""
        repository = self._toolbox.bench.territory.repository
        self._check = check_of(task, repository) or self._usual
        self._failing = None

    @property
    def passes(self) -> bool:
        """Whether something failed when it was looked at first, and nothing does any more."""
        return self._failing is not None and not self._failing

    @property
    def is_repair(self) -> bool:
        """Whether something failed when it was looked at first."""
        return self._failing is not None

    def look(self) -> Failures | None:
        """What fails now; None if that is not known or nothing does. Later checks run only these tests."""
        failures = self._run() if self._may_run() else None
        if failures is None or not failures.summary:
            return None
        self._failing = _names(failures)
        if self._check is not None and failures.tests:
            self._check = dataclasses.replace(self._check, command=narrow(self._check, failures.tests))
        return failures

    def problem(self, *, is_last: bool) -> str:
        """What the check says is wrong, in words for the model; empty if it cannot be run, or did not.

        Args:
            is_last: whether nothing comes after this. If not, it is enough that of the tests that failed some
                pass now and no others fail.
        """
        if not self._may_run():
            return ""
        failures = self._run()
        if failures is None:
            return ""
        before = self._failing
        failing = _names(failures)
        if before is not None:
            self._failing = failing
        if not is_last and before is not None and failing < before:
            return ""
        return failures.summary

    def _run(self) -> Failures | None:
        """What the check says, without a summary if it passes; None if it did not run, which is told."""
        result = self._toolbox.run_command(self.command)
        if result.ok:
            return Failures()
        # The model is shown the ends of a long output; which tests failed stands in all of it.
        output = result.outcome.output if isinstance(result.outcome, Failure) else ""
        why = self._why_not_run(result, output)
        if not why:
            return parse_failures(output, self._toolbox.bench.territory.repository)
        self._warn(f"the check {self.command!r} did not run: {why}")
        if self._toolbox.refused:
            # A no to the check ends neither the work nor the run, and is not asked for twice.
            self._toolbox.refused, self._check = "", None
        return None

    def _why_not_run(self, result: Result, output: str) -> str:
        """Why a check that did not pass says nothing of the code; empty if it does."""
        if not isinstance(result.outcome, Failure):
            return self._toolbox.refused or result.text
        ended = re.match(r"exit code (\d+) ", result.text)
        code = int(ended[1]) if ended else 0
        if code in (126, 127):
            return f"its command cannot be started (exit code {code})"
        tool = tool_of(self.command)
        if code == 5 and tool in ("pytest", "unittest"):
            return "there are no tests"
        if re.search(r": No module named pytest$", output.strip()):
            return "the Python that it names has no pytest"
        return ""

    def _may_run(self) -> bool:
        if self._check is None:
            return False
        verdict = self._toolbox.would_ask("shell", self.command)
        if verdict is Verdict.ALLOW or (verdict is Verdict.ASK and self._toolbox.can_ask):
            return True
        self._warn(f"the check {self.command!r} is not run: it is not allowed in this mode")
        return False

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._outbox.say(Warned(message))


def _names(failures: Failures) -> set[str]:
    """What failures are told apart by: the tests, or what is said where there are none."""
    return set(failures.tests) or {failures.summary} - {""}
