"""The Python that a repository's tests are run with."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_BINARIES = (("bin", "python"), ("Scripts", "python.exe"))


@dataclass(frozen=True)
class Interpreter:
    """A Python, as a shell command calls it from the repository's folder."""

    command: str
    """Quoted for a shell."""
    has_pytest: bool
    why: str


def interpreter_of(repository: Path, *, needs_pytest: bool = True) -> Interpreter:
    """The repository's own environment if it has pytest, else the first Python that has it.

    Args:
        repository: its folder; an environment is looked for in ``.venv``, ``venv``, ``env`` and ``.env``.
        needs_pytest: whether one without pytest will not do while there is one that has it.
    """
    found = list(_interpreters(repository))
    return next((one for one in found if one.has_pytest or not needs_pytest), found[0])


def _interpreters(repository: Path) -> Iterator[Interpreter]:
    for folder in _ENVIRONMENTS:
        for place, name in _BINARIES:
            python = repository / folder / place / name
            if os.access(python, os.X_OK) and not python.is_dir():
                command = shlex.quote(f"{folder}/{place}/{name}")
                yield Interpreter(command, _has_pytest(repository / folder), f"the environment in {folder}")
    yield Interpreter(_own(), importlib.util.find_spec("pytest") is not None, "this Python")
    pytest = shutil.which("pytest")
    if pytest is not None:
        beside = Path(pytest).parent / "python"
        if os.access(beside, os.X_OK):
            yield Interpreter(shlex.quote(str(beside)), True, "the Python of the installed pytest")


def _has_pytest(environment: Path) -> bool:
    patterns = ("lib/python*/site-packages/pytest", "Lib/site-packages/pytest")
    return any(next(environment.glob(pattern), None) is not None for pattern in patterns)


def _own() -> str:
    """This process's Python, by its short name where a shell finds the same one."""
    own = os.path.abspath(sys.executable)
    for name in ("python", "python3"):
        found = shutil.which(name)
        # Not resolved: an environment's Python is a link to one without its packages.
        if found is not None and os.path.abspath(found) == own:
            return name
    return shlex.quote(own)
