"""The native library that is installed is the one that this source makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "native"
sys.path.insert(0, str(NATIVE))

import prepare
from upstream import read_pin


def installed_library() -> Path:
    import pace_local

    for folder in pace_local.__path__:
        if (Path(folder) / "lib/build.json").is_file():
            return Path(folder) / "lib"
    pytest.fail("no native library is installed; run scripts/test")


def test_installed_library_is_built_from_these_patches() -> None:
    build = json.loads((installed_library() / "build.json").read_text())
    assert build["patch"] == prepare.tree_key(read_pin(NATIVE / "upstream.txt"), prepare.patches_in(NATIVE))
    assert build["llama_cpp_python"] == read_pin(NATIVE / "upstream.txt").version
    assert build["build_type"] == "Release"
    assert set(build["backends"]) >= {"ggml-cpu"}
    assert build["isa"]


def test_upstream_licences_are_installed() -> None:
    for name in ["LICENSE.llama.cpp", "LICENSE.llama-cpp-python"]:
        assert "Permission is hereby granted" in (installed_library() / name).read_text()


def test_pin_and_dependency_are_the_same_release() -> None:
    pin = read_pin(NATIVE / "upstream.txt")
    assert f'"{pin.name}=={pin.version}"' in (ROOT / "pyproject.toml").read_text()
