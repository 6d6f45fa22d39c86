"""Figures of a session: what is resident, how far it is, what it holds and what it cost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReadStats:
    """One planned read, as it stands now."""

    name: str
    step: int
    """Steps until it is read; 0: the current step."""
    tokens: int
    resident: int
    nearest: int | None
    """Positions between the next token and the nearest resident token of it; None: nothing is resident."""
    farthest: int | None


@dataclass(frozen=True)
class TurnStats:
    """One turn: all that was read since the last answer ended, and the answer. Times in seconds."""

    policy: str
    session_tokens: int
    """Tokens of the session so far."""
    residents: int
    budget: int
    next_position: int
    position_cap: int | None
    """None where positions are unbounded."""
    highest_position: int
    """Highest position that any token of the session ever had."""
    evicted: int
    """Tokens evicted in this turn."""
    evictions: int
    renumberings: int
    evicted_in_session: int
    renumberings_in_session: int
    prompt_tokens: int
    prompt_seconds: float
    generated_tokens: int
    generated_seconds: float
    planning_seconds: float
    """Choosing who stays."""
    eviction_seconds: float
    """That, merging, and telling the cache."""
    renumbering_seconds: float
    reads: tuple[ReadStats, ...]
    key_bytes: int
    value_bytes: int
    reference_bytes: int
    scratch_bytes: int
    attention_bytes: int
    """What is measured of attention, on the device."""
    host_bytes: int
    """Resident set of this process."""
    device_bytes: dict[str, int]
    """Used memory of each device other than the CPU, as its driver says."""
    saved_host_bytes: int = 0
    """Main memory that saved keys and values take; part of ``host_bytes``."""
    saved_disk_bytes: int = 0
    """Disk that they take."""

    @property
    def residency(self) -> float | None:
        """Share of the current step's reads that is resident, by tokens; None if it reads nothing."""
        current = [read for read in self.reads if read.step == 0]
        total = sum(read.tokens for read in current)
        return sum(read.resident for read in current) / total if total else None

    @property
    def kv_bytes(self) -> int:
        """Keys, values and references."""
        return self.key_bytes + self.value_bytes + self.reference_bytes

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain values, with the derived ones."""
        return {**dataclasses.asdict(self), "residency": self.residency, "kv_bytes": self.kv_bytes}

    def lines(self) -> list[str]:
        """A summary for people."""
        bound = f"cap {self.position_cap:,}" if self.position_cap is not None else "unbounded"
        lines = [
            f"session {self.session_tokens:,} tokens · resident {self.residents:,} of {self.budget:,} · "
            f"positions below {self.next_position:,} ({bound}) · policy {self.policy}",
            f"evicted {self.evicted_in_session:,} tokens · renumbered {self.renumberings_in_session} times "
            f"({self.renumbering_seconds * 1000:.0f} ms this turn)",
            f"KV {_megabytes(self.kv_bytes)} (K {_megabytes(self.key_bytes)}, "
            f"V {_megabytes(self.value_bytes)}, references {_megabytes(self.reference_bytes)}) · "
            f"host memory {_megabytes(self.host_bytes)}",
            f"read {self.prompt_tokens:,} tokens in {self.prompt_seconds:.1f} s "
            f"({_rate(self.prompt_tokens, self.prompt_seconds)}) · "
            f"wrote {self.generated_tokens:,} in {self.generated_seconds:.1f} s "
            f"({_rate(self.generated_tokens, self.generated_seconds)})",
        ]
        if self.saved_host_bytes or self.saved_disk_bytes:
            lines.append(
                f"saved for recall: {_megabytes(self.saved_host_bytes)} in memory, "
                f"{_megabytes(self.saved_disk_bytes)} on disk"
            )
        for read in self.reads:
            if read.step == 0:
                distance = (
                    "gone"
                    if read.nearest is None
                    else f"{read.nearest:,} to {read.farthest:,} positions away"
                )
                lines.append(
                    f"reads {read.name}: {read.resident:,} of {read.tokens:,} tokens resident, {distance}"
                )
        return lines


@dataclass
class Counters:
    """What a session counts while it runs."""

    evicted: int = 0
    evictions: int = 0
    renumberings: int = 0
    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    generated_tokens: int = 0
    generated_seconds: float = 0.0
    planning_seconds: float = 0.0
    eviction_seconds: float = 0.0
    renumbering_seconds: float = 0.0
    highest_position: int = field(default=-1)

    def copy(self) -> Counters:
        """As it is now."""
        return dataclasses.replace(self)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.0f} tokens/s" if seconds > 0 else "–"
