"""Some rows of a block, blocks between residents, and what becomes of loaded rows later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_layout import parse
from native_cache import CACHES, SPECS, Cached, cached, random_tokens
from test_native_blocks import SMALL, N, live, part, same_rows, spread


@pytest.mark.parametrize("cache", CACHES)
def test_some_rows_of_a_block(llama: Any, tiny_models: Path, cache: str) -> None:
    """Alone, in runs, in another order of positions than of runs; twice, and by halves."""
    with cached(llama, tiny_models, SPECS["llama yarn"], **CACHES[cache]) as model:
        live(model)
        block = model.save()
        model.place(spread(1))
        expected = model.rows()
        for rows in ([7], [0, 29], [3, 4, 5, 9, 10, 20, 21, 22, 29], list(range(29)), list(range(1, 30))):
            model.clear()
            positions = expected.residents["position"][rows]
            change = model.load(block, positions, rows)
            assert change[:5] == (0, len(rows), len(rows), len(rows), 0)
            same_rows(model.rows(), part(expected, rows))
        model.clear()
        late, early = [*range(0, 30, 3)], [rank for rank in range(30) if rank % 3]
        model.load(block, expected.residents["position"][late], late)
        model.load(block, expected.residents["position"][early], early)
        same_rows(model.rows(), expected)
        model.load(block, range(5000, 5003), rows=[0, 1, 2])
        assert model.tokens()[-3:] == model.tokens()[:3], "a copy of what is there already"
        model.check_keys()


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("spec", ["qwen3", "smollm3"])
def test_a_block_between_residents(llama: Any, tiny_models: Path, spec: str, cache: str) -> None:
    """A gap is made by placing what stays; the rest of the cache keeps every bit, and its cells."""
    gone = list(range(8, 20))
    kept = [rank for rank in range(N) if rank not in gone]
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as twin:
        live(twin)
        twin.renumber(first=40)
        expected, logits = twin.rows(), twin.next_logits()
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
        live(model)
        block = model.save(gone)
        model.place([40 + rank for rank in kept], kept)
        before, references = model.rows(), model.read("reference")
        model.load(block, [40 + rank for rank in gone])
        same_rows(model.rows(), expected)
        others = part(model.rows(), kept)
        assert others.residents.tobytes() == before.residents.tobytes()
        assert model.read("reference")[:, kept].tobytes() == references.tobytes()
        model.renumber(first=40)
        assert model.next_logits() == logits


LATER: dict[str, Callable[[Cached], Any]] = {
    "renumbered": lambda model: model.renumber(first=9),
    "placed": lambda model: model.place(spread(5)),
    "moved often": lambda model: [model.place(spread(seed)) for seed in range(6)],
}


@pytest.mark.parametrize("after", LATER.values(), ids=LATER)
@pytest.mark.parametrize("cache", CACHES)
def test_a_loaded_row_goes_on_like_any_other(
    llama: Any, tiny_models: Path, cache: str, after: Callable[[Cached], Any]
) -> None:
    """Its reference came along: it is renumbered and saved again without loss."""
    with cached(llama, tiny_models, SPECS["qwen2"], **CACHES[cache]) as twin:
        live(twin)
        twin.save()
        after(twin)
        expected = twin.rows()
    with cached(llama, tiny_models, SPECS["qwen2"], **CACHES[cache]) as model:
        live(model)
        block = model.save(range(3, 24))
        model.place([*range(3), *range(100, 106)], [*range(3), *range(24, N)])
        model.load(block, range(10, 31), list(range(21)))
        again = model.save(range(3, 24))
        assert parse(again, model).references.tobytes() == parse(block, model).references.tobytes()
        moved = parse(again, model).tokens
        assert moved["position"].tolist() == list(range(10, 31))
        assert moved["reference_position"].tolist() == (
            parse(block, model).tokens["reference_position"].tolist()
        )
        after(model)
        same_rows(model.rows(), expected)


def test_every_life_of_a_block_is_the_same(llama: Any, tiny_models: Path) -> None:
    """Saved, evicted and loaded a hundred times, anywhere: nothing adds up."""
    random = np.random.default_rng(8)
    with cached(llama, tiny_models, SPECS["llama yarn factors"], **SMALL) as model:
        live(model)
        block = model.save()
        model.place(range(N))
        expected = model.rows()
        for _ in range(100):
            ranks = np.flatnonzero(random.random(N) < 0.5)
            kept = np.setdiff1d(np.arange(N), ranks)
            some = model.save(ranks)
            model.retain(kept)
            model.add(random_tokens(3, int(random.integers(99))))
            model.place(sorted(random.choice(4000, len(kept), replace=False)), range(len(kept)))
            model.load(some, range(5000, 5000 + len(ranks)))
            both = model.save()
            order = np.argsort(np.concatenate([kept, ranks]))
            model.clear()
            for rank, row in enumerate(order):
                model.load(both, [rank], [row])
        same_rows(model.rows(), expected)
        references = parse(model.save(), model).references
        assert references.tobytes() == parse(block, model).references.tobytes()
