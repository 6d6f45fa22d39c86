"""Names of policies, and instances with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pace_local.errors import ConfigError
from pace_local.policies.attention import AttentionPolicy
from pace_local.policies.base import Policy
from pace_local.policies.bounded import BoundedPolicy
from pace_local.policies.context_shift import ContextShiftPolicy
from pace_local.policies.h2o import H2OPolicy
from pace_local.policies.h2o_grace import H2OGracePolicy
from pace_local.policies.hybrid import HybridPolicy
from pace_local.policies.merge import MergePolicy
from pace_local.policies.none import NonePolicy
from pace_local.policies.pace import PacePolicy
from pace_local.policies.pace_focus import PaceFocusPolicy
from pace_local.policies.pace_hybrid import PaceHybridPolicy
from pace_local.policies.plan import PlanPolicy
from pace_local.policies.snapkv import SnapKVPolicy
from pace_local.policies.streaming import StreamingPolicy
from pace_local.policies.truncate import TruncatePolicy

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        NonePolicy,
        TruncatePolicy,
        StreamingPolicy,
        ContextShiftPolicy,
        H2OPolicy,
        H2OGracePolicy,
        AttentionPolicy,
        SnapKVPolicy,
        MergePolicy,
        HybridPolicy,
        PlanPolicy,
        BoundedPolicy,
        PacePolicy,
        PaceHybridPolicy,
        PaceFocusPolicy,
    )
}


def policy_named(name: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """A policy of its own.

    Args:
        name: one of :data:`POLICIES`.
        parameters: those that differ from the policy's defaults.

    Raises:
        ConfigError: for an unknown name or parameter, or a value out of range.
    """
    try:
        policy = POLICIES[name]
    except KeyError:
        raise ConfigError(f"policy {name!r} is not one of {', '.join(POLICIES)}") from None
    known = list(getattr(policy, "__dataclass_fields__", ()))
    for parameter in parameters or {}:
        if parameter not in known:
            raise ConfigError(
                f"policy {name!r} has no parameter {parameter!r}; it has {', '.join(known) or 'none'}"
            )
    return policy(**(parameters or {}))
