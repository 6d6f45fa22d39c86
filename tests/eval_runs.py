"""Small evaluations with a model of random weights: its answers are garbage, the machinery is real."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pace_local import Model
from pace_local.errors import CancelledError
from pace_local.eval.cells import Cell, EvalSettings
from pace_local.eval.journal import Journal, Results
from pace_local.eval.measures import ProbeMeasure
from pace_local.eval.runner import measure_cells
from pace_local.eval.summary import summarise
from pace_local.terminal import Stop

SETTINGS = EvalSettings(
    tokens=3500,  # about a byte each: one or two turns
    policies=("pace", "pace_focus"),
    means=("auto", "reread"),
    reads=(3, 4),
    specs=("alike",),
    budget=4000,
    threads=1,
    answer_tokens=4,
)


def header(settings: EvalSettings, run: str) -> dict[str, Any]:
    """As the command writes it."""
    return {
        "run": run,
        "date": "2026-01-02T03:04:05+00:00",
        "command": ["pace", "eval", "recall", "--out", "two words"],
        "commit": None,
        "model": {"name": "tiny", "sha256": None, "fingerprint": "ab"},
        "build": {"llama_cpp": "1.2.3", "patch": "cd", "isa": []},
        "machine": {"cpu": "a CPU", "cores": 2, "threads": 1, "load": 0.5},
        "settings": {"reads": list(settings.reads), "threads": settings.threads},
        "seeds": settings.seeds,
        "cells": [vars(cell) for cell in settings.cells()],
        "identity": {"evaluation": "recall", "model_fingerprint": "ab", **settings.identity},
    }


class Watch:
    """Counts what it is told, and asks to stop after so many turns and probes."""

    def __init__(self, stop: Stop, after: int | None = None) -> None:
        self.stop, self.left = stop, after
        self.turns: list[str] = []
        self.went_on: list[tuple[str, int]] = []
        self.probes: list[ProbeMeasure] = []
        self.cells: list[str] = []

    def turn(self, stage: str, seed: int, tokens: int) -> None:
        assert tokens > 0
        self.turns.append(f"{stage} {seed}")
        self._count()

    def found(self, stage: str, seed: int, tokens: int) -> None:
        assert tokens > 0
        self.went_on.append((stage, tokens))

    def probe(self, probe: ProbeMeasure) -> None:
        self.probes.append(probe)
        self._count()

    def cell(self, cell: Cell, seed: int, probes: Sequence[ProbeMeasure], refused: str | None) -> None:
        self.cells.append(f"{cell.key} {seed}")

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                self.stop.request(CancelledError("cancelled"))


def measure(
    model: Model, settings: EvalSettings, folder: Path, *, run: str = "one", after: int | None = None
) -> tuple[Results, Watch]:
    """One run; what is in the folder then.

    Raises:
        CancelledError: if it was stopped after so many turns and probes.
    """
    stop = Stop()
    watch = Watch(stop, after)
    with Journal(folder, header(settings, run)) as journal:
        measure_cells(model, settings, journal, stop=stop, watcher=watch)
    return journal.results, watch


def outcome(results: Results) -> dict[str, Any]:
    """A summary without what differs from one measuring to the next: times, memory of the process."""
    changing = ("read_seconds", "probe_seconds", "wall_seconds", "host_bytes_peak")
    changing += ("saved_host_bytes_peak", "saved_disk_bytes_peak")  # they are written meanwhile
    return {
        each.cell.key: {name: value for name, value in each.as_document().items() if name not in changing}
        for each in summarise(results)
    }


def steady(probe: ProbeMeasure) -> ProbeMeasure:
    """The same of one probe."""
    return dataclasses.replace(
        probe,
        run="",
        seconds=0,
        focus_seconds=0,
        work_seconds=0,
        host_bytes=0,
        saved_host_bytes=0,
        saved_disk_bytes=0,
    )
