"""Any number of renumberings leaves the keys of one rotation from the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local.testing import TinySpec

N_PROMPT = 24
MOST = 40


class Round(NamedTuple):
    """One renumbering and what is decoded after it. Serials number tokens in the order of their decoding."""

    kept: list[int]
    first: int
    fresh: int


def make_rounds(n: int, seed: int) -> list[Round]:
    """Renumberings to random positions. Some tokens, of the prompt and of a few rounds, stay for good."""
    random = np.random.default_rng(seed)
    present, spared, rounds = list(range(N_PROMPT)), set(range(0, N_PROMPT, 5)), []
    n_seen = N_PROMPT
    for i in range(n):
        loose = [serial for serial in present if serial not in spared]
        n_evicted = min(len(loose), max(len(present) - MOST, int(random.integers(0, 4))))
        evicted = set(random.choice(loose, n_evicted, replace=False).tolist()) if n_evicted else set()
        present = [serial for serial in present if serial not in evicted]
        fresh = int(random.integers(1, 5)) if i < n - 1 else 0
        rounds.append(Round(list(present), int(random.integers(0, 6000)), fresh))
        if i + 1 in epochs(n):
            spared.add(n_seen)
        present += range(n_seen, n_seen + fresh)
        n_seen += fresh
    return rounds


def epochs(n: int) -> list[int]:
    """After how many renumberings the others are replaced by a single one."""
    return sorted({0, min(1, n - 1), n // 2, n - 1})


class Walk:
    """A cache that goes through rounds, with what every token's rows were when it was decoded or captured."""

    def __init__(self, model: Cached) -> None:
        self.model = model
        self.serials: list[int] = []
        self.n_seen = 0
        self.values: dict[int, bytes] = {}
        self.references: dict[int, bytes] = {}
        self.decode(N_PROMPT)

    def decode(self, n: int) -> None:
        if n:
            self.model.add(random_tokens(n, seed=self.n_seen))
            self.serials += range(self.n_seen, self.n_seen + n)
            self.n_seen += n

    def renumber(self, kept: list[int], first: int) -> None:
        self.model.renumber([self.serials.index(serial) for serial in kept], first)
        self.serials = list(kept)

    def run(self, rounds: list[Round], *, check_every: int = 0) -> None:
        for i, (kept, first, fresh) in enumerate(rounds):
            checks = check_every and i % check_every == 0
            if checks:
                self.check("value", self.values)
            self.renumber(kept, first)
            if checks:
                self.check("value", self.values)
                self.check("reference", self.references)
            self.decode(fresh)

    def check(self, kind: str, known: dict[int, bytes]) -> None:
        """Rows that were seen before must be the same, bit for bit."""
        rows = self.model.read(kind)
        for rank, serial in enumerate(self.serials):
            row = rows[:, rank].tobytes()
            assert known.setdefault(serial, row) == row, f"{kind} of token {serial}"


def rotate_often(spec: str, cache: str, n: int, llama: Any, models: Path, **more: Any) -> None:
    rounds = make_rounds(n, seed=n)
    with cached(llama, models, SPECS[spec], n_ctx=256, **CACHES[cache], **more) as model:
        walk = Walk(model)
        walk.run(rounds, check_every=1 if n <= 16 else 8)
        last = rounds[-1]
        residents, keys = model.cache.residents(), model.read("key")
        assert residents["position"].tolist() == list(range(last.first, last.first + len(last.kept)))
        worst = model.check_keys()
    print(f"{spec}, {cache}, {n} renumberings: largest difference from numpy {worst:.2e}")
    for epoch in epochs(n):
        with cached(llama, models, SPECS[spec], n_ctx=256, **CACHES[cache], **more) as model:
            other = Walk(model)
            other.run(rounds[:epoch])
            kept = [serial for serial in other.serials if serial in last.kept]
            known = model.cache.residents()["reference_position"] >= 0
            assert not known[[other.serials.index(serial) for serial in kept]].all(), "some rotate once only"
            other.renumber(kept, last.first)
            once = model.read("key")
            assert keys[:, : len(kept)].tobytes() == once.tobytes(), f"replaced after {epoch} renumberings"


FEW = [(spec, "f16") for spec in SPECS]
FEW += [(spec, cache) for spec in ("llama", "qwen3 yarn") for cache in CACHES if cache != "f16"]


@pytest.mark.parametrize(("spec", "cache"), FEW)
def test_one_renumbering_is_one_rotation(spec: str, cache: str, llama: Any, tiny_models: Path) -> None:
    rotate_often(spec, cache, 1, llama, tiny_models)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("spec", SPECS)
def test_16_renumberings_equal_one_rotation(spec: str, cache: str, llama: Any, tiny_models: Path) -> None:
    rotate_often(spec, cache, 16, llama, tiny_models)


@pytest.mark.parametrize(("spec", "cache"), FEW)
def test_256_renumberings_equal_one_rotation(spec: str, cache: str, llama: Any, tiny_models: Path) -> None:
    """The more shifts, the worse the output: here keys never drift."""
    rotate_often(spec, cache, 256, llama, tiny_models)


@pytest.mark.parametrize("cache", ["f16", "f16 transposed", "f32 narrow references", "q8_0"])
def test_many_wide_rows_equal_one_rotation(cache: str, llama: Any, tiny_models: Path) -> None:
    """Enough layers and rows that they need not be taken in one piece."""
    spec = TinySpec(arch="qwen3", n_layer=6, n_head=8, n_head_kv=8, head_dim=128, n_embd=64)
    last = [*range(7), *range(12, 150)]
    found = []
    for earlier in ([], [0, 1000]):
        with cached(llama, tiny_models, spec, n_ctx=256, **CACHES[cache]) as model:
            model.add(random_tokens(200))
            model.retain([*range(0, 60, 3), *range(60, 200)])
            values = model.read("value")
            for first in earlier:
                model.renumber(first=first)
            model.renumber(last, first=70)
            assert model.read("value").tobytes() == values[:, last].tobytes()
            model.check_keys()
            found.append(model.read("key").tobytes())
    assert found[0] == found[1]
