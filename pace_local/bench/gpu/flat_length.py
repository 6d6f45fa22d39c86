"""How long ``flat`` may be in the time that is left."""

from __future__ import annotations

from dataclasses import dataclass

from pace_local.bench.flat import FlatSizes

_MARGIN = 1.25
"""Loading, renumbering, and what else a rate does not show."""


@dataclass(frozen=True)
class Rates:
    """Tokens a second of one session."""

    prompt: float
    decode: float


def flat_seconds(sizes: FlatSizes, samples: int, rates: Rates) -> float:
    """About how long ``measure_flat`` takes.

    Both sessions are brought to the early length; one goes on to the late one; and both are measured over a
    whole cycle, early and late.
    """
    read = sizes.read(samples, sizes.config(None))
    cycles = 2 * 2 * (samples + 1)
    return _MARGIN * (
        (sizes.early + sizes.late + cycles * read) / rates.prompt + cycles * (sizes.write + 1) / rates.decode
    )


def affordable_length(sizes: FlatSizes, samples: int, rates: Rates, seconds: float) -> int:
    """Session tokens, at most those asked for, that can be measured in so many seconds; 0: too few.

    A length has to be twice the early one, or there is no growth to see.
    """
    fixed = flat_seconds(sizes, samples, rates) - _MARGIN * sizes.late / rates.prompt
    affordable = int((seconds - fixed) * rates.prompt / _MARGIN)
    length = min(sizes.late, affordable)
    return length if length >= min(sizes.late, 2 * sizes.early) else 0
