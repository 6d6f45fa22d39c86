#!/usr/bin/env python3
"""Packs what setting up needs, for a machine without network, and unpacks it there.

    offline.py pack FILE.tar [--python 3.10,3.12]    on a machine with network
    offline.py unpack FILE.tar FOLDER                on the other one; prints where pip finds the wheels
    offline.py test-tools                            prints what running the tests needs, a requirement a line

A pack holds the wheels of all that pyproject.toml and the build need, and upstream's sdist. Not in it are
Python, a C++ compiler and CUDA's compiler. Standard library and pip only: it runs before anything is
installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
LISTING = "pack.json"
WHEELS = "wheels"
BINDINGS = "llama-cpp-python"
_TEST_TOOLS = ("pytest", "pytest-timeout", "hypothesis")
"""Of the extra ``test``, what runs tests; the others judge code."""
_BACKPORTS = ("tomli>=2", "exceptiongroup>=1", "typing-extensions>=4.6")
"""What Pythons before 3.11 need besides: pip heeds conditions as they are for the Python that runs it."""


class PackError(Exception):
    """No pack can be made or used; one line that says why and what to do."""


def name_of(requirement: str) -> str:
    """The distribution that a requirement names, normalised."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    if match is None:
        raise PackError(f"{requirement!r} is no requirement")
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def read_toml(text: str) -> dict[str, Any]:
    """A TOML document.

    Raises:
        PackError: if this Python has nothing to read it with.
    """
    try:
        # pip brings its own for the Pythons that have none.
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
    except ImportError:
        raise PackError("pyproject.toml cannot be read; use Python 3.11 or newer (PACE_PYTHON)") from None
    document: dict[str, Any] = toml.loads(text)
    return document


def build_tools(root: Path) -> list[str]:
    """What scripts/_setup.sh installs to build with.

    Raises:
        PackError: if it does not say so any more as it did.
    """
    text = (root / "scripts/_setup.sh").read_text("utf-8")
    found = re.search(r"^\s*local tools=\((.*)\)$", text, re.MULTILINE)
    if found is None:
        raise PackError(f"{root / 'scripts/_setup.sh'} has no line 'local tools=(…)' to read")
    return shlex.split(found[1])


def test_tools(root: Path) -> list[str]:
    """What running the tests needs."""
    extra = read_toml((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"][
        "test"
    ]
    return [requirement for requirement in extra if name_of(requirement) in _TEST_TOOLS]


def requirements(root: Path, sdist: Path) -> list[str]:
    """All that is to be had as a wheel: the package's dependencies, the bindings' own, and the tools.

    Args:
        root: the checkout.
        sdist: of the bindings, whose dependencies are in it.

    Raises:
        PackError: if one of them cannot be read.
    """
    project = read_toml((root / "pyproject.toml").read_text("utf-8"))["project"]
    with tarfile.open(sdist, "r:gz") as archive:
        member = next((m for m in archive if re.fullmatch(r"[^/]+/pyproject\.toml", m.name)), None)
        content = archive.extractfile(member) if member is not None else None
        if content is None:
            raise PackError(f"{sdist} has no pyproject.toml; is it the sdist of {BINDINGS}?")
        bindings = read_toml(content.read().decode("utf-8"))["project"]
    wanted = [
        *build_tools(root),
        *(name for name in project["dependencies"] if name_of(name) != BINDINGS),
        *bindings["dependencies"],
        *test_tools(root),
    ]
    return list(dict.fromkeys(wanted))


def download_command(wanted: Sequence[str], version: str, folder: Path) -> list[str]:
    """What lets pip fetch wheels for a Python version, such as ``3.12``, of this machine's platform."""
    command = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--progress-bar=off"]
    command += ["--disable-pip-version-check", f"--dest={folder}"]
    if version == this_python():
        return [*command, *wanted]
    if tuple(map(int, version.split("."))) < (3, 11):
        wanted = [*wanted, *_BACKPORTS]
    return [*command, f"--python-version={version}", "--implementation=cp", *wanted]


def this_python() -> str:
    """The version of the Python that runs, such as ``3.12``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def pack(root: Path, target: Path, versions: Sequence[str]) -> dict[str, Any]:
    """Make a pack, and return what it holds.

    Args:
        root: the checkout.
        target: the pack; replaced if it is there, written whole or not at all.
        versions: of Python, for which wheels are fetched.

    Raises:
        PackError: if something cannot be had.
    """
    sdist = Path(_output([sys.executable, str(root / "native/prepare.py"), "--sdist"]))
    wanted = requirements(root, sdist)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=target.parent) as scratch:
        folder = Path(scratch) / WHEELS
        folder.mkdir()
        for version in versions:
            say(f"fetching wheels for Python {version}")
            _output(download_command(wanted, version, folder))
        files = [*sorted(folder.iterdir()), sdist]
        listing = {
            "python": list(versions),
            "machine": platform.machine(),
            "system": platform.system(),
            "files": {file.name: {"bytes": file.stat().st_size, "sha256": _sha256(file)} for file in files},
        }
        whole = Path(scratch) / target.name
        with tarfile.open(whole, "w") as archive:
            text = (json.dumps(listing, indent=1) + "\n").encode()
            entry = tarfile.TarInfo(LISTING)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
            for file in files:
                archive.add(file, f"{WHEELS}/{file.name}", recursive=False)
        os.replace(whole, target)
    return listing


def unpack(source: Path, folder: Path) -> Path:
    """Unpack what fits this machine and Python, and return the folder of wheels.

    Args:
        source: the pack.
        folder: made if it is not there.

    Raises:
        PackError: if it is no pack, is damaged, or was made for another machine or Python.
    """
    try:
        with tarfile.open(source, "r:") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first is not None and first.name == LISTING else None
            if content is None:
                raise PackError(f"{source} is no pack of scripts/gpu-check")
            listing = json.loads(content.read())
            _check_fits(source, listing)
            wheels = folder / WHEELS
            wheels.mkdir(parents=True, exist_ok=True)
            for name, known in listing["files"].items():
                if Path(name).name != name:
                    raise PackError(f"{source} holds a file named {name!r}")
                target = wheels / name
                if target.is_file() and _sha256(target) == known["sha256"]:
                    continue
                member = archive.extractfile(f"{WHEELS}/{name}")
                if member is None:
                    raise PackError(f"{source} is damaged: {name} is no file in it")
                with target.open("wb") as file:
                    while block := member.read(1 << 20):
                        file.write(block)
                if _sha256(target) != known["sha256"]:
                    raise PackError(f"{source} is damaged: {name} is not what was packed; copy it again")
    except (OSError, tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise PackError(f"cannot unpack {source}: {error}") from error
    return wheels


def _check_fits(source: Path, listing: dict[str, Any]) -> None:
    machine, system = platform.machine(), platform.system()
    if (listing["machine"], listing["system"]) != (machine, system):
        raise PackError(
            f"{source} is for {listing['system']} on {listing['machine']}, and this is {system} on "
            f"{machine}; pack on a machine of the same kind"
        )
    if this_python() not in listing["python"]:
        raise PackError(
            f"{source} is for Python {', '.join(listing['python'])}, and this is {this_python()}: name "
            f"another Python with PACE_PYTHON, or pack again with --python {this_python()}"
        )


def _output(command: list[str]) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        lines = [line for line in run.stderr.splitlines() if "ERROR" in line or "error" in line]
        shown = (lines or run.stderr.strip().splitlines() or ["no reason was given"])[-1].strip()
        raise PackError(f"{Path(command[1]).name if command[1] != '-m' else 'pip'} failed: {shown}")
    return run.stdout.strip()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _versions(text: str) -> list[str]:
    versions = [version.strip() for version in text.split(",") if version.strip()]
    for version in versions:
        if not re.fullmatch(r"3\.\d+", version) or int(version.split(".")[1]) < 10:
            raise PackError(f"--python {version!r} is out of range; use 3.10 or newer, such as 3.12")
    if not versions:
        raise PackError("--python names no version; use one such as 3.12")
    return list(dict.fromkeys(versions))


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"gpu-check: {text}", file=sys.stderr, flush=True)


def summary(listing: dict[str, Any]) -> Iterable[str]:
    """What a pack holds, for people: its size, and its largest files."""
    sizes = sorted(((entry["bytes"], name) for name, entry in listing["files"].items()), reverse=True)
    total = sum(size for size, _ in sizes)
    pythons = ", ".join(listing["python"])
    yield f"{len(sizes)} files, {total / 1e6:.0f} MB, for Python {pythons} on {listing['machine']}"
    for size, name in sizes[:5]:
        yield f"  {size / 1e6:6.1f} MB  {name}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="offline.py", description="Pack what a set-up without network needs."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    packing = actions.add_parser("pack")
    packing.add_argument("file", type=Path)
    packing.add_argument("--python", default=this_python())
    unpacking = actions.add_parser("unpack")
    unpacking.add_argument("file", type=Path)
    unpacking.add_argument("folder", type=Path)
    actions.add_parser("test-tools")
    options = parser.parse_args(argv)
    try:
        if options.action == "pack":
            for line in summary(pack(ROOT, options.file, _versions(options.python))):
                say(line)
            print(options.file)
        elif options.action == "unpack":
            # As an address: pip takes a blank in its variable for the end of a path.
            print(unpack(options.file, options.folder.absolute()).as_uri())
        else:
            print("\n".join(test_tools(ROOT)))
    except (PackError, OSError) as error:
        say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
