"""Names of policies."""

from __future__ import annotations

from pace_local.errors import ConfigError
from pace_local.policies.base import Policy
from pace_local.policies.bounded import BoundedPolicy
from pace_local.policies.none import NonePolicy
from pace_local.policies.pace import PacePolicy
from pace_local.policies.plan import PlanPolicy
from pace_local.policies.streaming import StreamingPolicy

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (NonePolicy, StreamingPolicy, PlanPolicy, BoundedPolicy, PacePolicy)
}


def policy_named(name: str) -> Policy:
    """A policy of its own.

    Raises:
        ConfigError: for an unknown name.
    """
    try:
        return POLICIES[name]()
    except KeyError:
        raise ConfigError(f"policy {name!r} is not one of {', '.join(POLICIES)}") from None
