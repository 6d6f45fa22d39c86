"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from pace_local.bench.attention import measure_attention
from pace_local.bench.decode import measure_decode
from pace_local.bench.flat import FlatSizes, measure_flat
from pace_local.bench.memory import measure_memory
from pace_local.bench.policies import measure_policies
from pace_local.bench.recall import measure_recall
from pace_local.bench.renumber import measure_renumber
from pace_local.bench.report import Report, Row
from pace_local.bench.saving import measure_saving
from pace_local.bench.shift import measure_shift
from pace_local.bench.subject import SHAPE_PREFIX, Subject, default_cache_dir, find_subject
from pace_local.bench.surroundings import build_facts, current_commit, machine_facts, threads_used
from pace_local.errors import ConfigError, PaceError
from pace_local.models import ProgressLine

_SMALL, _MIDDLE, _TINY = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m"
_TARGET_SHAPE = f"{SHAPE_PREFIX}qwen3-8b"
_SAMPLES, _FLAT_SAMPLES = 9, 24
_EPILOG = """\
benchmarks:
  decode     our loop against llama_cpp.Llama.generate, tokens a second
  renumber   one renumbering of 2,048 residents, in decoded tokens and against upstream's K-shift
  flat       time per token at 200,000 session tokens against 4,096
  memory     bytes of the KV state at Qwen3-8B's shape
  attention  what measuring attention adds to decoding and reading, at 2,048 residents
  recall     having 256 evicted tokens back, and opening a session, against decoding; what saving costs
  policies   what each retention policy costs, against keeping all of 16,384 tokens (half an hour)
  all        the library's but policies

exit codes: 0 every row reaches its limit, 1 one does not, 2 usage or start-up, 130 cancelled.
The report goes to stdout, progress to stderr."""


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    samples: int | None
    models: tuple[str, ...]
    cache_dir: Path
    threads: int | None
    tokens: int
    line: ProgressLine

    def samples_or(self, default: int) -> int:
        """The number of samples that was asked for, or the benchmark's own."""
        return default if self.samples is None else self.samples

    def subjects(self, *defaults: str) -> list[Subject]:
        """The models that were named, or the defaults."""
        return [self.subject(reference) for reference in self.models or defaults]

    def subject(self, reference: str) -> Subject:
        """One model."""
        return find_subject(reference, self.cache_dir, progress=self.line, say=self.line.say)


Outcome = tuple[list[Subject], list[Row]]


def run_decode(options: Options) -> Outcome:
    """``decode`` of the first model."""
    subject = options.subjects(_SMALL)[0]
    samples = options.samples_or(_SAMPLES)
    return [subject], measure_decode(subject, samples=samples, threads=options.threads, say=options.line.say)


def run_renumber(options: Options) -> Outcome:
    """``renumber`` of all models, and of Qwen3-8B's KV shape against upstream's shift."""
    subjects = options.subjects(_SMALL, _MIDDLE)
    samples, threads, say = options.samples_or(_SAMPLES), options.threads, options.line.say
    rows = []
    for subject in subjects:
        rows += measure_renumber(subject, samples=samples, threads=threads, say=say)
    target = options.subject(_TARGET_SHAPE)
    rows += measure_shift(target, samples=samples, threads=threads, say=say)
    return [*subjects, target], rows


def run_flat(options: Options) -> Outcome:
    """``flat`` of the first model."""
    subject = options.subjects(_TINY)[0]
    rows = measure_flat(
        subject,
        samples=options.samples_or(_FLAT_SAMPLES),
        threads=options.threads,
        say=options.line.say,
        sizes=FlatSizes(late=options.tokens),
    )
    return [subject], rows


def run_memory(options: Options) -> Outcome:
    """``memory`` of Qwen3-8B's KV shape, whatever models were named."""
    subject = options.subject(_TARGET_SHAPE)
    return [subject], measure_memory(subject, threads=options.threads, say=options.line.say)


def run_attention(options: Options) -> Outcome:
    """``attention`` of the first model."""
    subject = options.subjects(_SMALL)[0]
    samples = options.samples_or(_SAMPLES)
    return [subject], measure_attention(
        subject, samples=samples, threads=options.threads, say=options.line.say
    )


def run_policies(options: Options) -> Outcome:
    """``policies`` of the first model."""
    subject = options.subjects(_SMALL)[0]
    return [subject], measure_policies(subject, threads=options.threads, say=options.line.say)


def run_recall(options: Options) -> Outcome:
    """``recall`` of all models; what concerns the disk and saving, of the first."""
    subjects = options.subjects(_SMALL, _MIDDLE)
    samples, threads, say = options.samples_or(_SAMPLES), options.threads, options.line.say
    rows = []
    for number, subject in enumerate(subjects):
        rows += measure_recall(
            subject,
            samples=samples,
            threads=threads,
            say=say,
            folder=options.cache_dir,
            with_disk=number == 0,
        )
    rows += measure_saving(subjects[0], samples=samples, threads=threads, say=say, folder=options.cache_dir)
    return subjects, rows


@dataclass(frozen=True)
class Benchmark:
    """One that another package brings along."""

    name: str
    run: Callable[[Options], Outcome]
    help: str
    """What it measures, in lines of up to 100 columns."""


BENCHES: dict[str, Callable[[Options], Outcome]] = {
    "decode": run_decode,
    "renumber": run_renumber,
    "flat": run_flat,
    "memory": run_memory,
    "attention": run_attention,
    "recall": run_recall,
    "policies": run_policies,
}


def build_parser(more: Sequence[Benchmark] = ()) -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measure ratios of alternating samples in one run, and hold them against their limits.",
        epilog=_epilog(more),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        choices=[*BENCHES, *(each.name for each in more), "all"],
        help="which benchmark; see below",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument(
        "--samples",
        type=int,
        help=f"samples a row (default: {_SAMPLES}; flat: {_FLAT_SAMPLES}, in as much text)",
    )
    parser.add_argument(
        "--model",
        nargs="+",
        action="extend",
        default=[],
        metavar="MODEL",
        help=f"registry names or paths instead of {_SMALL} (decode, attention), that and {_MIDDLE} "
        f"(renumber, recall), {_TINY} (flat); {SHAPE_PREFIX}NAME is random weights with the KV shape of NAME",
    )
    parser.add_argument(
        "--tokens", type=int, default=200_000, help="length of flat's long session (default: 200000)"
    )
    parser.add_argument("--threads", type=int, help="threads of the CPU (default: the physical cores)")
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=default_cache_dir(),
        help="where models with random weights are kept, and what recall writes",
    )
    return parser


def _epilog(more: Sequence[Benchmark]) -> str:
    lines = "".join(
        f"  {name:<10} {line}\n"
        for each in more
        for name, line in zip_longest([each.name], each.help.splitlines(), fillvalue="")
    )
    return _EPILOG.replace("  all ", f"{lines}  all ")


def main(argv: Sequence[str] | None = None, *, more: Sequence[Benchmark] = ()) -> int:
    """Run benchmarks and return the exit code.

    Args:
        argv: the words; None: those that the process was started with.
        more: benchmarks of packages that build on this one; ``all`` is without them.
    """
    arguments = build_parser(more).parse_args(argv)
    line = ProgressLine()
    try:
        report = measure(arguments, line, more)
    except PaceError as error:
        line.say(f"bench: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        line.say("bench: cancelled")
        return 130
    finally:
        line.close()
    print(json.dumps(report.as_dict(), allow_nan=False) if arguments.json else report.table())
    return 0 if report.ok else 1


def measure(arguments: argparse.Namespace, line: ProgressLine, more: Sequence[Benchmark] = ()) -> Report:
    """The report that parsed arguments ask for.

    Raises:
        ConfigError: if a number is out of range.
        PaceError: if a model cannot be had, or a benchmark fails.
    """
    for name in ("samples", "tokens", "threads"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value} is out of range; use 1 or more")
    options = Options(
        arguments.samples,
        tuple(arguments.model),
        arguments.cache_dir.expanduser(),
        arguments.threads,
        arguments.tokens,
        line,
    )
    machine = machine_facts(threads_used(options.threads))
    subjects: dict[str, Subject] = {}
    rows: list[Row] = []
    runs = {**BENCHES, **{each.name: each.run for each in more}}
    every = [name for name in BENCHES if name != "policies"]
    for name in every if arguments.name == "all" else [arguments.name]:
        used, measured = runs[name](options)
        subjects.update((subject.sha256, subject) for subject in used)
        rows += measured
    return Report(
        bench=arguments.name,
        commit=current_commit(),
        build=build_facts(),
        machine=machine,
        models=[subject.identity() for subject in subjects.values()],
        rows=rows,
    )
