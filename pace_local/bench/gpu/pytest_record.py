"""A pytest plugin: what became of each test, a JSON line each, and where its contexts had their cells.

``pytest -p pace_local.bench.gpu.pytest_record --pace-record FILE``. Tests that already have an outcome in the
file are left out, so that a run that was cut off, or that a crash ended, goes on. A test that began and has
no outcome is one in which the process died.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_CELLS = re.compile(r"(\S+) KV buffer size")


class Recorder(logging.Handler):
    """Writes the file.

    Args:
        path: of the file; what is in it is read first.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self.finished = {line["test"] for line in read_record(path) if "test" in line}
        self._file = path.open("a", encoding="utf-8")
        self._contexts: Counter[str] = Counter()
        self._outcome = "passed"
        self._message = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Count a context: the native library says where each buffer of cells lies."""
        found = _CELLS.search(record.getMessage())
        if found:
            self._contexts[found[1]] += 1

    def add(self, **line: Any) -> None:
        """Write a line, which no crash can take back."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Note how many tests there are, and leave out those that are finished."""
        self.add(collected=len(items))
        left = [item for item in items if item.nodeid not in self.finished]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.finished])
        items[:] = left

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._outcome, self._message = "passed", ""
        self.add(begun=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up, the test itself, or tear-down is over; after the last of them the outcome is known."""
        if report.failed:
            self._outcome, self._message = "failed", reason(str(report.longrepr))
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"
        if report.when == "teardown":
            where = dict(self._contexts)
            self._contexts.clear()
            self.add(test=report.nodeid, outcome=self._outcome, message=self._message, contexts=where)

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        logging.getLogger("pace_local.native").removeHandler(self)
        self._file.close()


def reason(text: str) -> str:
    """The line of a failure that says most: the first of those that pytest marks, or the last of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line.removeprefix("E").strip() for line in lines if re.match(r"E\s", line)]
    return (marked or lines[-1:] or [""])[0][:300]


def read_record(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a record; none if there is no file."""
    if not path.is_file():
        return []
    lines = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:  # the process died in the midst of it
            continue
    return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--pace-record``."""
    parser.addoption("--pace-record", type=Path, help="file for what becomes of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record."""
    path = config.getoption("--pace-record")
    if path is not None:
        recorder = Recorder(path)
        config.pluginmanager.register(recorder, "pace-recorder")
        logger = logging.getLogger("pace_local.native")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(recorder)
