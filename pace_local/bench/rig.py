"""A context filled with residents, on which single operations and single decodes are timed."""

from __future__ import annotations

import ctypes
import statistics
import time
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local import _native
from pace_local.config import SessionConfig
from pace_local.engine import Engine
from pace_local.model import Model

_DECODES = 4
"""Decodes that one neighbour is the median of."""


Content = npt.NDArray[np.uint8]
"""Residents of a rig, as upstream saves them."""


class Rig:
    """A filled context. Close it, or use it as a context manager.

    Args:
        model: must stay open.
        config: sizes; the residents may take the headroom too.
        residents: how many tokens are resident, at positions from 0 on.
        content: of another rig of the model that has as many residents or more; None: they are decoded.
    """

    def __init__(
        self, model: Model, config: SessionConfig, residents: int, content: Content | None = None
    ) -> None:
        self.engine = Engine(model, config)
        self.residents = residents
        self.first_position = 0
        self._tokens = np.random.default_rng(0).integers(0, model.shape.n_vocab, residents).astype(np.int32)
        if content is not None:
            self.restore(content)
            self.engine.remove_from(residents)
            return
        for start in range(0, residents, self.engine.n_batch):
            self.engine.decode(self._tokens[start : start + self.engine.n_batch], start)

    def close(self) -> None:
        """Free the context."""
        self.engine.close()

    def __enter__(self) -> Rig:
        """The rig itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    @property
    def cache(self) -> _native.NativeCache:
        """Its cache operations."""
        assert self.engine.cache is not None
        return self.engine.cache

    @property
    def next_position(self) -> int:
        """Position of the next token."""
        return self.first_position + self.residents

    def content(self) -> Content:
        """All residents with their keys and values."""
        llama, ctx = _native.llama, self.engine.ctx
        content = np.empty(llama.llama_state_seq_get_size(ctx, 0), dtype=np.uint8)
        copied = llama.llama_state_seq_get_data(ctx, _bytes_of(content), len(content), 0)
        assert copied == len(content)
        return content

    def restore(self, content: Content) -> None:
        """Replace all residents; the new ones lie in cells from 0 on, and have no references yet."""
        llama, ctx = _native.llama, self.engine.ctx
        restored = llama.llama_state_seq_set_data(ctx, _bytes_of(content), len(content), 0)
        assert restored == len(content)

    def add_token(self) -> float:
        """Decode one more token, which stays, and return the seconds taken."""
        began = time.perf_counter()
        self.engine.decode(self._tokens[:1], self.next_position)
        _native.llama.llama_synchronize(self.engine.ctx)
        return time.perf_counter() - began

    def decode(self) -> float:
        """Decode one token, take it out again, and return the seconds that the decode took."""
        seconds = self.add_token()
        self.engine.remove_from(self.next_position)
        return seconds

    def read_batch(self) -> float:
        """Decode a whole micro-batch, take it out again, and return the seconds that the decode took."""
        tokens = self._tokens[: self.engine.n_batch]
        began = time.perf_counter()
        self.engine.decode(tokens, self.next_position)
        _native.llama.llama_synchronize(self.engine.ctx)
        seconds = time.perf_counter() - began
        self.engine.remove_from(self.next_position)
        return seconds

    def neighbour(self) -> float:
        """Seconds of a plain decode: the median of a few."""
        return statistics.median(self.decode() for _ in range(_DECODES))


def _bytes_of(content: Content) -> Any:
    return content.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
