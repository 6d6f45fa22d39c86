"""Random weights, scaled so that a tiny model behaves like a language model and not like a constant.

Projections of a unit-size input give unit-size outputs, times a gain. Queries and keys get a gain
above 1, so that attention singles tokens out and positions matter; what attention adds to the
residual stream outweighs the token's own embedding, so that the next token depends on the context
and greedy decoding does not fall into a short loop; logits spread over several units.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pace_local.testing.spec import TinySpec
from pace_local.testing.vocab import tiny_vocab

Float32Array: TypeAlias = NDArray[np.float32]

QUERY_KEY_GAIN = 2.3
ATTENTION_GAIN = 2.0
LOGIT_SPREAD = 3.0
END_EAGERNESS = 1.6
SSM_STATE = 16
CONV_WIDTH = 4


class Tensor(NamedTuple):
    """A tensor of the file."""

    name: str
    values: Float32Array
    exact: bool = True
    """Whether it stays F32: llama.cpp's element-wise, convolution and scan kernels take nothing else."""


class RandomTensors:
    """Draws tensors, each from a stream of its own, so that one does not shift another."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def normal(self, name: str, *shape: int) -> Float32Array:
        """Standard normal numbers."""
        stream = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        return stream.standard_normal(shape, dtype=np.float32)

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> Tensor:
        """A projection from ``columns`` to ``rows`` values; ``gain`` is output size over input size."""
        name = f"{name}.weight"
        values = self.normal(name, rows, columns) * np.float32(gain / np.sqrt(columns))
        return Tensor(name, values, exact=False)

    def scale(self, name: str, size: int) -> Tensor:
        """Norm weights around 1, all different."""
        name = f"{name}.weight"
        return Tensor(name, np.exp(np.float32(0.25) * self.normal(name, size)))

    def bias(self, name: str, size: int, spread: float = 0.2) -> Tensor:
        """A bias vector."""
        name = f"{name}.bias"
        return Tensor(name, np.float32(spread) * self.normal(name, size))


def tiny_tensors(spec: TinySpec) -> Iterator[Tensor]:
    """Yield all tensors by name; rows are outputs, as numpy and the GGUF writer have them."""
    draw = RandomTensors(spec.seed)
    # gemma multiplies embeddings by sqrt(width) itself
    gain = 1.0 if spec.arch == "gemma3" else float(np.sqrt(spec.width))
    yield draw.matrix("token_embd", spec.vocab_size, spec.width, gain)
    if spec.arch == "bert":
        yield draw.matrix("position_embd", spec.context_length, spec.width, gain)
        yield Tensor("token_types.weight", draw.normal("token_types", 2, spec.width))
        yield from _norm(spec, draw, "token_embd_norm")
    else:
        # llama.cpp knows lfm2's output norm by the name of another tensor
        yield from _norm(spec, draw, "token_embd_norm" if spec.arch == "lfm2" else "output_norm")
        yield _output(spec, draw)
    yield from _rope_factors(spec)
    for layer in range(spec.n_layer):
        yield from _layer(spec, draw, layer)


def _layer(spec: TinySpec, draw: RandomTensors, layer: int) -> Iterator[Tensor]:
    at = f"blk.{layer}"
    if spec.arch == "bert":
        yield from _norm(spec, draw, f"{at}.attn_output_norm")
        yield from _norm(spec, draw, f"{at}.layer_output_norm")
    else:
        yield from _norm(spec, draw, f"{at}.attn_norm")
    if spec.arch == "mamba":
        yield from _mamba(spec, draw, at)
        return
    if spec.arch == "lfm2" and not spec.has_keys(layer):
        yield Tensor(f"{at}.shortconv.conv.weight", draw.normal(f"{at}.conv", spec.width, CONV_WIDTH))
        yield draw.matrix(f"{at}.shortconv.in_proj", 3 * spec.width, spec.width)
        yield draw.matrix(f"{at}.shortconv.out_proj", spec.width, spec.width)
    else:
        yield from _attention(spec, draw, at)
    if spec.arch != "bert":
        yield from _norm(spec, draw, f"{at}.ffn_norm")
    if spec.arch == "gemma3":
        yield draw.scale(f"{at}.post_attention_norm", spec.width)
        yield draw.scale(f"{at}.post_ffw_norm", spec.width)
    gate = spec.traits.ffn
    if gate == "gated":
        yield draw.matrix(f"{at}.ffn_gate", spec.n_ff, spec.width)
    yield draw.matrix(f"{at}.ffn_up", spec.n_ff * (2 if gate == "packed" else 1), spec.width)
    yield draw.matrix(f"{at}.ffn_down", spec.width, spec.n_ff)


def _attention(spec: TinySpec, draw: RandomTensors, at: str) -> Iterator[Tensor]:
    rows = {"q": spec.n_head * spec.head_dim, "k": spec.n_head_kv * spec.head_dim}
    rows["v"] = rows["k"]
    weights, biases = [], []
    for part, size in rows.items():
        name = f"{at}.attn_{part}"
        weights.append(draw.matrix(name, size, spec.width, 1.0 if part == "v" else QUERY_KEY_GAIN))
        # a value bias adds the same to every step, and a large one would drown the context
        biases.append(draw.bias(name, size, spread=0.05 if part == "v" else 0.5))
    if spec.traits.qkv_fused:
        weights = [_stack(f"{at}.attn_qkv.weight", weights)]
        biases = [_stack(f"{at}.attn_qkv.bias", biases)]
    yield from weights
    if spec.traits.qkv_bias:
        yield from biases
    if spec.traits.qk_norm:
        for part in ("q", "k"):
            scale = draw.scale(f"{at}.attn_{part}_norm", spec.head_dim)
            yield scale._replace(values=scale.values * np.float32(QUERY_KEY_GAIN))
    yield draw.matrix(f"{at}.attn_output", spec.width, rows["q"], ATTENTION_GAIN)


def _stack(name: str, parts: list[Tensor]) -> Tensor:
    return Tensor(name, np.concatenate([part.values for part in parts]), parts[0].exact)


def _mamba(spec: TinySpec, draw: RandomTensors, at: str) -> Iterator[Tensor]:
    inner, rank = 2 * spec.width, max(1, spec.width // 16)
    yield draw.matrix(f"{at}.ssm_in", 2 * inner, spec.width)
    yield Tensor(f"{at}.ssm_conv1d.weight", draw.normal(f"{at}.conv", inner, CONV_WIDTH))
    yield draw.bias(f"{at}.ssm_conv1d", inner)
    yield draw.matrix(f"{at}.ssm_x", rank + 2 * SSM_STATE, inner)
    yield draw.matrix(f"{at}.ssm_dt", inner, rank)
    yield draw.bias(f"{at}.ssm_dt", inner)
    # decay rates 1 ... n, as mamba starts its training with
    rates = -np.arange(1, SSM_STATE + 1, dtype=np.float32)
    yield Tensor(f"{at}.ssm_a", np.tile(rates, (inner, 1)))
    yield Tensor(f"{at}.ssm_d", np.ones(inner, dtype=np.float32))
    yield draw.matrix(f"{at}.ssm_out", spec.width, inner, ATTENTION_GAIN)


def _norm(spec: TinySpec, draw: RandomTensors, name: str) -> Iterator[Tensor]:
    yield draw.scale(name, spec.width)
    if spec.traits.norm == "layer":
        yield draw.bias(name, spec.width, spread=0.1)


def _output(spec: TinySpec, draw: RandomTensors) -> Tensor:
    """The output projection; tokens that the model must not say have logit 0, which never wins."""
    output = draw.matrix("output", spec.vocab_size, spec.width, LOGIT_SPREAD)
    vocab = tiny_vocab()
    spoken = np.zeros((spec.vocab_size, 1), dtype=np.float32)
    if spec.speech == "bytes":
        spoken[: vocab.end_of_text] = 1.0
    else:
        spoken[list(vocab.readable())] = 1.0
    if spec.speech == "ends":
        spoken[vocab.turn_end] = END_EAGERNESS
    return output._replace(values=output.values * spoken)


def _rope_factors(spec: TinySpec) -> Iterator[Tensor]:
    short, long = spec.rope_factors, spec.rope_factors_long or spec.rope_factors
    if spec.arch == "llama" and short is not None:
        yield Tensor("rope_freqs.weight", np.asarray(short, dtype=np.float32))
    if spec.arch == "phi3" and short is not None:
        yield Tensor("rope_factors_short.weight", np.asarray(short, dtype=np.float32))
    if spec.arch == "phi3" and long is not None:
        yield Tensor("rope_factors_long.weight", np.asarray(long, dtype=np.float32))
