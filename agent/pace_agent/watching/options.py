"""How to watch a repository."""

from __future__ import annotations

from dataclasses import dataclass

from pace_agent.repository.walk import MOST_FILES
from pace_local.errors import ConfigError

_RANGES = {"quiet": (0.01, 60.0), "longest": (0.01, 600.0), "poll_seconds": (0.05, 3600.0)}


@dataclass(frozen=True)
class WatchOptions:
    """How to watch.

    Raises:
        ConfigError: when a number is out of range.
    """

    quiet: float = 0.3
    """Seconds without an event after which a batch is complete."""
    longest: float = 3.0
    """Seconds after which it is complete although events go on."""
    poll: bool = False
    """Scan again and again instead of relying on events, as network file systems need."""
    poll_seconds: float = 2.0
    """Seconds between scans; more where a scan takes long."""
    most_files: int = MOST_FILES
    """Files that are watched; what is beyond is said to be left out."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"{name} = {value} s is out of range; use {least:g} to {most:g}")
        if self.longest < self.quiet:
            raise ConfigError(
                f"longest = {self.longest} s is less than quiet = {self.quiet} s; use at least that"
            )
        if not 1 <= self.most_files <= 10_000_000:
            raise ConfigError(f"most_files = {self.most_files} is out of range; use 1 to 10000000")
