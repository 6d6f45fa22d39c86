"""The stages of ``scripts/gpu-check``, one after the other, each kept as soon as it is there."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_local import _native
from pace_local.bench.flat import FlatSizes, measure_flat
from pace_local.bench.gpu.flat_length import Rates, affordable_length
from pace_local.bench.gpu.journal import StageJournal, StageResult
from pace_local.bench.gpu.native_tests import RECORD, run_native_tests, tally
from pace_local.bench.gpu.peak import Peak, accelerators, used_bytes
from pace_local.bench.gpu.room import Chosen, make_subject
from pace_local.bench.gpu.speed import SpeedSizes, decode_row, measure_speed, peak_rows, prompt_row
from pace_local.bench.memory import measure_memory
from pace_local.bench.renumber import measure_renumber
from pace_local.bench.report import Report, Row, median_row
from pace_local.bench.subject import EndlessModel, Subject
from pace_local.bench.surroundings import build_facts, current_commit, machine_facts, threads_used
from pace_local.errors import CancelledError, PaceError, TimeLimitError
from pace_local.models import Progress, Say, format_bytes
from pace_local.terminal import Stop

DEVICE_BACKENDS = ("GGML_CUDA", "GGML_HIP", "GGML_METAL", "GGML_VULKAN", "GGML_SYCL")
"""Options of the build that ask for a device."""


@dataclass(frozen=True)
class CheckSizes:
    """What the stages measure; tokens, and numbers of samples."""

    speed: SpeedSizes = dataclasses.field(default_factory=SpeedSizes)
    flat: FlatSizes = dataclasses.field(default_factory=FlatSizes)
    residents: int = 2048
    headroom: int = 512
    renumberings: int = 9
    flat_samples: int = 24


@dataclass(frozen=True)
class CheckOptions:
    """What was asked for."""

    out: Path
    chosen: Chosen | None
    """The model; None: there is no room for one."""
    skipped: str
    """Why there is none; empty: there is one."""
    stages: tuple[str, ...]
    tests: tuple[str, ...]
    cache_dir: Path
    threads: int | None
    sizes: CheckSizes
    deadline: float | None
    """On the monotonic clock; None: no limit."""

    @property
    def identity(self) -> dict[str, Any]:
        """What results of several runs must have in common to stand in one table."""
        facts = _native.read_build().facts
        sizes = dataclasses.asdict(self.sizes)
        del sizes["flat"]["late"]  # part of the stage's name
        return {
            "commit": current_commit(),
            "patch": facts.get("patch"),
            "backends": facts.get("backends"),
            "devices": [device.description for device in accelerators()],
            "shape": self.chosen.shape if self.chosen else None,
            "layers": self.chosen.layers if self.chosen else None,
            "tests": list(self.tests),
            "threads": threads_used(self.threads),
            "sizes": sizes,
        }


@dataclass(frozen=True)
class HeldSubject(Subject):
    """A subject whose model stays loaded from one stage to the next: its weights are many gigabytes."""

    model: EndlessModel

    @contextmanager
    def loaded(self) -> Iterator[EndlessModel]:
        """The model, as if freshly loaded."""
        self.model.endless = False
        yield self.model


def expected_backends() -> list[str]:
    """Backends that the native library was built with and that have devices of their own."""
    options = _native.read_build().facts.get("options", {})
    return [name.removeprefix("GGML_") for name in DEVICE_BACKENDS if options.get(name)]


def device_rows(*, required: bool) -> list[Row]:
    """How many devices the native library sees. None, although one was asked for, misses its limit.

    Args:
        required: whether one was asked for, whatever the library was built with.
    """
    found, asked = accelerators(), expected_backends()
    note = "; ".join(f"{device.name}: {device.description}, {format_bytes(device.total)}" for device in found)
    if not found and asked:
        note = f"built with {', '.join(asked)}, but no device is there: look at its driver"
    elif not found and required:
        note = "a device was asked for, but the native library was built for the CPU alone"
    elif not found:
        note = "built for the CPU, and measured on it"
    limit = 1 if required or asked else None
    return [median_row("devices", [len(found)], "devices", "higher", limit=limit, note=note)]


class Check:
    """One run.

    Args:
        options: what was asked for.
        required: whether a device was asked for.
        say: takes lines of progress.
        progress: of making the model.
        stop: ends the run between two samples; what was finished is kept.
        show: called with each stage when it is there: its name, its rows, and the report so far.
    """

    def __init__(
        self,
        options: CheckOptions,
        *,
        required: bool,
        say: Say,
        progress: Progress,
        stop: Stop,
        show: Callable[[str, Sequence[Row], Report], None],
    ) -> None:
        self._options = options
        self._show = show
        self._stop = stop
        self._stack = ExitStack()
        self._subject: HeldSubject | None = None
        self._before = used_bytes()
        self.devices = device_rows(required=required)
        self.machine = machine_facts(threads_used(options.threads))
        self.machine["devices"] = [dataclasses.asdict(device) for device in accelerators()]

        def stoppable(line: str) -> None:
            stop.raise_if_asked()
            say(line)

        def stoppable_progress(done: int, total: int, what: str) -> None:
            stop.raise_if_asked()
            progress(done, total, what)

        self._say, self._progress = stoppable, stoppable_progress

    def run(self, journal: StageJournal) -> None:
        """Go through the stages that have no final result.

        Raises:
            CancelledError, TimeLimitError: when stopped, or if the time left is too short for a stage.
            StorageError, ConfigError, ModelError: if a result cannot be stored, or there is no model.
        """
        with self._stack:
            for stage in self._options.stages:
                known = journal.get(stage)
                if known is not None and known.is_final:
                    self._say(f"{stage}: measured before, in {known.seconds:.0f} s")
                    continue
                if self._options.chosen is None and stage != "correctness":
                    continue
                self._stop.raise_if_asked()
                if stage != "correctness":
                    self._loaded(journal)  # without a model there is nothing to go on with
                began = time.monotonic()
                try:
                    rows, shortened, error = *self._measure(stage, journal), ""
                except (CancelledError, TimeLimitError):
                    raise
                except PaceError as failure:
                    rows, shortened, error = [], False, str(failure)
                if shortened and not rows:
                    continue
                journal.add(stage, StageResult(tuple(rows), time.monotonic() - began, error, shortened))
                self._show(stage, journal.rows([stage]), self.report(journal))

    def report(self, journal: StageJournal | None) -> Report:
        """What there is so far, in the benchmarks' form; without a journal, which devices are there."""
        facts = _native.read_build().facts
        options = self._options
        rows = list(self.devices)
        if journal is not None:
            if "correctness" in options.stages and journal.get("correctness") is None:
                rows += tally(options.out / RECORD).rows_so_far()
            rows += journal.rows(options.stages)
        if options.skipped:
            rows.append(Row("model_skipped", 1, "count", "lower", 1, 1, 1, limit=0, note=options.skipped))
        name = options.chosen.name if options.chosen else "none"
        return Report(
            bench="gpu-check",
            commit=current_commit(),
            build={
                **build_facts(),
                "backends": facts.get("backends", []),
                "cmake_args": facts.get("cmake_args", ""),
            },
            machine=self.machine,
            models=[(journal and journal.model) or {"name": name, "sha256": ""}],
            rows=rows,
        )

    def _measure(self, stage: str, journal: StageJournal) -> tuple[list[Row], bool]:
        """Rows of a stage, and whether it was shortened; no rows: it would be no longer than it is."""
        options, sizes = self._options, self._options.sizes
        if stage == "correctness":
            found = run_native_tests(options.tests, options.out, say=self._say, stop=self._stop)
            return found.rows(on_device=bool(accelerators())), False
        subject = self._loaded(journal)
        kind, _, detail = stage.partition(".")
        threads, say = options.threads, self._say
        if kind == "memory":
            with Peak() as peak:
                rows = measure_memory(
                    subject, threads=threads, say=say, budget=sizes.residents, headroom=sizes.headroom
                )
            used = [median_row("device_bytes_before", [self._before], "bytes", "lower")]
            return [*rows, *(used if accelerators() else []), *peak_rows(peak, "memory")], False
        if kind == "renumber":
            rows = measure_renumber(
                subject,
                samples=sizes.renumberings,
                threads=threads,
                say=say,
                residents=sizes.residents,
                headroom=sizes.headroom,
            )
            return rows, False
        if kind == "speed":
            return measure_speed(subject, detail, threads=threads, say=say, sizes=sizes.speed), False
        assert kind == "flat"
        return self._flat(subject, stage, journal)

    def _flat(self, subject: Subject, stage: str, journal: StageJournal) -> tuple[list[Row], bool]:
        options, sizes = self._options, self._options.sizes.flat
        late, note = sizes.late, ""
        rates = rates_of(journal)
        if options.deadline is not None and rates is not None:
            left = options.deadline - time.monotonic()
            late = affordable_length(sizes, options.sizes.flat_samples, rates, left)
            if not late:
                raise TimeLimitError(
                    f"{left:.0f} s are too short for {stage}; the same command goes on with it"
                )
            if late < sizes.late:
                note = f"shortened to {late:,} of {sizes.late:,} session tokens: {left:.0f} s were left"
                known = journal.get(stage)
                if known is not None and known.rows and _session_tokens(known) >= late:
                    self._say(f"{stage}: measured before, no shorter than it would be now")
                    return [], True
                self._say(f"{stage}: {note}")
        with Peak() as peak:
            rows = measure_flat(
                subject,
                samples=options.sizes.flat_samples,
                threads=options.threads,
                say=self._say,
                sizes=dataclasses.replace(sizes, late=late),
            )
        rows[0] = dataclasses.replace(rows[0], note=note)
        return [*rows, *peak_rows(peak, "flat")], bool(note)

    def _loaded(self, journal: StageJournal) -> Subject:
        if self._subject is None:
            chosen = self._options.chosen
            assert chosen is not None
            if chosen.remark:
                self._say(f"model: {chosen.remark}")
            made = make_subject(chosen, self._options.cache_dir, progress=self._progress, say=self._say)
            self._say(f"model: {made.name}, {format_bytes(made.path.stat().st_size)}; loading it")
            journal.note_model(made.identity())
            model = self._stack.enter_context(made.loaded())
            self._subject = HeldSubject(made.name, made.header, made.sha256, model)
        return self._subject


def rates_of(journal: StageJournal) -> Rates | None:
    """Speeds under ``pace``, if they were measured."""
    result = journal.get("speed.pace")
    found = {row.name: row.value for row in result.rows} if result is not None else {}
    prompt, decode = found.get(prompt_row("pace")), found.get(decode_row("pace"))
    return Rates(prompt, decode) if prompt and decode else None


def _session_tokens(result: StageResult) -> float:
    return next((row.value for row in result.rows if row.name == "session_tokens"), 0.0)
