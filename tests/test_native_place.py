"""Renumbering to given positions, which may leave gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens
from test_native_blocks import N, live, same_rows, spread
from test_native_failures import OPTIONS
from test_native_validation import LAST

from pace_local.errors import CacheLostError, NativeError
from pace_local.testing import TinySpec

SOME = [*range(4), *range(9, 30, 2)]
FEW = ["llama", "llama yarn factors", "qwen3", "phi3 factors", "smollm3"]


@pytest.mark.parametrize("spec", FEW)
@pytest.mark.parametrize("cache", CACHES)
def test_consecutive_positions_are_a_renumbering(
    llama: Any, tiny_models: Path, spec: str, cache: str
) -> None:
    seen = []
    for places in (True, False):
        with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
            live(model)
            first = 70
            if places:
                change = model.place(range(first, first + len(SOME)), SOME)
            else:
                change = model.renumber(SOME, first)
            model.add([65])
            seen.append([*map(str, change[:5]), *model.everything()[:3], model.output(-1).tobytes()])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("cache", CACHES)
def test_every_key_is_what_a_renumbering_to_its_position_leaves(
    llama: Any, tiny_models: Path, spec: TinySpec, cache: str
) -> None:
    """Bit for bit, whatever the gaps, and however often it was placed elsewhere."""
    with cached(llama, tiny_models, spec, **CACHES[cache]) as model:
        live(model)
        values = model.read("value")
        positions = spread(5)
        model.place(spread(1))
        model.place(positions)
        residents = model.cache.residents()
        assert residents["position"].tolist() == positions
        assert residents["cell"].tolist() == list(range(N))
        assert model.next_position() == positions[-1] + 1
        assert model.read("value").tobytes() == values.tobytes()
        model.check_keys()
        keys = model.read("key")
        for rank in (0, 17, 18, 29):
            model.renumber(first=positions[rank] - rank)
            assert model.read("key")[:, rank].tobytes() == keys[:, rank].tobytes()
        model.place(positions)
        assert model.read("key").tobytes() == keys.tobytes()


@pytest.mark.parametrize("cache", CACHES)
def test_what_lies_right_is_not_touched(llama: Any, tiny_models: Path, cache: str) -> None:
    with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
        live(model)
        model.place(spread(3))
        before = model.everything()
        assert model.place(spread(3))[:5] == (N, N, 0, 0, 0)
        assert model.everything() == before
        moved = [*spread(3)[:20], *(position + 5000 for position in spread(3)[20:])]
        assert model.place(moved)[:5] == (N, N, 10, 0, 0), "a gap opens behind what stays"
        assert model.place(spread(3)[:20], range(20))[:5] == (N, 20, 0, 0, 0)
        assert model.place([], [])[:5] == (20, 0, 0, 0, 0)


@pytest.mark.parametrize("cache", CACHES)
def test_a_shift_that_upstream_owes_is_part_of_the_rotation(
    llama: Any, tiny_models: Path, cache: str
) -> None:
    rows = []
    for owed in (False, True):
        with cached(llama, tiny_models, SPECS["llama"], **CACHES[cache]) as model:
            live(model)
            if owed:
                model.shift(start=8, by=300)
            model.place(spread(3))
            model.check_keys()
            rows.append(model.rows())
            model.cache.settle()
            assert model.read("key").tobytes() == rows[-1].keys.tobytes(), "nothing is owed any more"
    same_rows(*rows)


def test_masses_and_counts_follow(llama: Any, tiny_models: Path) -> None:
    spec = TinySpec(n_layer=2)
    logits = []
    for places in (False, True):
        with cached(llama, tiny_models, spec) as model:
            model.cache.observe()
            model.add(random_tokens(20))
            keys, values = model.cache.read_plain_keys(1), model.cache.read_rows("value", 1)
            model.cache.write_rows(1, np.array([9]), 20, keys[[9]], values[[9]], np.array([30.0]))
            mass = model.cache.attention()
            kept = [2, 3, 9, 11, 19]
            if places:
                model.place([0, 5, 6, 300, 4000], kept)
                np.testing.assert_array_equal(model.cache.attention(), mass[kept])
                model.place(range(5))
            else:
                model.renumber(kept)
            np.testing.assert_array_equal(model.cache.attention(), mass[kept])
            logits.append(model.next_logits())
    assert logits[0] == logits[1]


def fill(model: Cached) -> None:
    live(model)
    model.add(random_tokens(10, 7), seq=1)


def test_positions_are_checked_before_the_first_change(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **OPTIONS) as model:
        fill(model)
        before = model.everything(n_seq=2)
        for positions, ranks, says in (
            ([3, 3], [0, 1], r"positions must be 0 to 2\^31 - 2 and increase strictly; number 1 is 3"),
            ([3, 2], [0, 1], "number 1 is 2"),
            ([-1, 2], [0, 1], "number 0 is -1"),
            ([-LAST - 1], [0], f"number 0 is {-LAST - 1}"),
            ([*range(29), 28], None, "number 29 is 28"),
            ([0, 1], [4, 4], "ranks must increase strictly and stay under 30; number 1 is 4"),
            ([0, 1], [4, 30], "number 1 is 30"),
            (range(31), range(31), "31 ranks of 30 residents"),
            ([0, 1], [4], "1 ranks and 2 positions"),
        ):
            with pytest.raises(NativeError, match=says) as error:
                model.place(positions, ranks)
            assert error.value.status == "INVALID_ARGUMENT"
            assert model.everything(n_seq=2) == before
        for count, seq, status in ((29, 0, "STALE"), (N, 1, "STALE"), (N, 2, "INVALID_ARGUMENT")):
            with pytest.raises(NativeError) as error:
                model.cache.place(np.array([0]), count, np.array([5]), seq)
            assert error.value.status == status
            assert model.everything(n_seq=2) == before


@pytest.mark.parametrize("cache", CACHES)
def test_failures_leave_all_or_nothing(llama: Any, tiny_models: Path, cache: str) -> None:
    def go_on(model: Cached) -> list[bytes]:
        model.place(spread(2)[: len(SOME)], SOME)
        model.add([65])
        return [*model.everything()[:3], model.output(-1).tobytes()]

    with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
        fill(model)
        expected = go_on(model)
    with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
        fill(model)
        before = model.everything(n_seq=2)
        for point in ("plan", "allocate"):
            model.cache.fail_next(point)
            with pytest.raises(NativeError) as error:
                model.place(spread(2)[: len(SOME)], SOME)
            assert error.value.status == "NO_MEMORY"
            assert model.everything(n_seq=2) == before
        assert go_on(model) == expected
        model.cache.fail_next("compute")
        with pytest.raises(CacheLostError):
            model.place(range(9, 9 + len(SOME) + 1))
        assert [model.cache.count(0), model.cache.count(1)] == [0, 0]
        model.add(random_tokens(5))
