"""Versions of a log's form, and how older ones are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pace_local.json_fields import whole

FORMAT = 1
"""Version of the form in which this program writes a session's log."""

Record = dict[str, Any]
Upgrade = Callable[[Record], Record]
"""Turns a record of one version into one of the next; the header too, but for its ``format``."""


@dataclass(frozen=True)
class Versions:
    """Which versions can be read.

    Args:
        newest: the one that is written.
        upgrades: by the version that each starts from.
    """

    newest: int
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    @property
    def oldest(self) -> int:
        """From which on every version has an upgrade to the next."""
        version = self.newest
        while version - 1 in self.upgrades:
            version -= 1
        return version

    def of(self, header: Mapping[str, Any]) -> int:
        """The version that a log's header names.

        Raises:
            ValueError: if it names none, or one that cannot be read.
        """
        version = whole(header, "format")
        if self.oldest <= version <= self.newest:
            return version
        known = f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.newest}"
        if version > self.newest:
            raise ValueError(
                f"format {version} is newer than this version of pace reads ({known}); use a newer pace"
            )
        raise ValueError(f"format {version} is older than this version of pace reads ({known})")

    def upgraded(self, record: Record, version: int) -> Record:
        """A record of some version as one of the newest.

        Raises:
            ValueError: if the record is not of that version's form.
        """
        if version == self.newest:
            return record
        try:
            for step in range(version, self.newest):
                record = self.upgrades[step](record)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"it does not fit format {version}: {error!r}") from None
        return {**record, "format": self.newest} if record.get("type") == "header" else record


VERSIONS = Versions(FORMAT)
"""There is one version so far, and nothing to upgrade."""
