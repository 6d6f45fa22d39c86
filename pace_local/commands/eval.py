"""``pace eval``: how well a model works with what it was told early, by policy and means, by hidden tests."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pace_local.bench.surroundings import build_facts, current_commit, machine_facts, threads_used
from pace_local.config import MEANS, SessionConfig
from pace_local.errors import ConfigError, PaceError
from pace_local.eval.cells import (
    ANSWER_TOKENS,
    MOST_SPECIFICATIONS,
    N_SPECIFICATIONS,
    SPECIFICATION_SETS,
    EvalSettings,
)
from pace_local.eval.journal import Journal, load_results
from pace_local.eval.progress import EvalProgress
from pace_local.eval.report import REPORT, SUMMARY, report, write_report
from pace_local.eval.runner import measure_cells
from pace_local.eval.summary import as_document
from pace_local.model import Model
from pace_local.models import ResolvedModel
from pace_local.terminal import Stop, check_time_limit, prepare_model, run_stoppable, say

T = TypeVar("T")

_METHOD = """\
Reads specifications, then other work, then asks for the functions that the specifications define, and runs
hidden tests on what the model writes. The ceiling, measured first, is the same question with nothing else but
the system prompt. Answers are greedy. Stopped with Ctrl-C or killed, the same command goes on with the first
unfinished cell; further policies, means, reads and seeds may be asked for later in the same folder."""

_RECALL = f"""\
{_METHOD}

Each policy, each means by which a read comes back, each number of reads and each kind of specification is a
cell of the table."""

_SPEC = f"""\
{_METHOD}

Each policy is a row of the table; each probe needs one specification."""

_SPEC_POLICIES = "streaming,context_shift,h2o,h2o_grace,hybrid,plan,bounded,pace,pace_focus"
_MEASURED = (
    "tokens",
    "policies",
    "means",
    "reads",
    "specs",
    "probes",
    "between",
    "seeds",
    "budget",
    "position_cap",
)
"""Options that say what is measured, in the order in which a command shows them."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``eval`` and what can be evaluated."""
    summary = "measure with hidden tests how well early text is used late"
    parser = commands.add_parser("eval", help=summary, description=f"{summary.capitalize()}.")
    actions = parser.add_subparsers(title="evaluations", metavar="WHAT", required=True)

    def action(name: str, help: str, description: str) -> argparse._ArgumentGroup:
        added = actions.add_parser(
            name, help=help, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        added.set_defaults(handler=run, evaluation=name, reads="1", means="auto", between=0)
        what = added.add_argument_group("what is measured")
        what.add_argument("--model", metavar="NAME", help="default: the best that fits this machine")
        _add_run_options(added)
        return what

    recall = action("recall", "by which means what a step reads comes back best", _RECALL)
    recall.set_defaults(probes=N_SPECIFICATIONS)
    _add_session_options(
        recall, tokens=12_000, policies="pace,pace_focus", specs=",".join(SPECIFICATION_SETS)
    )
    recall.add_argument(
        "--means",
        metavar="M,M",
        help=f"of policies that start a step with what it reads: {', '.join(MEANS)}; default: auto",
    )
    recall.add_argument("--reads", metavar="K,K", help="specifications that a probe needs; default: 1")
    spec = action("spec", "policies against one another in a long session", _SPEC)
    _add_session_options(spec, tokens=64_000, policies=_SPEC_POLICIES, specs="unlike")
    most = ", ".join(f"{number} {specs}" for specs, number in MOST_SPECIFICATIONS.items())
    spec.add_argument(
        "--probes",
        type=int,
        default=N_SPECIFICATIONS,
        metavar="N",
        help=f"and specifications; at most {most}; default: %(default)s",
    )
    spec.add_argument(
        "--between", type=int, metavar="N", help="tokens of other work between probes; default: 0"
    )


def _add_session_options(group: argparse._ArgumentGroup, *, tokens: int, policies: str, specs: str) -> None:
    group.add_argument(
        "--tokens", type=int, default=tokens, metavar="N", help="of other work; default: %(default)s"
    )
    group.add_argument("--policies", default=policies, metavar="P,P", help="default: %(default)s")
    group.add_argument(
        "--specs",
        default=specs,
        metavar="S,S",
        help="alike: of one form; unlike: of different kinds; default: %(default)s",
    )
    group.add_argument("--seeds", type=int, default=1, metavar="N", help="sessions a cell; default: 1")
    for name in ("budget", "position_cap"):
        default = getattr(SessionConfig, name)
        group.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help="default: %(default)s"
        )
    group.add_argument(
        "--answer-tokens",
        type=int,
        default=ANSWER_TOKENS,
        metavar="N",
        help="longest answer, for each specification that a probe needs; default: %(default)s",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("run")
    work.add_argument(
        "--out", required=True, metavar="DIR", help=f"folder for every turn, {SUMMARY} and {REPORT}"
    )
    work.add_argument(
        "--report-only", action="store_true", help="measure nothing: write the report of what is there"
    )
    work.add_argument("--json", action="store_true", help="print the summary as JSON instead of the report")
    work.add_argument("--threads", type=int, metavar="N", help="default: the physical cores")
    work.add_argument("--gpu-layers", type=int, metavar="N", help="default: all, where there is a GPU")
    work.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop then, with exit code 124")
    work.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


def run(arguments: argparse.Namespace) -> int:
    """Run an evaluation; returns the exit code."""
    check_time_limit(arguments.time_limit)
    out = Path(arguments.out)
    if not arguments.report_only:
        settings = _settings(arguments)
        run_stoppable(lambda stop: _measure(arguments, settings, out, stop), arguments.time_limit)
    results = load_results(out)
    write_report(out, results)
    if arguments.json:
        print(json.dumps(as_document(results)))
    else:
        print(report(results), end="")
    return 0


def _measure(arguments: argparse.Namespace, settings: EvalSettings, out: Path, stop: Stop) -> None:
    tell: Callable[[str], None] = (lambda _line: None) if arguments.quiet else say
    resolved = prepare_model(arguments.model, stop, quiet=arguments.quiet)
    stop.raise_if_asked()
    with (
        Model.load(
            resolved.path, gpu_layers=arguments.gpu_layers, progress=lambda _share: stop.reason is None
        ) as model,
        Journal(out, _header(arguments, settings, resolved, model)) as journal,
    ):
        if journal.was_torn:
            tell(f"{journal.path}: the last line was never finished, and was cut off")
        progress = EvalProgress(settings, journal.results, quiet=arguments.quiet)
        tell(f"{progress.n_cells} of {len(settings.cells()) * settings.seeds} cells are left to measure")
        try:
            measure_cells(
                model,
                settings,
                journal,
                stop=stop,
                watcher=progress,
                on_cell=lambda: write_report(out, journal.results),
            )
        except PaceError:
            progress.clear()
            write_report(out, journal.results)
            tell(f"finished cells are in {journal.path}; the same command goes on from there")
            raise


def _settings(arguments: argparse.Namespace) -> EvalSettings:
    return EvalSettings(
        tokens=arguments.tokens,
        policies=_words(arguments.policies, str, "--policies"),
        means=_words(arguments.means, str, "--means"),
        reads=_words(arguments.reads, int, "--reads"),
        specs=_words(arguments.specs, str, "--specs"),
        seeds=arguments.seeds,
        budget=arguments.budget,
        position_cap=arguments.position_cap,
        threads=arguments.threads,
        answer_tokens=arguments.answer_tokens,
        specifications=arguments.probes,
        between=arguments.between,
    )


def _words(text: str, kind: Callable[[str], T], option: str) -> tuple[T, ...]:
    try:
        return tuple(kind(word.strip()) for word in text.split(",") if word.strip())
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is out of range; use whole numbers with commas between"
        ) from None


def _header(
    arguments: argparse.Namespace, settings: EvalSettings, resolved: ResolvedModel, model: Model
) -> dict[str, Any]:
    """What this run is, for the journal."""
    info, own = resolved.info, model.fingerprint.hex()
    name = info.name if info is not None else resolved.path.stem
    given = {
        name: list(value) if isinstance(value, tuple) else value for name, value in vars(settings).items()
    }
    return {
        "run": uuid.uuid4().hex[:12],
        "evaluation": arguments.evaluation,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": _command(arguments),
        "commit": current_commit(),
        "model": {"name": name, "sha256": info.sha256 if info is not None else None, "fingerprint": own},
        "n_ctx_train": model.shape.n_ctx_train,
        "build": build_facts(),
        "machine": machine_facts(threads_used(arguments.threads)),
        "python": sys.version.split()[0],
        "settings": given,
        "config": _config(settings),
        "seeds": settings.seeds,
        "cells": [vars(cell) for cell in settings.cells()],
        "identity": {"evaluation": arguments.evaluation, "model_fingerprint": own, **settings.identity},
    }


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command that measures the same. Of paths the last part alone: results are meant to be shown."""
    fixed = ("probes", "between") if arguments.evaluation == "recall" else ("means", "reads")
    words = ["pace", "eval", arguments.evaluation]
    words += [] if arguments.model is None else ["--model", Path(arguments.model).name]
    for option in _MEASURED:
        if option not in fixed:
            words += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    if arguments.answer_tokens != ANSWER_TOKENS:
        words += ["--answer-tokens", str(arguments.answer_tokens)]
    for option in ("threads", "gpu_layers"):
        value = getattr(arguments, option)
        words += [] if value is None else [f"--{option.replace('_', '-')}", str(value)]
    return [*words, "--out", Path(arguments.out).name]


def _config(settings: EvalSettings) -> dict[str, Any]:
    """What all sessions of the run have in common."""
    config = dataclasses.asdict(settings.session_config(settings.cells()[-1]))
    return {
        name: value for name, value in config.items() if name not in ("policy", "policy_options", "means")
    }
