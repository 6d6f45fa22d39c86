"""Which models and settings go together; asked before a session works."""

from __future__ import annotations

from pace_local.config import SessionConfig
from pace_local.engine import key_width
from pace_local.errors import ConfigError
from pace_local.model import Model
from pace_local.policies import Policy

_SHIFTED_TOO_FAR = ("smollm3", "llama4", "afmoe")
"""Architectures with layers that are not rotated, which llama.cpp's shift rotates all the same."""


def check_model(model: Model, config: SessionConfig, policy: Policy) -> None:
    """Refuse what the model was not trained for, or what llama.cpp cannot do with its keys.

    Raises:
        ConfigError: with what to change.
    """
    policy.check_target(config.soft_budget)
    if policy.merging is not None and (config.recall or config.isolate):
        raise ConfigError(
            f"policy {policy.name!r} merges what it evicts, which cannot be recalled or isolated; "
            "leave recall and isolate out, or choose another policy"
        )
    trained = model.shape.n_ctx_train
    if 0 < trained < config.budget:
        raise ConfigError(
            f"budget {config.budget} is above the {trained} tokens of context that "
            f"{model.name} was trained for; lower the budget"
        )
    if policy.closes_gaps:
        _check_shift(model, config, policy)


def _check_shift(model: Model, config: SessionConfig, policy: Policy) -> None:
    architecture = model.metadata("general.architecture")
    if architecture in _SHIFTED_TOO_FAR:
        raise ConfigError(
            f"policy {policy.name!r} shifts keys with llama.cpp's own operation, which also turns those of "
            f"layers that {model.name} ({architecture}) does not rotate; choose another policy"
        )
    # llama.cpp turns quantised heads of a multiple of 64 before it stores them; a shift turns all back, and
    # takes only the part of a head that is rotated
    kind, head = config.key_type, key_width(model)
    n_rot = int(model.metadata(f"{architecture}.rope.dimension_count") or head)
    if kind == "bf16" or (kind == "q8_0" and (head % 64 != 0 or n_rot != head)):
        raise ConfigError(
            f"policy {policy.name!r} shifts keys with llama.cpp's own operation, which cannot shift "
            f"{kind} keys of {model.name}; use key type f16 or f32"
        )


def bounds_positions(config: SessionConfig, policy: Policy) -> bool:
    """Whether residents are renumbered before positions reach the cap."""
    return policy.bounds_positions if config.bound_positions is None else config.bound_positions


def within_training(model: Model, config: SessionConfig, policy: Policy) -> SessionConfig:
    """Settings whose positions stay in the context that a model was trained for, where they are bounded.

    The cap is not lowered below what the budget and the batch in flight take.
    """
    trained = model.shape.n_ctx_train
    if not bounds_positions(config, policy) or not 0 < trained < config.position_cap:
        return config
    return config.replace(position_cap=max(trained, config.n_cells))


def check_positions(model: Model, config: SessionConfig, limit: int, bounded: bool) -> None:
    """Refuse positions that would reach where the model's RoPE factors change.

    Args:
        model: for its name.
        config: for the cap.
        limit: positions at or above it rotate by other factors; 0: there is none.
        bounded: whether positions are kept below the cap.

    Raises:
        ConfigError: with what to change.
    """
    if limit and (not bounded or config.position_cap > limit):
        raise ConfigError(
            f"{model.name} changes its RoPE factors at position {limit}; "
            f"use a policy that bounds positions, with a cap of at most {limit}"
        )
