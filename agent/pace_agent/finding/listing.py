"""Listing the files of a folder, as deep as there is room for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import Entry, Walk, shown
from pace_agent.safety.paths import Place, Territory
from pace_agent.safety.protected import protection

MOST_FILES = 100_000
"""Files that a listing or a search looks at."""

LEAST_SHOWN = 200
"""Characters that :meth:`Listing.shown` needs to say anything."""

_LARGE = 100_000
"""Bytes from which on a file's size is shown."""
_NAMED = 5
"""Ignored folders that are named."""


@dataclass(frozen=True)
class Listed:
    """One file, symbolic link, or folder without files."""

    path: str
    """From the repository, with ``/``; absolute in another folder."""

    parts: tuple[str, ...]
    """From the folder that is listed."""

    size: int = 0
    """Bytes."""

    target: str | None = None
    """Of a symbolic link: where it leads, as it says."""

    protection: str | None = None
    """Why it is not to be read; None if it may be."""

    is_folder: bool = False

    def __str__(self) -> str:
        """As a model is shown it, on one line."""
        if self.is_folder:
            return f"{shown(self.path)}/ (no files)"
        if self.target is not None:
            return f"{shown(self.path)} -> {shown(self.target)}"
        if self.protection is not None:
            return f"{shown(self.path)} (protected)"
        return shown(self.path) + (f" ({_size(self.size)})" if self.size >= _LARGE else "")


@dataclass(frozen=True)
class Listing:
    """What is in a folder."""

    folder: str
    entries: tuple[Listed, ...]
    """In the order of their names, folder by folder, to any depth."""

    notes: tuple[str, ...]
    """What was not looked at, a sentence each."""

    most: int
    """Lines that are shown."""

    depth: int | None
    """Levels of folders that are shown if there is room, 1 being the folder itself; None: all."""

    def shown(self, limit: int = 4_000) -> str:
        """A text for a model: paths to be used as they stand, a line each.

        It goes as deep as there is room for; of a folder whose files are not shown, their number is.

        Args:
            limit: characters; of less than :data:`LEAST_SHOWN` it makes that many.
        """
        limit = max(limit, LEAST_SHOWN)
        files = sum(not entry.is_folder for entry in self.entries)
        head = f"{shown(self.folder)}: {files:,} {'file' if files == 1 else 'files'}"
        notes = "\n".join(self.notes)
        notes = notes if len(notes) <= limit // 3 else notes[: limit // 3 - 1] + "…"
        head = head if len(head) <= limit // 3 else "…" + head[1 - limit // 3 :]
        room = limit - len(head) - (len(notes) + 1 if notes else 0)
        lines = self.lines(1)
        for depth in range(2, self._deepest() + 1):
            deeper = self.lines(depth)
            if len(deeper) > self.most or sum(len(line) + 1 for line in deeper) > room:
                break
            lines = deeper
        shorter = lines[: self.most]
        while len(shorter) < len(lines) or sum(len(line) + 1 for line in shorter) > room:
            said = f"… {len(lines) - len(shorter):,} more"
            if len(shorter) < len(lines) and sum(len(line) + 1 for line in (*shorter, said)) <= room:
                shorter = [*shorter, said]
                break
            shorter = shorter[:-1]
        return "\n".join([head, *shorter, *([notes] if notes else [])])

    def lines(self, depth: int) -> list[str]:
        """One line for each entry down to a depth, and for each folder there with the number of its files."""
        lines: list[str] = []
        below: tuple[str, ...] = ()
        count = 0
        for entry in self.entries:
            if len(entry.parts) <= depth:
                lines.append(str(entry))
                continue
            folder = entry.parts[:depth]
            if folder != below:
                below, count = folder, 0
                lines.append("")
            count += not entry.is_folder
            above = len(entry.path) - len("/".join(entry.parts[depth:])) - 1
            lines[-1] = f"{shown(entry.path[:above])}/ ({count:,} {'file' if count == 1 else 'files'})"
        return lines

    def _deepest(self) -> int:
        deepest = max((len(entry.parts) for entry in self.entries), default=1)
        return deepest if self.depth is None else min(self.depth, deepest)


def list_files(
    territory: Territory, below: str = ".", *, most: int = 200, depth: int | None = None
) -> Listing:
    """What is in a folder: files that are not ignored, and symbolic links, which are not followed.

    Args:
        territory: where it may look.
        below: the folder; one that is named is listed even if it is ignored.
        most: lines to show.
        depth: levels of folders to show; None: as many as there is room for.

    Raises:
        ToolError: it is not there, or is no folder.
        RefusedError: it is outside or protected.
    """
    place = territory.find(below or ".")
    territory.check(place)
    if not place.path.is_dir():
        if place.path.exists():
            raise ToolError(f"{place.shown!r} is a file; read it, or list its folder")
        raise ToolError(f"no such folder: {place.shown!r}; list the folder above it")
    walk = Walk(Ignoring(place.path), most_files=MOST_FILES)
    entries = tuple(_listed(territory, place, walk))
    return Listing(place.shown, entries, tuple(walk_notes(place, walk)), most, depth)


def _listed(territory: Territory, folder: Place, walk: Walk) -> Iterator[Listed]:
    """Entries of a walk; a folder is one only if nothing follows from within."""
    empty: Entry | None = None
    for entry in walk:
        if empty is not None and not entry.path.startswith(empty.path + "/"):
            yield _entry(territory, folder, empty)
        empty = entry if entry.is_folder else None
        if not entry.is_folder:
            yield _entry(territory, folder, entry)
    if empty is not None:
        yield _entry(territory, folder, empty)


def _entry(territory: Territory, folder: Place, entry: Entry) -> Listed:
    place = place_in(territory, folder, entry.path)
    target = None
    if entry.is_link:
        with suppress(OSError):
            target = os.readlink(folder.path / entry.path)
    return Listed(
        place.shown,
        tuple(entry.path.split("/")),
        entry.status.st_size,
        target,
        place.protection,
        entry.is_folder,
    )


def place_in(territory: Territory, folder: Place, path: str) -> Place:
    """The place of what a walk from a folder came across: no link is on the way to it."""
    parts = (*folder.parts, *path.split("/"))
    is_at_top = not folder.parts and folder.root == territory.repository
    why = protection(parts)
    whole = Path(folder.root, *parts)
    if why is not None:
        with suppress(ToolError, RefusedError):  # the user may have named it
            why = territory.find(str(whole)).protection
    return Place(whole, folder.root, parts, path if is_at_top else f"{folder.shown}/{path}", why)


def walk_notes(folder: Place, walk: Walk) -> Iterator[str]:
    """What a walk from a folder left out, a sentence each."""
    ignored = [path for path in walk.ignored if path.rpartition("/")[2] != ".git"]
    if ignored:
        more = f" and {len(ignored) - _NAMED:,} more" if len(ignored) > _NAMED else ""
        yield f"ignored: {', '.join(_below(folder, path) + '/' for path in ignored[:_NAMED])}{more}"
    if walk.cut_off:
        yield f"more than {walk.files:,} files: the rest was not looked at; name a folder"
    for path, reason in sorted(walk.unreadable.items()):
        yield f"cannot read {_below(folder, path)}: {reason}"


def _below(folder: Place, path: str) -> str:
    if not path:
        return shown(folder.shown)
    return shown(path if folder.shown == "." else f"{folder.shown}/{path}")


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
