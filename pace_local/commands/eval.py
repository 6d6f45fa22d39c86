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
from typing import Any

from pace_local.bench.surroundings import build_facts, current_commit, machine_facts, threads_used
from pace_local.commands.eval_options import EVALUATIONS, Evaluation, add_options, settings_of
from pace_local.errors import PaceError
from pace_local.eval.cells import ANSWER_TOKENS, EvalSettings
from pace_local.eval.journal import Journal, load_results
from pace_local.eval.progress import EvalProgress
from pace_local.eval.report import PAGE, REPORT, SUMMARY, report, write_page, write_report
from pace_local.eval.summary import as_document
from pace_local.model import Model
from pace_local.models import ResolvedModel
from pace_local.terminal import Stop, check_time_limit, prepare_model, run_stoppable, say


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``eval`` and what can be evaluated."""
    summary = "measure with hidden tests how well early text is used late"
    parser = commands.add_parser("eval", help=summary, description=f"{summary.capitalize()}.")
    actions = parser.add_subparsers(title="evaluations", metavar="WHAT", required=True)
    for evaluation in EVALUATIONS:
        added = actions.add_parser(
            evaluation.name,
            help=evaluation.help,
            description=evaluation.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(handler=run, evaluation=evaluation)
        what = added.add_argument_group("what is measured")
        what.add_argument("--model", metavar="NAME", help="default: the best that fits this machine")
        added.set_defaults(**add_options(what, evaluation))
        _add_run_options(added)


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("run")
    work.add_argument(
        "--out", required=True, metavar="DIR", help=f"folder for every turn, {SUMMARY}, {REPORT} and {PAGE}"
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
        settings = settings_of(arguments)
        run_stoppable(lambda stop: _measure(arguments, settings, out, stop), arguments.time_limit)
    results = load_results(out)
    write_report(out, results)
    write_page(out, results)
    if arguments.json:
        print(json.dumps(as_document(results)))
    else:
        print(report(results), end="")
    return 0


def _measure(arguments: argparse.Namespace, settings: EvalSettings, out: Path, stop: Stop) -> None:
    from pace_local.eval.runner import measure_cells  # brings the filler and the sandbox: not for --help

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


def _header(
    arguments: argparse.Namespace, settings: EvalSettings, resolved: ResolvedModel, model: Model
) -> dict[str, Any]:
    """What this run is, for the journal."""
    evaluation: Evaluation = arguments.evaluation
    info, own = resolved.info, model.fingerprint.hex()
    name = info.name if info is not None else resolved.path.stem
    given = {
        name: list(value) if isinstance(value, tuple) else value for name, value in vars(settings).items()
    }
    return {
        "run": uuid.uuid4().hex[:12],
        "evaluation": evaluation.name,
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
        "identity": {"evaluation": evaluation.name, "model_fingerprint": own, **settings.identity},
    }


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command that measures the same. Of paths the last part alone: results are meant to be shown."""
    evaluation: Evaluation = arguments.evaluation
    words = ["pace", "eval", evaluation.name]
    words += [] if arguments.model is None else ["--model", Path(arguments.model).name]
    for option in evaluation.measured:
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
