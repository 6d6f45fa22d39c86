"""``pace inspect``: plays a recorded session and says what is resident at its end, and why."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from typing import Any

from pace_local.config import SessionConfig
from pace_local.dry_run import DryRun, dry_run
from pace_local.errors import ConfigError
from pace_local.explain import Explanation, explain
from pace_local.model import Model
from pace_local.policies import POLICIES, policy_named
from pace_local.policies.words import parse_parameters
from pace_local.recording import Recording, replay
from pace_local.session import Session
from pace_local.terminal import Stop, check_time_limit, prepare_model, run_stoppable, say

_DESCRIPTION = """\
Plays a recorded session (`pace ask --record FILE`), with the recorded answers, and prints what is resident at
its end: the text of each segment, why each part of it is kept, what was evicted last and why, and the
policy's pool. --policy and --budget play it under others; --would says what another policy would keep of
the same residents."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``inspect``."""
    parser = commands.add_parser(
        "inspect",
        help="show what a recorded session keeps, and why",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=run)
    parser.add_argument("recording", metavar="RECORDING", help="a file that `pace ask --record` has written")
    parser.add_argument("--model", metavar="NAME", help="default: the one that was recorded")
    played = parser.add_argument_group("session")
    played.add_argument("--until", type=int, metavar="N", help="play so many turns; default: all")
    played.add_argument("--policy", choices=sorted(POLICIES), help="default: as recorded")
    played.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the policy; may be repeated",
    )
    played.add_argument("--budget", type=int, metavar="TOKENS", help="default: as recorded")
    played.add_argument("--position-cap", type=int, metavar="N", help="default: as recorded")
    shown = parser.add_argument_group("output")
    shown.add_argument(
        "--would",
        action="append",
        choices=sorted(POLICIES),
        default=[],
        help="also say what this policy would keep now; may be repeated",
    )
    shown.add_argument(
        "--full", action="store_true", help="show long texts whole instead of cut in the middle"
    )
    shown.add_argument("--json", action="store_true", help="print one JSON object")
    work = parser.add_argument_group("run")
    work.add_argument("--threads", type=int, metavar="N", help="default: as recorded")
    work.add_argument("--gpu-layers", type=int, metavar="N", help="default: all, where there is a GPU")
    work.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop then, with exit code 124")
    work.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


def run(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    limit = arguments.time_limit
    check_time_limit(limit)
    if arguments.until is not None and arguments.until < 1:
        raise ConfigError(f"--until {arguments.until} is out of range; use 1 turn or more")
    recording = Recording.load(arguments.recording)
    if recording.torn and not arguments.quiet:
        say(recording.torn)
    if arguments.until is not None and arguments.until > len(recording.turns):
        raise ConfigError(
            f"--until {arguments.until} is out of range; {recording.path} has {len(recording.turns)} turns"
        )
    config = _config(arguments, recording)
    reference = arguments.model or recording.registry_name()

    def work(stop: Stop) -> tuple[Explanation, list[DryRun]]:
        resolved = prepare_model(reference, stop, quiet=arguments.quiet)
        stop.raise_if_asked()
        progress = _Progress(stop, quiet=arguments.quiet)
        with (
            Model.load(
                resolved.path, gpu_layers=arguments.gpu_layers, progress=lambda _share: stop.reason is None
            ) as model,
            Session(model, config=config) as session,
            stop.calling(session.cancel),
        ):
            try:
                replay(recording, session, until=arguments.until, on_turn=progress)
            finally:
                progress.close()
            return explain(session), [dry_run(session, name) for name in arguments.would]

    told, runs = run_stoppable(work, limit)
    if arguments.json:
        document = {"recording": str(recording.path), "model": recording.model, **told.as_dict()}
        # In ASCII, so that it can be printed and parsed whatever the encoding of stdout.
        print(json.dumps({**document, "would": [one.as_dict() for one in runs]}))
        return 0
    width = min(120, shutil.get_terminal_size((100, 24)).columns)
    for line in told.lines(width, full_text=arguments.full):
        print(line)
    for one in runs:
        print()
        for line in one.lines(width):
            print(line)
    return 0


def _config(arguments: argparse.Namespace, recording: Recording) -> SessionConfig:
    """The recorded settings, but for what was asked for; parameters are those of the same policy only."""
    changes: dict[str, Any] = {
        name: value
        for name in ("budget", "position_cap", "threads")
        if (value := getattr(arguments, name)) is not None
    }
    recorded = recording.session_config()
    policy = arguments.policy or recorded.policy
    options = dict(recorded.policy_options) if policy == recorded.policy else {}
    options |= parse_parameters(arguments.set)
    others = [policy_named(name) for name in arguments.would]
    if any(other.observes is not None for other in others):
        changes["observe"] = True
    config = recording.session_config(**changes, policy=policy, policy_options=options)
    for one in (policy_named(policy, options), *others):
        one.check_target(config.soft_budget)  # before a model is loaded for it
    return config


class _Progress:
    """Says after a while how far the replay is, and stops it between two turns."""

    def __init__(self, stop: Stop, *, quiet: bool) -> None:
        self._stop = stop
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._shown = time.monotonic()
        self._is_open = False

    def __call__(self, done: int, total: int) -> None:
        self._stop.raise_if_asked()
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.2 if self._terminal else 10):
            return
        self._shown = now
        text = f"played {done:,} of {total:,} turns"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._is_open = True
        else:
            say(text)

    def close(self) -> None:
        if self._is_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
