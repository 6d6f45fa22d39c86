"""One llama_context: decodes tokens at given positions, and owns the native cache operations."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from pace_local import _native
from pace_local.config import SessionConfig
from pace_local.errors import CancelledError, ConfigError, ModelError, NativeError
from pace_local.model import Model
from pace_local.models import available_memory, format_bytes
from pace_local.sampling import NativeSampler, Sampling

N_SEQUENCES = 4
"""Sequences of each context; they share one unified cache."""

_LOOKING = 1
"""The sequence that shares residents while logits are computed that leave no trace."""

_NO_SLOT, _ABORTED, _INVALID = 1, 2, -1
_ELEMENT_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32}


class Engine:
    """A context of a model with a fixed number of cells.

    Args:
        model: must stay open while this lives.
        config: sizes and types.

    Raises:
        ModelError: if the model's memory cannot be managed, with the reason.
        ConfigError: if the context cannot be made with these settings.
    """

    def __init__(self, model: Model, config: SessionConfig) -> None:
        self._llama = llama = _native.llama
        self.model = model
        self.ctx: Any = None
        self.cache: _native.NativeCache | None = None
        _check_memory(model, config)
        threads = config.threads or psutil.cpu_count(logical=False) or 1
        params = llama.llama_context_default_params()
        params.n_ctx = config.n_cells
        params.n_batch = params.n_ubatch = config.headroom
        params.n_seq_max = N_SEQUENCES
        params.kv_unified = True
        params.n_outputs_max = N_SEQUENCES
        params.n_threads = params.n_threads_batch = threads
        params.type_k = _native.CACHE_TYPES[config.key_type]
        params.type_v = _native.CACHE_TYPES[config.value_type]
        params.flash_attn_type = int(config.flash_attn)
        params.no_perf = True
        _native.forget_complaints()
        self.ctx = llama.llama_init_from_model(model.pointer, params)
        if not self.ctx:
            said = _native.last_complaint() or "no reason was given"
            raise ConfigError(
                f"no context of {config.n_cells} tokens for {model.name}: {said}; "
                "lower the budget, or change the types of keys and values"
            )
        try:
            self.capabilities = _native.query(self.ctx)
            if not self.capabilities.supported:
                raise ModelError(f"{model.path.name} cannot be used: {self.capabilities.reason}")
            self.cache = _native.NativeCache(self.ctx, config.reference_type)
        except BaseException:
            self.close()
            raise
        self.n_batch = config.headroom
        self._batch = llama.llama_batch_init(self.n_batch, 0, 1)
        self._tokens = np.ctypeslib.as_array(self._batch.token, (self.n_batch,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (self.n_batch,))
        self._wants_logits = np.ctypeslib.as_array(
            ctypes.cast(self._batch.logits, ctypes.POINTER(ctypes.c_int8)), (self.n_batch,)
        )
        for i in range(self.n_batch):
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = 0
        self._memory = llama.llama_get_memory(self.ctx)

    @functools.cached_property
    def identity(self) -> _native.Identity:
        """What blocks that are saved from here belong to."""
        return _native.Identity(self.model.fingerprint, _build_digest())

    def close(self) -> None:
        """Free the context. Safe to call twice."""
        if self.cache is not None:
            self.cache.close()
            self.cache = None
        if self.ctx is not None:
            if hasattr(self, "_batch"):
                self._llama.llama_batch_free(self._batch)
                del self._batch, self._tokens, self._positions, self._wants_logits
            self._llama.llama_free(self.ctx)
            self.ctx = None

    def decode(self, tokens: Sequence[int] | npt.NDArray[np.int32], position: int) -> None:
        """Decode up to ``n_batch`` tokens at positions from ``position`` on; logits are those of the last.

        Raises:
            CancelledError: after :meth:`cancel`; nothing of the batch is in the cache then.
            NativeError: ``NO_SLOT`` if too few cells are free, else ``DECODE``; likewise.
        """
        self._decode(tokens, position, 0)

    def _decode(self, tokens: Sequence[int] | npt.NDArray[np.int32], position: int, seq: int) -> None:
        n = len(tokens)
        assert 0 < n <= self.n_batch
        self._batch.n_tokens = n
        if n == 1:
            self._tokens[0] = tokens[0]
            self._positions[0] = position
        else:
            self._tokens[:n] = tokens
            self._positions[:n] = np.arange(position, position + n, dtype=np.int32)
            self._wants_logits[: n - 1] = 0
        self._wants_logits[n - 1] = 1
        status = self._llama.llama_decode(self.ctx, self._batch)
        if status == 0:
            return
        if status not in (_NO_SLOT, _INVALID):  # else nothing of it came in
            self._llama.llama_memory_seq_rm(self._memory, seq, position, -1)
        if status == _ABORTED:
            raise CancelledError("cancelled while tokens were being decoded")
        if status == _NO_SLOT:
            raise NativeError("NO_SLOT", f"no room for {n} tokens in {self.capabilities.n_cells} cells")
        said = _native.last_complaint()
        raise NativeError(
            "DECODE", f"llama_decode failed with status {status}" + (f": {said}" if said else "")
        )

    def look_again(self, token: int, position: int, before: int) -> None:
        """Compute logits behind the last token in the cache once more; nothing stays of it.

        Args:
            token: the last one.
            position: its own.
            before: that of the one before it; -1: there is none. The token is looked at right behind it.

        Raises:
            CancelledError, NativeError: as :meth:`decode`.
        """
        self._llama.llama_memory_seq_cp(self._memory, 0, _LOOKING, -1, -1)
        try:
            self._llama.llama_memory_seq_rm(self._memory, _LOOKING, position, -1)
            self._batch.seq_id[0][0] = _LOOKING
            self._decode([token], before + 1, _LOOKING)
        finally:
            self._batch.seq_id[0][0] = 0
            self._llama.llama_memory_seq_rm(self._memory, _LOOKING, -1, -1)

    def remove_from(self, position: int) -> None:
        """Take the tokens at and after a position out of the cache; a closed one holds none."""
        if self.ctx is None:
            return
        if not self._llama.llama_memory_seq_rm(self._memory, 0, position, -1):
            raise NativeError("REMOVE", f"cannot remove positions from {position} on")

    def close_gaps(self, positions: npt.NDArray[np.int32]) -> None:
        """Move residents down to positions from 0 on, in order, by upstream's own shift alone.

        Keys are rotated from what they are: roundings add up.

        Args:
            positions: of all residents now, shape [n], strictly increasing.
        """
        if not len(positions):
            return
        first = np.flatnonzero(np.diff(positions, prepend=positions[0] - 2) != 1)
        last = np.append(first[1:], len(positions)) - 1
        try:
            for start, end in zip(first.tolist(), last.tolist(), strict=True):
                low, high = int(positions[start]), int(positions[end])
                self._llama.llama_memory_seq_add(self._memory, 0, low, high + 1, start - low)
        finally:
            if self.cache is not None:
                self.cache.settle()

    def logits(self) -> npt.NDArray[np.float32]:
        """A copy of the logits of the last token decoded, shape [n_vocab]."""
        pointer = self._llama.llama_get_logits_ith(self.ctx, -1)
        return np.array(np.ctypeslib.as_array(pointer, (self.model.shape.n_vocab,)), dtype=np.float32)

    def sampler(self, sampling: Sampling) -> NativeSampler:
        """A chain of native samplers."""
        return NativeSampler(self.model.vocab, sampling)

    def cancel(self) -> None:
        """Stop a running decode, and refuse later ones until :meth:`resume`. From any thread."""
        if self.cache is not None:
            self.cache.abort()

    def resume(self) -> None:
        """Let decodes run again after :meth:`cancel`."""
        if self.cache is not None:
            self.cache.abort_clear()


@functools.cache
def _build_digest() -> bytes:
    facts = _native.read_build().facts
    known = {name: facts.get(name) for name in ("llama_cpp_python", "patch")}
    return hashlib.sha256(json.dumps([_native.API_VERSION, known]).encode()).digest()


def key_width(model: Model) -> int:
    """Elements of one head's key."""
    length = model.metadata(f"{model.metadata('general.architecture')}.attention.key_length")
    return int(length) if length else model.shape.n_embd // max(1, model.shape.n_head)


def _check_memory(model: Model, config: SessionConfig) -> None:
    """Refuse a cache larger than main memory: upstream writes to every cell, and the system would kill us."""
    if any(device.kind in ("gpu", "integrated gpu") for device in _native.devices()):
        return  # the cache lies there, and the driver says no by itself
    shape = model.shape
    head = key_width(model)
    reference = config.reference_type or ("f32" if config.key_type in ("f32", "bf16") else "f16")
    element = sum(_ELEMENT_BYTES[kind] for kind in (config.key_type, config.value_type, reference))
    needed = config.n_cells * shape.n_layer * shape.n_head_kv * head * element
    free = available_memory()
    if needed > free:
        raise ConfigError(
            f"a budget of {config.budget} tokens needs {format_bytes(needed)} of memory with {model.name}, "
            f"and {format_bytes(free)} are free; lower the budget"
        )
