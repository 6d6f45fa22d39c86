"""Retention policies: each scores residents and says whether the plan and bounded positions apply."""

from pace_local.policies.base import Attention, CacheView, Observation, Policy
from pace_local.policies.registry import POLICIES, policy_named

__all__ = ["POLICIES", "Attention", "CacheView", "Observation", "Policy", "policy_named"]
