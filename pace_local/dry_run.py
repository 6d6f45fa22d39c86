"""What another policy would keep of a session's residents now, next to what its own policy would.

Both choose from the same residents, down to the same target, with the same reads, pins and floor of recent
tokens; the session stays as it is. A policy that builds something up over a session, such as a pool, starts
here with nothing: it is judged on what is resident, not on what it would have kept before. Attention is
what the session has measured, with the settings of its own policy or the defaults.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pace_local.entities import entity_tokens
from pace_local.errors import ConfigError
from pace_local.memory import KeepPlan, Reason, plan_keep
from pace_local.policies import CacheView, Policy, policy_named
from pace_local.segments import KINDS
from pace_local.wording import cut_start, jsonable, wrapped

if TYPE_CHECKING:
    from pace_local.session_view import SessionView


@dataclass(frozen=True)
class SegmentDifference:
    """What becomes of the resident tokens of one segment."""

    segment: str
    kind: str
    both: int
    """Tokens that both policies would keep."""
    only_other: int
    only_own: int
    neither: int


@dataclass(frozen=True)
class DryRun:
    """What another policy would keep now. Units are tokens."""

    policy: str
    parameters: dict[str, Any]
    own_policy: str
    residents: int
    target: int
    """What an eviction leaves, at most."""
    plan: KeepPlan = field(repr=False)
    """The other policy's, over the residents in order of positions."""
    own_plan: KeepPlan = field(repr=False)
    """The session's own policy's, from the same residents."""
    token_index: npt.NDArray[np.int64] = field(repr=False)
    """Of the residents, shape [n]."""
    segments: tuple[SegmentDifference, ...] = ()
    """In order of the session."""

    @property
    def both(self) -> int:
        """Tokens that both policies would keep."""
        return sum(segment.both for segment in self.segments)

    @property
    def only_other(self) -> int:
        """Tokens that the other policy alone would keep."""
        return sum(segment.only_other for segment in self.segments)

    @property
    def only_own(self) -> int:
        """Tokens that the session's own policy alone would keep."""
        return sum(segment.only_own for segment in self.segments)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the tokens are given by their token indices."""
        document: dict[str, Any] = jsonable(
            {
                "policy": self.policy,
                "parameters": self.parameters,
                "own_policy": self.own_policy,
                "residents": self.residents,
                "target": self.target,
                "both": self.both,
                "only_other": self.only_other,
                "only_own": self.only_own,
                "segments": [dataclasses.asdict(segment) for segment in self.segments],
                "keep": self.token_index[self.plan.keep].tolist(),
                "reasons": {
                    reason.name.lower(): int(np.count_nonzero(self.plan.reasons == reason))
                    for reason in Reason
                },
            }
        )
        return document

    def lines(self, width: int = 100) -> Iterator[str]:
        """For people: a sentence, and a row for each segment of which they would keep different tokens.

        Args:
            width: columns of the longest line; below 80 counts as 80.
        """
        width = max(80, width)
        yield from wrapped(
            f"{self.policy} would keep {len(self.plan.keep):,} of {self.residents:,} residents (target "
            f"{self.target:,}); {self.own_policy} would keep {len(self.own_plan.keep):,}, "
            f"{self.both:,} of them the same",
            width,
        )
        different = [segment for segment in self.segments if segment.only_other or segment.only_own]
        rows = [segment for segment in different if segment.kind != "framing"]
        if not different:
            return
        other, own = (cut_start(f"only {name}", 18) for name in (self.policy, self.own_policy))
        yield f"  {'both':>8}  {other:>18}  {own:>18}  {'neither':>8}  segment"
        for row in rows:
            yield (
                f"  {row.both:>8,}  {row.only_other:>18,}  {row.only_own:>18,}  {row.neither:>8,}  "
                f"{cut_start(row.segment, width - 64)}"
            )
        markers = [segment for segment in different if segment.kind == "framing"]
        if markers:
            both, neither = sum(one.both for one in markers), sum(one.neither for one in markers)
            only_other = sum(one.only_other for one in markers)
            only_own = sum(one.only_own for one in markers)
            yield f"  {both:>8,}  {only_other:>18,}  {only_own:>18,}  {neither:>8,}  role markers"


def dry_run(session: SessionView, policy_name: str, parameters: Mapping[str, Any] | None = None) -> DryRun:
    """Say what another policy would keep of the residents now; the session stays as it is.

    Args:
        session: not busy.
        policy_name: one of :data:`pace_local.policies.POLICIES`, also the session's own.
        parameters: those that differ from the policy's defaults.

    Raises:
        ConfigError: for an unknown name or parameter, a value out of range or that does not fit the budget,
            or if the policy needs attention and the session does not measure it.
    """
    other = policy_named(policy_name, parameters)
    other.check_target(session.config.soft_budget)
    view = session.cache_view()
    if other.observes is not None and view.attention is None:
        raise ConfigError(
            f"policy {policy_name!r} needs measured attention, and this session measures none; "
            "make the session with observe=True"
        )
    if other.marks_entities and not session.policy.marks_entities:
        view = dataclasses.replace(view, entity=_entities(session, view))
    plan = _plan(session, view, other)
    # A copy: one that keeps books would take this for an eviction.
    own_plan = _plan(session, view, copy.deepcopy(session.policy))
    return DryRun(
        policy=other.name,
        parameters=other.parameters(),
        own_policy=session.policy.name,
        residents=len(view),
        target=view.target,
        plan=plan,
        own_plan=own_plan,
        token_index=view.token_index.copy(),
        segments=tuple(_differences(session, view, plan, own_plan)),
    )


def _plan(session: SessionView, view: CacheView, policy: Policy) -> KeepPlan:
    if not policy.evicts:
        n = len(view)
        reasons = np.full(n, Reason.SCORE, dtype=np.int8)
        return KeepPlan(np.arange(n, dtype=np.uint32), reasons, policy.score(view))
    return plan_keep(
        view,
        policy,
        recent=session.config.recent_tokens,
        reads=session.reads(),
    )


def _entities(session: SessionView, view: CacheView) -> npt.NDArray[np.bool_]:
    """Marks of names and constants, from the whole text of each segment that has residents."""
    marks = np.zeros(len(view), dtype=np.bool_)
    for segment_id in np.unique(view.segment[view.kind != KINDS.index("framing")]):
        segment = session.segments[int(segment_id)]
        pieces = [session.model.piece(token) for token in session.tokens_of(segment)]
        ranks = np.flatnonzero(view.segment == segment_id)
        marks[ranks] = entity_tokens(pieces, segment.name)[view.token_index[ranks] - segment.start]
    return marks


def _differences(
    session: SessionView, view: CacheView, plan: KeepPlan, own_plan: KeepPlan
) -> Iterator[SegmentDifference]:
    other, own = (np.isin(np.arange(len(view)), which.keep) for which in (plan, own_plan))
    for segment_id in np.unique(view.segment):
        here = view.segment == segment_id
        segment = session.segments[int(segment_id)]
        yield SegmentDifference(
            segment.name,
            segment.kind,
            both=int(np.count_nonzero(here & other & own)),
            only_other=int(np.count_nonzero(here & other & ~own)),
            only_own=int(np.count_nonzero(here & own & ~other)),
            neither=int(np.count_nonzero(here & ~other & ~own)),
        )
