"""The pinned upstream sdist: read the pin, let pip fetch it, verify it, unpack what the build needs.

Standard library and pip only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LLAMA = "vendor/llama.cpp"
# What the build reads; the rest of the sdist (models, tools, documents, tests) is ten times as large.
PARTS = (
    "LICENSE.md",
    f"{LLAMA}/CMakeLists.txt",
    f"{LLAMA}/LICENSE",
    f"{LLAMA}/cmake/",
    f"{LLAMA}/ggml/",
    f"{LLAMA}/include/",
    f"{LLAMA}/src/",
    f"{LLAMA}/vendor/",
)


class PrepareError(Exception):
    """The tree cannot be made; one line that says why and what to do."""


@dataclass(frozen=True)
class Pin:
    """The upstream release that is built on."""

    name: str
    version: str
    sha256: str


def read_pin(requirements: Path) -> Pin:
    """The pin in ``upstream.txt``.

    Raises:
        PrepareError: there is not exactly one ``name==version --hash=sha256:…`` in it.
    """
    pins = re.findall(
        r"^([\w.-]+)==(\S+)\s+--hash=sha256:([0-9a-f]{64})\s*$", requirements.read_text("utf-8"), re.MULTILINE
    )
    if len(pins) != 1:
        raise PrepareError(
            f"{requirements}: expected one line NAME==VERSION --hash=sha256:HASH, found {len(pins)}"
        )
    return Pin(*pins[0])


def cache_root() -> Path:
    """``PACE_CACHE_DIR``, else ``pace-local`` in the user's cache folder."""
    if named := os.environ.get("PACE_CACHE_DIR"):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "pace-local"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip_download(requirement: list[str], folder: Path) -> Path:
    """Let pip download one sdist into ``folder``; ``requirement`` is what to name to it.

    Raises:
        PrepareError: pip is missing or failed.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--progress-bar=off"]
    command += ["--disable-pip-version-check", "--no-binary=llama-cpp-python", f"--dest={folder}"]
    if find_spec("scikit_build_core") is not None:
        # pip asks the sdist's build backend for its metadata; with the backend here, no second
        # environment need be made for that
        command.append("--no-build-isolation")
    command += requirement
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = sorted(folder.glob("*.tar.gz"))
    if run.returncode != 0 or len(found) != 1:
        lines = run.stdout.strip().splitlines() or ["no output"]
        errors = [line for line in lines if "ERROR" in line or "No module named pip" in line]
        raise PrepareError(f"pip could not download {requirement[-1]}: {(errors or lines[-1:])[0].strip()}")
    return found[0]


def fetch_sdist(pin: Pin, requirements: Path, cache: Path) -> Path:
    """The verified sdist of ``pin``, downloaded unless it is in the cache.

    Raises:
        PrepareError: it cannot be had, or its hash is not the pin's.
    """
    shelf = cache / "sdist"
    kept = shelf / f"{pin.name.replace('-', '_')}-{pin.version}.tar.gz"
    if kept.is_file() and sha256_of(kept) == pin.sha256:
        return kept
    say(f"downloading {pin.name} {pin.version}")
    shelf.mkdir(parents=True, exist_ok=True)
    sweep(shelf)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=shelf) as folder:
        got = pip_download(["--require-hashes", "-r", str(requirements)], Path(folder))
        if (actual := sha256_of(got)) != pin.sha256:
            raise PrepareError(f"{got.name} has SHA-256 {actual}, but {requirements.name} pins {pin.sha256}")
        got.replace(kept)
    return kept


def unpack(sdist: Path, folder: Path) -> None:
    """Write the ``PARTS`` of ``sdist`` to ``folder``.

    Raises:
        PrepareError: one of the parts is not in it.
    """
    missing = set(PARTS)
    with tarfile.open(sdist, "r:gz") as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            part = next(
                (part for part in PARTS if path == part or (part[-1] == "/" and path.startswith(part))), None
            )
            if part is None or not member.isfile() or ".." in path.split("/"):
                continue
            missing.discard(part)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(member)
            assert content is not None, "isfile() was true"
            target.write_bytes(content.read())
            os.utime(target, (member.mtime, member.mtime))
    if missing:
        raise PrepareError(f"{sdist.name} holds no {min(missing)}; is it llama-cpp-python's sdist?")


def sweep(folder: Path) -> None:
    """Delete what runs that were killed more than a day ago left in ``folder``."""
    for left in folder.glob(".*"):
        with contextlib.suppress(FileNotFoundError):  # another run is done with it, or sweeps too
            if time.time() - left.stat().st_mtime > 86400:
                shutil.rmtree(left, ignore_errors=True)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"prepare: {text}", file=sys.stderr, flush=True)
