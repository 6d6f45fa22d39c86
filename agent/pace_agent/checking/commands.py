"""A command that checks, and the same for a few tests only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_TESTS = 20
"""Of more failing tests all are run: a command has a longest length, and little is saved."""

_WITH_VALUE = re.compile(r"^-(?:[kmpcnorW]|-[\w-]+)$")
"""Options of pytest whose value is the next word, if they have one and no ``=``."""
_PATH = re.compile(r"\.py$|\.py::|/|^\.$|^tests?$")
_BARE = frozenset({"-x", "-q", "-v", "-vv", "-s", "-l", "-qq"})
_PYTEST_FLAGS = re.compile(
    r"^--(?:exitfirst|quiet|verbose|lf|last-failed|ff|failed-first|no-\w+|strict\S*|pdb|sw|stepwise)$"
)


@dataclass(frozen=True)
class Check:
    """A command that says by its exit code whether the work is right."""

    command: str
    """For a shell, in the repository's folder."""
    why: str
    """How it is known, for people."""
    tool: str = ""
    """What runs the tests in the end: ``pytest``, ``unittest``, ``jest``, ``vitest``, ``mocha``, ``node``,
    ``go``, ``cargo``, ``ctest`` or ``make``; empty if it is not known beyond what the command shows."""


def narrow(check: Check, tests: Sequence[str]) -> str:
    """The check's command for some tests only; the whole command where that cannot be said.

    Args:
        check: that runs them all.
        tests: ids as :func:`~pace_agent.checking.failures.parse_failures` gives them; more than 20 are
            not worth it.
    """
    wanted = [one for one in dict.fromkeys(tests) if one and one[0] != "-" and "\n" not in one]
    tool = check.tool or tool_of(check.command)
    if not wanted or len(wanted) > _MOST_TESTS:
        return check.command
    if tool == "pytest":
        return _pytest(check.command, wanted)
    if tool == "unittest":
        return _unittest(check.command, wanted)
    if tool in ("jest", "vitest", "mocha", "node"):
        option = {"mocha": "-g", "node": "--test-name-pattern"}.get(tool, "-t")
        pattern = "|".join(_escaped(one) for one in wanted)
        through = " --" if re.search(r"\bnpm (?:run )?test\b", check.command) else ""
        return f"{check.command}{through} {option} {shlex.quote(pattern)}"
    if tool == "go":
        return f"{check.command} -run {shlex.quote(_go_pattern(wanted))}"
    if tool == "cargo":
        separator = "" if " -- " in check.command else " --"
        return f"{check.command}{separator} --exact {shlex.join(wanted)}"
    if tool == "ctest":
        pattern = "|".join(_escaped(one) for one in wanted)
        return f"{check.command} -R {shlex.quote(f'^({pattern})$')}"
    return check.command


def tool_of(command: str) -> str:
    """What runs the tests, by the last part of a command; empty if that does not show it."""
    last = re.split(r"&&|\|\||;", command)[-1].strip()
    if "|" in last or ">" in last:
        return ""
    forms = {
        "pytest": r"(?:^|/|\s-m\s+)(?:pytest|py\.test)(?:\s|$)",
        "unittest": r"\s-m\s+unittest(?:\s|$)",
        "jest": r"(?:^|\s|/)jest(?:\s|$)",
        "vitest": r"(?:^|\s|/)vitest(?:\s|$)",
        "mocha": r"(?:^|\s|/)mocha(?:\s|$)",
        "node": r"^node\s.*--test\b",
        "go": r"^go\s+test\b",
        "cargo": r"^cargo\s+test\b",
        "ctest": r"^ctest\b",
        "make": r"^make\b",
    }
    return next((tool for tool, form in forms.items() if re.search(form, last)), "")


def _pytest(command: str, tests: list[str]) -> str:
    ids = [one for one in tests if re.search(r"\.py(?:::|$)", one)]
    if not ids:
        return command
    head, joint, last = _last_part(command)
    words = shlex.split(last)
    start = next((at for at, word in enumerate(words) if re.search(r"(?:^|/)(?:pytest|py\.test)$", word)), 0)
    kept = words[: start + 1]
    takes_value = False
    for word in words[start + 1 :]:
        if takes_value or word.startswith("-") or not _PATH.search(word):
            kept.append(word)
        takes_value = (
            not takes_value
            and _WITH_VALUE.match(word) is not None
            and word not in _BARE
            and not _PYTEST_FLAGS.match(word)
        )
    return f"{head}{joint}{shlex.join([*kept, *ids])}"


def _unittest(command: str, tests: list[str]) -> str:
    ids = [one for one in map(_unittest_id, tests) if re.fullmatch(r"[\w.]+", one)]
    if not ids:
        return command
    if " discover" in command:
        return command + "".join(f" -k {one}" for one in ids)
    head, joint, last = _last_part(command)
    words = shlex.split(last)
    options = [word for word in words[words.index("unittest") + 1 :] if word.startswith("-")]
    return f"{head}{joint}{shlex.join([*words[: words.index('unittest') + 1], *options, *ids])}"


def _unittest_id(test: str) -> str:
    """A test's dotted name, also of one that is named as pytest does."""
    path, separator, rest = test.partition("::")
    if path.endswith(".py"):
        # Discovery in a folder that is no package names modules without it: the end of the name will do.
        return (
            path.removesuffix(".py").rpartition("/")[2]
            + separator.replace("::", ".")
            + rest.replace("::", ".")
        )
    return test


def _last_part(command: str) -> tuple[str, str, str]:
    head, joint, last = command.rpartition("&&")
    return (head, joint + " ", last.strip()) if joint else ("", "", command)


def _go_pattern(tests: list[str]) -> str:
    if len(tests) == 1:
        return "/".join(f"^{_escaped(part)}$" for part in tests[0].split("/"))
    names = dict.fromkeys(one.partition("/")[0] for one in tests)  # one level: depths cannot be mixed
    return f"^({'|'.join(_escaped(name) for name in names)})$"


def _escaped(text: str) -> str:
    """For regular expressions of any of the tools."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text)
