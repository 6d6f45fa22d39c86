"""``pace tune``: how much a policy's parameters matter on a recorded session."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pace_local.config import SessionConfig
from pace_local.errors import ConfigError, FileError, PaceError
from pace_local.model import Model
from pace_local.models import ResolvedModel
from pace_local.policies import POLICIES
from pace_local.policies.words import parse_values
from pace_local.recording import Recording
from pace_local.terminal import Stop, check_time_limit, prepare_model, run_stoppable, say
from pace_local.tuning import (
    Axis,
    Grid,
    Journal,
    Progress,
    Tuning,
    as_document,
    check_parameters,
    default_grid,
    parse_axes,
    table,
    tune,
)

_DESCRIPTION = """\
Plays a recorded session (`pace ask --record FILE`) under each point of a small grid. The recorded answers are
forced token by token, so every point reads the same text; what is measured is how likely the model finds
them with what its policy has kept. The point with the best neighbourhood is marked: a plateau, not a peak."""

_SETTINGS: dict[str, tuple[tuple[type, ...], str]] = {
    "budget": ((int,), "whole numbers of tokens"),
    "soft_target": ((int, float), "shares from 0.25 to 1"),
    "evict_every": ((int, type(None)), "whole numbers of tokens, or none"),
}
"""Setting that can be an axis -> types of its values, and what they are in words."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``tune``."""
    parser = commands.add_parser(
        "tune",
        help="measure how much a policy's parameters matter on a recorded session",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=run)
    parser.add_argument("recording", metavar="RECORDING", help="a file that `pace ask --record` has written")
    parser.add_argument("--model", metavar="NAME", help="default: the one that was recorded")
    grid = parser.add_argument_group("grid")
    grid.add_argument(
        "--policy", choices=sorted(POLICIES), help="whose parameters are varied; default: the recorded one"
    )
    grid.add_argument(
        "--grid",
        metavar="NAME=V,V;…",
        help="values of parameters, such as 'window=512,1024;pool_size=128,256'; default: half, same and "
        "double of each number",
    )
    for name, (_, words) in _SETTINGS.items():
        grid.add_argument(f"--{name.replace('_', '-')}", metavar="V,V", help=f"{words}; default: as recorded")
    grid.add_argument("--position-cap", type=int, metavar="N", help="default: as recorded")
    work = parser.add_argument_group("run")
    work.add_argument(
        "--out",
        metavar="DIR",
        help="folder for finished points; a second run goes on from there",
    )
    work.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    work.add_argument("--threads", type=int, metavar="N", help="default: as recorded")
    work.add_argument("--gpu-layers", type=int, metavar="N", help="default: all, where there is a GPU")
    work.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop then, with exit code 124")
    work.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


def run(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code: 1 if every point was refused."""
    limit = arguments.time_limit
    check_time_limit(limit)
    recording = Recording.load(arguments.recording)
    tell = (lambda _line: None) if arguments.quiet else say
    if recording.torn:
        tell(recording.torn)
    if not recording.answer_tokens:
        raise FileError(f"{recording.path} has no answer in it, so there is nothing to measure")
    policy = arguments.policy or recording.config["policy"]
    settings, axes = _settings(arguments)
    options = dict(recording.session_config().policy_options) if policy == recording.config["policy"] else {}
    grid = _grid(arguments, recording, policy, options, settings, axes)
    reference = arguments.model or recording.registry_name()

    def work(stop: Stop) -> Tuning:
        resolved = prepare_model(reference, stop, quiet=arguments.quiet)
        stop.raise_if_asked()
        known = resolved.info.sha256 if resolved.info else None
        if known and recording.sha256 and known != recording.sha256:
            tell(
                f"the answers were recorded with another file of {recording.model}: sha256 {recording.sha256}"
            )
        progress = Progress(grid, policy, quiet=arguments.quiet)
        out = Path(arguments.out) if arguments.out else None
        with (
            Journal(out) as journal,
            Model.load(
                resolved.path, gpu_layers=arguments.gpu_layers, progress=lambda _share: stop.reason is None
            ) as model,
        ):
            if journal.torn:
                tell(f"{journal.path}: the last line was never finished; that point is measured again")
            tell(
                f"{len(grid)} {'point' if len(grid) == 1 else 'points'} of {policy} and a reference, "
                f"{recording.length:,} tokens with {recording.answer_tokens:,} of answers each"
            )
            try:
                return tune(
                    model,
                    recording,
                    policy,
                    grid,
                    settings=settings,
                    options=options,
                    identity=_identity(resolved),
                    journal=journal,
                    stop=stop,
                    on_point=progress.point,
                    on_turn=progress.turn,
                )
            except PaceError:
                progress.clear()
                if out is not None:
                    tell(f"finished points are in {journal.path}; the same command goes on from there")
                raise

    tuning = run_stoppable(work, limit)
    if arguments.json:
        # In ASCII, so that it can be printed and parsed whatever the encoding of stdout.
        print(json.dumps({"recording": str(recording.path), "model": recording.model, **as_document(tuning)}))
    else:
        print(table(tuning))
    return 0 if tuning.measured else 1


def _settings(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[Axis]]:
    """Settings with one value, and axes of those with several."""
    settings: dict[str, Any] = {
        name: value for name in ("position_cap", "threads") if (value := getattr(arguments, name)) is not None
    }
    axes = []
    for name, (kinds, words) in _SETTINGS.items():
        text = getattr(arguments, name)
        if text is None:
            continue
        values = parse_values(text, name)
        for value in values:
            if type(value) not in kinds:
                raise ConfigError(f"--{name.replace('_', '-')} {text!r} is out of range; use {words}")
        axis = Axis.of(name, values)
        if len(axis.values) == 1:
            settings[name] = values[0]
        else:
            axes.append(axis)
    return settings, axes


def _grid(
    arguments: argparse.Namespace,
    recording: Recording,
    policy: str,
    options: dict[str, Any],
    settings: dict[str, Any],
    axes: list[Axis],
) -> Grid:
    config = _first_config(recording, settings, axes)
    if arguments.grid is not None:
        parameters = parse_axes(arguments.grid)
        check_parameters(policy, parameters)
        return Grid.product([*parameters, *axes])
    return default_grid(policy, options, config.soft_budget, axes)


def _first_config(recording: Recording, settings: dict[str, Any], axes: list[Axis]) -> SessionConfig:
    """The first settings that are possible; if none are, the command line is wrong."""
    combinations = Grid.product(axes)
    refused: list[ConfigError] = []
    for number in range(len(combinations)):
        try:
            return recording.session_config(**settings, **combinations.values(number))
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def _identity(resolved: ResolvedModel) -> str:
    """What tells this model's file from others: its hash if that is known, else its size and time."""
    if resolved.info is not None and resolved.info.sha256:
        return resolved.info.sha256
    status = resolved.path.stat()
    return f"{resolved.path.name}:{status.st_size}:{status.st_mtime_ns}"
