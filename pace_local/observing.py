"""What a session knows of its attention: measured natively, read when someone is about to decide by it."""

from __future__ import annotations

from pace_local._native import NativeCache
from pace_local.policies.base import Attention, Observation
from pace_local.residents import ResidentMap

_FEWEST_ROWS = 32
"""Query rows of the end of a prompt that count, where all rows are observed."""


class Observer:
    """Measures attention on one cache.

    Args:
        cache: that of the session.
        observation: what to measure.

    Raises:
        NativeError: ``INVALID_ARGUMENT`` for layers that the model does not have.
    """

    def __init__(self, cache: NativeCache, observation: Observation) -> None:
        self._cache = cache
        self.observation = observation
        cache.observe(**observation.options())

    def attention(self, residents: ResidentMap) -> Attention:
        """What each resident has received so far."""
        return Attention(
            total=self._cache.attention("total"),
            window=self._cache.attention("steps", self.observation.window),
            prompt=residents.prompt_mass.copy(),
        )

    def note_prompt(self, residents: ResidentMap) -> None:
        """A prompt has been read to where it is now: remember what its last rows attend to."""
        rows = self.observation.queries or _FEWEST_ROWS
        residents.prompt_mass[:] = self._cache.attention("queries", rows)
