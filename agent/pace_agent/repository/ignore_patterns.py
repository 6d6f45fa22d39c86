"""The patterns of one ignore file, with the meaning that git gives them (gitignore(5), wildmatch).

Patterns are turned into regular expressions over bytes, because git compares bytes: ``?`` is one byte of a
UTF-8 name, not one character. A pattern says something about the entry that it matches and nothing about
what lies below; that a folder takes its contents along is the walk's doing. The patterns of ``pathspec``
also match what is below, so that ``!/kept/`` there brings back what ``*.log`` excludes inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb"\t-\r ",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_NOTHING = rb"(?!)"


@dataclass(frozen=True)
class Pattern:
    """One line of an ignore file."""

    regex: re.Pattern[bytes]
    negated: bool
    """Whether what matches is brought back."""
    folders_only: bool
    by_name: bool
    """Whether the last part of the path is compared, at any depth; else the path from the file's folder."""


class PatternFile:
    """All patterns of one ignore file.

    Args:
        data: the file's bytes.
        base: path of the folder that anchored patterns start from, relative to the repository's top, with
            ``/`` at the end, or empty for the top.
        ignore_case: whether ASCII letters match in either case.
    """

    def __init__(self, data: bytes, base: bytes = b"", *, ignore_case: bool = False) -> None:
        self._base = len(base)
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        self.patterns = [found for line in lines if (found := parse_pattern(line, ignore_case))]
        # Most entries match nothing: one alternation of all patterns says so faster than each in turn.
        self._any_name = _any_of((one for one in self.patterns if one.by_name), ignore_case)
        self._any_path = _any_of((one for one in self.patterns if not one.by_name), ignore_case)

    def decide(self, path: bytes, name: bytes, folder: bool) -> bool | None:
        """Whether an entry is ignored; None if nothing is said of it.

        Args:
            path: from the repository's top, below ``base``.
            name: its last part.
            folder: whether it is a folder (a symlink to one is none).
        """
        below = path[self._base :]
        named = self._any_name is not None and self._any_name.fullmatch(name)
        if not named and not (self._any_path is not None and self._any_path.fullmatch(below)):
            return None
        for pattern in reversed(self.patterns):
            if pattern.folders_only and not folder:
                continue
            if pattern.regex.fullmatch(name if pattern.by_name else below):
                return not pattern.negated
        return None


def parse_pattern(line: bytes, ignore_case: bool = False) -> Pattern | None:
    """One line of an ignore file, without its line end; None if it says nothing."""
    if line.startswith(b"#"):
        return None
    text = _trimmed(line.removesuffix(b"\r"))
    negated = text.startswith(b"!")
    text = text[negated:]
    folders_only = text.endswith(b"/")
    text = text[: len(text) - folders_only]
    if not text:
        return None
    by_name = b"/" not in text
    regex = _translated(text if by_name else text.removeprefix(b"/"))
    return Pattern(re.compile(regex, _flags(ignore_case)), negated, folders_only, by_name)


def _flags(ignore_case: bool) -> int:
    return re.DOTALL | (re.IGNORECASE if ignore_case else 0)


def _any_of(patterns: Iterable[Pattern], ignore_case: bool) -> re.Pattern[bytes] | None:
    regexes = [pattern.regex.pattern for pattern in patterns]
    return re.compile(b"|".join(regexes), _flags(ignore_case)) if regexes else None


def _trimmed(text: bytes) -> bytes:
    """Without spaces at the end, except one that a backslash protects."""
    end = len(text.rstrip(b" "))
    if end < len(text):
        slashes = end - len(text[:end].rstrip(b"\\"))
        end += slashes % 2
    return text[:end]


def _translated(glob: bytes) -> bytes:
    """The regular expression of a pattern; one that git cannot read matches nothing."""
    parts: list[bytes] = []
    at = 0
    while at < len(glob):
        character = glob[at : at + 1]
        if character == b"*":
            end = at
            while glob[end : end + 1] == b"*":
                end += 1
            opens = end - at >= 2 and (at == 0 or glob[at - 1 : at] == b"/")
            if opens and glob[end : end + 1] == b"/":
                parts.append(rb"(?:.*/)?")
                end += 1
            else:
                parts.append(rb".*" if opens and end == len(glob) else rb"[^/]*")
            at = end
        elif character == b"?":
            parts.append(rb"[^/]")
            at += 1
        elif character == b"[":
            bracket = _bracket(glob, at + 1)
            if bracket is None:
                return _NOTHING
            parts.append(bracket[0])
            at = bracket[1]
        else:
            if character == b"\\":
                at += 1
                character = glob[at : at + 1]
                if not character:
                    return _NOTHING
            parts.append(re.escape(character))
            at += 1
    return b"".join(parts)


def _bracket(glob: bytes, at: int) -> tuple[bytes, int] | None:
    """A set of bytes from behind its ``[``: its regular expression and the place behind its ``]``."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: list[bytes] = []
    before = -1  # the byte that a range can start from
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        byte = _byte(glob, at)
        if byte is None:
            return None
        value, following = byte
        if glob[at] == ord("-") and before >= 0 and glob[at + 1 : at + 2] not in (b"", b"]"):
            last = _byte(glob, at + 1)
            if last is None:
                return None
            if before <= last[0]:
                members.append(b"\\x%02x-\\x%02x" % (before, last[0]))
            before, at = -1, last[1]
        elif glob.startswith(b"[:", at) and (end := glob.find(b"]", at + 2)) > at + 2 and glob[end - 1] == 58:
            known = _CLASSES.get(glob[at + 2 : end - 1])
            if known is None:
                return None
            members.append(known)
            before, at = -1, end + 1
        else:
            members.append(b"\\x%02x" % value)
            before, at = value, following
    inside = b"".join(members)
    if not inside:
        return (rb"[^/]" if negated else _NOTHING), at + 1
    return rb"(?!/)[" + (b"^" if negated else b"") + inside + b"]", at + 1


def _byte(glob: bytes, at: int) -> tuple[int, int] | None:
    """A byte of a set, which a backslash may protect, and the place behind it; None at the end."""
    at += glob[at : at + 1] == b"\\"
    return (glob[at], at + 1) if at < len(glob) else None
