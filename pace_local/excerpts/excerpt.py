"""What an excerpt of a file is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

CountTokens = Callable[[str], int]
"""Gives the number of tokens of a text, without any that frame it (no BOS)."""

ExcerptKind = Literal["definitions", "part", "statements", "section", "text"]


@dataclass(frozen=True)
class Definition:
    """A name that a file gives a meaning to."""

    name: str
    """Qualified by the definitions around it, with dots: ``Orders.total``."""
    kind: str
    """``function``, ``type``, ``value``, ``field``, ``macro``, ``module``, ``key`` (of a configuration or
    of a term in prose) or ``section``."""
    start_line: int
    """First line, decorators included; 1-based."""
    end_line: int
    """Last line, inclusive."""

    @property
    def leaf(self) -> str:
        """The name without what qualifies it."""
        return self.name if self.kind == "section" else self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Excerpt:
    """A run of whole lines of one file (or a part of one line too long to be an excerpt).

    The excerpts of a file, in order, give its text back without a character lost or added.
    """

    path: str
    """The file's path as given."""
    start_line: int
    """First line, 1-based."""
    end_line: int
    """Last line, inclusive."""
    text: str
    """The lines as they stand in the file, line ends included."""
    kind: ExcerptKind
    """``definitions`` (code that defines something), ``part`` (of a definition that is cut inside),
    ``statements`` (code that defines nothing), ``section`` (under a heading) or ``text``."""
    defines: tuple[Definition, ...]
    """What starts in this excerpt, in order."""
    mentions: frozenset[str]
    """Identifiers that occur: all of the code; of comments, strings and prose those that look like one."""
    scope: str
    """Name of the innermost definition (qualified) or section that it stands inside; empty at top level."""
    head: str
    """Signatures of the definitions (or the headings) that it stands inside, outermost first, as they stand
    in the file, without a line end at the end; empty at top level. Not part of ``text``."""

    offset: int = 0
    """Characters of the file before it. It tells apart the parts of one long line."""

    @property
    def names(self) -> tuple[str, ...]:
        """Qualified names that this excerpt defines, in order."""
        return tuple(definition.name for definition in self.defines)

    @property
    def label(self) -> str:
        """Where it stands: ``orders.py:10-42``."""
        return f"{self.path}:{self.start_line}-{self.end_line}"


@dataclass(frozen=True)
class Pick:
    """An excerpt that a prompt needs."""

    excerpt: Excerpt
    reason: str
    """Why, for a person: ``defines RATE``, ``mentions parse_order``, ``bm25 3.2``."""
    tokens: int
    """Tokens of the excerpt's text."""
    score: float
    """BM25 score of the prompt on it, 0 where they share no word."""
    too_large: bool = False
    """It alone is larger than the budget; it is then the only pick."""
