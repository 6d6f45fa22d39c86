"""scripts/_setup.sh and scripts/pace: what is done, when, and what is said when it cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def in_setup(root: Path, command: str, **environment: str) -> str:
    """What ``command`` prints when run with scripts/_setup.sh of ``root`` sourced."""
    keep = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    script = f'. "$1/scripts/_setup.sh"; {command}'
    run = subprocess.run(
        ["bash", "-c", script, "setup", str(root)],
        capture_output=True,
        text=True,
        check=True,
        env=keep | environment,
    )
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what setting up reads, at a path with spaces."""
    root = tmp_path / "a check out"
    for name in ["scripts", "native"]:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ["pyproject.toml", "CMakeLists.txt"]:
        shutil.copy(ROOT / name, root / name)
    return root


def test_fingerprint_follows_everything_that_the_build_depends_on(checkout: Path) -> None:
    def look(**environment: str) -> str:
        return in_setup(checkout, "fingerprint", **environment)

    first = look()
    assert len(first) == 12
    assert look() == first
    assert look(CMAKE_ARGS="-DGGML_CUDA=on") != first
    assert look(CXX="clang++") != first
    assert look(PACE_VENV=str(checkout / "other")) != first
    seen = {first}
    for name in ["native/upstream.txt", "native/src/pace_new.cpp", "native/include/pace.h", "pyproject.toml"]:
        with (checkout / name).open("a") as file:
            file.write("\n")
        seen.add(look())
    assert len(seen) == 5
    (checkout / "native/README.md").write_text("words\n")
    (checkout / "native/__pycache__").mkdir()
    (checkout / "native/__pycache__/x.pyc").write_text("")
    assert look() in seen


def test_build_folder_follows_the_processor(checkout: Path) -> None:
    """A cached build made on another CPU died with SIGILL."""
    here = in_setup(checkout, "build_options | short_hash")
    there = in_setup(checkout, "processor() { echo 'flags : sse2'; }; build_options | short_hash")
    assert here != there


PRETEND = """
check_compiler() { :; }
make_venv() { mkdir -p "$venv/bin"; }
install_tools() { :; }
fetch_upstream() { :; }
install_bindings() { :; }
pip_install() {
    printf '#!/bin/sh\\n' | tee "$venv/bin/pace" >"$python"
    chmod +x "$venv/bin/pace" "$python"
}
"""


def test_options_of_a_build_hold_until_others_are_given(checkout: Path) -> None:
    """A plain command put the library for the CPU back where one for a graphics card was."""
    in_setup(checkout, f"{PRETEND} setup", CMAKE_ARGS="-DGGML_CUDA=on -DX='a b'")
    ready = 'is_ready run "$(fingerprint)" && echo ready || echo not'
    assert in_setup(checkout, ready) == "ready"
    assert in_setup(checkout, ready, CMAKE_ARGS="") == "not"
    assert in_setup(checkout, "bash -c 'echo $CMAKE_ARGS'") == "-DGGML_CUDA=on -DX='a b'"
    with (checkout / "native/upstream.txt").open("a") as file:
        file.write("\n")
    assert in_setup(checkout, ready) == "not"
    said = in_setup(checkout, f"{PRETEND} setup 2>&1")
    assert """with CMAKE_ARGS="-DGGML_CUDA=on -DX='a b'", as before; CMAKE_ARGS= builds without""" in said
    assert "with CMAKE_ARGS" not in in_setup(checkout, f"{PRETEND} setup 2>&1", CMAKE_ARGS="")
    assert in_setup(checkout, "echo ${CMAKE_ARGS-none}") == "none"


def made(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """``make_venv`` in a folder, with a program in place of Python's that says what it was called with."""
    return subprocess.run(
        ["bash", "-c", '. "$1/scripts/_setup.sh"; host_python=echo; make_venv', "setup", str(root)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/", "PACE_VENV": str(folder)},
    )


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("files", [["notes.txt"], ["bin/tool", "lib/x"], ["pyvenv.cfg", "bin/activate"]])
def test_a_folder_of_somebody_else_is_left_as_it_is(checkout: Path, tmp_path: Path, files: list[str]) -> None:
    folder = tmp_path / "some one's"
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("precious")
    before = contents(folder)
    run = made(checkout, folder)
    assert run.returncode == 2
    assert f"{folder} is not empty, and no virtual environment with pip: empty it, or name" in run.stderr
    assert contents(folder) == before


def test_a_virtual_environment_without_pip_gets_it_and_keeps_the_rest(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "uv"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr")
    (folder / "lib.py").write_text("precious")
    python = folder / "bin/python"
    python.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f'"-m ensurepip") touch "{folder}/pip" ;;\n"-m pip --version") [ -f "{folder}/pip" ] ;;\n'
        "*) exit 1 ;;\nesac\n"
    )
    python.chmod(0o755)
    before = contents(folder)
    run = made(checkout, folder)
    assert (run.returncode, run.stderr) == (0, f"[1/5] put pip into the virtual environment {folder}\n")
    assert contents(folder) == before | {"pip": ""}


def test_a_virtual_environment_made_here_that_broke_is_made_anew(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    assert made(checkout, folder).returncode == 0
    (folder / "lib/python3.9").mkdir(parents=True)
    (folder / "lib/python3.9/old.py").write_text("")
    (folder / "pace-tools").write_text("pip>=1")
    assert made(checkout, folder).returncode == 0
    assert contents(folder) == {"pace-tools": ""}
    assert (checkout / "build/log/venv.log").read_text() == f"-m venv {folder}\n"


def pretend_ready(root: Path) -> None:
    binaries = root / ".venv/bin"
    binaries.mkdir(parents=True)
    for name in ["python", "pace"]:
        (binaries / name).write_text('#!/bin/sh\necho "ran $0 with" "$@"\n')
        (binaries / name).chmod(0o755)
    (root / ".venv/pace-setup").write_text(f"run {in_setup(root, 'fingerprint')}\n")


def test_nothing_is_done_when_nothing_changed(checkout: Path, tmp_path: Path) -> None:
    pretend_ready(checkout)
    link = tmp_path / "pace link"
    link.symlink_to(checkout / "scripts/pace")
    before = contents(checkout)
    run = subprocess.run([str(link), "ask", "two words"], capture_output=True, text=True, check=False)
    assert run.stdout == f"ran {checkout}/.venv/bin/pace with ask two words\n"
    assert run.stderr == ""
    assert run.returncode == 0
    assert contents(checkout) == before


def test_missing_compiler_names_the_package(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    needed = "bash dirname basename find sort tr xargs cksum sha256sum cut grep cat mkdir"
    for name in needed.split():
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name}"))
    (tools / "python3").symlink_to(sys.executable)
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}
    run = subprocess.run(
        [str(checkout / "scripts/pace")], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 2
    assert "no C++ compiler found: install g++" in run.stderr
    assert not (checkout / ".venv").exists()


def test_failed_step_shows_the_log_and_exits_2(checkout: Path) -> None:
    command = "logged demo sh -c 'echo before; echo why >&2; exit 7'"
    run = subprocess.run(
        ["bash", "-c", f'. "$1/scripts/_setup.sh"; {command}; echo not reached', "setup", str(checkout)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert "    | why" in run.stderr
    assert f"the whole output is in {checkout}/build/log/demo.log" in run.stderr


def test_stopping_set_up_stops_what_it_started(checkout: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"trap 'stop_job 143' TERM; logged demo sh -c 'sleep 2; touch \"{mark}\"'"
    run = subprocess.Popen(
        ["bash", "-c", f'. "$1/scripts/_setup.sh"; {command}', "setup", str(checkout)],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not (checkout / "build/log/demo.log").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    run.terminate()
    _, errors = run.communicate(timeout=20)
    assert run.returncode == 143
    assert "stopped; the next run goes on from here" in errors
    time.sleep(2.5)
    assert not mark.exists()
