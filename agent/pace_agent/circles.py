"""Noticing that the model makes the same call with the same result again and again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pace_agent.ways_out import GoesInCircles

WARN_AT = 3
STOP_AT = 5


class Circles:
    """Counts calls with their results, until something was changed."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def changed(self) -> None:
        """A file was changed: what was tried before may have another result now."""
        self._counts.clear()

    def note(self, tool: str, arguments: Mapping[str, Any], result: str) -> bool:
        """Count a call; returns whether the model should be warned.

        Raises:
            GoesInCircles: at the fifth time.
        """
        key = (tool, json.dumps(arguments, sort_keys=True, default=str), result)
        self._counts[key] += 1
        if self._counts[key] >= STOP_AT:
            raise GoesInCircles(f"{tool} was called {STOP_AT} times in the same way, with the same result")
        return self._counts[key] == WARN_AT
