"""What every way of fetching a model has in common."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pace_local.models.progress import Progress
from pace_local.models.registry import ModelInfo, Source


class SourceError(Exception):
    """A source cannot give the file; the message is one line that says why. Another may still."""


@dataclass(frozen=True)
class Fetched:
    """A whole file from a source; nobody has compared its hash with the registry's yet."""

    path: Path
    origin: str
    """Where it came from, exactly, for people: repository and revision, or wheels and version."""
    sha256: str | None = None
    """The hash that the source itself reports, if it reports one."""


class Fetcher(Protocol):
    """One way of fetching models."""

    def accepts(self, source: Source) -> bool:
        """Whether this fetcher is the one for ``source``."""

    def spare_bytes(self, source: Source) -> int:
        """Bytes of disk that fetching needs for a while, besides the file itself."""

    def fetch(self, info: ModelInfo, source: Source, folder: Path, progress: Progress) -> Fetched:
        """Bring the file into ``folder``, going on from what an earlier try left there.

        Raises:
            SourceError: the source cannot give the file.
            OSError: the folder cannot take it.
        """


def one_line(error: object, limit: int = 200) -> str:
    """The first line of an error's text, at most ``limit`` characters; its type's name if it has none."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip() if lines else type(error).__name__
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def folder_bytes(folder: Path) -> int:
    """Bytes of the files in a folder, as far as they can be measured while another program writes them."""
    total = 0
    # Files may be renamed or deleted between being listed and being measured.
    with contextlib.suppress(OSError):
        for item in folder.rglob("*"):
            with contextlib.suppress(OSError):
                total += item.stat().st_size if item.is_file() else 0
    return total
