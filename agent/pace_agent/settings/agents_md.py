"""Instructions for agents: the user's own AGENTS.md, and those from the repository's root down to a folder.

They are read once, when a session begins, and stand at its start. If one changes later, the change is told
behind what is there already, so that nothing is read again.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pace_agent.errors import RefusedError, ToolError
from pace_agent.files.file_state import content_hash
from pace_agent.safety.paths import Territory
from pace_agent.watching.changes import diff_of
from pace_local.models.choose import config_path

NAME = "AGENTS.md"

MOST_BYTES = 32 * 1024
"""Of all instructions together, in UTF-8."""

_LONGEST_DIFF = 2_000
"""Characters."""

_FIRST_LINE = "Instructions of the user and the project. Where they disagree, the later ones count."


@dataclass(frozen=True)
class Part:
    """One AGENTS.md."""

    path: str
    """From the repository, with ``/``; of the user's own one, absolute."""

    text: str
    """As far as there was room for it; line ends are ``\\n``."""

    hash: str
    """Of ``text``, as :func:`pace_agent.files.file_state.content_hash` has it."""

    @property
    def title(self) -> str:
        """What it is for, in a line."""
        if os.path.isabs(self.path):
            return f"## {NAME} of the user"
        folder = self.path.rpartition("/")[0]
        if not folder:
            return f"## {NAME} of the project"
        return f"## {self.path}, for the folder {folder}: goes before those of the folders above it"


@dataclass(frozen=True)
class Instructions:
    """All that hold for a folder."""

    text: str
    """For the model; empty if there are none."""

    parts: tuple[Part, ...]
    """The user's own first, then from the root down."""

    warnings: tuple[str, ...] = ()
    """What was left out, or cut, and why; for the user to see."""


@dataclass(frozen=True)
class _Found:
    """A file before it is known how much room there is for it."""

    path: str
    data: bytes
    """Its beginning."""
    is_whole: bool


def read_instructions(
    repository: str | os.PathLike[str],
    folder: str | os.PathLike[str] = ".",
    *,
    is_trusted: bool,
    also: Callable[[Path], bool] = lambda folder: False,
    user_file: Path | None = None,
    most_bytes: int = MOST_BYTES,
) -> Instructions:
    """The instructions that hold for a folder of a repository.

    If they are too long, the user's own are kept first, then those of the deepest folder.

    Trust is for one folder. What stands above it is read as well if it is by whom the folder is by, or by the
    user, and nobody else could have put it there.

    Args:
        repository: its root.
        folder: in it; a relative path starts from the root.
        is_trusted: whether the user trusts the folder; else only their own instructions are read.
        also: whether they trust another one, resolved, that is above it.
        user_file: the user's own; None: ``AGENTS.md`` in their config folder.
        most_bytes: of all together, in UTF-8.

    Raises:
        ToolError: if the repository is no folder.
        RefusedError: if the folder is not in it.
    """
    warnings: list[str] = []
    own = config_path().with_name(NAME) if user_file is None else user_file
    found = [_read_own(own, most_bytes, warnings)]
    territory = Territory(repository)
    place = territory.find(os.fspath(folder))
    parts = place.parts
    seen: set[Path] = set()
    for depth in range(len(parts) + 1):
        path = "/".join((*parts[:depth], NAME))
        if not os.path.lexists(territory.repository / path):
            continue
        if not is_trusted:
            warnings.append(f"{path} is not used: the folder is not trusted")
            continue
        above = territory.repository.joinpath(*parts[:depth])
        if depth < len(parts) and not also(above) and not _is_from(place.path, above):
            warnings.append(
                f"{path} is not used: others than you, or whom {place.path} belongs to, may have put it into "
                f"{above}; trust that folder too"
            )
            continue
        found.append(_read_in(territory, path, most_bytes, seen, warnings))
    return _fitted([each for each in found if each is not None], most_bytes, warnings)


def changed(before: Instructions, after: Instructions) -> str | None:
    """What to tell a model that has read the instructions as they were; None if they are as they were.

    A change is told as a diff if that is short, else by the whole new text.
    """
    old = {part.path: part for part in before.parts}
    new = {part.path: part for part in after.parts}
    blocks = [f"{path} is gone: what it said no longer holds." for path in old if path not in new]
    for path, part in new.items():
        was = old.get(path)
        if was is None:
            blocks.append(f"{path} is new:\n{part.title}\n{part.text}")
        elif was.hash != part.hash:
            diff = diff_of(path, was.text, part.text, _LONGEST_DIFF)
            is_short = diff.startswith("--- ") and len(diff) < len(part.text)
            blocks.append(
                f"{path} has changed:\n{diff.rstrip()}" if is_short else f"{path} now says:\n{part.text}"
            )
    if not blocks:
        return None
    return "\n\n".join(["The instructions have changed; this holds from now on.", *blocks])


def _is_from(trusted: Path, above: Path) -> bool:
    """Whether the AGENTS.md of a folder above a trusted one is by the user, or by that one's owner."""
    if os.name != "posix":
        return True
    try:
        owners = {os.geteuid(), os.stat(trusted).st_uid}
        found = [os.stat(path) for path in (above, above / NAME)]
    except OSError:
        return False
    return all(each.st_uid in owners and not each.st_mode & stat.S_IWOTH for each in found)


def _read_own(path: Path, most: int, warnings: list[str]) -> _Found | None:
    if not os.path.lexists(path):
        return None
    try:
        if not path.is_file():  # opening a pipe would wait
            warnings.append(f"{path} is not used: it is no regular file")
            return None
        with path.open("rb") as file:
            return _found(str(path.absolute()), file, most)
    except OSError as error:
        warnings.append(f"{path} is not used: {error.strerror or error}")
        return None


def _read_in(
    territory: Territory, path: str, most: int, seen: set[Path], warnings: list[str]
) -> _Found | None:
    try:
        place = territory.find(path)
        if place.path in seen:  # a link to one that is above
            return None
        seen.add(place.path)
        with territory.opened(place) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return _found(path, file, most)
    except (RefusedError, ToolError, OSError) as error:
        warnings.append(f"{path} is not used: {error}")
        return None


def _found(path: str, file: BinaryIO, most: int) -> _Found:
    data = file.read(most + 1)
    return _Found(path, data[:most], len(data) <= most)


def _fitted(found: list[_Found], most: int, warnings: list[str]) -> Instructions:
    """The instructions in as many bytes as there is room for."""
    # The user's own first: no repository can push them out. Then those that go before others.
    order = sorted(found, key=lambda each: (not os.path.isabs(each.path), -found.index(each)))
    kept: dict[str, Part] = {}
    room = most
    for each in order:
        try:
            text, is_cut = _text(each, room)
        except ValueError as error:
            warnings.append(f"{each.path} is not used: {error}")
            continue
        if is_cut:
            how = f"cut after {len(text.encode()):,} bytes" if text else "left out"
            warnings.append(f"{each.path} is {how}: all instructions together have {most:,} bytes of room")
        if text:
            room -= len(text.encode())
            kept[each.path] = Part(each.path, text, content_hash(text.encode()))
    parts = tuple(kept[each.path] for each in found if each.path in kept)
    blocks = [f"{part.title}\n{part.text}" for part in parts]
    return Instructions("\n\n".join([_FIRST_LINE, *blocks]) if blocks else "", parts, tuple(warnings))


def _text(found: _Found, room: int) -> tuple[str, bool]:
    """The beginning of a file in at most ``room`` bytes, and whether it was cut.

    It is cut behind a line, or within the first one if that alone is too long.

    Raises:
        ValueError: if it is no text.
    """
    data = found.data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").lstrip(b"\n")
    if found.is_whole:
        data = data.rstrip(b"\n")
    if b"\0" in data:
        raise ValueError("it is no text")
    is_cut = not found.is_whole or len(data) > room
    if is_cut:
        border = data.rfind(b"\n", 0, room + 1)
        data = data[: border if border > 0 else room]
    try:
        # Not final: half a character at the cut is left out.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"it is not UTF-8 text (line {line})") from None
    return text.rstrip(), is_cut
