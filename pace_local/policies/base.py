"""What a policy sees and what it says. Policies score; :mod:`pace_local.memory` decides and moves memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError
from pace_local.policies.ranges import check_whole

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """What of the model's attention is to be measured while it decodes.

    Raises:
        ConfigError: for a value out of range.
    """

    queries: int = 32
    """Last query rows of each micro-batch that are counted; 0: all of them."""

    min_distance: int = 0
    """Attention across fewer positions is not counted."""

    decay: float = 1.0
    """λ: what is left of a token's total after each later token; 1: no decay."""

    window: int = 100
    """Steps of the sliding window; a step is a generated token or a micro-batch of a prompt."""

    layers: tuple[int, ...] | None = None
    """Layers that are observed; None: all."""

    def __post_init__(self) -> None:
        """Check every range."""
        check_whole("queries", self.queries, 0, 8192)
        check_whole("min_distance", self.min_distance, 0, 2**31 - 1)
        check_range("decay", self.decay, 0.0, 1.0)
        check_whole("window", self.window, 1, 4096)
        if self.layers is not None and (not self.layers or min(self.layers) < 0):
            raise ConfigError(f"layers {self.layers} is out of range; name at least one, counted from 0")

    def options(self) -> dict[str, Any]:
        """As keyword arguments of :meth:`pace_local._native.NativeCache.observe`."""
        return dict(vars(self))


@dataclass(frozen=True)
class Attention:
    """Attention mass that residents have received, summed over heads, layers and observed query rows."""

    total: Scores
    """Since the token came in, shape [n]; decayed if the observation says so."""

    window: Scores
    """In the last steps, shape [n]."""

    prompt: Scores
    """From the last rows of the latest prompt, shape [n]; NaN for what came in after it."""


@dataclass(frozen=True)
class Merging:
    """How what is evicted is merged into what stays, instead of being lost."""

    early: float
    """Share of the layers, from the first on, whose rows are merged; in the others evicted rows are lost."""

    per_cluster: float
    """Residents that one entry stands for, on average, above 1."""

    representative: str
    """``"centroid"``, or ``"member"``: the key nearest to it."""

    seed: int
    """Of the clustering."""

    newest_share: float = 0.0
    """Share of what an eviction leaves that takes no part, the newest."""


@dataclass(frozen=True)
class CacheView:
    """The residents in position order. All arrays have shape [n]."""

    token_index: npt.NDArray[np.int64]
    """Place in the session; strictly increasing."""

    segment: npt.NDArray[np.int32]
    """Id of the segment that holds the token."""

    turn: npt.NDArray[np.int32]
    """Number of the chat turn that holds the token."""

    framing: npt.NDArray[np.bool_]
    """Whether the token is a role marker, kept or dropped with its turn."""

    position: npt.NDArray[np.int32]
    """RoPE position; strictly increasing."""

    kind: npt.NDArray[np.int8]
    """Kind of the segment, as an index into :data:`pace_local.segments.KINDS`."""

    entity: npt.NDArray[np.bool_]
    """Whether the token is part of a name or constant; all False unless the policy asks for it."""

    session_length: int
    """Tokens of the session so far."""

    target: int
    """Most tokens that stay."""

    pinned: frozenset[int] = frozenset()
    """Ids of the segments that always stay, whatever they score."""

    first_user: int | None = None
    """Id of the segment with the first user message, if there is one."""

    attention: Attention | None = None
    """Measured if the policy observes attention."""

    def __len__(self) -> int:
        """Number of residents."""
        return len(self.token_index)


class Policy:
    """Base of all policies. A policy is stateless between calls unless its file says otherwise.

    One with parameters is a dataclass whose fields are the parameters, with their defaults; it checks them
    in ``__post_init__``.
    """

    name: ClassVar[str]

    evicts: ClassVar[bool] = True
    """Whether anything is ever evicted; if not, the session refuses tokens past the budget."""

    reads_plan: ClassVar[bool] = False
    """Whether what the plan's steps read is kept before anything recent."""

    bounds_positions: ClassVar[bool] = False
    """Whether residents are renumbered before positions reach the cap."""

    marks_entities: ClassVar[bool] = False
    """Whether names and constants are to be marked in the view."""

    closes_gaps: ClassVar[bool] = False
    """Whether upstream's own shift closes the gaps in positions after each eviction."""

    recalls: ClassVar[bool] = False
    """Whether what is evicted is saved, and comes back when a step or the user reads it."""

    focuses: ClassVar[bool] = False
    """Whether texts are read in isolation, and each step starts with exactly what it reads."""

    looks_at_steps: ClassVar[bool] = False
    """Whether it goes by the last steps of attention one by one, which start anew in an opened session."""

    sinks: int = 4
    """First tokens of the session that always stay: attention sinks."""

    @property
    def observes(self) -> Observation | None:
        """The attention that must be measured for this policy; None: none."""
        return None

    @property
    def merging(self) -> Merging | None:
        """How evicted residents are merged into others; None: they are not."""
        return None

    def check_target(self, target: int) -> None:
        """Refuse parameters that do not fit a budget.

        Args:
            target: tokens that an eviction leaves.

        Raises:
            ConfigError: with the value and the valid range.
        """

    def target(self, view: CacheView) -> int:
        """Most tokens that this eviction leaves; never more than ``view.target``."""
        return view.target

    def score(self, view: CacheView) -> Scores:
        """Worth of each resident, shape [n]: higher is kept first, ties go to the newer token.

        A score of ``-inf`` means that the token goes even if there is room.
        """
        raise NotImplementedError  # pragma: no cover

    def forget(self, first_index: int) -> None:
        """Tokens from this index on have been withdrawn from the session; their indices come again."""

    def state(self) -> dict[str, Any]:
        """What it has learned from the session so far, as plain values: for a session on disk."""
        return {}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Know again what :meth:`state` said."""

    def pool(self) -> dict[int, float]:
        """Token index to score of what a policy with a pool holds in it; empty for all others."""
        return {}

    def parameters(self) -> dict[str, Any]:
        """Names and values of the parameters."""
        return {name: getattr(self, name) for name in getattr(self, "__dataclass_fields__", ())}


def check_range(name: str, value: object, low: float, high: float) -> None:
    """Refuse a number out of range.

    Raises:
        ConfigError: with the value and the valid range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{name.replace('_', ' ')} {value!r} is out of range; use {low} to {high}")
