"""The command that says whether work on a repository is right, and a file's syntax."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_agent.checking.commands import Check, narrow
from pace_agent.checking.python_interpreter import interpreter_of
from pace_agent.editing.syntax_faults import syntax_fault
from pace_agent.errors import EditError
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.outline import Outline
from pace_agent.repository.walk import Walk

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Check", "check_of", "find_check", "narrow", "syntax_problem"]

_PYTEST = "-m pytest -q --tb=short"
_LARGEST = 1_000_000
_MOST_FILES = 20_000
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_USES_PYTEST = re.compile(r"^\s*(?:import pytest|from pytest\b)|^(?:async )?def test_", re.MULTILINE)
_USES_UNITTEST = re.compile(r"^\s*(?:import unittest|from unittest\b)", re.MULTILINE)
_LOCKS = {
    "pnpm-lock.yaml": "pnpm test",
    "yarn.lock": "yarn test",
    "bun.lock": "bun run test",
    "bun.lockb": "bun run test",
}
_RUNNERS = "|".join(
    [
        r"(?:python3?(?:\.\d+)? -m (?:pytest|unittest)|pytest|py\.test|tox|nox|ctest",
        r"npx (?:jest|vitest|mocha)",
        r"(?:npm|pnpm|yarn|bun)(?: run)? test[\w:]*",
        r"go test|cargo (?:test|nextest run)",
        r"make (?:test|check)(?:-[\w-]+)?",
        r"node --test|(?:\./)?(?:gradlew|mvnw|gradle|mvn) test",
        r"\./[\w./-]*(?:test|check)[\w.-]*)",
    ]
)
_QUOTED_COMMAND = re.compile(rf"[`\"']\s*\$?\s*({_RUNNERS}(?![\w-])[^`\"\n]*?)[`\"']")
_ARGUMENT = r"(?:-[\w-]+(?:=\S+)?|[\w.\-\[\]]*[/:][\w./:\-\[\]]*|[\w-]+\.py)"
_BARE_COMMAND = re.compile(rf"(?:^|(?<=[\s(:]))({_RUNNERS}(?![\w-])(?:[ \t]+{_ARGUMENT})*)")
_TEST_ID = re.compile(r"(?<![\w/.-])([\w./-]+\.py)(::[\w.:]+(?:\[[^\]\n]*\])?)?")
_TEST_NAME = re.compile(r"\b(?:[A-Z]\w*\.)?(test_\w+|Test[A-Z]\w*)\b")


@dataclass(frozen=True)
class _Tests:
    """Python's tests in a repository."""

    files: tuple[str, ...]
    is_configured: bool
    uses_pytest: bool
    uses_unittest: bool


def find_check(repository: Path) -> Check | None:
    """The command that says by its exit code whether the work is right; None if nothing tells.

    Looked for are, in this order, Python's tests (with the repository's own environment if it has one),
    ``scripts.test`` of ``package.json``, ``go.mod``, ``Cargo.toml``, tests of ``CMakeLists.txt``, and a
    target ``test`` or ``check`` of a makefile. Nothing is run.

    Args:
        repository: its folder, in which the command is to run.
    """
    for look in (_python, _node, _go, _cargo, _cmake, _make):
        check = look(repository)
        if check is not None:
            return check
    return None


def check_of(prompt: str, repository: Path) -> Check | None:
    """The check that a prompt names: a command, a test's id, a test file, or a test's name.

    Args:
        prompt: of a user.
        repository: in which files and tests are looked for.
    """
    command = _QUOTED_COMMAND.search(prompt) or _BARE_COMMAND.search(prompt)
    if command is not None:
        said = re.sub(r"(?<!\.)\.$", "", command[1].strip().rstrip(",;:!?)"))
        if command.re is _QUOTED_COMMAND or not said.startswith("make ") or _make(repository) is not None:
            return Check(_with_interpreter(said, repository), "named in the prompt")
    tests = list(_named_tests(prompt, repository))
    if not tests:
        return None
    found = find_check(repository) or Check(f"{interpreter_of(repository).command} {_PYTEST}", "")
    narrowed = narrow(found, tests)
    return Check(narrowed, "named in the prompt", found.tool) if narrowed != found.command else None


def syntax_problem(path: str, text: str) -> str | None:
    """Why a file does not parse, in a line for the model; None if it does, or its language is not known.

    Args:
        path: of the file; says the language.
        text: of the file.
    """
    try:
        outline = Outline(text, path)
    except EditError:
        return None
    fault = syntax_fault(outline)
    return f"{path} does not parse: {fault}" if fault else None


# ---- one look for each kind of repository


def _python(repository: Path) -> Check | None:
    tests = _python_tests(repository)
    if not tests.files and not tests.is_configured:
        return None
    wants_pytest = tests.is_configured or tests.uses_pytest or not tests.uses_unittest
    python = interpreter_of(repository)
    if python.has_pytest or wants_pytest:
        why = "pytest is configured" if tests.is_configured else f"there are tests such as {tests.files[0]}"
        return Check(f"{python.command} {_PYTEST}", f"{why}; with {python.why}", "pytest")
    python = interpreter_of(repository, needs_pytest=False)
    folder = tests.files[0].rpartition("/")[0].partition("/")[0]
    options = ""
    if folder:
        is_package = (repository / folder / "__init__.py").is_file()
        options = f" -s {folder}" + (" -t ." if is_package else "")
    if tests.files[0].endswith("_test.py"):
        options += " -p '*_test.py'"
    why = f"there are tests such as {tests.files[0]}, and no pytest; with {python.why}"
    return Check(f"{python.command} -m unittest discover{options}", why, "unittest")


def _python_tests(repository: Path) -> _Tests:
    files = sorted(
        entry.path
        for entry in Walk(Ignoring(repository), most_files=_MOST_FILES)
        if not entry.is_folder and _TEST_FILE.search(entry.path)
    )
    files.sort(key=lambda path: (path.count("/"), path))
    texts = [_read(repository / path) for path in files[:50]]
    return _Tests(
        tuple(files),
        _is_pytest_configured(repository),
        any(_USES_PYTEST.search(text) for text in texts),
        any(_USES_UNITTEST.search(text) for text in texts),
    )


def _is_pytest_configured(repository: Path) -> bool:
    if any((repository / name).is_file() for name in ("pytest.ini", ".pytest.ini", "conftest.py")):
        return True
    tool = _toml(repository / "pyproject.toml").get("tool")
    if isinstance(tool, dict) and "pytest" in tool:
        return True
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(_read(repository / name))
        except ConfigParserError:
            continue
        commands = parser.get("testenv", "commands", fallback="") if name == "tox.ini" else ""
        if parser.has_section(section) or "pytest" in commands:
            return True
    return False


def _node(repository: Path) -> Check | None:
    try:
        package = json.loads(_read(repository / "package.json") or "null")
    except ValueError:
        return None
    scripts = package.get("scripts") if isinstance(package, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or "no test specified" in script:
        return None
    manager = str(package.get("packageManager", "")).partition("@")[0]
    by_lock = next((command for lock, command in _LOCKS.items() if (repository / lock).is_file()), None)
    by_name = {"pnpm": "pnpm test", "yarn": "yarn test", "bun": "bun run test"}.get(manager)
    command = by_name or by_lock or "npm test"
    if re.search(r"--watch|\breact-scripts test\b|^vitest(?! run)", script):
        command = f"CI=true {command}"  # else it waits for changes
    tool = next((one for one in ("jest", "react-scripts", "vitest", "mocha") if one in script), "")
    tool = "node" if not tool and "--test" in script else tool.replace("react-scripts", "jest")
    if re.search(r"&&|\|\||;|\|", script):
        tool = ""  # options for its last part are not for the tests
    return Check(command, f"package.json says that test is {script!r}", tool)


def _go(repository: Path) -> Check | None:
    if not (repository / "go.mod").is_file():
        return None
    return Check("go test ./...", "there is a go.mod", "go")


def _cargo(repository: Path) -> Check | None:
    if not (repository / "Cargo.toml").is_file():
        return None
    is_workspace = "workspace" in _toml(repository / "Cargo.toml")
    return Check(f"cargo test{' --workspace' * is_workspace}", "there is a Cargo.toml", "cargo")


def _cmake(repository: Path) -> Check | None:
    text = _read(repository / "CMakeLists.txt")
    if not re.search(r"^\s*(?:enable_testing|include\s*\(\s*CTest|add_test)\b", text, re.MULTILINE | re.I):
        return None
    is_built = (repository / "build" / "CMakeCache.txt").is_file()
    first = "" if is_built else "cmake -S . -B build && "
    command = f"{first}cmake --build build && ctest --test-dir build --output-on-failure"
    return Check(command, "CMakeLists.txt has tests", "ctest")


def _make(repository: Path) -> Check | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        text = _read(repository / name)
        for target in ("test", "check"):
            if re.search(rf"^(?:[\w.\-]+ )*{target}(?: [\w.\- ]+)?\s*::?(?![=:])", text, re.MULTILINE):
                return Check(f"make {target}", f"{name} has a target {target}", "make")
    return None


# ---- what a prompt names


def _with_interpreter(command: str, repository: Path) -> str:
    """The command with the Python that has pytest, where it says none in particular."""
    found = re.match(r"(?:(?:python3?(?:\.\d+)?) -m )?(pytest|py\.test|unittest)(?![\w-])", command)
    if found is None:
        return command
    module = "unittest" if found[1] == "unittest" else "pytest"
    python = interpreter_of(repository, needs_pytest=module == "pytest")
    return f"{python.command} -m {module}{command[found.end() :]}"


def _named_tests(prompt: str, repository: Path) -> Iterator[str]:
    """Ids of tests, as their tools take them."""
    found = False
    for match in _TEST_ID.finditer(prompt):
        path, rest = match[1].removeprefix("./"), (match[2] or "").rstrip(".:")
        if _TEST_FILE.search(path) and ".." not in path and (repository / path).is_file():
            found = True
            yield path + rest
    if found:
        return
    names = dict.fromkeys(_TEST_NAME.findall(prompt))
    if names:
        yield from _definitions(list(names), repository)


def _definitions(names: list[str], repository: Path) -> Iterator[str]:
    """Ids of tests by their names alone, of every file that defines them."""
    words = re.compile(rf"\b(?:def|class|func) (?:{'|'.join(map(re.escape, names))})\b")
    for entry in Walk(Ignoring(repository), most_files=_MOST_FILES):
        if not entry.path.endswith(("_test.go", ".py")) or entry.is_folder:
            continue
        text = _read(repository / entry.path)
        if not words.search(text):
            continue
        if entry.path.endswith(".go"):
            yield from (name for name in names if re.search(rf"^func {name}\(", text, re.MULTILINE))
        elif _TEST_FILE.search(entry.path):
            for one in Outline(text, entry.path).definitions:
                if one.name.rpartition(".")[2] in names and one.kind in ("function", "type"):
                    yield f"{entry.path}::{one.name.replace('.', '::')}"


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        document: dict[str, Any] = tomllib.loads(_read(path))
        return document
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _read(path: Path) -> str:
    """A file's text; empty if there is none, or it is no text of a sensible size."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
