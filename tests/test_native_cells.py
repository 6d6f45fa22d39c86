"""Where residents lie: cells 0 ... n - 1 in position order, nothing stale, nothing moved in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local.testing import TinySpec

LAYOUTS = ["f16", "f16 transposed", "f32 narrow references", "bf16", "q8_0"]
ONE_LAYER = TinySpec(n_layer=1, n_head=1, n_head_kv=1, n_ff=32)


def check_compact(model: Cached, first: int) -> None:
    residents = model.cache.residents()
    n = len(residents)
    assert residents["position"].tolist() == list(range(first, first + n))
    assert residents["cell"].tolist() == list(range(n))
    assert (residents["reference_position"] >= 0).all()


@pytest.mark.parametrize("cache", LAYOUTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_live_cells_are_the_first_and_in_order(
    cache: str, data: st.DataObject, llama: Any, tiny_models: Path
) -> None:
    """Whatever was decoded, retained and renumbered before, and with values that follow their tokens."""
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256, **CACHES[cache]) as model:
        for step in range(data.draw(st.integers(1, 6))):
            n_free = 256 - model.cache.count()
            n = data.draw(st.integers(1, min(n_free, 120)))
            model.add(random_tokens(n, seed=step))
            values = model.read("value")
            ranks = data.draw(st.lists(st.integers(0, model.cache.count() - 1), unique=True).map(sorted))
            tokens = model.tokens()
            if data.draw(st.booleans()):
                change = model.retain(ranks)
                assert (change.n_after, change.n_moved, change.n_rotated) == (len(ranks), 0, 0)
            else:
                first = data.draw(st.sampled_from([0, 1, 5000]))
                before = model.cache.residents()["cell"][ranks]
                change = model.renumber(ranks, first)
                check_compact(model, first)
                assert change.n_moved == (before != np.arange(len(ranks))).sum()
            assert model.tokens() == [tokens[rank] for rank in ranks]
            assert model.read("value").tobytes() == values[:, ranks].tobytes()
        model.renumber()
        model.check_keys()


@pytest.mark.parametrize("cache", LAYOUTS)
def test_the_next_token_lands_behind_the_residents(cache: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["qwen2"], n_ctx=256, **CACHES[cache]) as model:
        model.add(random_tokens(100))
        for n in (90, 37, 36, 1, 0):
            model.renumber(range(model.cache.count() - n, model.cache.count()))
            model.add(random_tokens(3, seed=n), start=n)
            assert model.cache.residents()["cell"].tolist() == list(range(n + 3))
            assert model.next_position() == n + 3


def test_a_full_cache_is_renumbered_and_filled_again(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256) as model:
        model.add(random_tokens(256))
        assert model.try_decode([1], 256) == 1, "no cell is free"
        model.renumber()
        assert model.try_decode([1], 256) == 1
        model.renumber(range(100, 256))
        check_compact(model, 0)
        model.add(random_tokens(100))
        model.renumber(first=7000)
        check_compact(model, 7000)
        model.check_keys()


@pytest.mark.parametrize(("flash", "n_cycles"), [(True, 5000), (False, 1000)])
def test_thousands_of_cycles_never_run_out_of_cells(
    flash: bool, n_cycles: int, llama: Any, tiny_models: Path
) -> None:
    """A cache with free cells must find room however fragmented it was: decode fails if it does not."""
    random = np.random.default_rng(5)
    with cached(llama, tiny_models, ONE_LAYER, n_ctx=256, flash=flash) as model:
        for cycle in range(n_cycles):
            room = 256 - model.cache.count()
            # mostly small, now and then all that is free
            n = room if cycle % 50 == 0 else int(random.integers(1, min(room, 6) + 1))
            model.add(random_tokens(n, seed=cycle))
            count = model.cache.count()
            kept = np.flatnonzero(random.random(count) < (0.6 if count > 200 else 0.97))
            if cycle % 3:
                model.retain(kept)
            else:
                model.renumber(kept, first=int(random.integers(0, 3)))
                assert model.cache.residents()["cell"].tolist() == list(range(len(kept)))
            assert model.cache.count() == len(kept)
            if len(kept) == 256:
                model.renumber(range(1, 256))
        model.renumber()
        check_compact(model, 0)
        model.check_keys()


@pytest.mark.parametrize("cache", CACHES)
def test_an_overwritten_cell_does_not_use_the_reference_of_its_last_token(
    cache: str, llama: Any, tiny_models: Path
) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], n_ctx=256, **CACHES[cache]) as model:
        model.add(random_tokens(40))
        model.renumber(first=200)
        model.retain(range(20))
        model.add(random_tokens(20, seed=1))
        overwritten = model.cache.residents()
        assert overwritten["cell"].tolist() == list(range(40)), "in the same cells"
        assert overwritten["reference_position"].tolist() == list(range(20)) + [-1] * 20
        assert model.renumber(first=900).n_captured == 20
        assert model.cache.residents()["reference_position"].tolist() == [*range(20), *range(220, 240)]
        model.check_keys()
        references = model.read("reference")
    with cached(llama, tiny_models, SPECS["qwen3"], n_ctx=256, **CACHES[cache]) as other:
        # the same tokens in cells that never held others
        other.add(random_tokens(40))
        other.renumber(first=200)
        other.renumber(range(20), first=200)
        other.add(random_tokens(20, seed=1))
        other.renumber(first=900)
        assert references.tobytes() == other.read("reference").tobytes()


def test_a_token_at_the_same_cell_and_position_is_captured_anew(llama: Any, tiny_models: Path) -> None:
    """Cell and position alone do not tell one occupant from the next: also after the cache was cleared."""
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256) as model:
        model.add(random_tokens(16, seed=0))
        model.renumber()
        for clear in (model.clear, lambda: model.retain([])):
            clear()
            model.add(random_tokens(16, seed=3))
            assert (model.cache.residents()["reference_position"] == -1).all()
            assert model.renumber(first=50).n_captured == 16
            model.check_keys()


@pytest.mark.parametrize("cache", CACHES)
def test_what_lies_right_is_not_touched(cache: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256, **CACHES[cache]) as model:
        model.add(random_tokens(40))
        exact = cache not in ("f32 narrow references", "q8_0", "q8_0 transposed", "q8_0 wide references")
        first = model.renumber()
        # a key that its reference rounds is stored once as the reference has it
        assert first[:5] == (40, 40, 0 if exact else 40, 0, 40)
        assert model.renumber()[:5] == (40, 40, 0, 0, 0)
        assert model.renumber(range(30))[:5] == (40, 30, 0, 0, 0), "only the end goes"
        assert model.renumber([*range(10), *range(15, 30)])[:5] == (30, 25, 15, 15, 0), "a gap closes"
        assert model.renumber(first=3)[:5] == (25, 25, 25, 0, 0), "positions move, cells do not"
        model.add([9])
        assert model.renumber(first=3)[:5] == (26, 26, 0 if exact else 1, 0, 1)
        assert model.retain([])[:5] == (26, 0, 0, 0, 0)
        assert model.renumber()[:5] == (0, 0, 0, 0, 0)
        model.add([7, 8], start=0)
        assert model.renumber([1])[:5] == (2, 1, 1, 1, 1)


@pytest.mark.parametrize("flash", [True, False])
def test_only_residents_that_change_cells_count_as_moved(flash: bool, llama: Any, tiny_models: Path) -> None:
    """Transposed values are stored as one run of cells, between which some stay where they are."""
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=256, flash=flash) as model:
        model.add(random_tokens(3))
        model.retain([1])
        # the free cells 0 and 2 take the next tokens: in position order, residents lie in 1, 0, 2
        model.add([5, 6])
        cells = model.cache.residents()["cell"].tolist()
        change = model.renumber()
        assert change.n_moved == sum(cell != rank for rank, cell in enumerate(cells))
        assert 0 < change.n_moved < 3
        check_compact(model, 0)
