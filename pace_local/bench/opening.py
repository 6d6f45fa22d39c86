"""``recall``'s rows of opening a session: its residents from disk, against decoding them in micro-batches.

Both make a context first. Files are no longer held in memory by the system where it can be asked for that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pace_local import _native
from pace_local.bench.page_cache import drop_cached, worst
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.events import Event, Rebuilt
from pace_local.model import Model
from pace_local.models import Say
from pace_local.session import Session

LIMIT, AIM = 20.0, 100.0
MOST_SAMPLES = 3
"""Decoding all residents takes long."""


@dataclass(frozen=True)
class Saved:
    """A session on disk."""

    folder: Path
    tokens: npt.NDArray[np.int32]
    """Of the session, shape [n]; all are resident."""


def measure_opening(model: Model, config: SessionConfig, saved: Saved, samples: int, say: Say) -> list[Row]:
    """Rows ``open_speedup``, ``open_ms`` and ``decode_residents_ms``.

    Args:
        model: of the session.
        config: of the session.
        saved: the session.
        samples: that other rows have.
        say: takes lines of progress.
    """
    samples = min(samples, MOST_SAMPLES)
    tokens, n = saved.tokens, len(saved.tokens)
    dropped: list[str] = []
    opened: list[float] = []
    decoded: list[float] = []

    def open_it() -> None:
        dropped.append(drop_cached(saved.folder))
        events: list[Event] = []
        began = time.perf_counter()
        with Session.open(model, saved.folder, listener=events.append) as again:
            _native.llama.llama_synchronize(again.engine.ctx)
            opened.append(time.perf_counter() - began)
            assert np.array_equal(again.residents.token_index, np.arange(n))
        assert not any(isinstance(event, Rebuilt) for event in events)

    def decode_it() -> None:
        began = time.perf_counter()
        engine = Engine(model, config)
        try:
            for start in range(0, n, engine.n_batch):
                engine.decode(tokens[start : start + engine.n_batch], start)
            _native.llama.llama_synchronize(engine.ctx)
            decoded.append(time.perf_counter() - began)
        finally:
            engine.close()

    open_it()  # the first one finds its way through code that was never run
    opened.clear()
    for number in range(samples):
        for turn in (open_it, decode_it) if number % 2 else (decode_it, open_it):
            turn()
        say(
            f"recall: {number + 1} of {samples}: {n} residents, decoded {decoded[-1]:.2f} s, "
            f"opened {opened[-1] * 1e3:.0f} ms"
        )
    ratios = pair_ratios(decoded, opened)
    note = f"page cache {worst(dropped)} before each opening"
    return [
        median_row("open_speedup", ratios, "x", "higher", limit=LIMIT, aim=AIM, note=note),
        median_row("open_ms", [s * 1e3 for s in opened], "ms", "lower", note=note),
        median_row("decode_residents_ms", [s * 1e3 for s in decoded], "ms", "lower"),
    ]
