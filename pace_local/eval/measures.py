"""What is measured of one probe, and what counts say of the chance behind them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Break = Literal["not resident", "too far", "facts not reused", "code wrong"]

_RESAMPLES = 4000
_Z95 = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Share:
    """``passed`` of ``total``, with Wilson's 95 % interval.

    The interval takes each as independent of the others. Checks of one answer are not: for checks it is
    narrower than it should be.
    """

    passed: int
    total: int

    def __add__(self, other: Share) -> Share:
        """Both together."""
        return Share(self.passed + other.passed, self.total + other.total)

    @property
    def rate(self) -> float:
        """Share from 0 to 1; 0 of nothing."""
        return self.passed / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end, 0 to 1."""
        return wilson(self.passed, self.total)


def wilson(passed: int, total: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson's score interval of a share; (0, 1) of nothing.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    assert 0 <= passed <= total
    if not total:
        return 0.0, 1.0
    rate, square = passed / total, z * z
    centre = rate + square / (2 * total)
    spread = z * math.sqrt(rate * (1 - rate) / total + square / (4 * total * total))
    scale = 1 + square / total
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if passed == 0 else (centre - spread) / scale
    high = 1.0 if passed == total else (centre + spread) / scale
    return low, high


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences, with a 95 % interval from resampling the pairs."""

    mean: float
    low: float
    high: float
    pairs: int


def paired_difference(ones: Sequence[float], others: Sequence[float]) -> Difference:
    """How much greater the first values are than the second, pair by pair; at least one pair.

    Percentile bootstrap over the pairs, always with the same random numbers. With few pairs the interval is
    too narrow; with one it has no width.
    """
    assert ones
    each = np.subtract(ones, others)
    drawn = np.random.default_rng(0).integers(len(each), size=(_RESAMPLES, len(each)))
    low, high = np.quantile(each[drawn].mean(axis=1), [0.025, 0.975])
    return Difference(float(each.mean()), float(low), float(high), len(each))


@dataclass(frozen=True)
class ReadMeasure:
    """One specification that a probe reads, when its answer begins."""

    name: str
    tokens: int
    resident: int
    nearest: int | None
    """Positions between the next token and the nearest resident token of it; None: nothing is resident."""
    farthest: int | None
    means: str | None
    """How it came to be resident; None: it was not brought."""
    reason: str | None


@dataclass(frozen=True)
class ProbeMeasure:
    """One probe: what was resident of what it needs, what came out, and what it cost."""

    run: str
    """Which run measured it."""
    cell: str
    seed: int
    number: int
    """From 1."""
    reads: tuple[ReadMeasure, ...]
    checks: tuple[tuple[bool, ...], ...]
    """Of each task: of each specification, in the order of ``reads``."""
    facts_recalled: int
    facts_total: int
    missing_facts: tuple[str, ...]
    failures: tuple[str, ...]
    """Error text of each check that failed."""
    broke: Break | None
    """Where the chain broke; None: all checks passed."""
    finish: str
    """Why the answer ended: stop or length."""
    prompt_tokens: int
    """Read for this probe, what was read again included."""
    generated_tokens: int
    seconds: float
    """From the question to the end of the answer, all that brought the reads included."""
    focus_seconds: float
    """Of these, starting the step with what it reads."""
    residents: int
    next_position: int
    session_tokens: int
    kv_bytes: int
    """Allocated, for all cells of the cache."""
    host_bytes: int
    device_bytes: int
    answer: str
    n_cells: int | None = None
    """Tokens that the cache has room for; None: measured before that was kept."""
    reference_bytes: int | None = None
    """Of ``kv_bytes``, those of the reference keys; None: measured before that was kept."""
    saved_host_bytes: int = 0
    """Main memory that keys and values of evicted tokens take, to be brought back; 0 also where it was
    measured before that was kept."""
    saved_disk_bytes: int = 0
    """Disk that they take."""
    work_seconds: float = 0.0
    """Reading the other work since the probe before; only where there is some."""

    @property
    def check_share(self) -> Share:
        each = [passed for checks in self.checks for passed in checks]
        return Share(sum(each), len(each))

    @property
    def task_share(self) -> Share:
        """A task is one function, or one question of another kind: all of its checks passed."""
        return Share(sum(map(all, self.checks)), len(self.checks))

    @property
    def fact_share(self) -> Share:
        return Share(self.facts_recalled, self.facts_total)

    @property
    def residency(self) -> float:
        """Share of the tokens of its reads that is resident."""
        return residency(self.reads)

    @property
    def farthest(self) -> int | None:
        """Greatest distance in positions to a resident token of its reads."""
        return farthest(self.reads)

    def as_document(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ProbeMeasure:
        """The measure that :meth:`as_document` gave; further entries are left out.

        Raises:
            KeyError, TypeError: if it is none.
        """
        fields = {
            field.name: document[field.name]
            for field in dataclasses.fields(cls)
            if field.name in document or field.default is dataclasses.MISSING
        }
        fields["reads"] = tuple(ReadMeasure(**read) for read in fields["reads"])
        fields["checks"] = tuple(tuple(checks) for checks in fields["checks"])
        fields["missing_facts"] = tuple(fields["missing_facts"])
        fields["failures"] = tuple(fields["failures"])
        return cls(**fields)


def residency(reads: tuple[ReadMeasure, ...]) -> float:
    """Share of the tokens of some reads that is resident; 1 of nothing."""
    total = sum(read.tokens for read in reads)
    return sum(read.resident for read in reads) / total if total else 1.0


def farthest(reads: tuple[ReadMeasure, ...]) -> int | None:
    """Greatest distance in positions to a resident token of some reads; None if none is resident."""
    return max((read.farthest for read in reads if read.farthest is not None), default=None)


def where_it_broke(
    reads: tuple[ReadMeasure, ...], checks: Share, facts: Share, n_ctx_train: int
) -> Break | None:
    """The first link of the chain that did not hold; None if all checks passed.

    Args:
        reads: what the probe reads.
        checks: of the whole probe.
        facts: of the whole probe.
        n_ctx_train: farthest distance that the model was trained for; 0: unknown.
    """
    if checks.passed == checks.total:
        return None
    if residency(reads) < 1:
        return "not resident"
    if n_ctx_train and any((read.farthest or 0) > n_ctx_train for read in reads):
        return "too far"
    return "facts not reused" if facts.passed < facts.total else "code wrong"
