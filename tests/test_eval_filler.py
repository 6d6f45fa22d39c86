"""Filler: real functions, prompts that look like work, answers of a natural length; the same for a seed."""

from __future__ import annotations

import ast
import itertools
import os
import subprocess
import sys
import sysconfig
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from pace_local.errors import FileError
from pace_local.eval.filler import (
    CHARACTERS_A_TOKEN,
    LONGEST_ANSWER,
    SHORTEST_ANSWER,
    FillerTurn,
    filler_turns,
)

LIBRARY = Path(sysconfig.get_paths()["stdlib"])


@pytest.fixture(scope="module")
def turns() -> list[FillerTurn]:
    return list(itertools.islice(filler_turns(0), 150))


def a_function(name: str, lines: int = 30) -> str:
    body = "".join(f"    total += value * {i} if value > {i} else {i}\n" for i in range(lines))
    return f"def {name}(value, total=0):\n{body}    return total\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(a_function("first") + "\n\n" + a_function("second"))
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "b.py").write_text(
        "class Thing:\n" + textwrap.indent("@staticmethod\n" + a_function("third"), "    ")
    )
    return tmp_path


def test_no_answer_is_short_and_none_is_endless(turns: list[FillerTurn]) -> None:
    for turn in turns:
        assert SHORTEST_ANSWER <= len(turn.answer) <= LONGEST_ANSWER
        assert len(turn.answer.split()) >= 15
        assert 30 <= len(turn.prompt) <= 300


def test_excerpts_are_whole_functions_of_a_usable_length(turns: list[FillerTurn]) -> None:
    for turn in turns:
        assert 150 * CHARACTERS_A_TOKEN <= len(turn.text) <= 600 * CHARACTERS_A_TOKEN
        (node,) = ast.parse(turn.text).body
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def test_a_name_says_where_the_text_stands(turns: list[FillerTurn]) -> None:
    for turn in turns:
        path, _, numbers = turn.name.rpartition(":")
        first, last = map(int, numbers.split("-"))
        lines = (LIBRARY / path).read_text(encoding="utf-8").splitlines(keepends=True)
        assert textwrap.dedent("".join(lines[first - 1 : last])).rstrip() + "\n" == turn.text


def test_prompt_and_answer_are_about_the_function(turns: list[FillerTurn]) -> None:
    for turn in turns:
        (node,) = ast.parse(turn.text).body
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        assert f"{node.name}`" in turn.prompt
        assert "None of them" not in turn.answer or "`" in turn.answer


def test_code_in_answers_is_python_and_fences_are_closed(turns: list[FillerTurn]) -> None:
    with_code = [turn for turn in turns if "```" in turn.answer]
    assert with_code
    for turn in with_code:
        _, code, _ = turn.answer.split("```")
        assert code.startswith("python\n")
        ast.parse(code.removeprefix("python\n"))


def test_added_types_leave_the_function_as_it_is(turns: list[FillerTurn]) -> None:
    typed = [turn for turn in turns if turn.prompt.startswith("Add type annotations")]
    assert typed
    for turn in typed:
        before, after = ast.parse(turn.text).body[0], ast.parse(turn.answer.split("```")[1][7:]).body[0]
        assert isinstance(before, (ast.FunctionDef, ast.AsyncFunctionDef))
        assert isinstance(after, (ast.FunctionDef, ast.AsyncFunctionDef))
        assert ast.unparse(after.args) != ast.unparse(before.args)
        for node in (*ast.walk(before.args), *ast.walk(after.args)):
            if isinstance(node, ast.arg):
                node.annotation = None
        assert ast.unparse(after) == ast.unparse(before)


def test_turns_differ_in_text_and_in_what_is_asked(turns: list[FillerTurn]) -> None:
    assert len({turn.name for turn in turns}) == len(turns)
    assert len({turn.answer for turn in turns}) == len(turns)
    asked = Counter(turn.prompt.split()[0] for turn in turns)
    assert len(asked) == 5
    assert max(asked.values()) < len(turns) / 2


def test_every_file_is_used_before_one_is_used_again(library: Path) -> None:
    for seed in range(4):
        names = [turn.name.partition(":")[0] for turn in itertools.islice(filler_turns(seed, library), 3)]
        assert set(names[:2]) == {"a.py", "pack/b.py"}
        assert names[2] == "a.py"


def test_it_never_ends_and_asks_something_else_the_next_time(library: Path) -> None:
    turns = list(itertools.islice(filler_turns(0, library), 3 * 10))
    assert len({turn.name for turn in turns}) == 3
    for one, later in zip(turns[:3], turns[3:6], strict=True):
        assert one.name == later.name
        assert one.prompt != later.prompt


def test_a_seed_reproduces_and_another_differs(turns: list[FillerTurn]) -> None:
    assert list(itertools.islice(filler_turns(0), 30)) == turns[:30]
    assert list(itertools.islice(filler_turns(1), 30)) != turns[:30]


def test_another_process_with_other_hashes_makes_the_same(turns: list[FillerTurn]) -> None:
    script = (
        "from itertools import islice\nfrom pace_local.eval.filler import filler_turns\n"
        "print(ascii(list(islice(filler_turns(0), 8))))"
    )
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        assert printed.decode() == f"{turns[:8]!a}{os.linesep}"


def test_the_order_of_the_file_system_does_not_matter(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(itertools.islice(filler_turns(3, library), 6))
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda top: reversed([(at, [], n[::-1]) for at, _, n in walk(top)]))
    assert list(itertools.islice(filler_turns(3, library), 6)) == expected


def test_what_cannot_be_used_is_skipped(library: Path) -> None:
    expected = list(itertools.islice(filler_turns(3, library), 6))
    (library / "broken.py").write_text("def f(:\n")
    (library / "latin.py").write_bytes(a_function("fourth").encode() + b"# caf\xe9\n")
    (library / "null.py").write_text("x = '\0'\n")
    (library / "short.py").write_text(a_function("short", 1))
    (library / "long.py").write_text(a_function("long", 400))
    (library / "feed.py").write_text(
        "\f\n" + a_function("fed").replace("total += value * 3", "\x0ctotal += 3")
    )
    (library / "fence.py").write_text(a_function("fence") + "    # ```\n    return total\n")
    (library / "far.py").mkdir()
    (library / "test").mkdir()
    (library / "test" / "test_x.py").write_text(a_function("tested"))
    again = list(itertools.islice(filler_turns(3, library), 6))
    assert {turn.name for turn in again} == {turn.name for turn in expected}


@pytest.mark.parametrize("content", [None, "x = 1\n"])
def test_a_folder_without_functions_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.py").write_text(content)
    with pytest.raises(FileError, match="no Python function of 150 to 600 tokens under"):
        next(filler_turns(0, tmp_path))
