"""Turns of other work between a definition and its use: real functions, and answers about them.

The functions are the installed standard library's, cut at their borders; what is said of them is read from
their syntax trees, so no model is needed. Answers have a natural length: from answers of two words a model
learns to stop early.
"""

from __future__ import annotations

import ast
import functools
import itertools
import os
import random
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pace_local.errors import FileError
from pace_local.eval.filler_answers import FORMS, Excerpt

CHARACTERS_A_TOKEN = 4
_SHORTEST, _LONGEST = 150 * CHARACTERS_A_TOKEN, 600 * CHARACTERS_A_TOKEN
SHORTEST_ANSWER = 200
"""Characters: about three sentences."""

LONGEST_ANSWER = 1600
"""Characters: a short function, written again."""
_LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip",
     "__pycache__", "pydoc_data", "__phello__", "encodings"}
)  # fmt: skip
"""Folders that hold other people's packages, tests, tables, or what a distribution may lack."""


@dataclass(frozen=True)
class FillerTurn:
    """One turn of other work: an excerpt, what is asked about it, and the answer that was given."""

    name: str
    """Of the excerpt, as file segments are named: ``shlex.py:305-321``."""

    text: str
    prompt: str
    answer: str


def filler_turns(seed: int, library: Path | None = None) -> Iterator[FillerTurn]:
    """Endless turns; the same seed gives the same turns on the same Python.

    One function of each file is used before a second of any. When every function was used once, they
    come again with another question.

    Args:
        seed: decides the order of files and functions, and what is asked.
        library: folder of Python files; None: this interpreter's standard library.

    Raises:
        FileError: if the folder holds no function of a usable length.
    """
    library = Path(sysconfig.get_paths()["stdlib"]) if library is None else library
    cuts: list[_Cut] = []
    for cut in _one_of_each(seed, library):
        cuts.append(cut)
        yield from _turn(cut, _first_form(seed, cut))
    if not cuts:
        raise FileError(f"no Python function of 150 to 600 tokens under {library}; give another folder")
    for lap in itertools.count(1):
        for cut in cuts:
            yield from _turn(cut, _first_form(seed, cut) + lap)


def _one_of_each(seed: int, library: Path) -> Iterator[_Cut]:
    """Every function once. Files are read when they are first needed: a short session needs few."""
    files = _files(library)
    random.Random(f"filler:{seed}").shuffle(files)
    waiting: list[list[_Cut]] = []
    for file in files:
        found = list(_cuts(library, file))
        random.Random(f"filler:{seed}:{file.as_posix()}").shuffle(found)
        if found:
            yield found.pop()
            waiting.append(found)
    while waiting:
        waiting = [left for left in waiting if left]
        for left in waiting:
            yield left.pop()


def _first_form(seed: int, cut: _Cut) -> int:
    return random.Random(f"filler:{seed}:{cut.path}:{cut.first}").randrange(len(FORMS))


def _turn(cut: _Cut, first_form: int) -> Iterator[FillerTurn]:
    """One turn in the first form, from this one on, whose answer has a natural length; none if none has."""
    node = _parsed(cut.text).body[0]
    assert isinstance(node, _Function)
    excerpt = Excerpt(cut.path, cut.first, cut.last, cut.owner, node)
    for i in range(len(FORMS)):
        made = FORMS[(first_form + i) % len(FORMS)](excerpt)
        if made is not None and SHORTEST_ANSWER <= len(made[1]) <= LONGEST_ANSWER:
            yield FillerTurn(excerpt.name, cut.text, *made)
            return


def _files(library: Path) -> list[Path]:
    """Python files below a folder, relative to it, in an order that no file system decides."""
    found = []
    for folder, inner, names in os.walk(library):
        inner[:] = [name for name in inner if name not in _LEFT_OUT]  # they are larger than all the rest
        below = Path(folder).relative_to(library)
        found += [below / name for name in names if name.endswith(".py")]
    return sorted(found, key=lambda path: path.parts)


@dataclass(frozen=True)
class _Cut:
    """A function as text, without its syntax tree, which takes far more memory."""

    path: str
    first: int
    last: int
    owner: str | None
    text: str


def _parsed(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes in old code
        return ast.parse(source)


@functools.lru_cache(maxsize=4096)
def _cuts(library: Path, file: Path) -> tuple[_Cut, ...]:
    """Functions of a usable length of one file, in order; none if it cannot be read or parsed."""
    try:
        source = (library / file).read_text(encoding="utf-8")
        tree = _parsed(source)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    lines = source.splitlines(keepends=True)
    if len(lines) != len(source.split("\n")) - source.endswith("\n"):
        return ()  # form feeds and the like: lines here and in the tree differ
    cuts = []
    for node, owner in _functions(tree, None):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        assert node.end_lineno is not None
        text = textwrap.dedent("".join(lines[first - 1 : node.end_lineno])).rstrip() + "\n"
        is_flush = not text[0].isspace()  # else a string inside reaches further left
        if _SHORTEST <= len(text) <= _LONGEST and is_flush and "```" not in text and text.isascii():
            cuts.append(_Cut(file.as_posix(), first, node.end_lineno, owner, text))
    return tuple(cuts)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(parent: ast.AST, owner: str | None) -> Iterator[tuple[_Function, str | None]]:
    """Functions and methods with the class that they are of, in order; not those inside functions."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, owner
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, node.name)
        elif isinstance(node, ast.stmt):
            yield from _functions(node, owner)
