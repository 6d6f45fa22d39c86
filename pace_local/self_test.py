"""A renumbering on a tiny random model, compared with a slow reference: does the library work here?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.model import Model
from pace_local.testing import TinySpec, rotate_by, rotation_tolerance, tiny_model

_TOKENS = 200
_RENUMBERINGS = 3
_FIRST_POSITION = 4000


@dataclass(frozen=True)
class SelfTest:
    """What the self-test found."""

    residents: int
    renumberings: int
    largest_difference: float
    """Largest difference between a key and the reference, in units of what rounding explains."""
    values_kept: bool
    """Whether every value is bit for bit what it was."""
    decodes: bool
    """Whether decoding goes on behind the renumbered residents."""

    @property
    def passed(self) -> bool:
        """Whether all is well."""
        return self.largest_difference <= 1 and self.values_kept and self.decodes


def run_self_test() -> SelfTest:
    """Decode, evict and renumber on every layer of a tiny model.

    Raises:
        PaceError: if the library cannot even do that.
    """
    spec = TinySpec(arch="qwen3")
    with tempfile.TemporaryDirectory() as folder, Model.load(tiny_model(spec, Path(folder))) as model:
        engine = Engine(model, SessionConfig(budget=256, headroom=256, position_cap=8192, threads=1))
        try:
            return _exercise(engine, spec)
        finally:
            engine.close()


def _exercise(engine: Engine, spec: TinySpec) -> SelfTest:
    assert engine.cache is not None
    cache = engine.cache
    rng = np.random.default_rng(1)
    engine.decode(rng.integers(0, 256, _TOKENS).astype(np.int32), _FIRST_POSITION)
    layers = range(spec.n_layer)
    keys = [cache.read_rows("key", layer) for layer in layers]
    values = [cache.read_rows("value", layer) for layer in layers]
    kept = np.arange(_TOKENS)
    for _ in range(_RENUMBERINGS):
        keep = np.sort(rng.choice(len(kept), len(kept) * 9 // 10, replace=False)).astype(np.uint32)
        cache.renumber(keep, len(kept), int(rng.integers(0, 6000)))
        kept = kept[keep]
    cache.renumber(np.arange(len(kept), dtype=np.uint32), len(kept), 0)
    largest, same = 0.0, True
    for layer in layers:
        rope = spec.rope(layer)
        assert rope is not None
        shape = (len(kept), spec.n_head_kv, spec.head_dim)
        before = keys[layer][kept].reshape(shape)
        delta = np.arange(len(kept)) - (_FIRST_POSITION + kept)
        after = cache.read_rows("key", layer).reshape(shape)
        allowed = rotation_tolerance(before, delta, rope, cache="f16")
        difference = np.max(np.abs(after - rotate_by(before, delta, rope)) / allowed)
        largest = float(np.maximum(largest, difference))  # which stays NaN once it is
        same = same and np.array_equal(cache.read_rows("value", layer), values[layer][kept])
    engine.decode([1, 2, 3], len(kept))
    residents = cache.residents()
    decodes = len(residents) == len(kept) + 3 and bool(np.all(np.isfinite(engine.logits())))
    return SelfTest(len(kept), _RENUMBERINGS + 1, largest, same, decodes)
