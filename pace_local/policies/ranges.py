"""Checks of policies' parameters that are no plain number ranges."""

from __future__ import annotations

from pace_local.errors import ConfigError


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is no whole number in a range.

    Raises:
        ConfigError: with the value and the valid range.
    """
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(
            f"{name.replace('_', ' ')} {value!r} is out of range; use a whole number from {low} to {high}"
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is none of a few words.

    Raises:
        ConfigError: with the value and the choices.
    """
    if value not in choices:
        raise ConfigError(f"{name.replace('_', ' ')} {value!r} is not one of {', '.join(choices)}")
