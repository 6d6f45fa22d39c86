"""Values out of a JSON object, each checked for its type. All raise ValueError with the name of the field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pace_local.plan import Step

T = TypeVar("T")

_LONGEST_SHOWN = 47
"""Characters of a wrong value that a message shows."""


def as_object(document: object) -> Mapping[str, Any]:
    """The document, if it is an object."""
    if isinstance(document, Mapping):
        return document
    raise ValueError(f"{_quoted(document)} is no JSON object")


def required(document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A field that must be there; a bool is no int."""
    found = document.get(name)
    if type(found) is kind:
        return found
    raise ValueError(f"{name!r} is {_quoted(found)}; it must be of type {kind.__name__}")


def optional(document: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """A field that may be missing or null."""
    return required(document, name, kind) if document.get(name) is not None else None


def whole(document: Mapping[str, Any], name: str) -> int:
    """A whole number, 0 or more."""
    found = required(document, name, int)
    if found < 0:
        raise ValueError(f"{name!r} is {found}; it must be 0 or more")
    return found


def one_of(document: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    """A string that must be one of a few."""
    found = required(document, name, str)
    if found not in known:
        raise ValueError(f"{name!r} is {_quoted(found)}, not one of {', '.join(known)}")
    return found


def texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings."""
    found = required(document, name, list)
    if not all(isinstance(item, str) for item in found):
        raise ValueError(f"{name!r} is {_quoted(found)}; it must be a list of strings")
    return tuple(found)


def token_ids(document: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """A list of token ids, 0 or more each."""
    found = required(document, name, list)
    if not all(type(item) is int and item >= 0 for item in found):
        raise ValueError(f"{name!r} is {_quoted(found)}; it must be a list of token ids")
    return tuple(found)


def numbers(document: Mapping[str, Any], name: str) -> dict[str, int | float]:
    """An object whose values are finite numbers."""
    found = required(document, name, dict)
    for key, value in found.items():
        if type(value) is not int and (type(value) is not float or not math.isfinite(value)):
            raise ValueError(f"{key!r} of {name!r} is {_quoted(value)}; it must be a finite number")
    return found


def rows(document: Mapping[str, Any], name: str, width: int) -> tuple[tuple[int, ...], ...]:
    """A list of rows of ``width`` whole numbers each."""
    return rows_of(required(document, name, list), name, width)


def rows_of(found: object, name: str, width: int) -> tuple[tuple[int, ...], ...]:
    """The same of a value that is already at hand."""
    if not isinstance(found, list):
        raise ValueError(f"{name!r} holds {_quoted(found)}; it must be a list")
    for row in found:
        if not isinstance(row, list) or len(row) != width or not all(type(item) is int for item in row):
            raise ValueError(f"{name!r} holds {_quoted(row)}; it must hold rows of {width} whole numbers")
    return tuple(map(tuple, found))


def step_of(document: object) -> Step:
    """The step of a plan that an object holds: its text, what it reads, and its prompt if it has one."""
    fields = as_object(document)
    return Step(required(fields, "text", str), texts(fields, "reads"), optional(fields, "prompt", str))


def _quoted(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
