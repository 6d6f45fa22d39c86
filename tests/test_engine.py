"""One context: decodes at given positions, fails without a trace, stops when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from session_pair import TALKER

from pace_local import Model, Sampling, SessionConfig, _native
from pace_local.engine import N_SEQUENCES, Engine
from pace_local.errors import CancelledError, ConfigError, ModelError, NativeError
from pace_local.testing import TinySpec

CONFIG = SessionConfig(budget=200, headroom=56, position_cap=1000, threads=1)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def engine(model: Model) -> Iterator[Engine]:
    engine = Engine(model, CONFIG)
    yield engine
    engine.close()


def residents(engine: Engine) -> list[tuple[int, int]]:
    assert engine.cache is not None
    return [(int(row["position"]), int(row["token"])) for row in engine.cache.residents()]


def test_its_size(engine: Engine) -> None:
    assert engine.n_batch == CONFIG.headroom
    assert engine.capabilities.supported
    assert engine.capabilities.n_cells == CONFIG.n_cells == 256
    assert engine.capabilities.n_seq == N_SEQUENCES
    assert engine.capabilities.n_layers == TALKER.n_layer


def test_tokens_stand_where_they_were_put(engine: Engine) -> None:
    engine.decode([5, 6, 7], 0)
    engine.decode([8], 3)
    engine.decode(np.array([9, 10], dtype=np.int32), 4)
    assert residents(engine) == [(0, 5), (1, 6), (2, 7), (3, 8), (4, 9), (5, 10)]


def test_a_session_may_begin_at_any_position(engine: Engine) -> None:
    engine.decode([5, 6], 900)
    assert residents(engine) == [(900, 5), (901, 6)]


@pytest.mark.parametrize("position", [0, 2, 4, 100])
def test_a_gap_or_a_repetition_is_refused_and_changes_nothing(engine: Engine, position: int) -> None:
    """llama.cpp 19901, 17316: positions must be consecutive; the next one is the greatest and one."""
    engine.decode([5, 6, 7], 0)
    with pytest.raises(NativeError, match="llama_decode failed with status -1"):
        engine.decode([8, 9], position)
    assert residents(engine) == [(0, 5), (1, 6), (2, 7)]
    engine.decode([8], 3)
    assert residents(engine)[-1] == (3, 8)


def test_logits_are_those_of_the_last_token_however_they_came(model: Model, engine: Engine) -> None:
    tokens = model.tokenize("return the self and other things of it")
    engine.decode(tokens, 0)
    at_once = engine.logits()
    assert at_once.shape == (model.shape.n_vocab,)
    assert at_once.dtype == np.float32
    engine.remove_from(0)
    assert residents(engine) == []
    for position, token in enumerate(tokens):
        engine.decode([token], position)
    assert np.allclose(engine.logits(), at_once, atol=1e-3)
    engine.decode([1], len(tokens))
    assert not np.allclose(engine.logits(), at_once, atol=1e-3), "the copy is its own"


def test_a_part_taken_out(engine: Engine) -> None:
    engine.decode([1, 2, 3, 4], 0)
    engine.remove_from(2)
    assert residents(engine) == [(0, 1), (1, 2)]
    engine.remove_from(50)
    assert residents(engine) == [(0, 1), (1, 2)]


def test_no_cell_left_changes_nothing(engine: Engine) -> None:
    """llama.cpp 28007: a failed call was ignored, and the cache had changed."""
    for first in range(0, 224, 56):
        engine.decode([1] * 56, first)
    before = residents(engine)
    with pytest.raises(NativeError, match="no room for 33 tokens in 256 cells") as raised:
        engine.decode([2] * 33, 224)
    assert raised.value.status == "NO_SLOT"
    assert residents(engine) == before
    engine.decode([2] * 32, 224)
    assert len(residents(engine)) == 256


def test_every_free_cell_is_found_in_a_cache_full_of_holes(engine: Engine) -> None:
    """llama.cpp 15473: decode failed to find room with cells free, but not in one piece."""
    assert engine.cache is not None
    for first in range(0, 224, 56):
        engine.decode([1] * 56, first)
    for _ in range(30):
        n = len(residents(engine))
        engine.cache.retain(np.arange(0, n, 2, dtype=np.uint32), n)
        position = residents(engine)[-1][0] + 1
        while len(residents(engine)) <= 256 - 56:
            engine.decode([2] * 56, position)
            position += 56
        engine.decode([3] * (256 - len(residents(engine))), position)
        assert len(residents(engine)) == 256


def test_cancelled_decodes_leave_nothing(engine: Engine) -> None:
    engine.decode([1, 2], 0)
    engine.cancel()
    for _ in range(2):
        with pytest.raises(CancelledError, match="cancelled while tokens were being decoded"):
            engine.decode([3, 4, 5], 2)
        assert residents(engine) == [(0, 1), (1, 2)]
    engine.resume()
    engine.decode([3], 2)
    assert residents(engine) == [(0, 1), (1, 2), (2, 3)]


def test_a_token_that_is_not_in_the_vocabulary(engine: Engine, model: Model) -> None:
    engine.decode([1, 2], 0)
    with pytest.raises(NativeError, match="llama_decode failed with status -1") as raised:
        engine.decode([model.shape.n_vocab], 2)
    assert raised.value.status == "DECODE"
    assert "\n" not in str(raised.value)
    assert residents(engine) == [(0, 1), (1, 2)]


def test_more_than_a_batch_is_a_fault_of_the_caller(engine: Engine) -> None:
    with pytest.raises(AssertionError):
        engine.decode([1] * 57, 0)
    with pytest.raises(AssertionError):
        engine.decode([], 0)


def test_its_sampler(engine: Engine, model: Model) -> None:
    engine.decode(model.tokenize("the"), 0)
    with engine.sampler(Sampling()) as sampler:
        assert sampler.sample(engine.ctx) == int(engine.logits().argmax())


def test_closing_twice(model: Model) -> None:
    engine = Engine(model, CONFIG)
    engine.close()
    engine.close()
    engine.cancel()
    engine.resume()
    assert (engine.ctx, engine.cache) == (None, None)


@pytest.mark.parametrize("key_type", ["f16", "f32", "bf16", "q8_0"])
@pytest.mark.parametrize("flash_attn", [True, False])
def test_types(load_tiny: Callable[[TinySpec], Model], key_type: str, flash_attn: bool) -> None:
    model = load_tiny(TinySpec(n_layer=1))
    engine = Engine(model, CONFIG.replace(key_type=key_type, flash_attn=flash_attn))
    try:
        assert engine.capabilities.key_type == _native.CACHE_TYPES[key_type]
        assert engine.capabilities.flash_attn == flash_attn
        engine.decode([1, 2, 3], 0)
        assert np.isfinite(engine.logits()).all()
    finally:
        engine.close()


def test_what_cannot_be_made(load_tiny: Callable[[TinySpec], Model], model: Model) -> None:
    with pytest.raises(ConfigError, match=r"no context of 256 tokens for tiny-llama.* does not divide"):
        Engine(model, CONFIG.replace(key_type="q8_0"))
    with pytest.raises(ModelError, match="cannot be used: the model is recurrent"):
        Engine(load_tiny(TinySpec(arch="mamba")), CONFIG)


def test_a_cache_larger_than_memory_is_refused_before_it_is_made(model: Model) -> None:
    with pytest.raises(ConfigError, match=r"a budget of 2000000000 tokens needs .* lower the budget"):
        Engine(model, CONFIG.replace(budget=2_000_000_000, position_cap=2**31 - 1))
