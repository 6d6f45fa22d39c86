"""``context_shift`` beside llama.cpp's own context shift, done by hand on the raw bindings."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import random_tokens
from raw_llama import Loaded, loaded

from pace_local import Model, Session, SessionConfig
from pace_local._native import NativeCache
from pace_local.errors import CancelledError, ConfigError
from pace_local.events import Event
from pace_local.policies import policy_named
from pace_local.segments import SegmentTable
from pace_local.session_cache import SessionCache
from pace_local.testing import TinySpec

SPEC = TinySpec(n_layer=2, head_dim=64)
BUDGET, HEADROOM = 96, 16


class Server:
    """A context whose tokens are shifted as llama-server does it when it is full."""

    def __init__(self, raw: Loaded, n_keep: int) -> None:
        self.raw, self.n_keep = raw, n_keep
        self.resident: list[int] = []
        """Token indices in order of positions, which are 0, 1, 2, ..."""
        self.n_tokens = self.n_shifts = 0

    def decode(self, tokens: list[int]) -> None:
        assert self.raw.try_decode(tokens, len(self.resident)) == 0
        self.resident += range(self.n_tokens, self.n_tokens + len(tokens))
        self.n_tokens += len(tokens)
        if len(self.resident) > BUDGET:
            self._shift()

    def _shift(self) -> None:
        llama, memory, n_past = self.raw.llama, self.raw.memory, len(self.resident)
        first = self.n_keep + (n_past - self.n_keep) // 2
        assert llama.llama_memory_seq_rm(memory, 0, self.n_keep, first)
        llama.llama_memory_seq_add(memory, 0, first, n_past, self.n_keep - first)
        del self.resident[self.n_keep : first]
        self.n_shifts += 1


@pytest.mark.parametrize("n_keep", [0, 5])
@pytest.mark.parametrize("sizes", [[16], [16, 1, 7, 3]], ids=str)
@pytest.mark.parametrize("key_type", ["f16", "f32", "q8_0"])
@pytest.mark.parametrize("cancel", ["never", "no shift is owed", "a shift is owed"])
def test_equals_the_server_bit_for_bit(
    llama: Any,
    tiny_models: Path,
    load_tiny: Callable[[TinySpec], Model],
    n_keep: int,
    sizes: list[int],
    key_type: str,
    cancel: str,
) -> None:
    """Same residents, positions and keys, rounding by rounding (llama.cpp 3825, 4097: deltas that add up).

    Keys are rotated at the decode after the eviction, in place, one layer after the other: a decode that was
    cancelled there left some of them rotated, and the next one rotated them again.
    """
    config = SessionConfig(
        budget=BUDGET, headroom=HEADROOM, position_cap=200, threads=1, key_type=key_type, check=True
    )
    tokens, segments, heard = random_tokens(600, seed=3), SegmentTable(), list[Event]()
    cache = SessionCache(
        load_tiny(SPEC), config, policy_named("context_shift", {"sinks": n_keep}), segments,
        reads=list, emit=heard.append,
    )  # fmt: skip
    text = segments.add("text", "text", 0, 0, 0)
    context = {"n_batch": HEADROOM}
    try:
        with loaded(
            llama, tiny_models, SPEC, cache=key_type, n_ctx=config.n_cells, n_ubatch=HEADROOM, n_seq=4,
            unified=True, context=context,
        ) as raw:  # fmt: skip
            server, at, told = Server(raw, n_keep), 0, 0
            for size in itertools.cycle(sizes):
                if at >= len(tokens) and len(cache.map) < BUDGET:
                    break
                chunk = tokens[at % len(tokens) :][:size]
                is_owed = len(heard) > told
                told = len(heard)
                if cancel == ("a shift is owed" if is_owed else "no shift is owed"):
                    cache.engine.cancel()
                    with pytest.raises(CancelledError):
                        cache.decode(chunk, text)
                    cache.engine.resume()
                cache.decode(chunk, text)
                server.decode(chunk)
                at += len(chunk)
                assert cache.map.token_index.tolist() == server.resident
                assert cache.map.position.tolist() == list(range(len(server.resident)))
            assert len(heard) == server.n_shifts > 8
            # A shift that is owed is done by the next decode.
            cache.decode([1], text)
            server.decode([1])
            assert len(heard) == server.n_shifts
            reader = NativeCache(raw.context)
            assert cache.engine.cache is not None
            ours, theirs = cache.engine.cache, reader
            assert np.array_equal(ours.residents()["token"], theirs.residents()["token"])
            assert np.array_equal(ours.residents()["position"], theirs.residents()["position"])
            for kind in ("key", "value"):
                for layer in range(SPEC.n_layer):
                    left, right = ours.read_rows(kind, layer), theirs.read_rows(kind, layer)
                    assert left.tobytes() == right.tobytes(), f"{kind} {layer}"
            reader.close()
    finally:
        cache.engine.close()


@pytest.mark.parametrize(("head_dim", "key_type"), [(32, "q8_0"), (96, "q8_0"), (64, "bf16")])
def test_keys_that_llama_cpp_cannot_shift_are_refused_at_the_start(
    load_tiny: Callable[[TinySpec], Model], head_dim: int, key_type: str
) -> None:
    """The process died at the first shift (llama.cpp 5652, 7230, 9743): quantised keys are turned before they
    are stored, and upstream turns them back without asking whether heads of that size were turned at all; it
    has no rotation of bf16."""
    model = load_tiny(TinySpec(n_layer=1, head_dim=head_dim))
    sizes: dict[str, Any] = {"budget": BUDGET, "headroom": HEADROOM, "position_cap": 200, "threads": 1}
    with (
        pytest.raises(ConfigError, match=rf"context_shift.*{key_type}.*f16"),
        Session(model, policy="context_shift", key_type=key_type, **sizes),
    ):
        pass
    with Session(model, policy="pace", key_type=key_type, **sizes) as session:
        for _ in range(8):
            list(session.generate("return the self and other", max_tokens=20))
        assert session.stats.renumberings_in_session > 0
