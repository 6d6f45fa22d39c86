"""Residents saved to host memory and brought back: the bits that a renumbering to their positions leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_layout import parse
from native_cache import CACHES, SPECS, Cached, Rows, cached, random_tokens
from test_native_sequences import EXACT

from pace_local.testing import TinySpec

N = 30
FEW = ["llama", "qwen3 yarn", "phi3 factors", "smollm3"]
SMALL = {"n_ctx": 256}


def live(model: Cached) -> None:
    """30 residents with gaps between their positions: 0 ... 17 were renumbered, the others never were."""
    model.add(random_tokens(40), start=5)
    model.renumber(range(0, 40, 2), first=1)
    model.retain([*range(3), *range(5, 20)])
    model.add(random_tokens(16, 1))
    model.retain([*range(18), 19, 20, 21, *range(23, 27), *range(29, 34)])


def spread(seed: int) -> list[int]:
    """Other positions for them, with gaps."""
    positions: list[int] = np.sort(np.random.default_rng(seed).choice(3000, N, replace=False)).tolist()
    return positions


def same_rows(got: Rows, expected: Rows) -> None:
    """All but the cells."""
    names = ["position", "token", "reference_position"]
    assert got.residents[names].tolist() == expected.residents[names].tolist()
    assert got.values.tobytes() == expected.values.tobytes()
    assert got.keys.tobytes() == expected.keys.tobytes()


def part(rows: Rows, ranks: Any) -> Rows:
    return Rows(rows.residents[ranks], rows.keys[:, ranks], rows.values[:, ranks])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("cache", CACHES)
def test_a_load_leaves_what_a_renumbering_to_those_positions_leaves(
    llama: Any, tiny_models: Path, spec: TinySpec, cache: str
) -> None:
    """Also of residents that were never renumbered before; at the positions they had, and at others."""
    with cached(llama, tiny_models, spec, **CACHES[cache]) as twin:
        live(twin)
        before = twin.rows()
        own = before.residents["position"].tolist()
        expected = {}
        for name, positions in (("same", own), ("other", spread(4)), ("near", list(range(N)))):
            twin.place(positions)
            expected[name] = twin.rows()
    with cached(llama, tiny_models, spec, **CACHES[cache]) as model:
        live(model)
        block = model.save()
        for rows in expected.values():
            model.clear()
            change = model.load(block, rows.residents["position"])
            assert change[:5] == (0, N, N, N, 0)
            same_rows(model.rows(), rows)
            model.check_keys()
        model.clear()
        model.load(block, own)
        after = model.rows()
        assert after.values.tobytes() == before.values.tobytes()
        derived = slice(None) if cache in EXACT else slice(18)
        assert after.keys[:, derived].tobytes() == before.keys[:, derived].tobytes()


@pytest.mark.parametrize("spec", FEW)
@pytest.mark.parametrize("cache", CACHES)
def test_saving_changes_nothing_that_is_computed_later(
    llama: Any, tiny_models: Path, spec: str, cache: str
) -> None:
    """And a second save gives the same bytes as the first."""

    def work(saves: bool) -> list[bytes]:
        with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
            live(model)
            seen = model.everything()[:3]
            if saves:
                first = model.save(range(10, 28)).tobytes()
                assert model.save(range(10, 28)).tobytes() == first
                names = ["position", "cell", "token"]
                old = np.frombuffer(seen[0], model.cache.residents().dtype)[names]
                assert model.cache.residents()[names].tolist() == old.tolist()
                assert model.everything()[1:3] == seen[1:], "no key and no value"
            seen.append(model.next_logits())
            if saves:
                assert model.save(range(10, 28)).tobytes() == first
            model.renumber(range(0, N, 3), first=200)
            seen += model.everything()
            model.add([65])
            seen += [*model.everything()[1:3], model.output(-1).tobytes()]
            return seen

    assert work(True) == work(False)


@pytest.mark.parametrize("cache", CACHES)
def test_a_saved_key_that_was_never_rotated_still_is_when_renumbered(
    llama: Any, tiny_models: Path, cache: str
) -> None:
    """Where references round: a renumbering to the same cell and position leaves what the reference gives."""
    seen = []
    for saves in (True, False):
        with cached(llama, tiny_models, SPECS["qwen2"], **CACHES[cache]) as model:
            model.add(random_tokens(N))
            if saves:
                model.save(range(4, 20))
            model.renumber()
            seen.append(model.everything())
    assert seen[0] == seen[1]


@pytest.mark.parametrize("spec", FEW)
@pytest.mark.parametrize("cache", CACHES)
def test_a_shift_that_upstream_owes_is_in_the_block(
    llama: Any, tiny_models: Path, spec: str, cache: str
) -> None:
    """Save with pending work sees no stale rotation: positions are the new ones, references their own."""

    def shifted(model: Cached) -> None:
        live(model)
        model.shift(start=8, by=300)
        model.shift(start=331, by=-2)

    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as twin:
        shifted(twin)
        positions = twin.cache.residents()["position"].tolist()
        assert positions[-1] == 36 + 300 - 2
        expected = []
        for where in (positions, spread(7)):
            twin.place(where)
            expected.append(twin.rows())
        logits = twin.next_logits()
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
        shifted(model)
        block = model.save()
        assert parse(block, model).tokens["position"].tolist() == positions
        for rows in expected:
            model.clear()
            model.load(block, rows.residents["position"])
            same_rows(model.rows(), rows)
        assert model.next_logits() == logits
        # what is owed is still owed, and applied once
        model.clear()
        shifted(model)
        model.save()
        model.place(spread(7))
        same_rows(model.rows(), expected[1])


@pytest.mark.parametrize("spec", FEW)
@pytest.mark.parametrize("cache", CACHES)
def test_the_next_logits_after_a_load_are_those_before_the_eviction(
    llama: Any, tiny_models: Path, spec: str, cache: str
) -> None:
    with cached(llama, tiny_models, SPECS[spec], **CACHES[cache]) as model:
        live(model)
        model.place(model.cache.residents()["position"])  # cells in order: sums go by cells
        expected, before = model.next_logits(), model.rows()
        for gone in (range(5, 15), range(12, 22), range(0, 30, 2), range(30)):
            block = model.save(gone)
            positions = model.cache.residents()["position"][gone]
            model.retain(np.delete(np.arange(N), gone))
            assert model.next_logits() != expected
            model.load(block, positions)
            after = model.rows()
            assert after.keys.tobytes() == before.keys.tobytes()
            assert after.values.tobytes() == before.values.tobytes()
            model.place(after.residents["position"])
            assert model.next_logits() == expected


def test_the_same_cells_are_used_again(llama: Any, tiny_models: Path) -> None:
    """Free cells from the lowest on: after a load into the gap that was left, all is where it was."""
    with cached(llama, tiny_models, SPECS["qwen3"]) as model:
        live(model)
        model.renumber()
        expected, before = model.next_logits(), model.everything()
        block = model.save(range(4, 21))
        model.retain([*range(4), *range(21, N)])
        model.load(block, range(4, 21))
        assert model.everything() == before
        assert model.next_logits() == expected
        assert model.renumber()[:5] == (N, N, 0, 0, 0), "and lies right"


def wrapped(model: Cached) -> None:
    """A cache whose residents go around the end of the buffer, with a tear in between."""
    model.add(random_tokens(200))
    model.renumber()
    model.retain(range(100, 200))
    model.add(random_tokens(120, 1))
    model.retain([*range(90), *range(95, 220)])
    model.add(random_tokens(10, 3))


@pytest.mark.parametrize("cache", CACHES)
def test_cells_out_of_order_come_back_in_position_order(llama: Any, tiny_models: Path, cache: str) -> None:
    options = {**CACHES[cache], **SMALL}
    with cached(llama, tiny_models, SPECS["llama"], **options) as twin:
        wrapped(twin)
        twin.place(range(1000, 1450, 2))
        expected = twin.rows()
    with cached(llama, tiny_models, SPECS["llama"], **options) as model:
        wrapped(model)
        before = model.rows()
        cells = before.residents["cell"]
        assert (np.diff(cells) != 1).sum() >= 3
        assert (np.diff(cells) < 0).any(), "out of order"
        ranks = [*range(60, 140), *range(150, 225)]
        block = model.save(ranks)
        got = parse(block, model)
        assert got.tokens["token"].tolist() == before.residents["token"][ranks].tolist()
        assert got.tokens["position"].tolist() == before.residents["position"][ranks].tolist()
        assert got.values.tobytes() == before.values[:, ranks].tobytes()
        # into cells that are out of order as well
        model.retain([*range(0, 60, 7), *range(140, 150)])
        positions = expected.residents["position"][ranks] + 100_000
        model.load(block, positions)
        loaded = model.cache.residents()
        assert (np.diff(loaded["cell"][-len(ranks) :]) > 0).all()
        assert (np.diff(loaded["cell"][-len(ranks) :]) > 1).any()
        model.place(expected.residents["position"][ranks], range(len(loaded) - len(ranks), len(loaded)))
        same_rows(model.rows(), part(expected, ranks))
