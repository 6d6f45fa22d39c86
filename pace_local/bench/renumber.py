"""``renumber``: one renumbering of a full cache, in decoded tokens.

Three cases, all with the same residents after as before:

* *moved*: an early token is evicted and all others follow by one cell. Every key is rotated, and every key,
  value and reference goes to another cell: the most that a renumbering can have to do. This is the figure
  that has a limit.
* *fresh*: the same, with residents that were never renumbered before, so that every reference is taken too.
* *turned*: positions change and cells do not: keys are rotated, nothing moves.

Each is divided by the median of the single-token decodes right before and right after it, at the same
residents. The first decode after a renumbering is reported apart: it would show a cost put off until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from pace_local import _native
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.rig import Rig
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.models import Say

LIMIT, AIM = 0.35, 0.15
LIMITED = ("05b", "15b")
"""Sizes of model that the limit was set for."""


def move_all(rig: Rig) -> float:
    """Evict the first resident after one more was decoded; the others follow by one cell.

    Returns:
        Seconds of the renumbering alone.
    """
    rig.add_token()
    seconds, change = _renumber(rig, evicted=1, first_position=0)
    assert change.n_moved == change.n_rotated == rig.residents
    return seconds


def move_all_fresh(rig: Rig) -> float:
    """The same, with residents whose references were not taken yet."""
    rig.add_token()
    rig.restore(rig.content())
    seconds, change = _renumber(rig, evicted=1, first_position=0)
    assert change.n_moved == change.n_rotated == change.n_captured == rig.residents
    return seconds


def turn_all(rig: Rig) -> float:
    """Rotate all keys by one position, in the cells where they are."""
    seconds, change = _renumber(rig, evicted=0, first_position=1 - rig.first_position)
    assert (change.n_moved, change.n_rotated) == (0, rig.residents)
    return seconds


def measure_renumber(
    subject: Subject,
    *,
    samples: int,
    threads: int | None,
    say: Say,
    residents: int = 2048,
    headroom: int = 512,
) -> list[Row]:
    """Rows of one model, each with the model's suffix; ``renumber_per_token_…`` is the one with a limit.

    Args:
        subject: the model.
        samples: renumberings of each case.
        threads: None: the physical cores.
        say: takes lines of progress.
        residents: tokens in the cache; also the budget.
        headroom: cells above that.
    """
    config = SessionConfig(
        budget=residents, headroom=headroom, position_cap=4 * (residents + headroom), threads=threads
    )
    cases: dict[str, Callable[[Rig], float]] = {
        "moved": move_all,
        "fresh": move_all_fresh,
        "turned": turn_all,
    }
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    plain: dict[str, list[float]] = {name: [] for name in cases}
    after: list[float] = []
    say(f"renumber: {subject.name} fills {residents} cells")
    with subject.loaded() as model, Rig(model, config, residents) as rig:
        for number in range(samples + 1):
            before = rig.neighbour()
            for name, run in cases.items():
                seconds[name].append(run(rig))
                first = rig.decode()
                behind = rig.neighbour()
                plain[name].append((before + behind) / 2)
                if name == "moved":
                    after.append(first / plain[name][-1])
                before = behind
            say(
                f"renumber: {subject.name} {number} of {samples}: "
                + ", ".join(f"{name} {seconds[name][-1] * 1e3:.1f} ms" for name in cases)
                + f", a decode {before * 1e3:.1f} ms"
            )
    # The first round allocates what the others use again.
    ratios = {name: pair_ratios(seconds[name][1:], plain[name][1:]) for name in cases}
    limited = subject.suffix in LIMITED
    suffix = f"_{subject.suffix}"
    return [
        median_row(
            f"renumber_per_token{suffix}",
            ratios["moved"],
            "decodes",
            "lower",
            limit=LIMIT if limited else None,
            aim=AIM if limited else None,
        ),
        median_row(f"renumber_fresh_per_token{suffix}", ratios["fresh"], "decodes", "lower"),
        median_row(f"renumber_turned_per_token{suffix}", ratios["turned"], "decodes", "lower"),
        median_row(f"renumber_ms{suffix}", [s * 1e3 for s in seconds["moved"][1:]], "ms", "lower"),
        median_row(f"decode_ms{suffix}", [s * 1e3 for s in plain["moved"][1:]], "ms", "lower"),
        median_row(f"decode_after_renumber{suffix}", after[1:], "decodes", "lower"),
    ]


def _renumber(rig: Rig, *, evicted: int, first_position: int) -> tuple[float, _native.Change]:
    """Renumber all but the first few; ``rig.residents`` remain."""
    before = rig.residents + evicted
    keep = np.arange(evicted, before, dtype=np.uint32)
    began = time.perf_counter()
    change = rig.cache.renumber(keep, before, first_position)
    seconds = time.perf_counter() - began
    rig.first_position = first_position
    return seconds, change
