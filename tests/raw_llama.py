"""Tiny models through the raw bindings alone, so that nothing of ours stands between test and llama.cpp."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pace_local._native import CACHE_TYPES
from pace_local.testing import TinySpec, tiny_model

Float32Array = NDArray[np.float32]


@contextmanager
def loaded(llama: Any, models: Path, spec: TinySpec, **options: Any) -> Iterator[Loaded]:
    model = Loaded(llama, tiny_model(spec, models), spec, **options)
    try:
        yield model
    finally:
        model.close()


class Loaded:
    """A tiny model in one context.

    Args:
        llama: the bindings.
        path: the file of the model.
        spec: what it was made from.
        cache: type of cached keys.
        values: type of cached values.
        n_ctx: cells.
        n_ubatch: most tokens in one graph.
        n_seq: sequences.
        unified: whether sequences share one stream of cells.
        flash: whether attention is computed by the fused kernel; without it, V is stored transposed.
        model: further fields of llama_model_params.
        context: further fields of llama_context_params.
    """

    def __init__(
        self,
        llama: Any,
        path: Path,
        spec: TinySpec,
        *,
        cache: str = "f16",
        values: str = "f16",
        n_ctx: int = 512,
        n_ubatch: int = 512,
        n_seq: int = 1,
        unified: bool = False,
        flash: bool = True,
        model: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        self.llama, self.spec = llama, spec
        wanted = llama.llama_model_default_params()
        _set(wanted, model)
        self.model = llama.llama_model_load_from_file(str(path).encode(), wanted)
        assert self.model, f"{path} does not load"
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, max(512, n_ctx), n_ubatch
        params.n_seq_max, params.kv_unified = n_seq, unified
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = int(flash)
        params.embeddings = spec.arch == "bert"
        params.type_k, params.type_v = CACHE_TYPES[cache], CACHE_TYPES[values]
        _set(params, context)
        self.context = llama.llama_init_from_model(self.model, params)
        assert self.context, f"no context for {path}"
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.memory = llama.llama_get_memory(self.context)

    def close(self) -> None:
        self.llama.llama_free(self.context)
        self.llama.llama_model_free(self.model)

    def decode(self, tokens: list[int], start: int = 0, seq: int = 0) -> Float32Array:
        """Output rows, shape (n_tokens, n_vocab), or (n_tokens, n_embd) without a vocabulary head."""
        status = self.try_decode(tokens, start, seq, all_rows=True)
        assert status == 0
        return np.stack([self.output(i) for i in range(len(tokens))])

    def try_decode(self, tokens: list[int], start: int, seq: int = 0, *, all_rows: bool = False) -> int:
        """The status of llama_decode; output is computed for the last token alone, or for all."""
        batch = self.llama.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, start + i, all_rows
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, seq
        batch.logits[len(tokens) - 1] = 1
        status = int(self.llama.llama_decode(self.context, batch))
        self.llama.llama_batch_free(batch)
        return status

    def output(self, i: int) -> Float32Array:
        """A copy of the output row of a token of the last batch; -1 is the last."""
        bert = self.spec.arch == "bert"
        read = self.llama.llama_get_embeddings_ith if bert else self.llama.llama_get_logits_ith
        width = self.spec.width if bert else self.spec.vocab_size
        row: Float32Array = np.ctypeslib.as_array(read(self.context, i), (width,)).copy()
        return row

    def clear(self) -> None:
        self.llama.llama_memory_clear(self.memory, True)

    def greedy(self, prompt: list[int], n: int) -> tuple[list[int], Float32Array]:
        logits = [self.decode(prompt)[-1]]
        said: list[int] = []
        for i in range(n):
            said.append(int(logits[-1].argmax()))
            logits.append(self.decode(said[-1:], start=len(prompt) + i)[-1])
        return said, np.stack(logits)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        raw = text.encode()
        room = len(raw) + 8
        out = (ctypes.c_int32 * room)()
        n = self.llama.llama_tokenize(self.vocab, raw, len(raw), out, room, True, special)
        assert n >= 0
        return list(out[:n])

    def spell(self, tokens: list[int]) -> bytes:
        room = 32 * len(tokens) + 1
        out = ctypes.create_string_buffer(room)
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        n = self.llama.llama_detokenize(self.vocab, ids, len(tokens), out, room, False, True)
        assert n >= 0
        return out.raw[:n]

    def keys(self) -> dict[int, Float32Array]:
        """Cached keys by layer, shape (n_cells, n_head_kv, head_dim), from llama.cpp's own saved state."""
        size = self.llama.llama_state_seq_get_size(self.context, 0)
        data = (ctypes.c_uint8 * size)()
        assert self.llama.llama_state_seq_get_data(self.context, data, size, 0) == size
        layers = [layer for layer in range(self.spec.n_layer) if self.spec.has_keys(layer)]
        caches = [layers]
        if self.spec.traits.memory == "iswa":
            slides = [layer for layer in layers if self.spec.slides(layer)]
            caches = [[layer for layer in layers if layer not in slides], slides]
        reader = _StateReader(bytes(data), self.spec)
        return dict(sorted(item for cache in caches for item in reader.cache(cache).items()))


def _set(params: Any, fields: Mapping[str, Any] | None) -> None:
    for name, value in (fields or {}).items():
        setattr(params, name, value)


class _StateReader:
    """Walks the part of a saved sequence that holds keys; values are skipped."""

    def __init__(self, data: bytes, spec: TinySpec) -> None:
        self.data, self.spec = data, spec
        self.at = struct.calcsize("=Ii")

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from("=" + layout, self.data, self.at)
        self.at += struct.calcsize("=" + layout)
        return values

    def cache(self, layers: list[int]) -> dict[int, Float32Array]:
        n_stream, n_cells = self.take("II")
        assert n_stream == 1
        for _ in range(n_cells):
            self.take("iI" + ("iii" if self.spec.arch == "qwen2vl" else "") + "i")
        transposed, n_layer = self.take("II")
        assert (transposed, n_layer) == (0, len(layers))
        keys = {layer: self.rows(n_cells) for layer in layers}
        for _ in layers:
            self.rows(n_cells)
        return keys

    def rows(self, n_cells: int) -> Float32Array:
        kind, row = self.take("iQ")
        dtype = {0: np.dtype("<f4"), 1: np.dtype("<f2")}[kind]
        flat = np.frombuffer(self.data, dtype, n_cells * row // dtype.itemsize, self.at)
        self.at += n_cells * row
        return flat.astype(np.float32).reshape(n_cells, self.spec.n_head_kv, self.spec.head_dim)
