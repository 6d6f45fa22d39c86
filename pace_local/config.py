"""Settings of a session, with their defaults and valid ranges in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pace_local.errors import ConfigError

KEY_TYPES = ("f16", "f32", "bf16", "q8_0")
VALUE_TYPES = ("f16", "f32", "bf16", "q8_0")
MEANS = ("auto", "spliced", "recomputed", "together", "reread")
MINIMUM_BUDGET = 64
LONGEST_POSITION = 2**31 - 1
MOST_THREADS = 512
"""As many as ggml's own pool of threads can have."""

_WHOLE_NUMBERS = {
    "budget": False,
    "position_cap": False,
    "headroom": False,
    "recent": True,
    "threads": True,
    "evict_every": True,
    "host_bytes": True,
    "disk_bytes": True,
}
"""Setting -> whether it may be None."""


@dataclass(frozen=True)
class SessionConfig:
    """How much a session keeps, where it puts it, and how it is stored. Units are tokens.

    Raises:
        ConfigError: when a value is out of range, with the value and the range.
    """

    budget: int = 2048
    """Most tokens resident after any decode returns; a hard cap."""

    position_cap: int = 8192
    """No position reaches it, under a policy that bounds positions.

    A session lowers it to the context that its model was trained for, but not below ``n_cells``.
    """

    headroom: int = 512
    """Cells above the budget for the batch in flight; also the micro-batch of prompt processing."""

    policy: str = "pace"
    """Name of a policy in :mod:`pace_local.policies`."""

    policy_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Parameters of the policy that differ from its defaults."""

    soft_target: float = 1 / 1.1
    """An eviction goes down to this share of the budget, so that the next one comes only after a while: at
    110 % of the target, as long as it is not called for earlier."""

    evict_every: int | None = None
    """Residents above the target are evicted after so many tokens, without waiting for the budget; None:
    when the budget is reached."""

    observe: bool = False
    """Whether attention is measured even if the policy does not need it, so that others can be compared."""

    recent: int | None = None
    """Newest tokens that stay whatever the plan reads; None: an eighth of the budget."""

    bound_positions: bool | None = None
    """Whether residents are renumbered below the cap; None: as the policy has it."""

    recall: bool | None = None
    """Whether what is evicted is saved and can come back; None: as the policy has it."""

    isolate: bool | None = None
    """Whether texts that a plan may read are read in isolation; None: as the policy has it."""

    means: str = "auto"
    """How what a step reads comes to be resident: auto; or, for comparisons, always spliced, recomputed,
    together or reread."""

    save_parts: bool = False
    """Whether parts of segments are saved too when they are evicted, and not whole segments alone."""

    host_bytes: int | None = None
    """Main memory for what is saved, in bytes; None: from what is free."""

    disk_bytes: int | None = None
    """Disk for what is saved and does not fit in that, in bytes; None: from what is free."""

    key_type: str = "f16"
    """Type of the K cache: f16, f32, bf16 or q8_0."""

    value_type: str = "f16"
    """Type of the V cache; q8_0 needs flash attention."""

    reference_type: str | None = None
    """Type of reference keys: f16 or f32; None: f16, or f32 where the K cache is wider than f16."""

    flash_attn: bool = True
    """Whether attention is computed by the fused kernel."""

    threads: int | None = None
    """Threads of the CPU; None: the physical cores."""

    enable_thinking: bool | None = None
    """Passed to chat templates that know it (Qwen3); None: the template's default."""

    check: bool = False
    """Whether all invariants are checked after every operation (slow; for finding faults)."""

    def __post_init__(self) -> None:
        """Check every type and range."""
        for name, may_be_none in _WHOLE_NUMBERS.items():
            value = getattr(self, name)
            if type(value) is not int and not (value is None and may_be_none):
                raise ConfigError(f"{name.replace('_', ' ')} is {value!r}; use a whole number")
        if not isinstance(self.soft_target, (int, float)):
            raise ConfigError(f"soft target is {self.soft_target!r}; use a share from 0.25 to 1")
        if self.budget < MINIMUM_BUDGET:
            raise ConfigError(
                f"budget {self.budget} is too small; at least {MINIMUM_BUDGET} tokens are needed"
            )
        if not 16 <= self.headroom <= 8192:
            raise ConfigError(f"headroom {self.headroom} is out of range; use 16 to 8192 tokens")
        if self.position_cap < self.budget + self.headroom:
            raise ConfigError(
                f"position cap {self.position_cap} is below budget + headroom = {self.n_cells}; "
                "raise the cap or lower the budget"
            )
        if self.position_cap > LONGEST_POSITION:
            raise ConfigError(f"position cap {self.position_cap} is above {LONGEST_POSITION}")
        if not 0.25 <= self.soft_target <= 1:
            raise ConfigError(f"soft target {self.soft_target} is out of range; use a share from 0.25 to 1")
        if self.evict_every is not None and not 1 <= self.evict_every <= 2**20:
            raise ConfigError(
                f"evict every {self.evict_every} is out of range; use 1 to {2**20} tokens, or None"
            )
        if not isinstance(self.policy_options, Mapping):
            raise ConfigError(f"policy options are {self.policy_options!r}; use names and values")
        if self.recent is not None and not 0 <= self.recent <= self.budget // 2:
            raise ConfigError(
                f"recent {self.recent} is out of range; use 0 to half of the budget ({self.budget // 2})"
            )
        if self.means not in MEANS:
            raise ConfigError(f"means {self.means!r} is not one of {', '.join(MEANS)}")
        for name in ("host_bytes", "disk_bytes"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 2**50:
                raise ConfigError(
                    f"{name.replace('_', ' ')} {value} is out of range; use 0 to {2**50}, or None"
                )
        if self.key_type not in KEY_TYPES:
            raise ConfigError(f"key type {self.key_type!r} is not one of {', '.join(KEY_TYPES)}")
        if self.value_type not in VALUE_TYPES:
            raise ConfigError(f"value type {self.value_type!r} is not one of {', '.join(VALUE_TYPES)}")
        if self.value_type == "q8_0" and not self.flash_attn:
            raise ConfigError("value type 'q8_0' needs flash attention; turn it on or use 'f16'")
        if self.reference_type not in (None, "f16", "f32"):
            raise ConfigError(f"reference type {self.reference_type!r} is not f16 or f32")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ConfigError(f"threads {self.threads} is out of range; use 1 to {MOST_THREADS}")

    @property
    def n_cells(self) -> int:
        """Size of the KV buffer in tokens."""
        return self.budget + self.headroom

    @property
    def soft_budget(self) -> int:
        """Residents that an eviction leaves, in tokens."""
        return max(1, int(self.budget * self.soft_target))

    @property
    def recent_tokens(self) -> int:
        """Newest tokens that stay whatever the plan reads."""
        return self.budget // 8 if self.recent is None else self.recent

    def replace(self, **settings: Any) -> SessionConfig:
        """A copy with some settings changed.

        Raises:
            ConfigError: when a setting is unknown or out of range.
        """
        known = {field.name for field in dataclasses.fields(self)}
        for name in settings:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r}; known are {', '.join(sorted(known))}")
        return dataclasses.replace(self, **settings)
