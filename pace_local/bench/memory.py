"""``memory``: bytes of the KV state at Qwen3-8B's shape, as allocated.

The cache is filled and renumbered once, so that what is allocated late is there too. Weights and the
buffers of decoding are not part of it.
"""

from __future__ import annotations

from pace_local.bench.renumber import move_all
from pace_local.bench.report import Row, median_row
from pace_local.bench.rig import Rig
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.models import Say

LIMIT, AIM = 0.7e9, 0.6e9


def measure_memory(
    subject: Subject, *, threads: int | None, say: Say, budget: int = 2048, headroom: int = 512
) -> list[Row]:
    """Rows ``kv_bytes`` (K and V), ``reference_bytes``, ``total_bytes`` (their sum) and ``scratch_bytes``.

    Args:
        subject: a model with Qwen3-8B's KV shape.
        threads: None: the physical cores.
        say: takes lines of progress.
        budget: tokens in the cache.
        headroom: cells above that.
    """
    say(f"memory: {subject.name} fills {budget} cells")
    config = SessionConfig(
        budget=budget, headroom=headroom, position_cap=4 * (budget + headroom), threads=threads
    )
    with subject.loaded() as model, Rig(model, config, budget) as rig:
        move_all(rig)
        held = rig.cache.bytes_held()
    kv = held.keys + held.values
    return [
        median_row("kv_bytes", [kv], "bytes", "lower"),
        median_row("reference_bytes", [held.references], "bytes", "lower"),
        median_row("total_bytes", [kv + held.references], "bytes", "lower", limit=LIMIT, aim=AIM),
        median_row("scratch_bytes", [held.scratch], "bytes", "lower"),
    ]
