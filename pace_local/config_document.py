"""Settings of a session as plain values for JSON, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pace_local.config import SessionConfig


def config_document(config: SessionConfig) -> dict[str, Any]:
    """All settings by name; where JSON has no form for a value, such as a tuple, writing it finds another."""
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {**settings, "policy_options": dict(config.policy_options)}


def config_of(document: Mapping[str, Any]) -> SessionConfig:
    """The settings that :func:`config_document` gave, also after they went through JSON.

    What the document leaves out has its default.

    Raises:
        ConfigError: for a setting that is unknown or out of range.
    """
    settings = dict(document)
    options = settings.get("policy_options")
    if isinstance(options, Mapping):
        # JSON has no tuples: lists are what it made of them.
        settings["policy_options"] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
        }
    return SessionConfig().replace(**settings)
