"""Rows of a benchmark, what they must reach, and the two forms in which they are shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Row:
    """One figure: the median of its samples, with the smallest and the greatest of them."""

    name: str
    value: float
    unit: str
    better: Better
    samples: int
    min: float
    max: float
    limit: float | None = None
    """What the value must reach; None: it only informs."""
    aim: float | None = None
    """What it should reach."""
    note: str = ""
    """What one must know of how it was measured."""

    @property
    def ok(self) -> bool:
        """Whether the value reaches its limit; a value that is not a number never does."""
        if self.limit is None:
            return True
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit

    def as_dict(self) -> dict[str, Any]:
        """The row as plain values for JSON, which has no infinities: they become None."""
        return {
            "name": self.name,
            "value": _plain(self.value),
            "unit": self.unit,
            "better": self.better,
            "limit": self.limit,
            "aim": self.aim,
            "ok": self.ok,
            "samples": self.samples,
            "min": _plain(self.min),
            "max": _plain(self.max),
            **({"note": self.note} if self.note else {}),
        }


def median_row(
    name: str,
    values: Sequence[float],
    unit: str,
    better: Better,
    *,
    limit: float | None = None,
    aim: float | None = None,
    note: str = "",
) -> Row:
    """The row of some samples, at least one."""
    assert values
    return Row(
        name, statistics.median(values), unit, better, len(values), min(values), max(values), limit, aim, note
    )


def pair_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The ratio of each pair of neighbouring samples; infinite where the denominator is 0 or less.

    Formed pair by pair, since two neighbours share the state of the machine and two medians do not.
    """
    return [
        top / bottom if bottom > 0 else math.inf for top, bottom in zip(numerators, denominators, strict=True)
    ]


@dataclass(frozen=True)
class Report:
    """All rows of one run, and what they were measured on."""

    bench: str
    commit: str | None
    build: Mapping[str, Any]
    machine: Mapping[str, Any]
    models: Sequence[Mapping[str, str]]
    """Name and sha256 of each model, in the order of use."""
    rows: Sequence[Row]

    @property
    def ok(self) -> bool:
        """Whether every row reaches its limit."""
        return all(row.ok for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON; ``model`` is the first of ``models``."""
        return {
            "bench": self.bench,
            "commit": self.commit,
            "build": dict(self.build),
            "machine": dict(self.machine),
            "model": dict(self.models[0]),
            "models": [dict(model) for model in self.models],
            "rows": [row.as_dict() for row in self.rows],
        }

    def table(self) -> str:
        """The report for people."""
        cells: list[tuple[str, ...]] = [("", "ROW", "VALUE", "MIN", "MAX", "UNIT", "LIMIT", "AIM", "SAMPLES")]
        for row in self.rows:
            sign = "≤" if row.better == "lower" else "≥"
            limit, aim = (
                "" if bound is None else f"{sign} {_number(bound)}" for bound in (row.limit, row.aim)
            )
            mark = "" if row.limit is None else "ok" if row.ok else "MISSED"
            numbers = [_number(value) for value in (row.value, row.min, row.max)]
            cells.append((mark, row.name, *numbers, row.unit, limit, aim, str(row.samples)))
        widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if 2 <= column <= 4 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in cells
        ]
        lines += [f"{row.name}: {row.note}" for row in self.rows if row.note]
        machine = self.machine
        lines.append(
            f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores, "
            f"load at the start {machine['load']}; commit {self.commit or 'unknown'}"
        )
        lines += [f"{model['name']}  sha256 {model['sha256']}" for model in self.models]
        return "\n".join(lines)


def _plain(value: float) -> float | None:
    if isinstance(value, int):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _number(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
