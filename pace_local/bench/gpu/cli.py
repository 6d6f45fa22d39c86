"""The command line of ``scripts/gpu-check``, once the native library is built."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path

from pace_local.bench.flat import FlatSizes
from pace_local.bench.gpu.check import Check, CheckOptions, CheckSizes
from pace_local.bench.gpu.full_shape import FULL_SHAPES
from pace_local.bench.gpu.journal import StageJournal, known_identity
from pace_local.bench.gpu.native_tests import ROOT
from pace_local.bench.gpu.room import TINY, choose
from pace_local.bench.report import Report, Row
from pace_local.bench.subject import SHAPE_PREFIX, default_cache_dir
from pace_local.errors import ConfigError, PaceError, StorageError
from pace_local.models import ProgressLine
from pace_local.policies import POLICIES
from pace_local.terminal import Stop, check_time_limit, run_stoppable

KINDS = ("correctness", "memory", "renumber", "speed", "flat")
REPORT, TABLE = "report.json", "report.txt"
_EPILOG = """\
stages, in this order:
  correctness  the tests of the native layer, on the device that the native library uses
  memory       bytes of the KV state, and the most memory used, for one session
  renumber     one renumbering of 2,048 residents, in milliseconds and in decoded tokens
  speed        tokens a second that each policy reads and writes, and the most memory it takes
  flat         time per token at 200,000 session tokens against 4,096

Each stage's rows go to stderr and to --out when they are there; the whole report goes to stdout in the end.
A run that was cut off goes on when the same command is given again: finished stages are not measured again,
and of the tests those without an outcome are run.

exit codes: 0 every stage was measured and every row reaches its limit, 1 one does not, 2 usage or start-up,
124 the time limit was reached and stages are left, 130 cancelled."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="gpu-check",
        description="Check a machine's device: whether it computes rightly, how fast, in how much memory.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is measured")
    shapes = ", ".join([*FULL_SHAPES, TINY, f"{SHAPE_PREFIX}NAME"])
    what.add_argument(
        "--shape",
        metavar="NAME",
        help=f"model of random weights: {shapes}, the last with thin weights; default: qwen3-8b where "
        f"there is a device, else {SHAPE_PREFIX}qwen3-8b",
    )
    what.add_argument("--layers", type=int, metavar="N", help="default: all that there is room for")
    what.add_argument("--stages", default=",".join(KINDS), metavar="S,S", help="default: %(default)s")
    what.add_argument(
        "--policies", default=",".join(_policies()), metavar="P,P", help="of the stage speed; default: all"
    )
    what.add_argument(
        "--tests",
        nargs="+",
        metavar="FILE",
        help="of the stage correctness, as pytest takes them; default: tests/test_native_*.py",
    )
    what.add_argument(
        "--tokens", type=int, default=FlatSizes.late, metavar="N", help="of flat; default: %(default)s"
    )
    what.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help=f"of renumber and flat; default: {CheckSizes.renumberings} and {CheckSizes.flat_samples}",
    )
    what.add_argument(
        "--require-device", action="store_true", help="fail if the native library sees the CPU alone"
    )
    run = parser.add_argument_group("run")
    run.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "gpu-check",
        metavar="DIR",
        help="folder for results; default: build/gpu-check in the checkout",
    )
    run.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    run.add_argument("--threads", type=int, metavar="N", help="of the CPU; default: the physical cores")
    run.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="end then, with exit code 124 if stages are left; flat is shortened to what fits, and says so",
    )
    run.add_argument(
        "--spent", type=float, default=0.0, metavar="SECONDS", help="of the time limit, by what ran before"
    )
    run.add_argument(
        "--cache-dir",
        type=Path,
        default=default_cache_dir(),
        metavar="DIR",
        help="where the model is made, and kept",
    )
    return parser


def main(argv: Sequence[str] | None = None, sizes: CheckSizes | None = None) -> int:
    """Run the check and return the exit code.

    Args:
        argv: the command line; None: this process's.
        sizes: what the stages measure, but for what the command line says; None: the defaults.
    """
    arguments = build_parser().parse_args(argv)
    line = ProgressLine()
    reports: list[Report] = []
    complete = False
    try:
        check_time_limit(arguments.time_limit)
        left = None if arguments.time_limit is None else max(0.1, arguments.time_limit - arguments.spent)
        deadline = None if left is None else time.monotonic() + left
        run_stoppable(
            lambda stop: measure(arguments, sizes or CheckSizes(), deadline, line, stop, reports), left
        )
        complete = True
        code = 0
    except PaceError as error:
        line.say(f"gpu-check: {error}")
        code = error.exit_code
    finally:
        line.close()
    if reports:
        report = reports[-1]
        print(json.dumps(report.as_dict(), allow_nan=False) if arguments.json else report.table())
        if complete and not report.ok:
            return 1
    return code


def measure(
    arguments: argparse.Namespace,
    sizes: CheckSizes,
    deadline: float | None,
    line: ProgressLine,
    stop: Stop,
    reports: list[Report],
) -> None:
    """Go through the stages that parsed arguments ask for.

    Args:
        arguments: of the command line.
        sizes: what the stages measure, but for what the arguments say.
        deadline: on the monotonic clock; None: no limit.
        line: takes progress.
        stop: ends the run.
        reports: gets the report each time that it has grown, so that it is there however the run ends.

    Raises:
        ConfigError: if an argument is out of range, or the folder holds results of something else.
        PaceError: if the run cannot go on, or was stopped.
    """
    options = _options(arguments, sizes, deadline)

    def show(stage: str, rows: Sequence[Row], report: Report) -> None:
        reports.append(report)
        _write(options.out, report)
        line.say(f"{stage}:")
        table = dataclasses.replace(report, rows=rows, models=[]).table().splitlines()
        for text in table[:-1]:  # without the machine
            line.say(f"  {text}")

    required = arguments.require_device
    check = Check(options, required=required, say=line.say, progress=line, stop=stop, show=show)
    for row in check.devices:
        line.say(f"gpu-check: {row.note}")
    if not all(row.ok for row in check.devices):
        reports.append(check.report(None))
        return  # on a CPU the rest would take hours, and say nothing of the device
    with StageJournal(options.out, options.identity) as journal:
        reports.append(check.report(journal))
        try:
            check.run(journal)
        finally:
            reports.append(check.report(journal))
            _write(options.out, reports[-1])


def _options(arguments: argparse.Namespace, sizes: CheckSizes, deadline: float | None) -> CheckOptions:
    for name in ("tokens", "samples", "threads", "layers"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value} is out of range; use 1 or more")
    kinds = _words("--stages", arguments.stages, KINDS)
    policies = _words("--policies", arguments.policies, tuple(POLICIES))
    out, cache_dir = arguments.out.expanduser(), arguments.cache_dir.expanduser()
    tests = arguments.tests or sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_native_*.py")
    )
    if "correctness" in kinds and not tests:
        raise ConfigError(
            f"no tests are in {ROOT / 'tests'}; run this from a checkout, or leave correctness out"
        )
    known = known_identity(out)
    shape, layers = arguments.shape or known.get("shape"), arguments.layers
    if layers is None and shape == known.get("shape"):
        # What there was room for when the first run began is what the results are of.
        layers = known.get("layers") or None
    chosen, skipped = None, ""
    try:
        chosen = choose(shape, layers, cache_dir)
    except StorageError as error:
        skipped = str(error)
    return CheckOptions(
        out=out,
        chosen=chosen,
        skipped=skipped,
        stages=tuple(_stages(kinds, policies, arguments.tokens)),
        tests=tuple(tests),
        cache_dir=cache_dir,
        threads=arguments.threads,
        sizes=_sizes(sizes, arguments),
        deadline=deadline,
    )


def _policies() -> list[str]:
    """All policies, ``pace`` first: its speeds say how long ``flat`` will take."""
    return ["pace", *(name for name in POLICIES if name != "pace")]


def _words(option: str, text: str, known: Sequence[str]) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise ConfigError(f"{option} {word!r} is not one of {', '.join(known)}")
    if not words or len(set(words)) < len(words):
        raise ConfigError(f"{option} {text!r}: give at least one, each once")
    return words


def _stages(kinds: Sequence[str], policies: Sequence[str], tokens: int) -> list[str]:
    """Names of the stages, in the order of ``KINDS`` whatever order was given."""
    details = {"speed": list(policies), "flat": [str(tokens)]}
    return [
        f"{kind}.{detail}" if detail else kind
        for kind in KINDS
        if kind in kinds
        for detail in details.get(kind, [""])
    ]


def _sizes(sizes: CheckSizes, arguments: argparse.Namespace) -> CheckSizes:
    flat = dataclasses.replace(sizes.flat, late=arguments.tokens)
    if arguments.samples is None:
        return dataclasses.replace(sizes, flat=flat)
    number = arguments.samples
    return dataclasses.replace(sizes, flat=flat, renumberings=number, flat_samples=number)


def _write(folder: Path, report: Report) -> None:
    """Keep the report so far."""
    try:
        (folder / REPORT).write_text(json.dumps(report.as_dict(), allow_nan=False) + "\n", "utf-8")
        (folder / TABLE).write_text(report.table() + "\n", "utf-8")
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror or error}") from error
