"""The process behind a screen, ``python -m pace_agent.worker``: it holds model, agent and session.

Commands come on stdin and messages go to stdout, as :mod:`pace_agent.worker.protocol` has them. Whatever else
is printed, by native libraries too, goes to stderr, and to a file in the session's folder once there is one.
It ends when it is told to, when stdin ends, or by SIGTERM, each within a second.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import psutil

from pace_agent.commands import opening
from pace_agent.events import Warned
from pace_agent.sessions.places import LOG, session_path
from pace_agent.worker.channel import Channel, log_to, read_lines, take_standard_streams
from pace_agent.worker.protocol import Problem, line_of
from pace_agent.worker.service import Service
from pace_local.errors import FileError, PaceError
from pace_local.sampling import Writer
from pace_local.terminal import Stop

if TYPE_CHECKING:
    from pace_agent import Agent

_LONGEST_LINE = 64 << 20
"""Bytes of a command."""

_END_SECONDS = 0.7
"""In which work ends that was told to; then the process ends without it. What the session has on disk is
whole at every moment."""

_FLUSH_SECONDS = 0.2
_LOOK_SECONDS = 0.05


def main(argv: Sequence[str] | None = None, *, writer: Writer | None = None) -> int:
    """Serve until told to quit. Takes over stdin, stdout and signals of the process.

    Args:
        argv: options; None: those that the process was started with.
        writer: writes answers in the model's place.

    Returns:
        The exit code: 0 if it was told to quit.
    """
    commands, said = take_standard_streams()
    faulthandler.enable(all_threads=False)
    stop = Stop()
    channel = Channel(said, on_broken=lambda: service.stop())
    service = Service(channel, stop)
    codes: list[int] = []

    def work() -> None:
        codes.append(_work(service, channel, stop, argv, writer))

    working = threading.Thread(target=work, name="work", daemon=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stopping(service))
    working.start()
    lines = read_lines(commands, _LONGEST_LINE)
    threading.Thread(target=service.read, args=[lines], name="commands", daemon=True).start()
    asked_at: float | None = None
    while working.is_alive():
        working.join(_LOOK_SECONDS)
        if asked_at is None and stop.reason is not None:
            asked_at = time.monotonic()
        if asked_at is not None and time.monotonic() > asked_at + _END_SECONDS:
            _end_children()
            break
    channel.flush(_FLUSH_SECONDS)
    return codes[0] if codes else 0


def _stopping(service: Service) -> Callable[[int, FrameType | None], None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        service.stop()

    return stop


def _work(
    service: Service, channel: Channel, stop: Stop, argv: Sequence[str] | None, writer: Writer | None
) -> int:
    try:
        arguments = _parser().parse_args(argv)
        repository = opening.repository_of(arguments)
        loaded = opening.load(arguments, repository, tell=lambda line: channel.say(line_of(Warned(line))))
        service.work(
            lambda screen: opening.open_agent(arguments, repository, loaded, stop, screen),
            _log,
            writer=writer or _script(arguments.script),
        )
    except PaceError as error:
        if stop.reason is not None:
            return 0
        channel.say(line_of(Problem(str(error), fatal=True)))
        return error.exit_code
    except SystemExit as error:  # options that argparse refused, and said so
        channel.say(line_of(Problem("the options cannot be used; the log says why", fatal=True)))
        return int(error.code or 0)
    except BaseException as error:
        traceback.print_exc()
        channel.say(line_of(Problem(f"a fault of this program: {error!r}", fatal=True)))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pace_agent.worker", description="The agent behind a screen."
    )
    opening.add_options(parser)
    parser.add_argument("--script", metavar="FILE", help=argparse.SUPPRESS)
    return parser


def _script(path: str | None) -> Writer | None:
    """What says the answers in a file, a JSON list of texts, in the model's place; for tests of screens."""
    if path is None:
        return None
    from pace_local.testing import Script

    try:
        lines = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"the script {path!r} cannot be read: {error}") from None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise FileError(f"the script {path!r} is no JSON list of texts")
    return Script(lines)


def _log(agent: Agent) -> str:
    """Print to a file in the session's folder from now on."""
    if not agent.session_name:
        return ""
    path = session_path(agent.session_name) / LOG
    log_to(path)
    return str(path)


def _end_children() -> None:
    """Leave no command behind that the agent had no time to end."""
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()


def run(argv: Sequence[str] | None = None, *, writer: Writer | None = None) -> None:
    """Serve, and end the process; see :func:`main`."""
    code = main(argv, writer=writer)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)  # work that does not end must not hold it up
