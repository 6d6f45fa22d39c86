"""Sequences that share a cache: what is renumbered in one must not show in another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local.errors import NativeError

EXACT = [name for name in CACHES if not name.startswith("q8_0") and name != "f32 narrow references"]
"""Where a key that is captured and not turned keeps every bit."""

SEVERAL = {"n_ctx": 256, "n_seq": 3, "unified": True}


def share(model: Cached, source: int, target: int, first: int, end: int) -> None:
    """Let another sequence see the tokens at some positions too."""
    model.llama.llama_memory_seq_cp(model.memory, source, target, first, end)


def places(model: Cached, seq: int) -> list[tuple[int, int]]:
    """(position, cell) of every resident."""
    residents = model.cache.residents(seq)
    return list(zip(residents["position"].tolist(), residents["cell"].tolist(), strict=True))


@pytest.mark.parametrize("spec", ["llama", "llama yarn", "qwen3"])
@pytest.mark.parametrize("cache", CACHES)
def test_cells_of_another_sequence_follow_with_position_and_content(
    spec: str, cache: str, llama: Any, tiny_models: Path
) -> None:
    with cached(llama, tiny_models, SPECS[spec], **SEVERAL, **CACHES[cache]) as model:
        model.add(random_tokens(12))
        model.add(random_tokens(15, seed=1), start=40, seq=1)
        model.add(random_tokens(12, seed=2))
        model.add(random_tokens(5, seed=3), seq=1)
        before = model.rows(seq=1)
        kept = [0, 1, 5, *range(8, 24, 3)]
        for first in (7, 0, 2000):
            change = model.renumber(kept, first=first)
            kept = list(range(len(kept)))
            n = len(kept)
            assert places(model, 0) == [(first + rank, rank) for rank in kept]
            assert places(model, 1) == [(40 + rank, n + rank) for rank in range(20)]
        assert change.n_moved == 0, "what lies behind is moved once"
        after = model.rows(seq=1)
        assert after.residents["token"].tolist() == before.residents["token"].tolist()
        assert after.values.tobytes() == before.values.tobytes()
        if cache in EXACT:
            assert after.keys.tobytes() == before.keys.tobytes()
        model.check_keys(seq=0)
        model.check_keys(seq=1)
        model.add([7], seq=1)
        model.add([8], seq=0)
        assert (model.next_position(0), model.next_position(1)) == (2000 + n + 1, 61)
        # and then the other one, of which tokens have followed once
        model.renumber(range(3, 21), first=11, seq=1)
        assert places(model, 1) == [(11 + rank, rank) for rank in range(18)]
        assert places(model, 0) == [(2000 + rank, 18 + rank) for rank in range(n + 1)]
        model.check_keys(seq=0)
        model.check_keys(seq=1)


@pytest.mark.parametrize("cache", ["f16", "f16 transposed", "q8_0"])
def test_a_renumber_that_would_move_a_shared_cell_is_refused(
    cache: str, llama: Any, tiny_models: Path
) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **SEVERAL, **CACHES[cache]) as model:
        model.add(random_tokens(20))
        share(model, 0, 1, 5, 10)
        for seq, ranks, first, where in (
            (0, range(20), 1, "position 5 .* would move to 6"),
            (0, range(1, 20), 0, "position 5 .* would move to 4"),
            (0, [0, 1, 2, 3, 4, 6], 0, "position 6 .* would move to 5"),
            (1, range(5), 0, "position 5 .* would move to 0"),
            (1, range(1, 5), 5, "position 6 .* would move to 5"),
        ):
            before = model.everything(n_seq=2)
            with pytest.raises(NativeError, match=where) as error:
                model.renumber(ranks, first=first, seq=seq)
            assert error.value.status == "SHARED_CELL"
            assert model.everything(n_seq=2) == before
        model.llama.llama_memory_seq_rm(model.memory, 1, -1, -1)
        model.renumber(first=1)
        model.check_keys()


@pytest.mark.parametrize("cache", CACHES)
def test_shared_cells_may_move_where_their_positions_stay(cache: str, llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **SEVERAL, **CACHES[cache]) as model:
        model.add(random_tokens(20))
        share(model, 0, 1, 0, 10)
        model.add(random_tokens(4, seed=1), seq=1)
        shared, own = model.rows(seq=0), model.rows(seq=1)
        # of sequence 0 the shared 2 ... 9 keep their positions, and 12 ... 19 move up
        model.renumber([*range(2, 10), *range(12, 20)], first=2)
        assert places(model, 0) == [(2 + rank, rank) for rank in range(16)]
        # sequence 1 sees those, its evicted 0 and 1 behind them, and then its own
        assert places(model, 1) == [
            (0, 16),
            (1, 17),
            *((2 + i, i) for i in range(8)),
            *((10 + i, 18 + i) for i in range(4)),
        ]
        after = model.rows(seq=1)
        assert after.residents["token"].tolist() == own.residents["token"].tolist()
        assert after.values.tobytes() == own.values.tobytes()
        mine = model.read("value")
        assert mine[:, :8].tobytes() == shared.values[:, 2:10].tobytes()
        assert mine[:, 8:].tobytes() == shared.values[:, 12:].tobytes()
        if cache in EXACT:
            assert after.keys.tobytes() == own.keys.tobytes()
        model.check_keys(seq=0)
        model.check_keys(seq=1)
        model.add([9], seq=0)
        model.add([9], seq=1)
        with pytest.raises(NativeError, match="belongs to another sequence"):
            model.renumber(first=0)


def test_retaining_in_one_sequence_leaves_the_view_of_others(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"], **SEVERAL) as model:
        model.add(random_tokens(30))
        share(model, 0, 1, 0, 20)
        share(model, 0, 2, 10, 30)
        before = model.everything(n_seq=3)
        others = before[len(before) // 3 :]
        model.retain([0, 15, 29])
        assert places(model, 0) == [(0, 0), (15, 15), (29, 29)]
        assert model.everything(n_seq=3)[len(before) // 3 :] == others
        model.retain([], seq=0)
        model.retain([], seq=1)
        assert places(model, 2) == [(position, position) for position in range(10, 30)]
        model.renumber(seq=2)
        assert places(model, 2) == [(rank, rank) for rank in range(20)]
        model.check_keys(seq=2)


def test_three_sequences_take_turns(llama: Any, tiny_models: Path) -> None:
    """Hundreds of renumberings of one sequence after another: no key drifts, no token goes astray."""
    random = np.random.default_rng(3)
    with cached(llama, tiny_models, SPECS["qwen2"], **SEVERAL) as model:
        tokens: list[list[int]] = [[], [], []]
        for turn in range(300):
            seq = int(random.integers(3))
            fresh = random_tokens(int(random.integers(1, 6)), seed=turn)
            model.add(fresh, seq=seq)
            tokens[seq] += fresh
            limit = 60
            kept = np.flatnonzero(random.random(len(tokens[seq])) < 0.95)[-limit:].tolist()
            model.renumber(kept, first=int(random.integers(0, 4000)), seq=seq)
            tokens[seq] = [tokens[seq][rank] for rank in kept]
            assert [model.tokens(each) for each in range(3)] == tokens
        for seq in range(3):
            assert len(tokens[seq]) > 30
            model.check_keys(seq)
