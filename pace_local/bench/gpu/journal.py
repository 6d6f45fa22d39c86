"""What each stage gave, a JSON line each, so that a run that was cut off goes on with the missing ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_local.bench.report import Row
from pace_local.errors import ConfigError
from pace_local.line_file import LineFile, read_lines

NAME = "stages.jsonl"


@dataclass(frozen=True)
class StageResult:
    """One stage."""

    rows: tuple[Row, ...]
    seconds: float
    error: str = ""
    """Why it failed; empty: it did not."""
    shortened: bool = False
    """Whether it measured less than was asked for, for lack of time."""

    @property
    def is_final(self) -> bool:
        """Whether the same command need not measure it again."""
        return not self.error and not self.shortened


class StageJournal:
    """The stages in a folder. Use it as a context manager.

    Args:
        folder: made if it is not there.
        identity: what all results in the folder must have been measured with.

    Raises:
        FileError: on entering, if the file in it is no journal.
        ConfigError: on entering, if it holds results of something else.
        StorageError: if it cannot be written, or another process is writing it.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._identity = dict(identity)
        self._results: dict[str, StageResult] = {}
        self._file = LineFile(folder / NAME, "result of a stage", self._take)
        self._known: dict[str, Any] | None = None
        self.model: dict[str, str] | None = None
        """Name and hash of the model, once it was made."""

    def __enter__(self) -> StageJournal:
        """Read what is there, and keep other processes from writing."""
        self._file.__enter__()
        try:
            if self._known is None:
                self._file.add({"identity": self._identity}, sync=True)
            elif self._known != self._identity:
                raise ConfigError(self._difference(self._known))
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._file.close()

    def _take(self, line: Mapping[str, Any]) -> None:
        if "identity" in line:
            self._known = dict(line["identity"])
        elif "model" in line:
            self.model = dict(line["model"])
        else:
            self._results[str(line["stage"])] = StageResult(
                tuple(_row(row) for row in line["rows"]),
                float(line["seconds"]),
                str(line["error"]),
                bool(line["shortened"]),
            )

    def _difference(self, known: Mapping[str, Any]) -> str:
        name = next(name for name in [*self._identity, *known] if known.get(name) != self._identity.get(name))
        return (
            f"{self._file.path} was measured with {name} {known.get(name)!r}, and this run has "
            f"{self._identity.get(name)!r}; give another --out"
        )

    def get(self, stage: str) -> StageResult | None:
        """The newest result of a stage."""
        return self._results.get(stage)

    def add(self, stage: str, result: StageResult) -> None:
        """Store a result; it is on the disk when this returns.

        Raises:
            StorageError: if it cannot be written.
        """
        self._results[stage] = result
        rows = [row.as_dict() for row in result.rows]
        self._file.add(
            {
                "stage": stage,
                "rows": rows,
                "seconds": round(result.seconds, 3),
                "error": result.error,
                "shortened": result.shortened,
            },
            sync=True,
        )

    def note_model(self, model: Mapping[str, str]) -> None:
        """Remember which model was made.

        Raises:
            ConfigError: if an earlier run made another one.
            StorageError: if it cannot be written.
        """
        if self.model is None:
            self.model = dict(model)
            self._file.add({"model": self.model}, sync=True)
        elif self.model != model:
            raise ConfigError(f"{self._file.path} was measured with another model file; give another --out")

    def rows(self, stages: Sequence[str]) -> list[Row]:
        """Rows of those of some stages that have a result, in that order; one that failed has a row too."""
        rows: list[Row] = []
        for stage in stages:
            result = self._results.get(stage)
            if result is not None:
                rows += result.rows
                if result.error:
                    rows.append(
                        Row(f"failed.{stage}", 1, "count", "lower", 1, 1, 1, limit=0, note=result.error)
                    )
        return rows


def known_identity(folder: Path) -> dict[str, Any]:
    """What the results in a folder were measured with; empty if there are none.

    Raises:
        FileError: if the file in it is no journal.
    """
    path = folder / NAME
    lines = read_lines(path, "result of a stage")[0] if path.is_file() else []
    return next((dict(line["identity"]) for line in lines if isinstance(line.get("identity"), dict)), {})


def _row(document: Mapping[str, Any]) -> Row:
    """The row that ``Row.as_dict`` gave; what JSON has no number for was infinite."""
    values = {
        name: math.inf if document[name] is None else document[name] for name in ("value", "min", "max")
    }
    return Row(
        name=document["name"],
        unit=document["unit"],
        better=document["better"],
        samples=document["samples"],
        limit=document["limit"],
        aim=document["aim"],
        note=document.get("note", ""),
        **values,
    )
