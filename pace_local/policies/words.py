"""Parameters of policies as people write them on a command line."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from pace_local.errors import ConfigError


def parse_parameters(settings: Sequence[str]) -> dict[str, Any]:
    """Parameters from texts such as ``window=512``; several values with commas are a tuple.

    Raises:
        ConfigError: with the text that is not of that form.
    """
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"--set {setting!r} is no parameter; give NAME=VALUE")
        if name in parameters:
            raise ConfigError(f"--set names {name!r} twice; give it one value")
        values = parse_values(text, name)
        parameters[name] = values[0] if len(values) == 1 else tuple(values)
    return parameters


def parse_values(text: str, name: str) -> list[Any]:
    """Values separated by commas: whole numbers, decimals, true, false, none, else words.

    Raises:
        ConfigError: if one of them is empty.
    """
    return [_value(word.strip(), name) for word in text.split(",")]


def _value(word: str, name: str) -> Any:
    if not word:
        raise ConfigError(f"a value of {name!r} is empty; give NAME=VALUE,VALUE")
    named = {"true": True, "false": False, "none": None}
    if word.lower() in named:
        return named[word.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            value = kind(word)
            if not math.isfinite(value):
                raise ConfigError(f"{word!r} is no value for {name!r}; give numbers that have an end")
            return value
    return word
