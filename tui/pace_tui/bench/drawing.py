"""Keys, and time on a processor, while text streams in; see :mod:`pace_tui.bench.measure`."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pace_local.bench.report import Row, median_row
from pace_local.models import Say
from pace_tui.bench.bare import READY
from pace_tui.bench.first_paint import PROMPT
from pace_tui.bench.replay import FILLED
from pace_tui.bench.surroundings import REPLAY_RATE, environment, replay_words, stage_words
from pace_tui.bench.terminal import Terminal

ECHO_LIMIT_MS = 50.0
SHARE_LIMIT = 0.10
_PATIENCE = 60.0
_FIRST = "zq"
"""What a word that is typed begins with; no other text on the screen does."""
_WORD = 12
"""Letters of a word that is typed and taken back."""
_PAUSES = (0.06, 0.16)
"""Seconds between an echo and the next key, at least and at most."""
_SETTLE = 1.5
"""Seconds after which a beginning is over."""


@dataclass(frozen=True)
class StreamSizes:
    """Sizes of the measurements."""

    rate: float = REPLAY_RATE
    """Tokens a second."""
    entries: int = 5000
    """In the long transcript."""
    keys: int = 60
    """Of one sample."""
    seconds: float = 6.0
    """Of one sample of the time on a processor, streaming and idle each."""


@dataclass
class _Samples:
    """What one transcript gave."""

    p50: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def rows(self, suffix: str) -> list[Row]:
        """As rows, whose names end so."""
        return [
            median_row(f"echo_p50_ms{suffix}", self.p50, "ms", "lower"),
            median_row(f"echo_p95_ms{suffix}", self.p95, "ms", "lower", limit=ECHO_LIMIT_MS),
            median_row(f"draw_core_share{suffix}", self.shares, "core", "lower", limit=SHARE_LIMIT),
            median_row(f"idle_core_share{suffix}", self.idle, "core", "lower"),
            median_row(f"stream_bytes{suffix}", self.bytes, "B/s", "lower"),
        ]


def measure_stream(*, samples: int, folder: Path, say: Say, sizes: StreamSizes) -> list[Row]:
    """Rows of echo and of drawing, with an empty transcript and a long one, whose samples alternate."""
    chooser = random.Random(0)
    empty, long, bare = _Samples(), _Samples(), []
    with (
        _app(folder, sizes.rate, 0) as first,
        _app(folder, sizes.rate, sizes.entries) as second,
        Terminal([sys.executable, "-m", "pace_tui.bench.bare", "typing"], environment(folder)) as alone,
    ):
        alone.read_until(lambda grid: grid.shows(READY), _PATIENCE, repr(READY))
        for number in range(samples):
            say(f"streaming, sample {number + 1} of {samples}")
            bare.append(_percentile(_echoes(alone, sizes.keys, chooser), 0.95))
            for terminal, found in ((first, empty), (second, long)):
                _sample(terminal, found, sizes, chooser)
    return [
        *empty.rows(""),
        *long.rows(f"_{sizes.entries}"),
        median_row("bare_echo_p95_ms", bare, "ms", "lower"),
    ]


@contextmanager
def _app(folder: Path, rate: float, entries: int) -> Iterator[Terminal]:
    with Terminal(stage_words(replay_words(rate, entries)), environment(folder)) as terminal:
        terminal.read_until(lambda grid: grid.shows(PROMPT), _PATIENCE, repr(PROMPT))
        terminal.read_until(lambda grid: grid.shows(FILLED), _PATIENCE, repr(FILLED))
        terminal.read_for(_SETTLE)
        yield terminal


def _sample(terminal: Terminal, found: _Samples, sizes: StreamSizes, chooser: random.Random) -> None:
    idle, _ = _share(terminal, sizes.seconds)
    terminal.press(b"go on\r")
    terminal.read_until(lambda grid: grid.shows(PROMPT), _PATIENCE, "an empty prompt")
    terminal.read_for(_SETTLE)
    busy, written = _share(terminal, sizes.seconds)
    echoes = _echoes(terminal, sizes.keys, chooser)
    terminal.press(b"\x1b")
    terminal.read_until(lambda grid: grid.shows("interrupted"), _PATIENCE, "that it was interrupted")
    terminal.read_for(_SETTLE)
    found.p50.append(_percentile(echoes, 0.50))
    found.p95.append(_percentile(echoes, 0.95))
    found.shares.append(busy - idle)
    found.idle.append(idle)
    found.bytes.append(written)


def _share(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Of one core, and bytes a second, for as long."""
    cpu, written = terminal.cpu_seconds(), terminal.bytes
    terminal.read_for(seconds)
    return (terminal.cpu_seconds() - cpu) / seconds, (terminal.bytes - written) / seconds


def _echoes(terminal: Terminal, keys: int, chooser: random.Random) -> list[float]:
    """Milliseconds from each key to the bytes that show it; the prompt is as before afterwards."""
    times: list[float] = []
    word = ""
    while len(times) < keys or word:
        while len(word) < _WORD and len(times) < keys:
            word += _FIRST[len(word)] if len(word) < len(_FIRST) else chooser.choice("ghjkmwxy")
            times.append(_echo(terminal, word[-1].encode(), word, chooser, is_typed=True))
        while word:
            times.append(_echo(terminal, b"\x7f", word, chooser, is_typed=False))
            word = word[:-1]
    # One letter alone also stands elsewhere on the screen.
    return [each for each in times if each >= 0]


def _echo(terminal: Terminal, key: bytes, word: str, chooser: random.Random, *, is_typed: bool) -> float:
    terminal.read_for(chooser.uniform(*_PAUSES))
    at = terminal.press(key)
    if len(word) < len(_FIRST):
        return -1.0
    shown = terminal.read_until(
        lambda grid: grid.shows(word) == is_typed, _PATIENCE, f"{word!r} {'typed' if is_typed else 'gone'}"
    )
    return 1e3 * (shown - at)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    if len(ordered) < 2:
        return ordered[0]
    return statistics.quantiles(ordered, n=100, method="inclusive")[round(100 * share) - 1]
