"""``correctness``: the tests of the native layer, on whatever device the native library uses by itself.

They run in a process of their own. A device that fails can end that process: then the test in which it died
counts as failed, and a new process goes on with the next one. What became of each test is in a file as soon
as it is known, so that a run that is cut off goes on there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_local.bench.gpu.pytest_record import read_record
from pace_local.bench.report import Row, median_row
from pace_local.errors import PaceError
from pace_local.models import Say
from pace_local.terminal import Stop

ROOT = Path(__file__).resolve().parents[3]
RECORD, LOG = "native-tests.jsonl", "native-tests.log"
MOST_CRASHES = 20
_SHOWN = 5
"""Failures that a row names; the file has all."""
_SAY_SECONDS = 15.0


@dataclass(frozen=True)
class Tally:
    """What became of the tests so far."""

    collected: int
    outcomes: Counter[str]
    failures: tuple[str, ...]
    """Name and last line of each test that failed, or in which the process died."""
    contexts: Counter[str]
    """How many contexts had their cells in which device's memory."""

    @property
    def done(self) -> int:
        """Tests that have an outcome."""
        return sum(self.outcomes.values())

    @property
    def on_host(self) -> int:
        """Contexts whose cells lay in main memory."""
        return sum(count for name, count in self.contexts.items() if name.startswith("CPU"))

    def rows_so_far(self) -> list[Row]:
        """Counts of a run that is not over; none before the first outcome."""
        failed = self.outcomes["failed"] + self.outcomes["crashed"]
        note = f"so far: {self.done} of {self.collected} tests"
        if not self.done:
            return []
        return [
            median_row("native_tests_passed", [self.outcomes["passed"]], "tests", "higher", note=note),
            median_row("native_tests_failed", [failed], "tests", "lower", limit=0, note=self._failures()),
            median_row("native_tests_skipped", [self.outcomes["skipped"]], "tests", "lower"),
        ]

    def _failures(self) -> str:
        more = len(self.failures) - _SHOWN
        shown = [*self.failures[:_SHOWN], *([f"and {more} more, in {RECORD}"] if more > 0 else [])]
        return "; ".join(shown)

    def rows(self, *, on_device: bool) -> list[Row]:
        """Counts, held to what they must be.

        Args:
            on_device: whether contexts must have been on another device than the CPU.
        """
        failed = self.outcomes["failed"] + self.outcomes["crashed"]
        missing = self.collected - self.done
        never = f"{missing} of {self.collected} tests never ran" if missing else ""
        said = "; ".join(filter(None, (self._failures(), never)))
        elsewhere = sum(self.contexts.values()) - self.on_host
        where = ", ".join(f"{name} {count}" for name, count in sorted(self.contexts.items())) or "nowhere"
        return [
            median_row("native_tests_passed", [self.outcomes["passed"]], "tests", "higher", limit=1),
            median_row("native_tests_failed", [failed + missing], "tests", "lower", limit=0, note=said),
            median_row("native_tests_skipped", [self.outcomes["skipped"]], "tests", "lower"),
            median_row(
                "native_contexts_on_device",
                [elsewhere],
                "contexts",
                "higher",
                limit=1 if on_device else None,
                note=f"cells lay in {where}",
            ),
        ]


def tally(record: Path) -> Tally:
    """What a record says so far."""
    lines = read_record(record)
    outcomes: Counter[str] = Counter()
    contexts: Counter[str] = Counter()
    failures = []
    for line in lines:
        if "test" in line:
            outcomes[line["outcome"]] += 1
            contexts.update(line.get("contexts", {}))
            if line["outcome"] in ("failed", "crashed"):
                failures.append(f"{line['test']}: {line['message']}")
    collected = max((line["collected"] for line in lines if "collected" in line), default=0)
    return Tally(collected, outcomes, tuple(failures), contexts)


def run_native_tests(tests: Sequence[str], out: Path, *, say: Say, stop: Stop) -> Tally:
    """Run those of some tests that have no outcome in the folder yet.

    Args:
        tests: files or names, as pytest takes them, relative to the checkout.
        out: folder for the record and pytest's output.
        say: takes lines of progress.
        stop: ends the run; outcomes so far are kept.

    Raises:
        PaceError: if pytest itself fails, or tests end the process again and again.
        CancelledError, TimeLimitError: when stopped.
    """
    record, log = out / RECORD, out / LOG
    for _ in range(MOST_CRASHES):
        status = _run_pytest(tests, record, log, say, stop)
        found = tally(record)
        # 5: nothing is left to be run.
        if status in (0, 1) or (status == 5 and found.collected):
            return found
        began = _unfinished(record)
        if began is None:
            raise PaceError(f"pytest ended with {status} before any test; its output is in {log}")
        say(f"correctness: the process died in {began}; going on with the next test")
        line = {"test": began, "outcome": "crashed", "message": f"the process ended with {status}"}
        with record.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line) + "\n")
    raise PaceError(f"the process died in {MOST_CRASHES} tests; {record} names them")


def _unfinished(record: Path) -> str | None:
    """The test that began last, if it has no outcome."""
    began: str | None = None
    for line in read_record(record):
        if "begun" in line:
            began = line["begun"]
        elif line.get("test") == began:
            began = None
    return began


def _run_pytest(tests: Sequence[str], record: Path, log: Path, say: Say, stop: Stop) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not model"]
    command += ["-p", "pace_local.bench.gpu.pytest_record", "--pace-record", str(record), *tests]
    with (
        log.open("ab") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as process,
        stop.calling(process.terminate),
    ):
        if stop.reason is not None:
            process.terminate()
        while True:
            try:
                status = process.wait(_SAY_SECONDS)
                break
            except subprocess.TimeoutExpired:
                found = tally(record)
                say(
                    f"correctness: {found.done} of {found.collected} tests, "
                    f"{found.outcomes['failed'] + found.outcomes['crashed']} failed"
                )
    stop.raise_if_asked()
    return status
