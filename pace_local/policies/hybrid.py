"""``hybrid``: a recent window in full, and a pool of important tokens from before it.

The last W tokens stay whatever they are. As a token leaves that window it is scored once,

    score = base (system prompt and first user message) + α · attention + β · (part of a name or constant),

and enters a pool of G tokens if it beats the lowest there, which then goes: a min-heap, O(log G) a token.

Source: "hybrid", the third of three strategies in the guide to online KV-cache compaction for agents that
this project implements beside PACE; there is no paper. It gives the score, a base of about 100, W of 512 to
2,048 and G of 128 to 256, with W = 1,024 and G = 256 to start with; α and β are left open.

Attention is the fading sum over all layers and heads and the last 32 query rows of each micro-batch, relative
to the mean over the residents at that moment: 1 is a token read as much as the average, whatever the model
and the length of the cache. It fades (``decay``, as in ``h2o_grace``) because sums that never fade would make
the old residents' mean grow and leave ever less for those that come later. With α = 0 it is not measured.

Where this departs from the guide: W and G default to halves of what an eviction leaves, since the budget
is fixed here and both shares should grow with it. Room that the pool does not need goes to the newest tokens
outside it, unless a pool size was given: then everything outside window and pool goes. Tokens leave all
layers and heads at once, since llama.cpp's cells are shared by them; they are scored at evictions, every few
hundred tokens, and not one by one. Sinks, pinned segments and the newest turn's role markers stay; none of
these and no other role markers take a place in the pool. A pool that turns out larger than the room for it
loses its lowest.

This policy has a state, the pool; it belongs to one session.

Units: ``window`` and ``pool_size`` are in tokens, ``base``, ``alpha`` and ``beta`` in units of the score.
``base`` 100 puts the instructions above all that is not read a hundred times the average; ``alpha`` 1 and
``beta`` 2 let a name stand against what is read two to three times the average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError
from pace_local.policies.base import CacheView, Observation, Policy, Scores, check_range
from pace_local.policies.heap_pool import HeapPool
from pace_local.policies.ranges import check_whole
from pace_local.policies.ranking import keep_first, measured
from pace_local.segments import KINDS

LARGEST_WEIGHT = 1e6
SYSTEM = KINDS.index("system")


@dataclass
class HybridPolicy(Policy):
    """Window and pool.

    Raises:
        ConfigError: for a value out of range.
    """

    name = "hybrid"
    marks_entities = True

    window: int | None = None
    """W: last tokens of the session that stay in full; None: half of the target, or what the pool leaves."""

    pool_size: int | None = None
    """G: tokens from before the window; None: what the window leaves of the target."""

    base: float = 100.0
    """Score of the system prompt and the first user message before anything is added."""

    alpha: float = 1.0
    """α: weight of attention; 0: it is not measured."""

    beta: float = 2.0
    """β: what a part of a name or constant is worth."""

    decay: float = 0.998
    """λ: what each later token leaves of a token's attention."""

    sinks: int = 4
    """First tokens of the session that always stay."""

    def __post_init__(self) -> None:
        """Check every range."""
        for size in ("window", "pool_size"):
            if getattr(self, size) is not None:
                check_whole(size, getattr(self, size), 0, 2**31 - 1)
        for weight in ("base", "alpha", "beta"):
            check_range(weight, getattr(self, weight), 0.0, LARGEST_WEIGHT)
        check_range("decay", self.decay, 0.0, 1.0)
        check_whole("sinks", self.sinks, 0, 2**31 - 1)
        # No fields: what a session has done so far is no parameter.
        self._pool = HeapPool()
        self._window = 0
        self._next = 0  # the first token that has not been offered to the pool

    def check_target(self, target: int) -> None:
        """Refuse a window, a pool or sinks that do not fit into what an eviction leaves."""
        check_whole("sinks", self.sinks, 0, target)
        if self.window is not None:
            check_whole("window", self.window, 0, target)
        if self.pool_size is not None:
            check_whole("pool_size", self.pool_size, 0, target)
        window, pool = self.window or 0, self.pool_size or 0
        if window + pool > target:
            raise ConfigError(
                f"window {window} + pool size {pool} = {window + pool} is over the {target} tokens that an "
                f"eviction leaves; use a pool size of 0 to {target - window}, or a smaller window"
            )

    @property
    def observes(self) -> Observation | None:
        """The last query rows, fading, unless attention has no weight."""
        return Observation(queries=32, decay=self.decay) if self.alpha else None

    def score(self, view: CacheView) -> Scores:
        """The window, then the pool, then the newer; takes what has left the window into the pool.

        Asked again about the same residents, it says the same.

        Raises:
            ConfigError: if attention has weight and none was measured.
        """
        self._window, size = self._sizes(view.target)
        boundary = max(0, view.session_length - self._window)
        self._admit(view, boundary, size)
        index = view.token_index
        if self.pool_size is None:
            scores = index / max(1, view.session_length) - 1  # below the pool's, from -1 to 0
        else:
            scores = np.full(len(view), -np.inf)
        scores[np.searchsorted(index, self._pooled())] = list(self._pool.scores.values())
        return keep_first(scores, index >= boundary)

    def forget(self, first_index: int) -> None:
        """Take out of the pool what is withdrawn, and what is in the window again."""
        self._go_back(max(0, first_index - self._window))

    def state(self) -> dict[str, Any]:
        """The pool, and how far it has come."""
        return {
            "pool": [list(item) for item in sorted(self._pool.scores.items())],
            "capacity": self._pool.capacity,
            "window": self._window,
            "next": self._next,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """The pool as it was."""
        self._pool = HeapPool(state["capacity"])
        for token, score in state["pool"]:
            self._pool.push(token, score)
        self._window, self._next = state["window"], state["next"]

    def pool(self) -> dict[int, float]:
        """Token index to score, as of the last eviction; some may have found no room in the cache."""
        return dict(self._pool.scores)

    def _sizes(self, target: int) -> tuple[int, int]:
        """W and G under a target."""
        room = target - (self.pool_size or 0)
        window = max(0, min(target // 2, room)) if self.window is None else self.window
        return window, max(0, target - window) if self.pool_size is None else self.pool_size

    def _pooled(self) -> npt.NDArray[np.int64]:
        return np.fromiter(self._pool.scores, dtype=np.int64, count=len(self._pool))

    def _admit(self, view: CacheView, boundary: int, size: int) -> None:
        """Bring the pool up to date with the residents and with where the window begins now."""
        if boundary < self._next:
            self._go_back(boundary)
        pooled = self._pooled()
        self._pool.remove(pooled[~np.isin(pooled, view.token_index)].tolist())
        self._pool.resize(size)
        index = view.token_index
        left = (index >= max(self._next, self.sinks)) & (index < boundary) & ~view.framing
        left &= ~np.isin(index, pooled) & ~np.isin(view.segment, list(view.pinned))
        worth = self._worth(view)
        # The only loop over tokens: each passes here once, when it has left the window.
        for token, score in zip(index[left].tolist(), worth[left].tolist(), strict=True):
            self._pool.push(token, score)
        self._next = boundary

    def _go_back(self, boundary: int) -> None:
        """The window begins earlier than it did: what is in it leaves the pool, and others may come in."""
        pooled = self._pooled()
        self._pool.remove(pooled[pooled >= boundary].tolist())
        if boundary < self._next:
            self._next = 0

    def _worth(self, view: CacheView) -> Scores:
        """Base, attention and entity of each resident, shape [n]."""
        instructs = view.kind == SYSTEM
        if view.first_user is not None:
            instructs |= view.segment == view.first_user
        worth: Scores = self.base * instructs + self.beta * view.entity
        if self.alpha:
            mass = measured(view, self.name).total
            mean = float(mass.mean()) if len(mass) else 0.0
            if mean > 0:
                worth += self.alpha * (mass / mean)
        return worth
