"""The words of a shell command, read by the quoting rules of the Bourne family of shells.

A second reading beside the grammar's: the two must agree on where a word ends, so that a fault of one of them
cannot make a command look harmless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_ENDS = frozenset(" \t\n|&;()<>")
"""Characters that end a word where they are not quoted."""

_PATTERN = frozenset("*?[")
_NAME_START = re.compile(r"[A-Za-z0-9_@*#?!$-]")
_SPECIAL = frozenset("*?[]\\")
"""Characters that mean something in a pattern, unless they are quoted."""


class UnclearError(Exception):
    """A piece of shell text is read in two ways, or in none; the message says which piece."""


@dataclass(frozen=True)
class Word:
    """One word of a command."""

    raw: str
    """As it is written."""

    text: str | None
    """What the command is given, quotes removed; None if the shell only knows when it runs."""

    is_pattern: bool = False
    """Whether the shell replaces it by the names of files that match it; ``text`` is the pattern then."""

    has_tilde: bool = False
    """Whether it begins with a ``~`` that the shell replaces by a home folder."""


@dataclass(frozen=True)
class Redirection:
    """One redirection of a command's input or output."""

    operator: str
    """``<``, ``>``, ``>>``, ``>|``, ``&>``, ``&>>``, ``>&``, ``<&``, ``<<`` or ``<<<``."""

    target: Word
    """The file, descriptor or text."""

    @property
    def is_file(self) -> bool:
        """Whether the target is a file, and not a descriptor or a text."""
        if self.operator in ("<<", "<<<"):
            return False
        return not (self.operator in (">&", "<&") and re.fullmatch(r"[0-9]*-?", self.target.raw))

    @property
    def writes(self) -> bool:
        """Whether it makes or changes a file."""
        return self.is_file and ">" in self.operator


@dataclass(frozen=True)
class SimpleCommand:
    """One command that the shell would run, without anything around it."""

    words: tuple[Word, ...]
    """The command's name and arguments; empty for assignments or redirections alone."""

    assignments: tuple[str, ...] = ()
    """Names of the variables set for it."""

    redirections: tuple[Redirection, ...] = ()

    via: tuple[str, ...] = ()
    """What runs it, outermost first: ``sudo``, ``xargs``, ``sh -c``, …"""

    is_open: bool = False
    """Whether further arguments follow that the text does not show (``xargs``, ``find -exec``)."""

    inputs: tuple[int, ...] = ()
    """Which commands' output it is given, through a pipe or a substitution."""

    @property
    def name(self) -> str | None:
        """The command's name as written, ``""`` if it has none; None if the text does not show it."""
        if not self.words:
            return ""
        first = self.words[0]
        return None if first.is_pattern else first.text

    @property
    def program(self) -> str | None:
        """The last part of the name's path: ``rm`` for ``/bin/rm``."""
        return None if self.name is None else self.name.rpartition("/")[2]

    @property
    def shown(self) -> str:
        """The command as text of one line."""
        parts = [f"{name}=…" for name in self.assignments] + [word.raw for word in self.words]
        parts += [f"{each.operator} {each.target.raw}" for each in self.redirections]
        return " ".join(" ".join(parts).split())


def read_word(raw: str, spans: Mapping[int, int]) -> Word:
    """Read one word.

    Args:
        raw: the word as written, and nothing else.
        spans: where in it the grammar found something that the shell expands: start -> end, in characters.

    Raises:
        UnclearError: if the word ends before ``raw`` does, or expands something the grammar did not find.
    """
    reader = _Reader(raw, spans)
    text, at = "", 0
    while at < len(raw):
        piece, at = reader.piece(at)
        text += piece
    if not reader.is_known or (reader.is_pattern and reader.is_mixed) or _has_braces(_unquoted(raw)):
        return Word(raw, None, reader.is_pattern)
    return Word(raw, text, reader.is_pattern, raw.startswith("~"))


def names(text: str) -> frozenset[str]:
    """A set of names, from a text that has blanks between them."""
    return frozenset(text.split())


def literal(text: str) -> Word:
    """A word that a command is given as it is."""
    return Word(text, text)


def unknown_rest(word: Word) -> Word:
    """A word that the text does not show whole, such as one with ``{}`` for the name of a file."""
    return replace(word, text=None)


def _has_braces(text: str) -> bool:
    """Whether braces may stand for several words: ``{a,b}``, ``{{},x}``, ``{1..3}``."""
    _, _, inside = text.partition("{")
    return "," in inside or ".." in inside


def _unquoted(raw: str) -> str:
    """The word with quoted pieces and escapes replaced by a sign that means nothing to a shell."""
    return re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", "_", raw, flags=re.DOTALL)


class _Reader:
    def __init__(self, raw: str, spans: Mapping[int, int]) -> None:
        self.raw = raw
        self.spans = spans
        self.is_known = True
        self.is_pattern = False
        self.has_set = False
        self.is_mixed = False
        """Whether quoted text may look like a part of a pattern, which it is not."""

    def _quote(self, text: str) -> None:
        self.is_mixed = self.is_mixed or bool(text and self.has_set) or not _SPECIAL.isdisjoint(text)

    def piece(self, at: int) -> tuple[str, int]:
        """The text of the piece that begins at ``at`` outside quotes, and where the next one begins."""
        character = self.raw[at]
        if character == "\\":
            escaped = self.raw[at + 1 : at + 2]
            if not escaped:
                raise UnclearError("a backslash at the end")
            text = "" if escaped == "\n" else escaped
            self._quote(text)
            return text, at + 2
        if character == "'":
            end = self.raw.find("'", at + 1)
            if end < 0:
                raise UnclearError("a quote that is not closed")
            self._quote(self.raw[at + 1 : end])
            return self.raw[at + 1 : end], end + 1
        if character == '"':
            text, at = self._double(at + 1)
            self._quote(text)
            return text, at
        if character in "$`" or (character in "<>" and at in self.spans):
            return self._expansion(at, in_quotes=False)
        if character in _ENDS:
            raise UnclearError(f"the word {self.raw[:40]!r}")
        if character in _PATTERN:
            self.is_pattern = True
            self.has_set = self.has_set or character == "["
        elif character in "\r\v\f\0":
            raise UnclearError("a control character")
        return character, at + 1

    def _double(self, at: int) -> tuple[str, int]:
        text = ""
        while at < len(self.raw):
            character = self.raw[at]
            if character == '"':
                return text, at + 1
            if character == "\\" and self.raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                escaped = self.raw[at + 1]
                text += "" if escaped == "\n" else escaped
                at += 2
            elif character in "$`":
                piece, at = self._expansion(at, in_quotes=True)
                text += piece
            else:
                text += character
                at += 1
        raise UnclearError("a quote that is not closed")

    def _expansion(self, at: int, *, in_quotes: bool) -> tuple[str, int]:
        end = self.spans.get(at)
        if end is not None:
            self.is_known = False
            return "", end
        after = self.raw[at + 1 : at + 2]
        if self.raw[at] == "$" and not in_quotes and after in ("'", '"'):
            return self._dollar_quote(at)
        # A dollar before anything else stands for itself; a line that is continued hides what comes next.
        is_continued = self.raw.startswith("\\\n", at + 1)
        if (
            self.raw[at] == "$"
            and not is_continued
            and not (after and (_NAME_START.match(after) or after in "{([`"))
        ):
            return "$", at + 1
        raise UnclearError(f"what {self.raw[at : at + 12]!r} stands for")

    def _dollar_quote(self, at: int) -> tuple[str, int]:
        """``$'…'`` and ``$"…"``: not every shell knows them, so that none of their escapes is taken."""
        if self.raw[at + 1] == '"':
            self.is_known = False
            return self._double(at + 2)
        end = self.raw.find("'", at + 2)
        if end < 0 or "\\'" in self.raw[at + 2 : end + 1] or "\\\\" in self.raw[at + 2 : end]:
            raise UnclearError("an escaped quote in $'…'")
        self.is_known = False
        return "", end + 1
