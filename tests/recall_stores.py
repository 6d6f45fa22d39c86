"""Stores for tests: files that wait or fail when told to, and blocks whose bytes can be told apart."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pace_local.recall.piece import Bytes
from pace_local.recall.piece_files import Header, PieceFiles
from pace_local.recall.store import Store


def block(seed: int, size: int = 100) -> npt.NDArray[np.uint8]:
    """Bytes that no other seed has."""
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def tokens(start: int, count: int = 4) -> npt.NDArray[np.int64]:
    """Token indices from one on."""
    return np.arange(start, start + count)


def file_size(size: int, segment: int = 0, start: int = 0, count: int = 4, piece: int = 0) -> int:
    """Bytes of a piece's file, or a few more: checksums have up to ten digits."""
    header = Header(piece, segment, tokens(start, count), size, 2**32 - 1)
    return len(header.encode()) + size + 2


class Faults:
    """What the files of a store are told to do: a factory for its constructor."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        """Set when a draft is about to be written."""
        self.write_error: OSError | None = None
        self.sync_error: OSError | None = None
        self.remove_error: OSError | None = None
        self.open_error: OSError | None = None
        self.read_error: OSError | None = None
        self.drafts: list[int] = []
        """Ids in order of their writing."""

    def __call__(self, folder: Path) -> FaultyFiles:
        return FaultyFiles(folder, self)

    def disk_full(self) -> None:
        self.write_error = OSError(errno.ENOSPC, "No space left on device")

    def disk_well(self) -> None:
        self.write_error = self.sync_error = self.remove_error = self.open_error = self.read_error = None


class FaultyFiles(PieceFiles):
    def __init__(self, folder: Path, faults: Faults) -> None:
        super().__init__(folder)
        self._faults = faults

    def write_draft(self, header: Header, line: bytes, data: Bytes) -> None:
        self._faults.begun.set()
        assert self._faults.gate.wait(60)
        self._faults.drafts.append(header.id)
        error = self._faults.write_error  # a test may clear it at any instant
        if error is not None:
            self.draft(header.id).write_bytes(line[: len(line) // 2])
            raise error
        super().write_draft(header, line, data)

    def sync(self) -> None:
        if (error := self._faults.sync_error) is not None:
            raise error
        super().sync()

    def remove(self, piece: int, is_kept: bool) -> None:
        if (error := self._faults.remove_error) is not None:
            raise error
        super().remove(piece, is_kept)

    def open(self, piece: int, is_kept: bool) -> Any:
        if (error := self._faults.open_error) is not None:
            raise error
        return super().open(piece, is_kept)

    def read(self, file: BinaryIO, piece: int) -> Bytes:
        if (error := self._faults.read_error) is not None:
            raise error
        return super().read(file, piece)


def small_store(folder: Path | None, **settings: Any) -> Store:
    """A store with room for a few blocks of 100 bytes."""
    return Store(
        folder=folder, **{"host_bytes": 1000, "disk_bytes": 1 << 20, "in_flight_bytes": 400, **settings}
    )


def by_table(steps: dict[int, float]) -> Callable[[int], float]:
    """The next use of segments, by a table that can be changed; far away where it says nothing."""
    return lambda segment: steps.get(segment, float("inf"))
