"""One step as it is planned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedStep:
    """What a step does, and where."""

    text: str
    """What is to be done, for the model and for people."""
    files: tuple[str, ...] = ()
    """Files of the repository that it is about."""
    symbols: tuple[str, ...] = ()
    """Definitions that it is about, with their files: ``shop/orders.py:Orders.total``. Of a step that edits,
    these are what it changes, the likeliest first."""
    edits: bool = True
    """Whether it changes files."""
    reads: tuple[str, ...] = ()
    """What it needs and does not change: files, definitions, lines such as ``tests/test_x.py:10-20``."""
