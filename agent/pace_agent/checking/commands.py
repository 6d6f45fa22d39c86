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
_WORD = re.compile(
    r"""[ \t]*(&&|\|\||;|(?:[^\s"'\\`;&|<>()#]|\\[^\n]|(?<=\S)\#|'[^']*'|"(?:[^"\\`]|\\.)*")+)""", re.DOTALL
)
"""A word of a shell command as it is written, or what joins two commands. What starts other commands, sends
output elsewhere or is a comment has none: there, what stands at the end may not be the tests."""
_JOINTS = ("&&", "||", ";")
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
    command = check.command.strip()
    if not _last_part(command)[1]:
        return check.command
    if tool == "pytest":
        return _pytest(command, wanted)
    if tool == "unittest":
        return _unittest(command, wanted)
    if tool in ("jest", "vitest", "mocha", "node"):
        option = {"mocha": "-g", "node": "--test-name-pattern"}.get(tool, "-t")
        # The tool tries the titles joined by spaces, and a title may hold what the output puts between them.
        pattern = "|".join(re.sub(r" [›>] ", " (. )?", _escaped(one)) for one in wanted)
        through = " --" if re.search(r"\bnpm (?:run )?test\b", command) else ""
        return f"{command}{through} {option} {shlex.quote(pattern)}"
    if tool == "go":
        return f"{command} -run {shlex.quote(_go_pattern(wanted))}"
    if tool == "cargo":
        separator = "" if " -- " in command else " --"
        return f"{command}{separator} --exact {shlex.join(wanted)}"
    if tool == "ctest":
        pattern = "|".join(_escaped(one) for one in wanted)
        return f"{command} -R {shlex.quote(f'^({pattern})$')}"
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
    head, written = _last_part(command)
    words = [_plain(word) for word in written]
    start = next(
        (at for at, word in enumerate(words) if re.search(r"(?:^|/)(?:pytest|py\.test)$", word)), None
    )
    if start is None:
        return command
    kept = written[: start + 1]
    takes_value = False
    for word, raw in zip(words[start + 1 :], written[start + 1 :], strict=True):
        if takes_value or word.startswith("-") or not _PATH.search(word):
            kept.append(raw)
        takes_value = (
            not takes_value
            and _WITH_VALUE.match(word) is not None
            and word not in _BARE
            and not _PYTEST_FLAGS.match(word)
        )
    return head + " ".join([*kept, shlex.join(ids)])


def _unittest(command: str, tests: list[str]) -> str:
    ids = [one for one in map(_unittest_id, tests) if re.fullmatch(r"[\w.]+", one)]
    if not ids:
        return command
    if " discover" in command:
        return command + "".join(f" -k {one}" for one in ids)
    head, words = _last_part(command)
    if "unittest" not in words:
        return command
    start = words.index("unittest") + 1
    options = [word for word in words[start:] if word.startswith("-")]
    return head + " ".join([*words[:start], *options, shlex.join(ids)])


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


def _last_part(command: str) -> tuple[str, list[str]]:
    """What comes before the last part of a command, and the words of that part as they are written.

    So the shell makes of them what it made of the command. There are no words where something may come after
    them that is no part of it.
    """
    words: list[str] = []
    start = at = 0
    while at < len(command):
        found = _WORD.match(command, at)
        if found is None:
            return command, []
        at = found.end()
        if found[1] in _JOINTS:
            start, words = at, []
        else:
            words.append(found[1])
    return command[:start] + " " * bool(start), words


def _plain(word: str) -> str:
    """A written word without its quotes."""
    return "".join(shlex.split(word)[:1])


def _go_pattern(tests: list[str]) -> str:
    if len(tests) == 1:
        return "/".join(f"^{_escaped(part)}$" for part in tests[0].split("/"))
    names = dict.fromkeys(one.partition("/")[0] for one in tests)  # one level: depths cannot be mixed
    return f"^({'|'.join(_escaped(name) for name in names)})$"


def _escaped(text: str) -> str:
    """For regular expressions of any of the tools."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text)
