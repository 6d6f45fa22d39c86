"""Grids over a policy's parameters and over the settings that decide when it evicts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pace_local.errors import ConfigError
from pace_local.policies import policy_named
from pace_local.policies.words import parse_values

SETTINGS = ("budget", "soft_target", "evict_every")
"""Settings of a session that can be an axis beside the policy's parameters."""

MOST_IN_PRODUCT = 27
"""A grid of all combinations has at most so many points unless it was asked for: three values of three."""


@dataclass(frozen=True)
class Axis:
    """A parameter or setting and the values that it takes, neighbours next to each other."""

    name: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Axis:
        """Numbers in rising order, anything else as given; each once."""
        distinct = list(dict.fromkeys(values))
        if all(isinstance(value, (int, float)) for value in distinct):
            distinct.sort()
        return cls(name, tuple(distinct))


@dataclass(frozen=True)
class Grid:
    """Points on axes: for each point, the number of its value on each axis."""

    axes: tuple[Axis, ...]
    places: tuple[tuple[int, ...], ...]

    @classmethod
    def product(cls, axes: Sequence[Axis]) -> Grid:
        """All combinations, the last axis running fastest."""
        return cls(tuple(axes), tuple(itertools.product(*(range(len(axis.values)) for axis in axes))))

    @classmethod
    def star(cls, axes: Sequence[Axis], centre: tuple[int, ...]) -> Grid:
        """The centre first, and then every point that differs from it on one axis."""
        arms = [
            (*centre[:number], value, *centre[number + 1 :])
            for number, axis in enumerate(axes)
            for value in range(len(axis.values))
            if value != centre[number]
        ]
        return cls(tuple(axes), (centre, *arms))

    def __len__(self) -> int:
        """Number of points."""
        return len(self.places)

    def values(self, point: int) -> dict[str, Any]:
        """Name and value on each axis."""
        place = self.places[point]
        return {axis.name: axis.values[number] for axis, number in zip(self.axes, place, strict=True)}

    def neighbours(self, point: int) -> list[int]:
        """Points that are one step away on one axis."""
        here = self.places[point]
        return [
            other
            for other, place in enumerate(self.places)
            if sum(abs(a - b) for a, b in zip(here, place, strict=True)) == 1
        ]

    def edges(self, point: int) -> list[str]:
        """Axes on which the point has the first or last of several numbers, so that none beyond was tried."""
        found = []
        for axis, number in zip(self.axes, self.places[point], strict=True):
            is_number = type(axis.values[number]) in (int, float)
            if is_number and len(axis.values) > 1 and number in (0, len(axis.values) - 1):
                found.append(axis.name)
        return found


def parse_axes(text: str) -> list[Axis]:
    """Axes from a text such as ``window=512,1024;pool_size=128,256``.

    Raises:
        ConfigError: with the part that is not of that form.
    """
    axes = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, values = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise ConfigError(f"grid {part!r} is not NAME=VALUE,VALUE; separate parameters by semicolons")
        axes.append(Axis.of(name, parse_values(values, name)))
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"the grid names {name!r} twice; give all its values at once")
    if not axes:
        raise ConfigError("the grid is empty; give NAME=VALUE,VALUE or leave it out")
    return axes


def check_parameters(policy: str, axes: Sequence[Axis]) -> None:
    """Refuse axes that are no parameters of a policy.

    Raises:
        ConfigError: with the parameters that it has; also for an unknown policy.
    """
    known = policy_named(policy).parameters()
    for axis in axes:
        if axis.name not in known:
            raise ConfigError(
                f"policy {policy!r} has no parameter {axis.name!r}; it has {', '.join(known) or 'none'}"
            )


def default_grid(policy: str, options: Mapping[str, Any], target: int, settings: Sequence[Axis]) -> Grid:
    """Half, same and double of every number among a policy's parameters, with further axes given.

    Values that the policy refuses by themselves are left out. A size in tokens that is ``None`` gets a
    quarter and three quarters of what an eviction leaves as its neighbours. A number that is 0 stays as it
    is, having neither half nor double. All combinations, if that is at most :data:`MOST_IN_PRODUCT` points;
    otherwise each parameter is varied alone.

    Args:
        policy: its name.
        options: its parameters that differ from the defaults.
        target: tokens that an eviction leaves.
        settings: axes that are not parameters.

    Raises:
        ConfigError: for an unknown policy, or bad options.
    """
    instance = policy_named(policy, options)
    fields: Mapping[str, Any] = getattr(instance, "__dataclass_fields__", {})
    axes: list[Axis] = []
    centre: list[int] = []
    for name, value in instance.parameters().items():
        values: list[Any] = []
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            values = [value // 2 if isinstance(value, int) else value / 2, value, 2 * value]
        elif value is None and "int" in str(fields[name].type).split(" | "):
            values = [target // 4, None, 3 * target // 4]
        values = [item for item in dict.fromkeys(values) if _is_possible(policy, options, name, item)]
        if len(values) > 1:
            axes.append(Axis(name, tuple(values)))
            centre.append(values.index(value))
    axes += settings
    grid = Grid.product(axes)
    if len(grid) <= MOST_IN_PRODUCT or not centre:
        return grid
    return Grid.star(axes, (*centre, *(0 for _ in settings)))


def _is_possible(policy: str, options: Mapping[str, Any], name: str, value: Any) -> bool:
    try:
        policy_named(policy, {**options, name: value})
    except ConfigError:
        return False
    return True
