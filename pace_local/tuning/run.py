"""Measures every point of a grid, and the reference that all are compared with."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pace_local import __version__
from pace_local.config import MINIMUM_BUDGET, SessionConfig
from pace_local.config_document import config_document
from pace_local.errors import ConfigError, ContextFullError, FileError
from pace_local.model import Model
from pace_local.recording import Recording
from pace_local.session import Session
from pace_local.terminal import Stop
from pace_local.tuning.grid import SETTINGS, Grid
from pace_local.tuning.journal import Journal
from pace_local.tuning.measure import Measurement, measure
from pace_local.tuning.sensitivity import Sensitivity

OnPoint = Callable[[int, "Outcome", bool], None]
"""Called with the number of the point (-1: the reference), its outcome, and whether it was stored already."""

_CHEAP: dict[str, Any] = {"check": False, "observe": False}
"""What the recorded session may have done beside, and would only take time here."""


@dataclass(frozen=True)
class Outcome:
    """What became of a point: measured, or refused with a reason."""

    measured: Measurement | None
    refused: str | None = None


@dataclass(frozen=True)
class Tuning:
    """A whole grid."""

    policy: str
    grid: Grid
    reference: Outcome
    """Policy ``none`` with a budget that holds all."""
    outcomes: tuple[Outcome, ...]
    """Of each point."""

    @property
    def measured(self) -> dict[int, Measurement]:
        """The points that were not refused."""
        return {
            number: outcome.measured
            for number, outcome in enumerate(self.outcomes)
            if outcome.measured is not None
        }

    @property
    def sensitivity(self) -> Sensitivity:
        """What they say."""
        return Sensitivity.of(self.grid, self.measured)


def tune(
    model: Model,
    recording: Recording,
    policy: str,
    grid: Grid,
    *,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    identity: str,
    journal: Journal,
    stop: Stop | None = None,
    on_point: OnPoint | None = None,
    on_turn: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Measure all points of a grid that the journal does not have yet.

    Args:
        model: the one that was recorded.
        recording: with at least one answer token.
        policy: its name.
        grid: over parameters of the policy and over :data:`SETTINGS`.
        settings: of all sessions, where they differ from the recording's.
        options: parameters of the policy that the grid does not vary.
        identity: of the model's file: the same text means the same weights.
        journal: open; gets each point when it is finished.
        stop: ends it soon after it was asked to; finished points are in the journal.
        on_point: called for each point.
        on_turn: called within a point with turns done and turns in all.

    Raises:
        FileError: if the recording has no answer, or is one of another model.
        CancelledError, TimeLimitError: after a request to stop.
        NativeError: if the cache fails.
    """
    if not recording.answer_tokens:
        raise FileError(f"{recording.path} has no answer in it, so there is nothing to measure")
    run = uuid.uuid4().hex
    is_warm = False

    def outcome(number: int, make_config: Callable[[], SessionConfig]) -> Outcome:
        nonlocal is_warm
        was_stored = False
        try:
            config = make_config()
            key = point_key(recording, identity, config)
            measured = journal.get(key)
            was_stored = measured is not None
            if measured is None:
                if not is_warm:
                    warm_up(model, config)
                    is_warm = True
                measured = measure(model, recording, config, run=run, stop=stop, on_turn=on_turn)
                journal.add(key, config_document(config), measured)
            found = Outcome(measured)
        except (ConfigError, ContextFullError) as error:
            found = Outcome(None, str(error))
        if on_point is not None:
            on_point(number, found, was_stored)
        return found

    reference = outcome(-1, lambda: reference_config(model, recording, settings))
    outcomes = []
    for number in range(len(grid)):
        values = grid.values(number)
        outcomes.append(
            outcome(number, lambda: point_config(recording, policy, values, settings, options))  # noqa: B023
        )
    return Tuning(policy, grid, reference, tuple(outcomes))


def point_config(
    recording: Recording,
    policy: str,
    values: Mapping[str, Any],
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> SessionConfig:
    """Settings of one point.

    Raises:
        ConfigError: if one of them is out of range by itself.
    """
    of_session = {name: value for name, value in values.items() if name in SETTINGS}
    of_policy = {name: value for name, value in values.items() if name not in SETTINGS}
    return recording.session_config(
        **{
            **_CHEAP,
            **settings,
            **of_session,
            "policy": policy,
            "policy_options": {**options, **of_policy},
        }
    )


def reference_config(model: Model, recording: Recording, settings: Mapping[str, Any]) -> SessionConfig:
    """Settings under which the whole recorded session stays: nothing is evicted, nothing renumbered.

    Raises:
        ConfigError: if it is longer than what the model was trained for.
    """
    trained, length = model.shape.n_ctx_train, recording.length
    if 0 < trained < length:
        raise ConfigError(
            f"the session has {length:,} tokens and {model.name} was trained for {trained:,} at a time"
        )
    # Room beside it, so that a session of pinned texts alone is not refused.
    budget = max(MINIMUM_BUDGET, length + 64)
    budget = min(budget, trained) if trained > 0 else budget
    headroom = settings.get("headroom", recording.config.get("headroom", SessionConfig().headroom))
    return recording.session_config(
        **{
            **_CHEAP,
            **settings,
            "policy": "none",
            "policy_options": {},
            "budget": budget,
            "position_cap": budget + headroom,
            "bound_positions": None,
            "soft_target": 1.0,
            "evict_every": None,
            "recent": 0,
        }
    )


def point_key(recording: Recording, identity: str, config: SessionConfig) -> str:
    """What a point is stored under: a hash of the recording, the model and all settings."""
    what = {
        "recording": recording.digest,
        "model": identity,
        "settings": config_document(config),
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def warm_up(model: Model, config: SessionConfig) -> None:
    """Read a little, so that the first point does not pay for loading the weights' pages.

    Raises:
        ConfigError: if there can be no session with these settings.
    """
    with Session(model, config=config) as session:
        session.append("warm", kind="user")
