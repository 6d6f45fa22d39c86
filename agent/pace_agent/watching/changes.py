"""What changed in a repository: typed changes, batches of them, and a short text of what changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pace_agent.files.file_state import content_hash
from pace_agent.repository.git_state import Head
from pace_agent.repository.walk import shown

Kind = Literal["created", "modified", "deleted", "moved"]
_LONGEST_COMPARED = 3_000
"""Lines between the common start and end of two texts; beyond it, comparing them takes seconds."""
_CONTEXT = 2
"""Lines around a change that a diff shows."""
_Opcode = tuple[str, int, int, int, int]
"""As :mod:`difflib` has it: what to do, and which lines of the old and the new part."""
_EDITOR_FILE = re.compile(
    r"""
    .*~                              # backups: Emacs, Vim, gedit, Kate
    | 4913                           # Vim, trying whether it may write in the folder
    | \..*\.(?:sw[a-px]|un~|kate-swp)  # Vim's swap and undo files, Kate's swap file
    | \.?\#.*                        # Emacs: lock and auto-save files
    | \.goutputstream-\w+            # GLib
    | .*___jb_(?:tmp|old)___         # JetBrains
    | \.~lock\..*\#                  # LibreOffice
    | .*\.crswap                     # Chromium
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Change:
    """One file that is not as it was. Paths are relative to the repository, with ``/``."""

    kind: Kind
    path: str
    """Where the file is now; of a deleted one, where it was."""
    digest: str | None
    """:func:`digest_of` its content now; None if it is gone, cannot be read or is too large to be read."""
    old_path: str | None = None
    """Of a moved file, where it was."""
    old_digest: str | None = None
    """Of its content before, if that was known."""
    own: bool = False
    """Whether it is a write of ours, coming back."""

    def __str__(self) -> str:
        """Say it in a few words."""
        return f"{self.kind} {f'{shown(self.old_path)} -> ' if self.old_path else ''}{shown(self.path)}"


@dataclass(frozen=True)
class Batch:
    """Changes that belong together, at most one for each path, in the order of their paths."""

    changes: tuple[Change, ...]
    head: Head | None = None
    """What is checked out now, if it is another branch or commit than before."""

    @property
    def by_user(self) -> tuple[Change, ...]:
        """Those that are not ours."""
        return tuple(change for change in self.changes if not change.own)


def digest_of(data: bytes) -> str:
    """SHA-256 of a file's bytes, in hexadecimal; of a symlink, of the path that it holds."""
    return content_hash(data)  # own writes are known by it


def is_editor_file(path: str) -> bool:
    """Whether a file's name is one that editors give to temporary files, locks and backups."""
    return _EDITOR_FILE.fullmatch(path.rpartition("/")[2]) is not None


def batch_of(changes: Iterable[Change], head: Head | None = None) -> Batch:
    """A batch in its order."""
    return Batch(tuple(sorted(changes, key=lambda change: change.path)), head)


@dataclass(frozen=True)
class _Followed:
    """A file through several batches."""

    origin: str | None
    """Where it was at the start; None if it was not there."""
    old_digest: str | None
    digest: str | None
    own: bool


def merged(batches: Sequence[Batch]) -> Batch:
    """Batches that follow each other, as one: what was created and deleted between them has not been.

    A change is ours only if all its parts are.
    """
    if len(batches) == 1:
        return batches[0]
    there: dict[str, _Followed] = {}
    gone: dict[str, _Followed] = {}  # by their path at the start
    for batch in batches:
        # All at once: a name may be freed by one change of a batch and taken by another.
        before = {change: there.pop(change.old_path or change.path, None) for change in batch.changes}
        for change, file in before.items():
            if file is None:
                origin = None if change.kind == "created" else change.old_path or change.path
                file = _Followed(origin, change.old_digest, None, own=True)
            file = replace(file, digest=change.digest, own=file.own and change.own)
            if change.kind != "deleted":
                there[change.path] = file
            elif file.origin is not None:
                gone[file.origin] = file
    settled = _settled(there, gone)
    changes = [one for path, file in settled.items() if (one := _change(path, file)) is not None]
    changes += [Change("deleted", path, None, None, file.old_digest, file.own) for path, file in gone.items()]
    heads = [batch.head for batch in batches if batch.head]
    return batch_of(changes, heads[-1] if heads else None)


def _settled(there: dict[str, _Followed], gone: dict[str, _Followed]) -> dict[str, _Followed]:
    """Files where they are; one that took the name of a file that is gone counts as that file, changed.

    Where it came from counts as gone then, and its own old name may have been taken in turn: ``gone`` is
    brought up to date.
    """
    while taken := there.keys() & gone.keys():
        for path in taken:
            file, was = there[path], gone.pop(path)
            own = file.own and was.own
            there[path] = _Followed(path, was.old_digest, file.digest, own)
            if file.origin is not None and file.origin != path:
                gone[file.origin] = file
    return there


def _change(path: str, file: _Followed) -> Change | None:
    """What happened to a file that is there; None if it is as it was at the start."""
    if file.origin is None:
        return Change("created", path, file.digest, own=file.own)
    if file.origin != path:
        return Change("moved", path, file.digest, file.origin, file.old_digest, file.own)
    if file.digest is not None and file.digest == file.old_digest:
        return None
    return Change("modified", path, file.digest, None, file.old_digest, file.own)


def diff_of(path: str, old_text: str | None, new_text: str | None, limit: int | None = 2_000) -> str:
    """What changed in a file: a unified diff, or a notice in its place.

    Args:
        path: of the file.
        old_text: before; None if it was not there.
        new_text: now; None if it is gone.
        limit: characters of a diff; a longer one is replaced by a notice with the numbers of lines. None: it
            is never left out, however long or binary, for a person who decides about it; where comparing
            would take seconds, all lines between the common start and end are shown as removed and added.
    """
    name = shown(path)
    if old_text == new_text:
        return f"{name}: unchanged"
    if limit is not None and ("\0" in (old_text or "") or "\0" in (new_text or "")):
        return f"{name}: a binary file, changed"
    if new_text is None:
        return f"{name}: deleted"
    old, new = _lines(old_text or ""), _lines(new_text)
    if [line.rstrip("\r\n") for line in old] == [line.rstrip("\r\n") for line in new]:
        if old_text is None:
            return f"{name}: created, empty"
        return f"{name}: only line ends changed"
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    changed_old, changed_new = len(old) - start - end, len(new) - start - end
    is_comparable = max(changed_old, changed_new) <= _LONGEST_COMPARED
    if limit is None or (is_comparable and min(changed_old, changed_new) * 2 <= limit):
        # Only the part between the common start and end is compared, with its context.
        first = max(0, start - _CONTEXT)
        rest = max(0, end - _CONTEXT)
        parts = old[first : len(old) - rest], new[first : len(new) - rest]
        if is_comparable:
            opcodes = difflib.SequenceMatcher(None, *parts, autojunk=False).get_grouped_opcodes(_CONTEXT)
            text = _unified(name, *parts, first, opcodes)
        else:
            text = _unified(name, *parts, first, [_replaced(*parts, start - first, end - rest)])
        if limit is None or len(text) <= limit:
            return text
    verb = "created" if old_text is None else "changed"
    return (
        f"{name}: {verb}, too much to show: {changed_old} lines from line {start + 1} on"
        f" are now {changed_new}; read it again"
    )


def _replaced(old: Sequence[str], new: Sequence[str], before: int, behind: int) -> list[_Opcode]:
    """All replaced but for so many lines at the start and the end, as difflib has it."""
    ends = len(old) - behind, len(new) - behind
    return [
        ("equal", 0, before, 0, before),
        ("replace", before, ends[0], before, ends[1]),
        ("equal", ends[0], len(old), ends[1], len(new)),
    ]


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, so that their numbers are those of any editor."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts have in common at their start."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _unified(
    name: str, old: Sequence[str], new: Sequence[str], skipped: int, groups: Iterable[Sequence[_Opcode]]
) -> str:
    """A unified diff of two parts that start behind ``skipped`` lines."""
    parts = [f"--- {name}\n+++ {name}\n"]
    for group in groups:
        old_range = _range(group[0][1] + skipped, group[-1][2] + skipped)
        new_range = _range(group[0][3] + skipped, group[-1][4] + skipped)
        parts.append(f"@@ -{old_range} +{new_range} @@\n")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                parts += [_marked(" ", line) for line in old[i1:i2]]
            else:
                parts += [_marked("-", line) for line in old[i1:i2]]
                parts += [_marked("+", line) for line in new[j1:j2]]
    return "".join(parts)


def _range(start: int, stop: int) -> str:
    """Lines as a unified diff names them: from 1, and the line before where there are none."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + (length > 0)},{length}"


def _marked(mark: str, line: str) -> str:
    if line.endswith("\n"):
        return mark + line.removesuffix("\n").removesuffix("\r") + "\n"
    return f"{mark}{line}\n\\ No newline at end of file\n"
