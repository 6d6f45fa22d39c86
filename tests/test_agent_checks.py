from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pace_agent.checking import python_interpreter
from pace_agent.checking.checks import Check, check_of, find_check, narrow, syntax_problem
from pace_agent.checking.commands import tool_of
from pace_agent.checking.failures import parse_failures

PYTEST_FILE = (
    "def test_total():\n    assert 1 == 2\n\n\nclass TestIn:\n    def test_other(self):\n        pass\n"
)
UNIT_FILE = (
    "import unittest\n\n\nclass TotalTest(unittest.TestCase):\n"
    "    def test_total(self):\n        self.fail()\n\n    def test_fine(self):\n        pass\n"
)


def filled(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def with_python(root: Path, folder: str = ".venv", *, has_pytest: bool = True) -> Path:
    python = root / folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    if has_pytest:
        (root / folder / "lib" / "python3.11" / "site-packages" / "pytest").mkdir(parents=True)
    return root


@pytest.mark.parametrize(
    "files",
    [
        {"tests/test_a.py": PYTEST_FILE},
        {"test_a.py": "import unittest\n"},
        {"shop/tests/a_test.py": PYTEST_FILE},
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q'\n"},
        {"pytest.ini": "[pytest]\n"},
        {"setup.cfg": "[tool:pytest]\n"},
        {"tox.ini": "[testenv]\ncommands = pytest {posargs}\n"},
        {"tox.ini": "[pytest]\n"},
    ],
)
def test_python_with_its_own_environment(tmp_path: Path, files: dict[str, str]) -> None:
    check = find_check(with_python(filled(tmp_path, files)))
    assert check is not None
    assert check.command == ".venv/bin/python -m pytest -q --tb=short"
    assert check.tool == "pytest"
    assert ".venv" in check.why


def test_python_without_an_environment_is_this_one(tmp_path: Path) -> None:
    check = find_check(filled(tmp_path, {"tests/test_a.py": PYTEST_FILE}))
    assert check is not None
    python = shlex.split(check.command)[0]
    assert python in ("python", "python3") or os.path.samefile(python, sys.executable)
    done = subprocess.run(
        check.command, shell=True, cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert parse_failures(done.stdout, tmp_path).tests == ("tests/test_a.py::test_total",)


def test_an_environment_without_pytest_is_passed_over(tmp_path: Path) -> None:
    root = with_python(filled(tmp_path, {"tests/test_a.py": PYTEST_FILE}), has_pytest=False)
    with_python(root, "venv")
    check = find_check(root)
    assert check is not None
    assert check.command.startswith("venv/bin/python -m pytest")


def test_unittest_where_nothing_has_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_interpreter.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    root = with_python(filled(tmp_path, {"tests/test_a.py": UNIT_FILE}), has_pytest=False)
    check = find_check(root)
    assert check is not None
    assert check.command == ".venv/bin/python -m unittest discover -s tests"
    done = subprocess.run(check.command, shell=True, cwd=root, capture_output=True, check=False, text=True)
    tests = parse_failures(done.stderr, root).tests
    assert tests == ("test_a.TotalTest.test_total",)
    again = subprocess.run(
        narrow(check, tests), shell=True, cwd=root, capture_output=True, check=False, text=True
    )
    assert "Ran 1 test " in again.stderr
    (root / "tests" / "__init__.py").touch()
    whole = find_check(root)
    assert whole is not None
    assert whole.command.endswith("discover -s tests -t .")


@pytest.mark.parametrize(
    ("files", "script", "command", "tool"),
    [
        ({}, "jest --ci", "npm test", "jest"),
        ({"pnpm-lock.yaml": ""}, "mocha", "pnpm test", "mocha"),
        ({"yarn.lock": ""}, "jest", "yarn test", "jest"),
        ({"bun.lockb": ""}, "vitest run", "bun run test", "vitest"),
        ({}, "vitest", "CI=true npm test", "vitest"),
        ({}, "react-scripts test", "CI=true npm test", "jest"),
        ({}, "node --test", "npm test", "node"),
        ({}, "tsc && jest", "npm test", ""),
    ],
)
def test_node(tmp_path: Path, files: dict[str, str], script: str, command: str, tool: str) -> None:
    filled(tmp_path, {**files, "package.json": json.dumps({"scripts": {"test": script}})})
    check = find_check(tmp_path)
    assert check is not None
    assert (check.command, check.tool) == (command, tool)
    assert script in check.why


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"go.mod": "module x\n"}, "go test ./..."),
        ({"Cargo.toml": '[package]\nname = "x"\n'}, "cargo test"),
        ({"Cargo.toml": '[workspace]\nmembers = ["a"]\n'}, "cargo test --workspace"),
        ({"Makefile": ".PHONY: test\nall:\n\ttrue\ntest: all\n\t./run\n"}, "make test"),
        ({"Makefile": "check:\n\t./run\n"}, "make check"),
        (
            {"CMakeLists.txt": "project(x)\nenable_testing()\n"},
            "cmake -S . -B build && cmake --build build && ctest --test-dir build --output-on-failure",
        ),
        (
            {"CMakeLists.txt": "add_test(a b)\n", "build/CMakeCache.txt": "", "Makefile": "test:\n"},
            "cmake --build build && ctest --test-dir build --output-on-failure",
        ),
    ],
)
def test_other_tools(tmp_path: Path, files: dict[str, str], command: str) -> None:
    check = find_check(filled(tmp_path, files))
    assert check is not None
    assert check.command == command
    assert check.why


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"a.py": "x = 1\n"},
        {"Makefile": "test := 1\ntests:\n"},
        {"CMakeLists.txt": "project(x)\n"},
        {"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})},
        {"package.json": "{"},
        {"package.json": "[1]"},
        {"package.json": '{"scripts": ["test"]}'},
        {"pyproject.toml": "= broken"},
        {"pyproject.toml": "tool = 3"},
        {"tox.ini": "broken"},
        {"setup.cfg": "[a]\nx = %(y)s\n[a]\n"},
        {"Makefile/test": ""},
    ],
)
def test_nothing_tells(tmp_path: Path, files: dict[str, str]) -> None:
    assert find_check(filled(tmp_path, files)) is None


@pytest.mark.parametrize(
    ("command", "tests", "expected"),
    [
        ("python -m pytest -q", ["a.py::t[b - c]"], "python -m pytest -q 'a.py::t[b - c]'"),
        ("python -m pytest -q tests", ["tests/a.py::t"], "python -m pytest -q tests/a.py::t"),
        ("pytest -x tests/a.py -k one -p no:x/y", ["b.py::t"], "pytest -x -k one -p no:x/y b.py::t"),
        ("cd a && pytest .", ["b.py::t"], "cd a && pytest b.py::t"),
        ("python -m unittest discover -s tests", ["a.T.t"], "python -m unittest discover -s tests -k a.T.t"),
        (
            "python -m unittest discover",
            ["tests/test_a.py::T::t"],
            "python -m unittest discover -k test_a.T.t",
        ),
        (
            "python -m unittest -v tests.test_a",
            ["tests.test_a.T.t"],
            "python -m unittest -v tests.test_a.T.t",
        ),
        ("npx jest", ["a b (c)", "d"], r"npx jest -t 'a b \(c\)|d'"),
        ("go test ./...", ["TestA/b c"], "go test ./... -run '^TestA$/^b c$'"),
        ("go test ./...", ["TestA/b", "TestC"], "go test ./... -run '^(TestA|TestC)$'"),
        ("cargo test", ["tests::a", "tests::b"], "cargo test -- --exact tests::a tests::b"),
        (
            "cmake --build b && ctest --test-dir b",
            ["a.b"],
            r"cmake --build b && ctest --test-dir b -R '^(a\.b)$'",
        ),
        ("make test", ["x"], "make test"),
        ("pytest -q", [], "pytest -q"),
        ("pytest -q", ["--evil", "a\nb"], "pytest -q"),
        ("pytest -q | tail", ["a.py::t"], "pytest -q | tail"),
        ("pytest -q", [f"a.py::t{n}" for n in range(21)], "pytest -q"),
        ("npx jest", ["a'; rm -rf x; '"], "npx jest -t 'a'\"'\"'; rm -rf x; '\"'\"''"),
        # What the shell makes something else of stays as it is written.
        ("cd backend; pytest -q tests", ["b.py::t"], "cd backend; pytest -q b.py::t"),
        ("~/venv/bin/pytest -q", ["b.py::t"], "~/venv/bin/pytest -q b.py::t"),
        ("A=$PWD B='c d' py -m pytest $MORE", ["b.py::t"], "A=$PWD B='c d' py -m pytest $MORE b.py::t"),
        ("pytest -m \"not slow\" 'a b/c.py'", ["b.py::t"], 'pytest -m "not slow" b.py::t'),
        ("cd a; python -m unittest -v b", ["b.T.t"], "cd a; python -m unittest -v b.T.t"),
        ("cd web || exit; npx jest", ["a"], "cd web || exit; npx jest -t a"),
        # What stands at the end is not the tests.
        ("(cd a; pytest -q )", ["b.py::t"], "(cd a; pytest -q )"),
        ("(cd a; go test ./... )", ["TestA"], "(cd a; go test ./... )"),
        ("pytest -q # all", ["b.py::t"], "pytest -q # all"),
        ("pytest -q &", ["b.py::t"], "pytest -q &"),
        ("pytest -q\ntrue", ["b.py::t"], "pytest -q\ntrue"),
        ("echo $(pytest -q )", ["b.py::t"], "echo $(pytest -q )"),
        ("if x; then pytest -q ; fi", ["b.py::t"], "if x; then pytest -q ; fi"),
        ("pytest -q 'a", ["b.py::t"], "pytest -q 'a"),
    ],
)
def test_narrow(command: str, tests: list[str], expected: str) -> None:
    assert narrow(Check(command, ""), tests) == expected


def test_narrow_passes_options_through_npm() -> None:
    assert narrow(Check("npm test", "", "jest"), ["adds up"]) == "npm test -- -t 'adds up'"
    assert narrow(Check("yarn test", "", "mocha"), ["adds up"]) == "yarn test -g 'adds up'"
    assert narrow(Check("npm test", ""), ["adds up"]) == "npm test"


@pytest.mark.parametrize("tool", ["jest", "vitest"])
def test_a_pattern_matches_titles_that_hold_what_separates_titles(tool: str) -> None:
    """Jest passes when its pattern matches no test, and so did the check."""
    for joined in ("compare › is true if a > b", "compare > is true if a > b"):
        narrowed = shlex.split(narrow(Check(f"npx {tool}", ""), [joined]))
        assert narrowed[:3] == ["npx", tool, "-t"]
        assert re.search(narrowed[3], "compare is true if a > b")
        assert not re.search(narrowed[3], "compare is true if a < c")


def test_tool_of_a_command() -> None:
    assert tool_of("/x/bin/pytest -q") == "pytest"
    assert tool_of("python -m pytestx") == ""
    assert tool_of("pytest > log") == ""


def test_narrowed_to_the_failing_test_only_that_one_runs(tmp_path: Path) -> None:
    check = find_check(filled(tmp_path, {"tests/test_a.py": PYTEST_FILE}))
    assert check is not None
    command = narrow(check, ["tests/test_a.py::TestIn::test_other"])
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=False, text=True)
    assert done.returncode == 0
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (
            "Make `pytest tests/test_a.py -k total` pass.",
            ".venv/bin/python -m pytest tests/test_a.py -k total",
        ),
        ("Run python -m pytest tests/test_a.py, then fix it.", ".venv/bin/python -m pytest tests/test_a.py"),
        ("run pytest and fix what fails", ".venv/bin/python -m pytest"),
        ("pytest fails", ".venv/bin/python -m pytest"),
        ("`npm run test:unit` fails. Why?", "npm run test:unit"),
        ("Please make `make check-all` pass", "make check-all"),
        ("go test ./orders/... is red", "go test ./orders/..."),
        ("fix tests/test_a.py::TestIn::test_other.", "PYTEST tests/test_a.py::TestIn::test_other"),
        ("The tests in tests/test_a.py fail", "PYTEST tests/test_a.py"),
        ("make test_other pass", "PYTEST tests/test_a.py::TestIn::test_other"),
        ("TestIn is broken", "PYTEST tests/test_a.py::TestIn"),
    ],
)
def test_a_check_named_in_the_prompt(tmp_path: Path, prompt: str, expected: str) -> None:
    root = with_python(filled(tmp_path, {"tests/test_a.py": PYTEST_FILE}))
    check = check_of(prompt, root)
    assert check is not None
    assert check.command == expected.replace("PYTEST", ".venv/bin/python -m pytest -q --tb=short")
    assert check.why == "named in the prompt"


@pytest.mark.parametrize(
    "prompt",
    [
        "Rename count to number.",
        "test_nothing is not there",
        "look at tests/test_none.py",
        "see ../tests/test_a.py",
        "make the test pass",
        "the contest is over",
    ],
)
def test_a_prompt_that_names_no_check(tmp_path: Path, prompt: str) -> None:
    root = filled(tmp_path / "repository", {"tests/test_a.py": PYTEST_FILE})
    filled(tmp_path, {"tests/test_a.py": PYTEST_FILE})
    assert check_of(prompt, root) is None


def test_a_go_test_named_in_the_prompt(tmp_path: Path) -> None:
    filled(
        tmp_path, {"go.mod": "module x\n", "a/a_test.go": "package a\n\nfunc TestTotal(t *testing.T) {}\n"}
    )
    check = check_of("TestTotal fails", tmp_path)
    assert check is not None
    assert check.command == "go test ./... -run '^TestTotal$'"


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("a.py", "x = 1\n\ndef f(:\n    pass\n", r"a\.py does not parse: near line 3, 'def f\(:'"),
        ("a.py", "def f():\nx = 1\n", r"a\.py does not parse: near line 2: expected an indented block"),
        ("a.py", "def f():\n        x = 1\n    y = 2\n", "near line 3: unindent does not match"),
        ("a.go", "package a\n\nfunc F( {\n}\n", "near line 3"),
        ("a.ts", "const x = {a: 1;\n", "near line 1"),
    ],
)
def test_syntax_problem(path: str, text: str, problem: str) -> None:
    said = syntax_problem(path, text)
    assert said is not None
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(said)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = 1\n"),
        ("a.py", ""),
        ("notes.md", "def f(:\n"),
        ("a.unknown", "((("),
        ("a.py", "match x:\n  case 1: pass\n"),
    ],
)
def test_no_syntax_problem(path: str, text: str) -> None:
    assert syntax_problem(path, text) is None
