"""Views of a cache for tests of policies and of keep plans, without a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.memory import KeepPlan, plan_keep
from pace_local.policies import Attention, CacheView, Policy
from pace_local.segments import KINDS


def make_attention(n: int, seed: int = 0, *, after: int = 0) -> Attention:
    """Attention as it falls out in a real cache: a few residents draw most of it.

    Args:
        n: residents.
        seed: of the values.
        after: residents at the end that came in after the latest prompt.
    """
    random = np.random.default_rng(seed)
    total, window, prompt = (random.pareto(1.2, n) for _ in range(3))
    prompt[n - after :] = np.nan
    return Attention(total, window, prompt)


def make_view(
    token_index: Sequence[int] | np.ndarray[Any, Any],
    *,
    target: int = 1,
    segment: Any = 0,
    turn: Any = 0,
    framing: Any = False,
    position: Any = None,
    kind: Any = "user",
    entity: Any = False,
    session_length: int | None = None,
    pinned: frozenset[int] = frozenset(),
    first_user: int | None = None,
    attention: Attention | None = None,
) -> CacheView:
    """A view of residents; a value that is no array holds for all of them. Kinds may be names."""
    index = np.asarray(token_index, dtype=np.int64)
    n = len(index)
    kinds = KINDS.index(kind) if isinstance(kind, str) else kind

    def column(value: Any, dtype: Any) -> Any:
        return np.array(np.broadcast_to(value, n), dtype=dtype)

    return CacheView(
        token_index=index,
        segment=column(segment, np.int32),
        turn=column(turn, np.int32),
        framing=column(framing, np.bool_),
        position=column(index if position is None else position, np.int32),
        kind=column(kinds, np.int8),
        entity=column(entity, np.bool_),
        session_length=(int(index[-1]) + 1 if n else 0) if session_length is None else session_length,
        target=target,
        pinned=pinned,
        first_user=first_user,
        attention=attention,
    )


@dataclass
class PaperCache:
    """The cache of a session without a model: tokens come in, and a policy says which go.

    Attention is drawn anew at each eviction, in sixteenths, so that sums are exact.
    """

    policy: Policy
    target: int
    seed: int = 0
    pinned: frozenset[int] = frozenset()
    length: int = 0
    residents: list[int] = field(default_factory=list)
    kind_of: list[str] = field(default_factory=list)
    """Kind of every token of the session; each run of one kind is a turn and a segment."""
    segment_of: list[int] = field(default_factory=list)
    entity_of: list[bool] = field(default_factory=list)

    def append(self, count: int, kind: str = "text", entities: int = 0) -> None:
        """Tokens of a segment of its own; bit i of ``entities`` says whether the i-th is part of a name."""
        segment = self.segment_of[-1] + 1 if self.segment_of else 0
        self.residents += range(self.length, self.length + count)
        self.length += count
        self.kind_of += [kind] * count
        self.segment_of += [segment] * count
        self.entity_of += [bool(entities >> i & 1) for i in range(count)]

    def view(self) -> CacheView:
        n = len(self.residents)
        random = np.random.default_rng((self.seed, self.length))
        total, window, prompt = (random.integers(0, 64, n) / 16 for _ in range(3))
        users = [self.segment_of[i] for i in range(self.length) if self.kind_of[i] == "user"]

        def column(of: list[Any]) -> npt.NDArray[Any]:
            return np.array([of[index] for index in self.residents])

        return make_view(
            self.residents,
            target=self.target,
            segment=column(self.segment_of),
            turn=column(self.segment_of),
            framing=column([kind == "framing" for kind in self.kind_of]),
            position=np.arange(n),
            kind=column([KINDS.index(kind) for kind in self.kind_of]),
            entity=column(self.entity_of),
            session_length=self.length,
            pinned=self.pinned,
            first_user=users[0] if users else None,
            attention=Attention(total, window, prompt),
        )

    def evict(self, recent: int = 0) -> KeepPlan:
        plan = plan_keep(self.view(), self.policy, recent=recent)
        self.residents = [self.residents[rank] for rank in plan.keep]
        return plan

    def withdraw(self, length: int) -> None:
        """Take back all tokens of the session but the first so many."""
        self.residents = [index for index in self.residents if index < length]
        for column in (self.kind_of, self.segment_of, self.entity_of):
            del column[length:]
        self.length = length
        self.policy.forget(length)
