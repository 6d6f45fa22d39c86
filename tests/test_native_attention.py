"""Attention mass: equal to llama.cpp's own softmax weights, by token, whatever happens to the cells.

Row of the table of known trouble that this covers: attention weights unavailable with flash attention
(20086, 9122).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from attention_reference import Asked, Pair, QueryPair
from hypothesis import given, settings
from hypothesis import strategies as st
from native_cache import CACHES, SPECS, Cached, cached, is_cpu, random_tokens

from pace_local.errors import NativeError
from pace_local.testing import ARCHS, Arch, TinySpec
from pace_local.testing.gguf import add_metadata
from pace_local.testing.tensors import Tensor, tiny_tensors

SPEC = TinySpec(n_layer=2)
SHAPES = {
    "multi-head": TinySpec(arch="qwen2", n_head=4, n_head_kv=4),
    "grouped": TinySpec(n_head=8, n_head_kv=2),
    "one key head": TinySpec(n_head=6, n_head_kv=1),
    "normed keys": SPECS["qwen3"],
    "half rotated": SPECS["stablelm"],
    "yarn": SPECS["llama yarn"],
    "not all layers rotated": SPECS["smollm3"],
}


@pytest.fixture
def pair(llama: Any, tiny_models: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(
        spec: TinySpec = SPEC, asked: Asked | None = None, kind: type[Pair] = Pair, **options: Any
    ) -> Pair:
        made.append(kind(llama, tiny_models, spec, asked or Asked(), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def live(pair: Pair) -> None:
    """A life of a cache: prompts, tokens, evictions, cells used again, renumberings."""
    pair.add(random_tokens(100))
    pair.compare()
    for token in random_tokens(10, 1):
        pair.add([token])
    pair.compare()
    pair.retain([rank for rank in range(110) if rank % 3 != 1])
    pair.compare()
    pair.add(random_tokens(50, 2))  # into the holes: cells and positions are out of step from here on
    cells = pair.tested.cache.residents()["cell"]
    assert (np.diff(cells) < 0).any()
    pair.compare()
    pair.renumber([rank for rank in range(len(cells)) if rank % 4 != 1])
    pair.compare()
    pair.renumber(list(range(pair.tested.cache.count())), first=7)
    for token in random_tokens(70, 3):
        pair.add([token])
    pair.compare()


# Against the weights that llama.cpp computes without flash attention


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_equals_the_weights_without_flash_attention(pair: Callable[..., Pair], spec: TinySpec) -> None:
    """On a context that computes attention the same way: to the last digits."""
    live(pair(spec, Asked(queries=8, decay=0.98, min_distance=3, window=9), flash=False, n_ubatch=64))


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_equals_the_weights_with_flash_attention(pair: Callable[..., Pair], spec: TinySpec) -> None:
    """In the first layer, whose input is the same on both sides."""
    live(pair(spec, Asked(queries=8, decay=0.98, min_distance=3, window=9, layers=(0,)), n_ubatch=64))


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_equals_softmax_in_numpy_with_flash_attention(pair: Callable[..., Pair], spec: TinySpec) -> None:
    """In all layers, from the queries and keys of the very context."""
    live(pair(spec, Asked(queries=8, min_distance=2), QueryPair, n_ubatch=64))


@pytest.mark.parametrize("options", CACHES.values(), ids=CACHES)
def test_every_way_to_store_keys(pair: Callable[..., Pair], options: dict[str, Any]) -> None:
    live(pair(SPECS["qwen2"], Asked(queries=5, layers=(0,)), n_ubatch=64, **options))


@pytest.mark.parametrize("options", CACHES.values(), ids=CACHES)
def test_every_way_to_store_keys_in_numpy(pair: Callable[..., Pair], options: dict[str, Any]) -> None:
    live(pair(SPECS["qwen2"], Asked(queries=5), QueryPair, n_ubatch=64, **options))


@pytest.mark.parametrize("asked", [
    Asked(queries=0),
    Asked(queries=1),
    Asked(queries=0, decay=0.9, min_distance=40),
    Asked(queries=150, layers=(1,)),
    Asked(decay=0.0),
    Asked(min_distance=10**6),
    Asked(window=1),
], ids=str)  # fmt: skip
def test_every_option(pair: Callable[..., Pair], asked: Asked) -> None:
    """More rows than are computed at a time, too."""
    live(pair(SPEC, asked, flash=False, n_ubatch=200))


def test_a_layer_of_three(pair: Callable[..., Pair]) -> None:
    spec = TinySpec(n_layer=3)
    parts = []
    for layers in ((0,), (1,), (2,), (0, 2), None):
        one = pair(spec, Asked(layers=layers), flash=False)
        one.add(random_tokens(60))
        one.compare()
        parts.append(one.tested.cache.attention())
    np.testing.assert_allclose(parts[0] + parts[2], parts[3], rtol=1e-5)
    np.testing.assert_allclose(parts[0] + parts[1] + parts[2], parts[4], rtol=1e-5)


def test_all_the_mass_there_is(llama: Any, tiny_models: Path) -> None:
    """Every observed row gives 1 for each head of each layer."""
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe(queries=5)
        model.add(random_tokens(40))
        model.add([1])
        assert model.cache.attention().sum() == pytest.approx(6 * SPEC.n_head * SPEC.n_layer, rel=1e-4)
        assert model.cache.attention("steps", 1).sum() == pytest.approx(SPEC.n_head * SPEC.n_layer, rel=1e-4)
        assert model.cache.attention("steps", 0).sum() == 0.0


# Whose mass it is


def test_more_steps_than_wait_on_the_device(pair: Callable[..., Pair]) -> None:
    one = pair(SPEC, Asked(decay=0.97, window=300), flash=False)
    one.add(random_tokens(20))
    for token in random_tokens(150, 1):
        one.add([token])
    one.compare()
    np.testing.assert_allclose(
        one.tested.cache.attention("steps", 140), one.expected("steps", 140), rtol=1e-4, atol=1e-6
    )


def test_a_token_taken_back_leaves_nothing(pair: Callable[..., Pair]) -> None:
    """Its cell is used again, by a token that starts from zero."""
    one = pair(SPEC, Asked(), flash=False)
    one.add(random_tokens(30))
    for cached_ in one.both:
        assert cached_.llama.llama_memory_seq_rm(cached_.memory, 0, 20, -1)
    del one.names[0][20:]
    one.compare()
    one.add(random_tokens(10, 5))
    one.compare()
    assert one.tested.cache.attention()[29] < one.tested.cache.attention()[0]


def test_sequences_have_their_own(pair: Callable[..., Pair]) -> None:
    one = pair(SPEC, Asked(decay=0.99), flash=False, n_seq=2, unified=True)
    one.add(random_tokens(30), seq=0)
    first = one.expected("total", seq=0)
    one.add(random_tokens(20, 1), seq=1)
    np.testing.assert_allclose(
        one.tested.cache.attention(seq=0), first * 0.99**20, rtol=1e-4, err_msg="decays by the tokens of all"
    )
    np.testing.assert_allclose(one.tested.cache.attention(seq=1), one.expected("total", seq=1), rtol=1e-4)
    before = one.tested.cache.attention(seq=1)
    one.tested.renumber(list(range(0, 30, 2)))
    np.testing.assert_array_equal(one.tested.cache.attention(seq=1), before)
    np.testing.assert_allclose(one.tested.cache.attention(seq=0), first[::2] * 0.99**20, rtol=1e-4)


def test_a_restored_sequence_starts_from_zero(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        state = np.empty(llama.llama_state_seq_get_size(model.context, 0), dtype=np.uint8)
        data = state.ctypes.data_as(llama.ctypes.POINTER(llama.ctypes.c_uint8))
        llama.llama_state_seq_get_data(model.context, data, len(state), 0)
        assert llama.llama_state_seq_set_data(model.context, data, len(state), 0)
        assert model.cache.attention().tolist() == [0.0] * 20
        model.renumber()
        assert model.cache.attention().tolist() == [0.0] * 20
        model.add([1])
        assert model.cache.attention().sum() == pytest.approx(SPEC.n_head * SPEC.n_layer, rel=1e-4)


def test_a_decode_that_was_stopped_counts_for_nothing(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        before = model.cache.attention()
        model.cache.abort()
        assert model.try_decode(random_tokens(30, 1), 20) == 2
        model.cache.abort_clear()
        np.testing.assert_array_equal(model.cache.attention(), before)
        model.add(random_tokens(5, 2))
        expected = 5 * SPEC.n_head * SPEC.n_layer
        assert model.cache.attention("steps", 1).sum() == pytest.approx(expected, rel=1e-4)
        assert model.cache.attention().sum() == pytest.approx(before.sum() + expected, rel=1e-4)


def test_a_renumbering_that_fails_keeps_it(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        before = model.cache.attention()
        model.cache.fail_next("allocate")
        with pytest.raises(NativeError) as caught:
            model.renumber([0, 3, 9])
        assert caught.value.status == "NO_MEMORY"
        np.testing.assert_array_equal(model.cache.attention(), before)


def test_layers_may_come_in_another_order(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Granite's router, whose layer is the last, attends first: the process ended at the first decode."""
    monkeypatch.setitem(ARCHS, "graniteswitch", Arch("norm", qkv_fused=True, free_heads=True))
    spec = TinySpec(arch="graniteswitch", n_layer=2)
    heads, width = spec.n_head * spec.head_dim, spec.n_head_kv * spec.head_dim
    adapted = {
        "attn_q": (spec.width, heads), "attn_k": (spec.width, width), "attn_v": (spec.width, width),
        "attn_output": (heads, spec.width), "ffn_gate": (spec.width, spec.n_ff),
        "ffn_up": (spec.width, spec.n_ff), "ffn_down": (spec.n_ff, spec.width),
    }  # fmt: skip

    def metadata(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
        add_metadata(writer, spec)
        writer.add_logit_scale(1.0)
        writer.add_uint32("graniteswitch.adapters.count", 1)
        writer.add_uint32("graniteswitch.adapters.lora_rank", 1)
        writer.add_array("graniteswitch.adapters.token_ids_activate", [spec.vocab_size - 1])
        writer.add_array("graniteswitch.adapters.token_ids_substitute", [65])

    def tensors(spec: TinySpec) -> Iterator[Tensor]:
        yield from tiny_tensors(spec)
        for layer, (part, (n_in, n_out)) in itertools.product(range(spec.n_layer), adapted.items()):
            for name, shape in (("lora_a", (2, 1, n_in)), ("lora_b", (2, n_out, 1))):
                yield Tensor(f"blk.{layer}.{part}.{name}", np.zeros(shape, dtype=np.float32))

    monkeypatch.setattr("pace_local.testing.gguf.add_metadata", metadata)
    monkeypatch.setattr("pace_local.testing.gguf.tiny_tensors", tensors)
    with cached(llama, tmp_path, spec) as model:
        for layers, n_heads in ((None, 2 * spec.n_head + 1), ([1, 2], spec.n_head + 1), ([0], spec.n_head)):
            model.clear()
            model.cache.observe(queries=0, layers=layers)
            model.add(random_tokens(20))
            model.add([7])
            model.add([8])
            assert model.cache.attention().sum() == pytest.approx(22 * n_heads, rel=1e-4), layers


def test_a_lost_cache_has_none(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        model.cache.fail_next("compute")
        with pytest.raises(NativeError) as caught:
            model.renumber([0, 3, 9])
        assert caught.value.status == "CACHE_LOST"
        assert len(model.cache.attention()) == 0
        model.add([1, 2])
        assert model.cache.attention().sum() == pytest.approx(2 * SPEC.n_head * SPEC.n_layer, rel=1e-4)


OPERATION = st.tuples(
    st.sampled_from(["read", "tokens", "retain", "renumber", "compare", "take back"]), st.integers(0, 2**32)
)


@settings(max_examples=15, deadline=None)
@given(st.lists(OPERATION, min_size=4, max_size=14), st.sampled_from(["llama", "qwen3", "qwen2"]))
def test_any_order_of_operations(
    llama: Any, tiny_models: Path, operations: list[tuple[str, int]], spec: str
) -> None:
    one = Pair(
        llama,
        tiny_models,
        SPECS[spec],
        Asked(queries=6, decay=0.95, window=12),
        flash=False,
        n_ubatch=32,
        n_ctx=256,
    )
    try:
        one.add(random_tokens(10))
        for what, seed in operations:
            random = np.random.default_rng(seed)
            count = one.tested.cache.count()
            if what == "read" and count < 150:
                one.add(random_tokens(int(random.integers(1, 60)), seed))
            elif what == "tokens" and count < 200:
                for token in random_tokens(int(random.integers(1, 20)), seed):
                    one.add([token])
            elif what in ("retain", "renumber"):
                ranks = np.flatnonzero(random.random(count) < random.choice([0.3, 0.8])).tolist()
                one.retain(ranks) if what == "retain" else one.renumber(ranks, int(random.integers(0, 5)))
            elif what == "take back" and count > 3:
                rank = int(random.integers(1, count))
                position = int(one.tested.cache.residents()["position"][rank])
                for cached_ in one.both:
                    assert cached_.llama.llama_memory_seq_rm(cached_.memory, 0, position, -1)
                del one.names[0][rank:]
            else:
                one.compare()
        one.compare()
    finally:
        one.close()


# What it costs and changes


def work(model: Cached) -> list[bytes]:
    outputs = [model.decode(random_tokens(100)).tobytes()]
    model.renumber(list(range(0, 100, 2)))
    for i, token in enumerate(random_tokens(40, 1)):
        outputs.append(model.decode([token], 50 + i).tobytes())
    return outputs


@pytest.mark.parametrize("flash", [True, False])
def test_logits_are_the_same_bit_for_bit(llama: Any, tiny_models: Path, flash: bool) -> None:
    """But where a device computes operations in one as long as nobody reads what is between them."""
    with cached(llama, tiny_models, SPEC, flash=flash) as model:
        plain = work(model)
    with cached(llama, tiny_models, SPEC, flash=flash) as model:
        model.cache.observe(queries=0)
        observed = work(model)
    if is_cpu():
        assert observed == plain
    for one, other in zip(observed, plain, strict=True):
        got, expected = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
        np.testing.assert_allclose(got, expected, atol=1e-4)


def test_graphs_are_reused(llama: Any, tiny_models: Path) -> None:
    """As often as without it."""

    def reused(observes: bool) -> int:
        with cached(llama, tiny_models, SPEC, context={"no_perf": False}) as model:
            if observes:
                model.cache.observe()
            model.add(random_tokens(20))
            for token in random_tokens(50, 1):
                model.add([token])
            return int(llama.llama_perf_context(model.context).n_reused)

    assert reused(True) == reused(False) > 40


def test_memory_is_held_only_while_it_is_on(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        assert model.cache.bytes_held().attention == 0
        model.cache.observe()
        assert model.cache.bytes_held().attention >= 64 * 512 * 4
        model.add(random_tokens(20))
        assert model.cache.attention().sum() > 0
        model.cache.observe(layers=[1])
        assert model.cache.attention().sum() == 0, "a new observation starts from zero"
        model.add([1])
        assert model.cache.attention().sum() == pytest.approx(SPEC.n_head, rel=1e-4)
        model.cache.stop_observing()
        assert model.cache.bytes_held().attention == 0
        model.add([2])
        with pytest.raises(NativeError, match=r"attention is not observed; call pace_observe\(\) first"):
            model.cache.attention()


def test_a_closed_cache_leaves_the_context_working(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        model.cache.close()
        assert model.try_decode([1, 2, 3], 20) == 0


# What is refused


@pytest.mark.parametrize(("options", "message"), [
    ({"min_distance": -1}, "minimum distance -1 is below 0"),
    ({"decay": 1.5}, "decay 1.5 is out of range; use 0 to 1"),
    ({"decay": -0.1}, "decay -0.1 is out of range; use 0 to 1"),
    ({"decay": float("nan")}, "decay nan is out of range; use 0 to 1"),
    ({"window": 0}, "a window of 0 steps is out of range; use 1 to 4096"),
    ({"window": 5000}, "a window of 5000 steps is out of range; use 1 to 4096"),
    ({"layers": [2]}, "layers must increase strictly and stay under 2; number 0 is 2"),
    ({"layers": [1, 1]}, "layers must increase strictly and stay under 2; number 1 is 1"),
])  # fmt: skip
def test_bad_options(llama: Any, tiny_models: Path, options: dict[str, Any], message: str) -> None:
    """What was observed before goes on."""
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        model.add(random_tokens(20))
        before = model.cache.attention()
        with pytest.raises(NativeError) as caught:
            model.cache.observe(**options)
        assert message in str(caught.value)
        assert caught.value.status == "INVALID_ARGUMENT"
        np.testing.assert_array_equal(model.cache.attention(), before)


def test_a_sequence_that_is_not_there(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPEC) as model:
        model.cache.observe()
        with pytest.raises(NativeError, match="sequence 1 is not one of the context's 1"):
            model.cache.attention(seq=1)
