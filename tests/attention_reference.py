"""Attention mass the slow way: from softmax weights that llama.cpp computes itself, token by token.

A second context without flash attention does the same as the one under test, and a callback takes the
tensors named ``kq_soft_max`` out of its graphs. Everything else (which rows count, decay, distance, the
window) is worked out here, in plain Python, from the definitions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from native_cache import Cached, as_quantised_keys_lie, is_cpu
from numpy.typing import NDArray

from pace_local.testing import TinySpec, tiny_model

ROUNDED = 0.01, 0.003
"""Relative and absolute difference of masses where queries are rounded to F16 before they meet keys."""


class Weights:
    """Takes tensors of F32 out of the graphs that a context computes, by the start of their names."""

    def __init__(self, llama: Any, prefix: str = "kq_soft_max-") -> None:
        self.seen: dict[str, NDArray[np.float32]] = {}
        ggml = _ggml(llama)
        prefix_bytes = prefix.encode()

        def take(tensor: int, asks: bool, _data: object) -> bool:
            name = ggml.ggml_get_name(tensor)
            if not name.startswith(prefix_bytes):
                return not asks
            if asks:
                return True
            shape = [int(ggml.pace_test_ne(tensor, i)) for i in range(4)]
            values = np.empty(shape[::-1], dtype=np.float32)
            ggml.ggml_backend_tensor_get(tensor, values.ctypes.data, 0, values.nbytes)
            self.seen[name.decode()] = values
            return True

        self.callback = llama.ggml_backend_sched_eval_callback(take)
        self.context = {"cb_eval": self.callback, "cb_eval_user_data": None}

    def of_layer(self, layer: int) -> NDArray[np.float32]:
        """Weights of a layer in the last graph, shape [n_head, n_tokens, n_cells]."""
        return self.seen[f"kq_soft_max-{layer}"][0]


class _TensorHead(ctypes.Structure):
    """The start of ``struct ggml_tensor``, up to its shape."""

    _fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4)]


def _ggml(llama: Any) -> Any:
    class Functions:
        pass

    functions: Any = Functions()
    lib = llama._lib
    functions.ggml_get_name = lib.ggml_get_name
    functions.ggml_get_name.restype, functions.ggml_get_name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    functions.ggml_backend_tensor_get = lib.ggml_backend_tensor_get
    functions.ggml_backend_tensor_get.restype = None
    functions.ggml_backend_tensor_get.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t,
    ]  # fmt: skip
    functions.pace_test_ne = lambda tensor, i: _TensorHead.from_address(tensor).ne[i]
    return functions


@dataclass(frozen=True)
class Asked:
    """Options of an observation."""

    queries: int = 32
    min_distance: int = 0
    decay: float = 1.0
    window: int = 100
    layers: tuple[int, ...] | None = None

    def as_options(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "min_distance": self.min_distance,
            "decay": self.decay,
            "window": self.window,
            "layers": self.layers,
        }


@dataclass
class Step:
    """What one micro-batch gave to each occupant, by its identity."""

    n_queries: int
    mass: dict[int, float] = field(default_factory=dict)


class Pair:
    """The context under test, with flash attention, and the one that the reference is taken from.

    Args:
        llama: the bindings.
        models: folder of tiny models.
        spec: of the model.
        asked: what is observed.
        options: of the context under test, as for :class:`Cached`.
    """

    def __init__(self, llama: Any, models: Path, spec: TinySpec, asked: Asked, **options: Any) -> None:
        self.asked, self.spec = asked, spec
        self.n_ubatch = options.get("n_ubatch", 512)
        self.tested = Cached(llama, tiny_model(spec, models), spec, **options)
        self.both = [self.tested, *self._others(llama, models, options)]
        self.tested.cache.observe(**asked.as_options())
        self.steps: list[Step] = []
        self.total: dict[int, float] = {}
        self.names: dict[int, list[int]] = {}
        self._next_name = 0
        self.relative, self.absolute = self._tolerance(options)

    def _tolerance(self, options: dict[str, Any]) -> tuple[float, float]:
        """Largest relative and absolute difference of a mass.

        On the CPU both multiply alike. Vulkan rounds the queries of a matrix to F16, and one alone not.
        """
        return (1e-4, 1e-5) if is_cpu() else ROUNDED

    def _others(self, llama: Any, models: Path, options: dict[str, Any]) -> list[Cached]:
        self._seen = Weights(llama)
        plain = {**options, "flash": False, "context": self._seen.context}
        if plain.get("values") == "q8_0":
            plain["values"] = "f16"
        return [Cached(llama, tiny_model(self.spec, models), self.spec, **plain)]

    def _weights(self, layer: int, at: int, seq: int) -> NDArray[np.float64]:
        """Weights of a layer in the last micro-batch, summed over heads: shape [n_tokens, n_residents]."""
        cells = self.both[1].cache.residents(seq)["cell"]
        return self._seen.of_layer(layer).astype(np.float64).sum(axis=0)[:, cells]

    def close(self) -> None:
        for cached in self.both:
            cached.close()

    def add(self, tokens: Sequence[int], seq: int = 0, start: int | None = None) -> None:
        """Decode tokens in both, one micro-batch at a time, and take the reference's weights."""
        for first in range(0, len(tokens), self.n_ubatch):
            part = tokens[first : first + self.n_ubatch]
            at = self.tested.next_position(seq) if start is None else start + first
            for cached in self.both:
                cached.add(part, at, seq)
            names = list(range(self._next_name, self._next_name + len(part)))
            self._next_name += len(part)
            self.names.setdefault(seq, []).extend(names)
            self._take(names, at, seq)

    def retain(self, ranks: Sequence[int], seq: int = 0) -> None:
        for cached in self.both:
            cached.retain(ranks, seq)
        self._keep(ranks, seq)

    def renumber(self, ranks: Sequence[int], first: int = 0, seq: int = 0) -> None:
        for cached in self.both:
            cached.renumber(ranks, first, seq)
        self._keep(ranks, seq)

    def _keep(self, ranks: Sequence[int], seq: int) -> None:
        self.names[seq] = [self.names[seq][rank] for rank in ranks]

    def _take(self, queries: list[int], at: int, seq: int) -> None:
        distance = at + np.arange(len(queries))[:, None] - self.tested.cache.residents(seq)["position"]
        layers = range(self.spec.n_layer) if self.asked.layers is None else self.asked.layers
        n = len(queries)
        observed = n if self.asked.queries == 0 else min(n, self.asked.queries)
        step = Step(observed)
        for layer in layers:
            weights = self._weights(layer, at, seq)
            for row in range(n - observed, n):
                counts = np.where(distance[row] >= self.asked.min_distance, weights[row], 0.0)
                counts *= self.asked.decay ** (n - 1 - row)
                for name, share in zip(self.names[seq], counts.tolist(), strict=True):
                    step.mass[name] = step.mass.get(name, 0.0) + share
        for name in self.names[seq]:
            left = self.total.get(name, 0.0) * self.asked.decay**n
            self.total[name] = left + step.mass.get(name, 0.0)
        self.steps.append(step)

    def expected(self, part: str, n: int = 0, seq: int = 0) -> NDArray[np.float64]:
        """Mass of each resident as it must be."""
        if part == "total":
            return np.array([self.total[name] for name in self.names[seq]])
        last = self.steps[-self.asked.window :]
        if part == "steps":
            last = last[-n:] if n else []
        else:
            counted, rows = [], 0
            for step in reversed(last):
                if rows >= n:
                    break
                counted.append(step)
                rows += step.n_queries
            last = counted
        return np.array([sum(step.mass.get(name, 0.0) for step in last) for name in self.names[seq]])

    def compare(self, seq: int = 0) -> None:
        """Every part of the mass of every resident."""
        cases = [("total", 0), *(("steps", n) for n in (1, 2, 7)), *(("queries", n) for n in (1, 20, 50))]
        for part, n in cases:
            got = self.tested.cache.attention(part, n, seq)
            expected = self.expected(part, n, seq)
            np.testing.assert_allclose(
                got, expected, rtol=self.relative, atol=self.absolute, err_msg=f"{part} {n}"
            )


class QueryPair(Pair):
    """Takes weights from the context under test itself: softmax in numpy of its own queries and keys."""

    def __init__(self, llama: Any, models: Path, spec: TinySpec, asked: Asked, **options: Any) -> None:
        self._seen = Weights(llama, "Qcur-")
        super().__init__(llama, models, spec, asked, context=self._seen.context, **options)

    def _tolerance(self, options: dict[str, Any]) -> tuple[float, float]:
        # llama.cpp rounds queries to the type of the keys before it multiplies them
        return (0.06, 0.02) if options.get("cache") in ("q8_0", "bf16") else ROUNDED

    def _others(self, llama: Any, models: Path, options: dict[str, Any]) -> list[Cached]:
        return []

    def _weights(self, layer: int, at: int, seq: int) -> NDArray[np.float64]:
        positions = self.tested.cache.residents(seq)["position"]
        head_dim, n_head, n_head_kv = self.spec.head_dim, self.spec.n_head, self.spec.n_head_kv
        queries = self._seen.seen[f"Qcur-{layer}"].astype(np.float64).reshape(-1, n_head, head_dim)
        keys = self.tested.cache.read_rows("key", layer, seq).astype(np.float64)
        keys = np.repeat(keys.reshape(-1, n_head_kv, head_dim), n_head // n_head_kv, axis=1)
        if self.tested.key_type == "q8_0":
            queries = as_quantised_keys_lie(queries)
        scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(head_dim)
        scores[:, positions[None, :] > (at + np.arange(len(queries)))[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray((weights / weights.sum(axis=-1, keepdims=True)).sum(axis=0))
