"""Finished points on disk, one JSON line each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_local.line_file import LineFile
from pace_local.tuning.measure import Measurement

NAME = "points.jsonl"


class Journal:
    """The points in a folder; without a folder, in memory alone. Use it as a context manager.

    Args:
        folder: made if it is not there; None: nothing is stored.

    Raises:
        FileError: on entering, if the file in it is no journal.
        StorageError: if it cannot be written, or another process is writing it.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / NAME
        self._points: dict[str, Measurement] = {}
        self._file = None if self.path is None else LineFile(self.path, "finished point", self._take)

    @property
    def torn(self) -> bool:
        """Whether the file ended in the midst of a line, which was cut off."""
        return self._file is not None and self._file.was_torn

    def __enter__(self) -> Journal:
        """Read what is there, and keep other processes from writing."""
        if self._file is not None:
            self._file.__enter__()
        return self

    def _take(self, line: Mapping[str, Any]) -> None:
        self._points[str(line["key"])] = Measurement.from_document(line["point"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file and let other processes write. Safe to call twice."""
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        """Number of points, also those of other grids."""
        return len(self._points)

    def get(self, key: str) -> Measurement | None:
        """The point of a key, if it is finished."""
        return self._points.get(key)

    def add(self, key: str, settings: dict[str, Any], point: Measurement) -> None:
        """Store a finished point; it is on its way to the disk when this returns.

        Raises:
            StorageError: if it cannot be written.
        """
        self._points[key] = point
        if self._file is not None:
            self._file.add({"key": key, "settings": settings, "point": point.as_document()}, sync=True)
