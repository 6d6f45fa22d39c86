"""Apply unified diffs with the standard library alone, so that a build needs neither git nor patch.

Stricter than both on purpose: every context line must match exactly. A hunk may have moved (an earlier
patch or a newer upstream shifts lines), but nothing is guessed: no fuzz, no partial result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_HUNK_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class PatchError(Exception):
    """A patch cannot be read or does not apply; one line that names the patch, the file and the line."""


@dataclass
class Hunk:
    """One ``@@`` block: the lines it expects, the lines it leaves, and where."""

    patch_line: int
    """Line of the ``@@`` header in the patch file, from 1."""
    old_start: int
    """Line of the target at which the hunk was made, from 1."""
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FileChange:
    """All hunks of a patch for one file."""

    path: str
    """Relative to the root that the patch is applied to, with ``/``."""
    hunks: list[Hunk] = field(default_factory=list)


def read_patch(patch: Path) -> list[FileChange]:
    """The changes in the file ``patch``, in order.

    Raises:
        PatchError: it is not a unified diff, or it creates, deletes or renames a file.
    """
    changes: list[FileChange] = []
    lines = patch.read_bytes().splitlines(keepends=True)
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = _target(line), _target(lines[at + 1])
            if old != new:
                raise PatchError(f"{patch.name}:{at + 1}: renames {old} to {new}; only edits are supported")
            changes.append(FileChange(new))
            at += 2
        elif line.startswith(b"@@"):
            if not changes:
                raise PatchError(f"{patch.name}:{at + 1}: a hunk before any file name")
            hunk, at = _read_hunk(patch.name, lines, at)
            changes[-1].hunks.append(hunk)
        else:
            at += 1
    if not any(change.hunks for change in changes):
        raise PatchError(f"{patch.name}: no hunk in it; is it a unified diff?")
    return changes


def apply_patch(patch: Path, root: Path) -> list[str]:
    """Apply the file ``patch`` to the files under ``root``, all of it or nothing.

    Returns:
        The paths changed, relative to ``root``.

    Raises:
        PatchError: it cannot be read, or a hunk does not apply; no file has been changed then.
    """
    changes = read_patch(patch)
    results: list[tuple[Path, bytes]] = []
    for change in changes:
        target = root / change.path
        if not target.is_file():
            line = change.hunks[0].patch_line if change.hunks else 1
            raise PatchError(f"{patch.name}:{line}: {change.path} is not in the tree")
        results.append((target, _apply_change(patch.name, change, target.read_bytes())))
    for target, content in results:
        target.write_bytes(content)
    return [change.path for change in changes]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r\n")


def _target(header: bytes) -> str:
    name = header[4:].split(b"\t")[0].strip().decode()
    return name.split("/", 1)[1] if name.startswith(("a/", "b/")) else name


def _read_hunk(name: str, lines: list[bytes], at: int) -> tuple[Hunk, int]:
    header = _HUNK_HEADER.match(lines[at])
    if header is None:
        raise PatchError(
            f"{name}:{at + 1}: malformed hunk header {lines[at].decode(errors='replace').strip()!r}"
        )
    hunk = Hunk(patch_line=at + 1, old_start=int(header[1]))
    n_old = int(header[2] or 1)
    n_new = int(header[4] or 1)
    at += 1
    while at < len(lines) and (len(hunk.old) < n_old or len(hunk.new) < n_new):
        mark, text = lines[at][:1], lines[at][1:]
        if mark in (b" ", b"\n"):  # some editors strip the blank that marks an empty context line
            text = text if mark == b" " else b"\n"
            hunk.old.append(text)
            hunk.new.append(text)
        elif mark == b"-":
            hunk.old.append(text)
        elif mark == b"+":
            hunk.new.append(text)
        elif mark != b"\\":
            break
        at += 1
    if len(hunk.old) != n_old or len(hunk.new) != n_new:
        raise PatchError(f"{name}:{hunk.patch_line}: the hunk's lines do not add up to its header")
    if at < len(lines) and lines[at].startswith(b"\\"):  # "\ No newline at end of file"
        hunk.old[-1] = hunk.old[-1].rstrip(b"\n")
        hunk.new[-1] = hunk.new[-1].rstrip(b"\n")
        at += 1
    return hunk, at


def _apply_change(name: str, change: FileChange, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    drift = 0  # how far the hunks so far were from where they were made
    floor = 0  # hunks apply in order, so none may match above the one before
    for hunk in change.hunks:
        wanted = hunk.old_start - 1 + drift if hunk.old else hunk.old_start + drift
        found = _find(lines, hunk.old, wanted, floor)
        if found is None:
            raise PatchError(f"{name}:{hunk.patch_line}: {_mismatch(change.path, lines, hunk, wanted)}")
        lines[found : found + len(hunk.old)] = hunk.new
        drift += found - wanted + len(hunk.new) - len(hunk.old)
        floor = found + len(hunk.new)
    return b"".join(lines)


def _find(lines: list[bytes], block: list[bytes], wanted: int, floor: int) -> int | None:
    """Where ``block`` stands at or below ``floor``, the nearest to ``wanted``; None if nowhere."""
    places = [at for at in range(floor, len(lines) - len(block) + 1) if lines[at : at + len(block)] == block]
    return min(places, key=lambda at: (abs(at - wanted), at), default=None)


def _mismatch(path: str, lines: list[bytes], hunk: Hunk, wanted: int) -> str:
    """One line about the first line of the hunk that is not where it was expected."""
    for offset, expected in enumerate(hunk.old):
        at = wanted + offset
        actual = lines[at] if 0 <= at < len(lines) else None
        if actual != expected:
            shown = (
                "the end of the file"
                if actual is None
                else repr(actual.decode(errors="replace").rstrip("\n"))
            )
            text = expected.decode(errors="replace").rstrip("\n")
            return f"does not apply to {path}:{at + 1}: expected {text!r}, found {shown}"
    return f"does not apply to {path}:{hunk.old_start}: it overlaps the hunk before it"
