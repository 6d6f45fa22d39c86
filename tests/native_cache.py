"""Tiny models with the native cache operations on them: variants to test, and what their keys must be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from raw_llama import Float32Array, Loaded

from pace_local._native import Block, Change, Identity, NativeCache
from pace_local.terminal import accelerators
from pace_local.testing import RopeScaling, TinySpec, rotate_by, rotation_tolerance, tiny_model

YARN = RopeScaling("yarn", 12.0, n_ctx_orig=2048, attn_factor=1.3)
FACTORS = tuple(np.geomspace(1.0, 8.0, 16).tolist())

SPECS = {
    "llama": TinySpec(),
    "llama factors": TinySpec(rope_factors=FACTORS),
    "llama linear": TinySpec(rope_scaling=RopeScaling("linear", 4.0)),
    "llama yarn": TinySpec(rope_scaling=YARN),
    "llama yarn factors": TinySpec(rope_scaling=YARN, rope_factors=FACTORS),
    "qwen2": TinySpec(arch="qwen2", head_dim=64, n_head=2, n_head_kv=2, rope_freq_base=1e6),
    "qwen2 linear": TinySpec(arch="qwen2", rope_scaling=RopeScaling("linear", 2.5)),
    "qwen3": TinySpec(arch="qwen3"),
    "qwen3 yarn": TinySpec(arch="qwen3", head_dim=128, n_embd=64, rope_freq_base=1e6, rope_scaling=YARN),
    "stablelm": TinySpec(arch="stablelm"),
    "stablelm yarn": TinySpec(arch="stablelm", rope_scaling=dataclasses.replace(YARN, attn_factor=1.0)),
    "chatglm": TinySpec(arch="chatglm", rope_scaling=RopeScaling("linear", 4.0)),
    "phi3": TinySpec(arch="phi3", n_rot=24),
    "phi3 factors": TinySpec(
        arch="phi3", rope_factors=FACTORS, rope_factors_long=FACTORS[::-1],
        rope_scaling=RopeScaling("linear", 1.0, n_ctx_orig=1024, attn_factor=1.19),
    ),
    "smollm3": TinySpec(arch="smollm3"),
}  # fmt: skip
"""Ways to rotate keys. Heads of 32, 64 and 128, since upstream turns quantised ones of 64 and more."""

CACHES: dict[str, dict[str, Any]] = {
    "f16": {},
    "f16 transposed": {"flash": False},
    "f16 wide references": {"reference": "f32"},
    "f32": {"cache": "f32", "values": "f32"},
    "f32 transposed": {"cache": "f32", "values": "f32", "flash": False},
    "f32 narrow references": {"cache": "f32", "reference": "f16"},
    "bf16": {"cache": "bf16", "values": "bf16"},
    "q8_0": {"cache": "q8_0", "values": "q8_0"},
    "q8_0 transposed": {"cache": "q8_0", "flash": False},
    "q8_0 wide references": {"cache": "q8_0", "reference": "f32"},
}
"""Ways to store keys, values and references."""

IDENTITY = Identity(bytes(range(32)), b"build" + bytes(27))
"""What saved blocks belong to, unless a test says otherwise."""


Numbers = Sequence[int] | NDArray[Any]


class Rows(NamedTuple):
    """What a cache holds of one sequence: shapes [n], [n_layer, n_resident, n_head_kv, head_dim]."""

    residents: NDArray[np.void]
    keys: Float32Array
    values: Float32Array


class Cached(Loaded):
    """A tiny model in a context with a :class:`NativeCache`."""

    def __init__(self, *args: Any, reference: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.key_type = options.get("cache", "f16")
        self.reference_type = reference or ("f32" if self.key_type in ("f32", "bf16") else "f16")
        self.cache = NativeCache(self.context, reference)

    def close(self) -> None:
        self.cache.close()
        super().close()

    def next_position(self, seq: int = 0) -> int:
        return int(self.llama.llama_memory_seq_pos_max(self.memory, seq)) + 1

    def add(self, tokens: Sequence[int], start: int | None = None, seq: int = 0) -> None:
        """Decode tokens at the next positions, or from ``start`` on."""
        at = self.next_position(seq) if start is None else start
        assert self.try_decode(list(tokens), at, seq) == 0

    def retain(self, ranks: Numbers, seq: int = 0) -> Change:
        return self.cache.retain(np.array(ranks, dtype=np.uint32), self.cache.count(seq), seq)

    def renumber(self, ranks: Numbers | None = None, first: int = 0, seq: int = 0) -> Change:
        """Renumber the residents of some ranks, or all, and evict the others."""
        count = self.cache.count(seq)
        keep = np.arange(count) if ranks is None else np.array(ranks)
        return self.cache.renumber(keep.astype(np.uint32), count, first, seq)

    def place(self, positions: Numbers, ranks: Numbers | None = None, seq: int = 0) -> Change:
        """Give the residents of some ranks, or all, these positions, and evict the others."""
        count = self.cache.count(seq)
        keep = np.arange(count) if ranks is None else np.array(ranks)
        return self.cache.place(keep.astype(np.uint32), count, np.array(positions, dtype=np.int32), seq)

    def save(self, ranks: Numbers | None = None, seq: int = 0) -> Block:
        """Residents of some ranks, or all, as one block."""
        count = self.cache.count(seq)
        keep = np.arange(count) if ranks is None else np.array(ranks)
        return self.cache.save(keep.astype(np.uint32), count, IDENTITY, seq)

    def load(self, block: Block, positions: Numbers, rows: Numbers | None = None, seq: int = 0) -> Change:
        """Bring some rows of a block, or all, back at these positions."""
        some = None if rows is None else np.array(rows, dtype=np.uint32)
        at = np.array(positions, dtype=np.int32)
        return self.cache.load(block, at, self.cache.count(seq), IDENTITY, some, seq)

    def drop(self, start: int, seq: int = 0) -> None:
        """Take out what lies at a position and after it."""
        assert self.llama.llama_memory_seq_rm(self.memory, seq, start, -1)

    def shift(self, start: int, by: int, seq: int = 0) -> None:
        """Move tokens from a position on by upstream's own means, which owes their keys the rotation."""
        self.llama.llama_memory_seq_add(self.memory, seq, start, -1, by)

    def next_logits(self, token: int = 65, seq: int = 0) -> bytes:
        """Of a token behind the residents, which is taken out again."""
        at = self.next_position(seq)
        self.add([token], seq=seq)
        logits = self.output(-1).tobytes()
        self.drop(at, seq)
        return logits

    def tokens(self, seq: int = 0) -> list[int]:
        tokens: list[int] = self.cache.residents(seq)["token"].tolist()
        return tokens

    def read(self, kind: str, seq: int = 0) -> Float32Array:
        """Rows of all layers, shape [n_layer, n_resident, n_head_kv, head_dim]."""
        rows = [self.cache.read_rows(kind, layer, seq) for layer in range(self.spec.n_layer)]
        return np.stack(rows).reshape(len(rows), -1, self.spec.n_head_kv, self.spec.head_dim)

    def rows(self, seq: int = 0) -> Rows:
        return Rows(self.cache.residents(seq), self.read("key", seq), self.read("value", seq))

    def everything(self, n_seq: int = 1) -> list[bytes]:
        """All that the cache says of its sequences, to find out whether a call changed anything."""
        seen = []
        for seq in range(n_seq):
            residents = self.cache.residents(seq)
            seen += [residents.tobytes(), self.read("key", seq).tobytes(), self.read("value", seq).tobytes()]
            if (residents["reference_position"] >= 0).all():
                seen.append(self.read("reference", seq).tobytes())
        return seen

    def check_keys(self, seq: int = 0) -> float:
        """Compare every key with its reference, rotated by numpy. Returns the largest difference."""
        residents, keys = self.cache.residents(seq), self.read("key", seq)
        references = self.read("reference", seq)
        delta = residents["position"] - residents["reference_position"]
        worst = 0.0
        for layer, reference in enumerate(references):
            expected, allowed = expected_keys(self, layer, reference, delta)
            difference = np.abs(keys[layer] - expected)
            assert (difference <= allowed).all(), (
                f"layer {layer}: {(difference / allowed).max():.2f} x allowed"
            )
            worst = max(worst, float(difference.max(initial=0.0)))
        return worst


@contextmanager
def cached(llama: Any, models: Path, spec: TinySpec, **options: Any) -> Iterator[Cached]:
    model = Cached(llama, tiny_model(spec, models), spec, **options)
    try:
        yield model
    finally:
        model.close()


def is_cpu() -> bool:
    """Whether contexts are on the CPU, where nothing else is asked for."""
    return not accelerators()


def random_tokens(n: int, seed: int = 0) -> list[int]:
    """Tokens that are all different where that is possible: bytes of the vocabulary."""
    order = [np.random.default_rng([seed, part]).permutation(256) for part in range(n // 256 + 1)]
    tokens: list[int] = np.concatenate(order)[:n].tolist()
    return tokens


def expected_keys(
    model: Cached, layer: int, reference: Float32Array, delta: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keys as they must be cached, and the difference that rounding explains, for references of one layer."""
    rope = model.spec.rope(layer, n_ctx=model.llama.llama_n_ctx(model.context))
    exact = reference.astype(np.float64)
    slack = np.zeros_like(exact)
    if rope is not None:
        exact = rotate_by(reference, delta, rope)
        slack = rotation_tolerance(reference, delta, rope, cache="f32")
    if model.key_type == "q8_0":
        exact = as_quantised_keys_lie(exact)
        # the turn mixes a head's elements, with lengths kept
        slack = np.linalg.norm(slack, axis=-1, keepdims=True) + 1e-6 * np.abs(exact).max(initial=0.0)
    return exact, slack + store_tolerance(exact, slack, model.key_type)


def store_tolerance(rows: NDArray[np.float64], slack: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Rounding of one store of rows that are known up to ``slack``."""
    size = np.abs(rows) + slack
    if kind == "q8_0":
        # an eighth bit of the largest of 32, whose step is itself an F16
        blocks = size.reshape(-1, 32).max(axis=1, keepdims=True) * np.ones(32)
        return np.asarray((1.0 / 254.0 + 2.0**-11) * blocks.reshape(size.shape))
    step = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[kind]
    return np.asarray(np.maximum(size * step, 2.0**-24 if kind == "f16" else 0.0))


def as_quantised_keys_lie(heads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upstream turns heads of a multiple of 64 by a Hadamard matrix before it quantises keys."""
    head_dim = heads.shape[-1]
    if head_dim % 64:
        return heads
    size = head_dim & -head_dim
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / np.sqrt(2.0)
    return np.asarray((heads.reshape(-1, size) @ matrix).reshape(heads.shape))
