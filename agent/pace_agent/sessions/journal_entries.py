"""What a journal holds: changes of files, with what was there before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class State:
    """What a file holds; None in its place: there is no file."""

    hash: str
    """Of its content."""
    mode: int
    """Its permissions."""


@dataclass(frozen=True)
class Change:
    """A change of one file, as journalled before it was made, or after it if a command made it."""

    path: Path
    before: State | None
    after: str | None
    """Hash of the content afterwards; None: the file is deleted."""


@dataclass(frozen=True)
class Entry:
    """Changes that were made together in a turn."""

    turn: int
    """In which they were made; of a command's change, that of the agent's change before it."""
    changes: tuple[Change, ...]
    folders: tuple[Path, ...]
    """Folders that were not there, outermost first."""

    def line(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        return {
            "kind": "change",
            "turn": self.turn,
            "changes": [
                {"path": str(one.path), "before": one.before and asdict(one.before), "after": one.after}
                for one in self.changes
            ],
            "folders": [str(folder) for folder in self.folders],
        }

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Entry:
        """The entry that a JSON object holds.

        Raises:
            ValueError, TypeError, KeyError: if it holds none.
        """
        changes = tuple(
            Change(Path(one["path"]), one["before"] and State(**one["before"]), one["after"])
            for one in line["changes"]
        )
        return cls(int(line["turn"]), changes, tuple(map(Path, line["folders"])))


def is_ours(path: Path, now: State | None, entries: Iterable[Entry]) -> bool:
    """Whether what a file holds, and what it held between the changes, came from the journalled changes.

    A change may not have been made (the process was killed, or the file was stale at the last moment), and an
    undo may have been killed when this file was restored already.
    """
    changes = [change for entry in entries for change in entry.changes if change.path == path]
    first = changes[0].before and changes[0].before.hash
    possible = {first}
    for change in changes:
        before = change.before and change.before.hash
        if before not in possible:
            return False
        possible = {first, before, change.after}
    return (now and now.hash) in possible
