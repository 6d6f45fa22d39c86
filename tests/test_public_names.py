"""The names that scripts import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import pace_local


def test_all_names_are_there_and_sorted() -> None:
    assert pace_local.__all__ == sorted(pace_local.__all__)
    for name in pace_local.__all__:
        assert getattr(pace_local, name) is not None
    assert {*pace_local._HOMES} | {"__version__"} == set(pace_local.__all__)


@pytest.mark.parametrize("name", [name for name in pace_local.__all__ if name != "__version__"])
def test_every_name_is_documented_with_its_public_parts(name: str) -> None:
    thing = getattr(pace_local, name)
    assert thing.__module__.startswith("pace_local.")
    assert inspect.getdoc(thing), name
    for part, value in vars(thing).items():
        if not part.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
            assert inspect.getdoc(value), f"{name}.{part}"


def test_a_star_import_brings_just_these() -> None:
    names: dict[str, object] = {}
    exec("from pace_local import *", names)
    assert set(names) - {"__builtins__"} == set(pace_local.__all__)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'pace_local' has no attribute 'Modell'"):
        pace_local.Modell  # noqa: B018


def test_importing_costs_nothing() -> None:
    """Neither numpy nor the bindings nor the native library; a command that shows its help must not wait."""
    code = (
        "import sys, pace_local\n"
        "heavy = {'numpy', 'llama_cpp', 'jinja2', 'gguf', 'psutil', 'ctypes', 'pace_local._native'}\n"
        "print(sorted(heavy & set(sys.modules)), pace_local.__version__)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"[] {pace_local.__version__}\n"
    assert run.stderr == ""


def test_the_library_is_loaded_when_it_is_first_needed() -> None:
    code = (
        "import sys\n"
        "from pace_local import Plan, SessionConfig, Step, _native\n"
        "before = 'llama_cpp.llama_cpp' in sys.modules\n"
        "_native.llama\n"
        "print(before, 'llama_cpp.llama_cpp' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False True\n"
    assert run.stderr == "", "no stray lines of the native side"
