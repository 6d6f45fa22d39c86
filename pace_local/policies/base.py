"""What a policy sees and what it says. Policies score; :mod:`pace_local.memory` decides and moves memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt


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

    session_length: int
    """Tokens of the session so far."""

    def __len__(self) -> int:
        """Number of residents."""
        return len(self.token_index)


class Policy:
    """Base of all policies. A policy is stateless between calls unless its file says otherwise."""

    name: ClassVar[str]

    evicts: ClassVar[bool] = True
    """Whether anything is ever evicted; if not, the session refuses tokens past the budget."""

    reads_plan: ClassVar[bool] = False
    """Whether what the plan's steps read is kept before anything recent."""

    bounds_positions: ClassVar[bool] = False
    """Whether residents are renumbered before positions reach the cap."""

    sinks: ClassVar[int] = 4
    """First tokens of the session that always stay: attention sinks."""

    def score(self, view: CacheView) -> npt.NDArray[np.float64]:
        """Worth of each resident, shape [n], higher is kept first; ties go to the newer token."""
        raise NotImplementedError  # pragma: no cover
