"""Failures in the middle of a call: nothing changed, or everything gone, and decoding goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local._native import FAIL_POINTS
from pace_local.errors import CacheLostError, NativeError

OPTIONS = {"n_ctx": 256, "n_seq": 2, "unified": True}
SOME = [*range(4), *range(9, 30, 2)]


def fill(model: Cached) -> None:
    """Tokens of two sequences: some with references, and in places of their own, and some without."""
    model.add(random_tokens(25))
    model.add(random_tokens(10, seed=1), start=100, seq=1)
    model.renumber([*range(5), *range(8, 25)], first=30)
    model.add(random_tokens(8, seed=2))


def go_on(model: Cached) -> list[bytes]:
    """A renumber and a decode, and all that can be seen afterwards."""
    model.renumber(SOME, first=2)
    model.add([65])
    return [*model.everything(n_seq=2), model.output(-1).tobytes()]


@pytest.mark.parametrize("spec", ["llama", "qwen3"])
@pytest.mark.parametrize("cache", CACHES)
def test_a_failure_before_the_first_move_changes_nothing(
    spec: str, cache: str, llama: Any, tiny_models: Path
) -> None:
    with cached(llama, tiny_models, SPECS[spec], **OPTIONS, **CACHES[cache]) as model:
        fill(model)
        expected = go_on(model)
    for point, says in (("plan", "no memory to plan"), ("allocate", "no device memory to move or turn rows")):
        with cached(llama, tiny_models, SPECS[spec], **OPTIONS, **CACHES[cache]) as model:
            fill(model)
            before = model.everything(n_seq=2)
            for ranks, first in ((range(30), 0), (range(30), 30), (SOME, 2), ([], 0)):
                model.cache.fail_next(point)
                with pytest.raises(NativeError) as error:
                    model.renumber(ranks, first=first)
                assert error.value.status == "NO_MEMORY"
                assert not isinstance(error.value, CacheLostError)
                if point == "plan" or len(ranks) == 30:
                    assert says in str(error.value)
                assert model.everything(n_seq=2) == before, f"{point} {first}"
            assert go_on(model) == expected, "the failure is over, and left nothing behind"


def test_a_retain_that_fails_evicts_nothing(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **OPTIONS) as model:
        fill(model)
        before = model.everything(n_seq=2)
        model.cache.fail_next("plan")
        with pytest.raises(NativeError, match="no memory to plan") as error:
            model.retain(SOME)
        assert error.value.status == "NO_MEMORY"
        assert model.everything(n_seq=2) == before
        assert model.retain(SOME).n_after == len(SOME)


@pytest.mark.parametrize("cache", CACHES)
def test_a_failure_half_way_empties_the_cache(cache: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
        model.add(random_tokens(30, seed=9))
        model.renumber(first=70)
        model.add([66])
        expected = [*model.everything(n_seq=2), model.output(-1).tobytes()]
    with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
        fill(model)
        model.cache.fail_next("compute")
        with pytest.raises(CacheLostError, match="the device failed while rows were being moved") as error:
            model.renumber(SOME, first=2)
        assert error.value.status == "CACHE_LOST"
        for seq in (0, 1):
            assert model.cache.count(seq) == 0
            assert model.next_position(seq) == 0
        # the same cells, and references that belong to nobody now
        model.add(random_tokens(30, seed=9))
        assert (model.cache.residents()["reference_position"] == -1).all()
        assert model.renumber(first=70).n_captured == 30
        model.add([66])
        assert [*model.everything(n_seq=2), model.output(-1).tobytes()] == expected


def test_a_failure_strikes_once(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **OPTIONS) as model:
        for point in FAIL_POINTS:
            model.clear()
            fill(model)
            model.cache.fail_next(point)
            if point != "nowhere":
                with pytest.raises(NativeError):
                    model.renumber(SOME)
            if point == "compute":
                continue
            model.renumber(SOME)
            model.renumber()
            model.check_keys()
        model.cache.fail_next("plan")
        model.cache.fail_next("nowhere")
        model.renumber()
