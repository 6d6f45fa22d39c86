"""``renumber`` against upstream's own way to change positions: ``seq_add`` and the K-shift that follows it.

Upstream rotates keys in place, and lazily: ``llama_memory_seq_add`` only notes the distance, the next
``llama_decode`` rotates the keys of *all* cells, used or not, reserves its buffers anew, and then decodes.
So a shift costs what a decode with one pending takes longer than the decodes around it. Ours is charged
alike: the renumbering, plus what the first decode after it takes longer than the decodes around it, if it
does. Ours moves every key, value and reference as well; upstream's moves nothing.

The limit holds against a context of exactly as many cells as ours has residents. A context with room for
the batch in flight, which a program needs, is rotated whole; that comparison is reported apart. All three
contexts are made anew for each round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from pace_local import _native
from pace_local.bench.renumber import move_all
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.rig import Rig
from pace_local.bench.rounds import samples_by_round
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.models import Say

LIMIT, AIM = 1.0, 0.5


class Costs(NamedTuple):
    """One sample, in milliseconds."""

    ours: float
    shift: float
    """Of as many cells as ours has residents."""
    whole_shift: float
    """Of as many cells as ours has."""


def shift_all(rig: Rig) -> float:
    """Shift all residents by one position, there and back in turns, and decode a token.

    Returns:
        Seconds of both.
    """
    delta = 1 if rig.first_position == 0 else -1
    memory = _native.llama.llama_get_memory(rig.engine.ctx)
    began = time.perf_counter()
    _native.llama.llama_memory_seq_add(memory, 0, 0, -1, delta)
    rig.first_position += delta
    noted = time.perf_counter() - began
    return noted + rig.decode()


def measure_shift(
    subject: Subject,
    *,
    samples: int,
    threads: int | None,
    say: Say,
    residents: int = 2048,
    headroom: int = 512,
) -> list[Row]:
    """Rows ``renumber_vs_shift_qwen3_8b`` (ours through theirs) and the times behind it.

    Args:
        subject: a model with Qwen3-8B's KV shape.
        samples: renumberings, and shifts of each kind.
        threads: None: the physical cores.
        say: takes lines of progress.
        residents: tokens in the cache, and cells of upstream's context.
        headroom: cells above that in ours.
    """

    def config(n_cells: int) -> SessionConfig:
        return SessionConfig(
            budget=n_cells - headroom, headroom=headroom, position_cap=4 * n_cells, threads=threads
        )

    costs: list[Costs] = []
    say(f"renumber: {subject.name} fills {residents} cells")
    with subject.loaded() as model:
        with Rig(model, config(residents + headroom), residents) as rig:
            content = rig.content()
        for count in samples_by_round(samples):
            with (
                Rig(model, config(residents + headroom), residents, content) as own,
                # One cell is left for the token that is decoded with each shift.
                Rig(model, config(residents), residents - 1, content) as tight,
                Rig(model, config(residents + headroom), residents, content) as roomy,
            ):
                for cost in _alternate(own, tight, roomy, count):
                    costs.append(cost)
                    say(
                        f"renumber: {subject.name} {len(costs)} of {samples}: {cost.ours:.1f} ms, "
                        f"shifts {cost.shift:.1f} and {cost.whole_shift:.1f} ms"
                    )
    ours, shift, whole_shift = ([cost[part] for cost in costs] for part in range(3))
    name = "qwen3_8b"
    return [
        median_row(f"renumber_vs_shift_{name}", pair_ratios(ours, shift), "x", "lower", limit=LIMIT, aim=AIM),
        median_row(f"renumber_vs_whole_shift_{name}", pair_ratios(ours, whole_shift), "x", "lower"),
        median_row(f"renumber_ms_{name}", ours, "ms", "lower"),
        median_row(f"shift_ms_{name}", shift, "ms", "lower"),
        median_row(f"whole_shift_ms_{name}", whole_shift, "ms", "lower"),
    ]


def _alternate(own: Rig, tight: Rig, roomy: Rig, samples: int) -> Iterator[Costs]:
    """One of each in turns; the first turn warms up."""
    for number in range(samples + 1):
        seconds = _renumber_cost(own), _shift_cost(tight), _shift_cost(roomy)
        if number:
            yield Costs(*(value * 1e3 for value in seconds))


def _renumber_cost(rig: Rig) -> float:
    before = rig.neighbour()
    seconds = move_all(rig)
    first = rig.decode()
    plain = (before + rig.neighbour()) / 2
    # Noise in the decode must not make the renumbering look cheaper than its own call.
    return seconds + max(0.0, first - plain)


def _shift_cost(rig: Rig) -> float:
    before = rig.neighbour()
    both = shift_all(rig)
    return both - (before + rig.neighbour()) / 2
