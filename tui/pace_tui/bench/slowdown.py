"""What the screen takes from generation; see :mod:`pace_tui.bench.measure`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.rounds import samples_by_round
from pace_local.bench.subject import Subject
from pace_local.errors import PaceError
from pace_local.models import Say
from pace_tui.bench.first_paint import PROMPT
from pace_tui.bench.surroundings import environment, stage_words
from pace_tui.bench.terminal import Terminal
from pace_tui.wire import Received

LIMIT = 0.03
_PATIENCE = 300.0
_LOOK = 0.05
_PROMPT = "write on"


@dataclass(frozen=True)
class SlowdownSizes:
    """Sizes of the measurement."""

    tokens: int = 200
    """Of one answer."""
    budget: int = 2048
    pairs: int = 4
    """Of answers, of one sample."""


@dataclass(frozen=True)
class _Writer:
    """One worker that answers."""

    ask: Callable[[], None]
    """Have it answer."""
    wait: Callable[[], Received]
    """What comes next of what is noted."""

    def seconds(self) -> float:
        """Of one token of one answer."""
        self.ask()
        generated, seconds = 0, 0.0
        while (noted := self.wait())["type"] != "ended":
            if noted["type"] == "turned":
                generated += int(noted["generated"])
                seconds += float(noted["generating_seconds"])
        if not generated:
            raise PaceError("the model wrote nothing; choose another one with --model")
        return seconds / generated


def measure_slowdown(
    subject: Subject, *, samples: int, threads: int | None, folder: Path, say: Say, sizes: SlowdownSizes
) -> list[Row]:
    """Rows ``generation_slowdown``, and ``generation_tokens_per_second`` without the screen."""
    ratios: list[float] = []
    speeds: list[float] = []
    for count in samples_by_round(samples):
        with tempfile.TemporaryDirectory(dir=folder) as repository:
            words = [
                *(
                    sys.executable,
                    "-m",
                    "pace_agent.worker",
                    "--no-save",
                    "--mode",
                    "plan",
                    "--style",
                    "tools",
                ),
                *("--repo", repository, "--model", str(subject.path), "--budget", str(sizes.budget)),
            ]
            changes = {"PACE_MAX_TOKENS": str(sizes.tokens), "PACE_MAX_TURNS": "1", "PACE_WATCH": "no"}
            if threads is not None:
                changes["PACE_THREADS"] = str(threads)
            environ = environment(folder, **changes)
            with _with_screen(words, environ) as shown, _drained(words, environ) as drained:
                shown.seconds(), drained.seconds()
                for _ in range(count):
                    say(f"generation with and without the screen, {len(ratios) + 1} of {samples}")
                    with_screen: list[float] = []
                    without: list[float] = []
                    for number in range(sizes.pairs):
                        turn = [(shown, with_screen), (drained, without)]
                        for writer, times in turn if number % 2 else turn[::-1]:
                            times.append(writer.seconds())
                    ratios += pair_ratios([sum(with_screen)], [sum(without)])
                    speeds.append(len(without) / sum(without))
    return [
        median_row(
            "generation_slowdown",
            [each - 1.0 for each in ratios],
            "share",
            "lower",
            limit=LIMIT,
            note="time of a token with the screen against that of one whose pipe is read and thrown away",
        ),
        median_row("generation_speed", speeds, "tokens/s", "higher"),
    ]


@contextmanager
def _with_screen(words: list[str], environ: dict[str, str]) -> Iterator[_Writer]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        with Terminal(stage_words(words, writing), environ, pass_fds=[writing]) as terminal:
            os.close(writing)
            noted: list[Received] = []
            rest = b""

            def wait() -> Received:
                nonlocal rest
                end = time.monotonic() + _PATIENCE
                while not noted:
                    if time.monotonic() > end:
                        raise PaceError(f"the screen's worker says nothing for {_PATIENCE:g} s")
                    terminal.read(_LOOK)
                    try:
                        rest += os.read(reading, 1 << 16)
                    except BlockingIOError:
                        continue
                    *lines, rest = rest.split(b"\n")
                    noted.extend(_checked(json.loads(line)) for line in lines)
                return noted.pop(0)

            terminal.read_until(lambda grid: grid.shows(PROMPT), _PATIENCE, repr(PROMPT))
            terminal.grid.is_asleep = True  # a terminal's own work is not the screen's
            _until_ready(wait)

            def ask() -> None:
                terminal.press(_PROMPT.encode() + b"\r")

            yield _Writer(ask, wait)
    finally:
        os.close(reading)


@contextmanager
def _drained(words: list[str], environ: dict[str, str]) -> Iterator[_Writer]:
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        killing = threading.Timer(_PATIENCE * 10, process.kill)
        killing.daemon = True
        killing.start()
        try:
            said, told = process.stdout, process.stdin

            def ask() -> None:
                told.write(json.dumps({"type": "prompt", "prompt": _PROMPT}).encode("ascii") + b"\n")
                told.flush()

            def wait() -> Received:
                return _next_noted(said)

            _until_ready(wait)
            yield _Writer(ask, wait)
        finally:
            killing.cancel()
            process.kill()


def _next_noted(said: IO[bytes]) -> Received:
    starts = tuple(b'{"type":"%s"' % name for name in (b"ready", b"turned", b"ended", b"error"))
    for line in said:
        if line.startswith(starts):
            document: Received = json.loads(line)
            return _checked(document)
    raise PaceError("the worker ended by itself")


def _checked(noted: Received) -> Received:
    if noted["type"] in ("error", "died"):
        raise PaceError(f"the worker says: {noted.get('message') or noted}")
    return noted


def _until_ready(wait: Callable[[], Received]) -> None:
    while wait()["type"] != "ready":
        pass
