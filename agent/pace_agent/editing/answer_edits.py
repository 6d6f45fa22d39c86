"""Edits that a model wrote though it was asked for code: search and replace blocks, and unified diffs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pace_local.excerpts.layout import split_lines
from pace_local.fenced import fenced_blocks

_SEARCH = re.compile(
    r"^[ \t]*<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)\b[^\n]*\n(.*?)^[ \t]*={5,9}[ \t]*\n"
    r"(.*?)^[ \t]*>{5,9} ?(?:REPLACE|UPDATED|\w+)[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_HUNK = re.compile(r"^@@(?: .*?)?(?:@@.*)?$")
_FILE = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+)")
_HEADS = (
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "new file mode",
    "old mode",
    "new mode",
    "similarity index",
)


@dataclass(frozen=True)
class Replacement:
    """One place of a file, and what comes there."""

    search: str
    replacement: str
    path: str | None = None
    """The file, where the answer names it."""


def search_blocks(answer: str) -> list[Replacement]:
    """Blocks of the form ``<<<<<<< SEARCH``, ``=======``, ``>>>>>>> REPLACE``, in order."""
    text = re.sub(r"\r\n|\r", "\n", answer)
    if ">>>>>" not in text:
        return []
    return [Replacement(found[1], found[2]) for found in _SEARCH.finditer(text)]


def diff_hunks(answer: str) -> list[Replacement]:
    """Hunks of unified diffs, in blocks between fences or as the answer itself; line numbers are ignored.

    Models count lines badly, and leave the head out: a block that is called a diff needs none.
    """
    blocks = [block.text for block in fenced_blocks(answer) if block.tag in ("diff", "patch")]
    blocks = blocks or [block.text for block in fenced_blocks(answer) if _is_diff(block.text)]
    if not blocks and _is_diff(answer):
        text = re.sub(r"\r\n|\r", "\n", answer)
        begins = re.search(r"^(?:--- |@@|diff --git)", text, re.MULTILINE)
        blocks = [text[begins.start() :]] if begins else []
    return [hunk for block in blocks for hunk in _hunks(block)]


def _is_diff(text: str) -> bool:
    has_head = re.search(r"^@@ .*@@", text, re.MULTILINE) or re.search(
        r"^--- \S.*\n\+\+\+ \S", text, re.MULTILINE
    )
    return has_head is not None and re.search(r"^[-+](?![-+])", text, re.MULTILINE) is not None


def _hunks(block: str) -> list[Replacement]:
    hunks: list[Replacement] = []
    old: list[str] = []
    new: list[str] = []
    path: str | None = None

    def end() -> None:
        if old != new:
            hunks.append(Replacement("".join(old), "".join(new), path))
        old.clear()
        new.clear()

    for line in split_lines(block):
        plain = line.rstrip("\n")
        if _HUNK.match(plain):
            end()
        elif plain.startswith(_HEADS):
            end()
            named = _FILE.match(plain)
            if named and named[1].strip() != "/dev/null":
                path = named[1].strip()
        elif plain.startswith("\\"):  # no line end at the end of the file
            continue
        elif plain.startswith("-"):
            old.append(line[1:])
        elif plain.startswith("+"):
            new.append(line[1:])
        else:  # context; an empty line has often lost its space
            old.append(line.removeprefix(" "))
            new.append(line.removeprefix(" "))
    end()
    return [_trimmed(hunk) for hunk in hunks]


def _trimmed(hunk: Replacement) -> Replacement:
    """Without blank lines of context at its ends, which stand between the hunk and what follows."""
    old, new = split_lines(hunk.search), split_lines(hunk.replacement)
    while old and new and old[-1] == new[-1] and not old[-1].strip():
        old.pop()
        new.pop()
    while old and new and old[0] == new[0] and not old[0].strip():
        old.pop(0)
        new.pop(0)
    return Replacement("".join(old), "".join(new), hunk.path)
