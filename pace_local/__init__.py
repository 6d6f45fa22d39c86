"""PACE Local: long sessions with a local model, in a fixed cache, with positions that stay near."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "KeepPlan": "memory",
    "Model": "model",
    "Plan": "plan",
    "Sampling": "sampling",
    "Segment": "segments",
    "Session": "session",
    "SessionConfig": "config",
    "Step": "plan",
}

__all__ = [
    "KeepPlan",
    "Model",
    "Plan",
    "Sampling",
    "Segment",
    "Session",
    "SessionConfig",
    "Step",
    "__version__",
]

if TYPE_CHECKING:
    from pace_local.config import SessionConfig
    from pace_local.memory import KeepPlan
    from pace_local.model import Model
    from pace_local.plan import Plan, Step
    from pace_local.sampling import Sampling
    from pace_local.segments import Segment
    from pace_local.session import Session


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pace_local`` costs nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
