"""What the lines of a folder of results come to: one entry a cell, over all seeds."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pace_local.config import SessionConfig
from pace_local.eval.cells import CEILING, Cell
from pace_local.eval.journal import Results
from pace_local.eval.measures import Difference, ProbeMeasure, Share, paired_difference, residency

REFERENCE = "pace"
"""The policy that the others are compared with, probe by probe."""

_BLOCK = 256
"""The cells of a llama.cpp cache are a multiple of this."""

WEAK = 0.8
"""A model whose ceiling is below this share of the checks is too weak to say anything about a policy."""


@dataclass(frozen=True)
class CellSummary:
    """One cell, over all seeds that were measured."""

    cell: Cell
    seeds_done: int
    seeds: int
    specifications: int
    refused: str | None
    probes: tuple[ProbeMeasure, ...]
    read_seconds_of: Mapping[int, float]
    """Seed -> reading the session up to the first probe. Cells of one stage share it."""
    kv_bytes_peak: int
    """Where everything is kept: what the most residents take, but at least the budget, and the headroom. The
    cache itself has room for the longest gap and answer. All of it where its cells were not kept."""
    unreferenced_bytes_peak: int
    """The same of keys and values without references, which a cache that keeps everything would not need."""
    host_bytes_peak: int
    device_bytes_peak: int
    saved_host_bytes_peak: int
    """Main memory that evicted keys and values took, to be brought back."""
    saved_disk_bytes_peak: int

    def of_seeds(self, seeds: Collection[int]) -> CellSummary:
        """Probes and reading of these seeds alone."""
        return dataclasses.replace(
            self,
            probes=tuple(probe for probe in self.probes if probe.seed in seeds),
            read_seconds_of={seed: took for seed, took in self.read_seconds_of.items() if seed in seeds},
        )

    def seeds_like(self, other: CellSummary) -> set[int]:
        """Seeds of which both have the same probes."""
        own, others = ({(probe.seed, probe.number) for probe in each.probes} for each in (self, other))
        return {seed for seed, _ in own & others} - {seed for seed, _ in own ^ others}

    @property
    def read_seconds(self) -> float:
        """Reading all sessions up to the first probe."""
        return sum(self.read_seconds_of.values())

    @property
    def is_peak_known(self) -> bool:
        """Whether the peak of keys and values is what the session needed, and no more."""
        return not self.cell.keeps_everything or all(probe.n_cells for probe in self.probes)

    @property
    def checks(self) -> Share:
        return _total(probe.check_share for probe in self.probes)

    @property
    def tasks(self) -> Share:
        return _total(probe.task_share for probe in self.probes)

    @property
    def facts(self) -> Share:
        return _total(probe.fact_share for probe in self.probes)

    @property
    def residency(self) -> float | None:
        """Share of the tokens of all reads that was resident when the answers began."""
        reads = tuple(read for probe in self.probes for read in probe.reads)
        return residency(reads) if reads else None

    @property
    def distance_max(self) -> int | None:
        """Greatest distance in positions to a resident token of a read."""
        return max((probe.farthest for probe in self.probes if probe.farthest is not None), default=None)

    @property
    def probe_seconds(self) -> float:
        return sum(probe.seconds for probe in self.probes)

    @property
    def wall_seconds(self) -> float:
        """Reading and answering, and reading other work between probes."""
        return self.read_seconds + self.probe_seconds + sum(probe.work_seconds for probe in self.probes)

    @property
    def seconds_per_probe(self) -> float | None:
        return self.probe_seconds / len(self.probes) if self.probes else None

    @property
    def probes_expected(self) -> int:
        return self.cell.n_probes(self.specifications) * self.seeds

    @property
    def is_finished(self) -> bool:
        return self.seeds_done == self.seeds

    @property
    def is_too_weak(self) -> bool:
        """Whether it is a ceiling that shows the model to be too weak for the task."""
        return self.cell.is_ceiling and self.checks.total > 0 and self.checks.rate < WEAK

    def as_document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        document: dict[str, Any] = {
            "specs": self.cell.specs,
            "policy": self.cell.policy,
            "means": self.cell.means,
            "reads": self.cell.reads,
            "gap": self.cell.gap,
            "apart": self.cell.apart,
            "errors": self.cell.errors,
            "seeds_done": self.seeds_done,
            "refused": self.refused,
            "probes": len(self.probes),
        }
        shares = {
            "checks": (self.checks, "passed"),
            "tasks": (self.tasks, "passed"),
            "facts": (self.facts, "recalled"),
        }
        for what, (share, word) in shares.items():
            document[f"{what}_{word}"] = share.passed
            document[f"{what}_total"] = share.total
            document[f"{what}_interval"] = [round(end, 4) for end in share.interval]
        return {
            **document,
            "residency": self.residency,
            "distance_max": self.distance_max,
            "read_seconds": round(self.read_seconds, 3),
            "probe_seconds": round(self.probe_seconds, 3),
            "wall_seconds": round(self.wall_seconds, 3),
            "kv_bytes_peak": self.kv_bytes_peak,
            "unreferenced_bytes_peak": self.unreferenced_bytes_peak,
            "saved_host_bytes_peak": self.saved_host_bytes_peak,
            "saved_disk_bytes_peak": self.saved_disk_bytes_peak,
            "host_bytes_peak": self.host_bytes_peak,
            "device_bytes_peak": self.device_bytes_peak,
            "broke": dict(Counter(probe.broke for probe in self.probes if probe.broke)),
            "means_used": dict(
                Counter(read.means for probe in self.probes for read in probe.reads if read.means)
            ),
        }


def asked_cells(results: Results) -> list[Cell]:
    """All cells that any run was asked for, ceilings first, in the order in which they were asked for."""
    found = dict.fromkeys(Cell(**cell) for header in results.runs.values() for cell in header["cells"])
    return sorted(found, key=lambda cell: cell.policy != CEILING)


def summarise(results: Results) -> list[CellSummary]:
    """Every cell that was asked for, measured or not.

    Raises:
        FileError: if there was no run.
    """
    seeds = max((int(header["seeds"]) for header in results.runs.values()), default=0)
    return [_summary(results, cell, seeds) for cell in asked_cells(results)]


def as_document(results: Results) -> dict[str, Any]:
    """All of it as plain values for JSON: the newest run's header, and each cell.

    Raises:
        FileError: if there was no run.
    """
    summaries = summarise(results)
    compared = compare(summaries)
    header = {name: value for name, value in results.header.items() if name not in ("type", "cells")}
    return {
        "header": header,
        "runs": len(results.runs),
        "finished": all(summary.is_finished for summary in summaries),
        "reference": REFERENCE,
        "cells": {
            summary.cell.key: {
                **summary.as_document(),
                "to_reference": dataclasses.asdict(compared[summary.cell.key])
                if summary.cell.key in compared
                else None,
            }
            for summary in summaries
        },
    }


def compare(summaries: Sequence[CellSummary]) -> dict[str, Difference]:
    """How many more of its checks a probe passes than the same probe under the reference policy.

    Returns:
        Cell -> mean difference of the shares, over the probes that both have. Cells without any are left out.
    """
    shares = {
        summary.cell: {(probe.seed, probe.number): probe.check_share.rate for probe in summary.probes}
        for summary in summaries
    }
    found = {}
    for cell, own in shares.items():
        others = shares.get(dataclasses.replace(cell, policy=REFERENCE, means=None), {})
        both = sorted(own.keys() & others.keys())
        if both and cell.policy != REFERENCE:
            found[cell.key] = paired_difference([own[i] for i in both], [others[i] for i in both])
    return found


def _summary(results: Results, cell: Cell, seeds: int) -> CellSummary:
    numbers = range(1, seeds + 1)
    probes = [probe for seed in numbers for probe in results.probes(cell.key, seed)]
    refusals = [results.refusal(cell.key, seed) for seed in numbers]
    with_probes = {probe.seed for probe in probes}
    kv_bytes_peak = _kv_peak(results, cell, probes)
    return CellSummary(
        cell=cell,
        seeds_done=sum(results.is_finished(cell.key, seed) for seed in numbers),
        seeds=seeds,
        specifications=int(results.header["identity"]["specifications"]),
        refused=next((refusal for refusal in refusals if refusal), None),
        probes=tuple(probes),
        read_seconds_of={
            seed: float(results.sessions[cell.stage, seed, cell.gap]["seconds"])
            for seed in sorted(with_probes)
            if (cell.stage, seed, cell.gap) in results.sessions
        },
        kv_bytes_peak=kv_bytes_peak,
        unreferenced_bytes_peak=round(kv_bytes_peak * (1 - _reference_share(probes))),
        host_bytes_peak=_peak(results, cell, "host_bytes", probes),
        device_bytes_peak=_peak(results, cell, "device_bytes", probes),
        saved_host_bytes_peak=max((probe.saved_host_bytes for probe in probes), default=0),
        saved_disk_bytes_peak=max((probe.saved_disk_bytes for probe in probes), default=0),
    )


def _reference_share(probes: Sequence[ProbeMeasure]) -> float:
    """Which share of keys, values and references the references are.

    A third where it was not kept yet: all three had one type and width then.
    """
    for probe in probes:
        if probe.reference_bytes is not None and probe.kv_bytes:
            return probe.reference_bytes / probe.kv_bytes
    return 1 / 3


def _kv_peak(results: Results, cell: Cell, probes: Sequence[ProbeMeasure]) -> int:
    """Of keys, values and references."""
    if not (cell.keeps_everything and all(probe.n_cells for probe in probes)):
        return _peak(results, cell, "kv_bytes", probes)
    budget = int(results.header["identity"]["budget"])
    headroom = int(results.header.get("config", {}).get("headroom", SessionConfig.headroom))
    needed = (
        (probe, _BLOCK * math.ceil((max(budget, probe.residents) + headroom) / _BLOCK)) for probe in probes
    )
    return max(
        (round(probe.kv_bytes * min(1.0, cells / probe.n_cells)) for probe, cells in needed if probe.n_cells),
        default=0,
    )


def _peak(results: Results, cell: Cell, what: str, probes: Sequence[ProbeMeasure]) -> int:
    of_probes = [int(getattr(probe, what)) for probe in probes]
    of_turns = [
        int(turn[what])
        for seed in {probe.seed for probe in probes}
        for turn in results.turns.get((cell.stage, seed), [])
        if cell.gap is None
        or turn["session_tokens"] <= results.sessions[cell.stage, seed, cell.gap]["tokens"]
    ]
    return max(of_probes + of_turns, default=0)


def _total(shares: Any) -> Share:
    return reduce(Share.__add__, shares, Share(0, 0))
