"""Going back to an earlier state of the cache without decoding anything.

A checkpoint copies no keys and values when it is made. Residents that it holds are copied to host memory when
they are about to leave the cache, and loaded from there when it is restored: what never left costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local._native import Block
from pace_local.errors import ConfigError, NativeError
from pace_local.residents import Rows
from pace_local.session_cache import SessionCache


@dataclass(frozen=True)
class _Held:
    """Residents that have left the cache since."""

    token_index: npt.NDArray[np.int64]
    stay: npt.NDArray[np.int64]
    block: Block


@dataclass
class Checkpoint:
    """One state to go back to."""

    id: int
    n_tokens: int
    rows: Rows
    position: npt.NDArray[np.int32]
    state: Any
    """Whatever its maker needs beside the cache."""
    copies_all: bool = False
    """Whether all residents were copied when it was made."""
    held: list[_Held] = field(default_factory=list)

    @property
    def n_bytes(self) -> int:
        """Host memory that its copies take; others may share them."""
        return sum(held.block.nbytes for held in self.held)


class Checkpoints:
    """All checkpoints of a session, oldest first.

    Args:
        cache: the session's.
    """

    def __init__(self, cache: SessionCache) -> None:
        self._cache = cache
        self._of: dict[int, Checkpoint] = {}
        self._next_id = 1

    def __len__(self) -> int:
        """Number of checkpoints."""
        return len(self._of)

    def __iter__(self) -> Iterator[Checkpoint]:
        """Oldest first."""
        return iter(self._of.values())

    def add(self, state: Any, *, copies_all: bool = False) -> int:
        """Remember the cache as it is now, and return the checkpoint's id.

        Args:
            state: whatever the caller needs beside it.
            copies_all: whether residents are copied now, because they may be changed while they stay.
        """
        self._cache.tidy()
        residents = self._cache.map
        ranks = np.arange(len(residents))
        checkpoint = Checkpoint(
            self._next_id,
            len(self._cache.tokens),
            residents.rows(ranks),
            residents.position.copy(),
            state,
            copies_all,
        )
        self._of[checkpoint.id] = checkpoint
        self._next_id += 1
        if copies_all and len(ranks):
            checkpoint.held.append(self._copy(ranks))
        return checkpoint.id

    def named(self, checkpoint_id: int) -> Checkpoint:
        """The checkpoint of an id.

        Raises:
            ConfigError: if there is none, with those that there are.
        """
        try:
            return self._of[checkpoint_id]
        except KeyError:
            known = ", ".join(map(str, self._of)) or "none"
            raise ConfigError(f"no checkpoint has the id {checkpoint_id!r}; there are: {known}") from None

    def drop(self, checkpoint_id: int) -> None:
        """Forget a checkpoint and free its copies."""
        self.named(checkpoint_id)
        del self._of[checkpoint_id]

    def before_leaving(self, ranks: npt.NDArray[np.int64]) -> None:
        """Copy residents that are about to leave, for the checkpoints that hold them."""
        if not self._of or not len(ranks):
            return
        stay = self._cache.map.stay[ranks]
        wanted = np.zeros(len(ranks), dtype=np.bool_)
        takers = []
        for checkpoint in self._of.values():
            own = np.isin(stay, checkpoint.rows.stay)
            for held in checkpoint.held:
                own &= ~np.isin(stay, held.stay)
            if own.any():
                wanted |= own
                takers.append(checkpoint)
        if takers:
            with suppress(NativeError, MemoryError):  # then they are computed again
                held = self._copy(ranks[wanted])
                for checkpoint in takers:
                    checkpoint.held.append(held)

    def _copy(self, ranks: npt.NDArray[np.int64]) -> _Held:
        residents = self._cache.map
        block = self._cache.native.save(ranks.astype(np.uint32), len(residents), self._cache.engine.identity)
        return _Held(residents.token_index[ranks], residents.stay[ranks], block)

    def restore(self, checkpoint_id: int) -> None:
        """Make the cache what it was; later checkpoints are forgotten.

        Args:
            checkpoint_id: from :meth:`add`.

        Raises:
            ConfigError: if there is no such checkpoint.
            NativeError: if a device fails; the cache is as it was then.
        """
        checkpoint = self.named(checkpoint_id)
        cache, residents, wanted = self._cache, self._cache.map, checkpoint.rows
        stays = np.isin(residents.stay, wanted.stay)
        if checkpoint.copies_all:
            stays[:] = False
        self.before_leaving(np.flatnonzero(~stays & (residents.token_index < checkpoint.n_tokens)))
        keep = np.flatnonzero(stays)
        at = np.searchsorted(wanted.token_index, residents.token_index[keep])
        cache.move(keep.astype(np.uint32), checkpoint.position[at])
        # From here on nothing fails: what cannot be loaded is computed again.
        cache.withdraw(checkpoint.n_tokens)
        for later in [one for one in self._of if one > checkpoint_id]:
            del self._of[later]
        for held in checkpoint.held:
            rows = np.flatnonzero(np.isin(held.stay, wanted.stay) & ~np.isin(held.stay, residents.stay))
            at = np.searchsorted(wanted.token_index, held.token_index[rows])
            with suppress(NativeError):
                cache.load(held.block, rows.astype(np.uint32), wanted.take(at), checkpoint.position[at])
        gone = np.flatnonzero(~np.isin(wanted.token_index, residents.token_index))
        if len(gone):
            residents.insert(wanted.take(gone), checkpoint.position[gone])
            cache.rebuild("what a checkpoint held of some residents is gone")
        with suppress(NativeError):  # cells in another order are no harm
            cache.tidy()
