"""The text under a parsed shell command, and whether the grammar can be believed about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from pace_agent.shell.words import names

EXPANSIONS = names(
    "simple_expansion expansion command_substitution process_substitution arithmetic_expansion"
)
"""Nodes in a word that the shell replaces."""

MARKS = names("; & && || | |& ( ) { } ! if then elif else fi while until do done case in esac for") | {"\n"}
"""What stands between statements."""

# A line that is continued without a blank is one word for the shell and two for the grammar.
_BLANK = re.compile(rb"(?:(?:\\\n)*[ \t\n](?:[ \t\n]|\\\n)*)?")
_WORDS = EXPANSIONS | names(
    "word string raw_string concatenation ansi_c_string number variable_name variable_assignment regex"
    " extglob_pattern test_operator"
)


class Source:
    """The text of a command; what is doubtful about it is collected in :attr:`unclear`."""

    def __init__(self) -> None:
        self.source = b""
        self.unclear: list[str] = []

    def raw(self, node: tree_sitter.Node) -> str:
        """The text of a node."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def check_gaps(self, node: tree_sitter.Node, *, in_line: bool = False) -> None:
        """Between the pieces of a node there must be nothing but white space, of one line if so asked."""
        at = node.start_byte
        for child in node.children:
            gap = self.source[at : child.start_byte]
            if not is_blank(gap) or (in_line and b"\n" in gap.replace(b"\\\n", b"")):
                self.unclear.append(f"the part {short(self.raw(node))!r}")
                return
            at = child.end_byte
        if node.children and not is_blank(self.source[at : node.end_byte]):
            self.unclear.append(f"the part {short(self.raw(node))!r}")

    def is_bare_mark(self, node: tree_sitter.Node) -> bool:
        """Whether a ``!`` or ``{`` stands right before a word, so that it is part of it for the shell."""
        after = self.source[node.end_byte : node.end_byte + 1]
        return node.type in ("!", "{") and after not in (b" ", b"\t", b"\n")

    def check_comment(self, node: tree_sitter.Node) -> None:
        """A comment begins where a word could, and ends with its line."""
        before = self.source[max(0, node.start_byte - 1) : node.start_byte]
        if (before and before not in b" \t\n;&|()") or b"\n" in self.source[node.start_byte : node.end_byte]:
            self.unclear.append("a comment")

    def check_heredoc_end(
        self, node: tree_sitter.Node, start: tree_sitter.Node, end: tree_sitter.Node, mark: str, *, tabs: bool
    ) -> None:
        """A here-document begins on the next line and ends at the first that is its mark."""
        line_end = self.source.find(b"\n", start.end_byte)
        lines = self.source[line_end + 1 :].decode(errors="replace").split("\n")
        first = next(
            (n for n, line in enumerate(lines) if (line.lstrip("\t") if tabs else line) == mark), None
        )
        starts = self.source.count(b"<<", 0, line_end) - 3 * self.source.count(b"<<<", 0, line_end)
        if (
            first is None
            or line_end < 0
            or b"<<" in self.source[node.start_byte + 2 : line_end]
            or starts < 0
        ):
            self.unclear.append("a here-document")
            return
        expected = line_end + 1 + len("\n".join([*lines[:first], ""]).encode())
        length = len(lines[first].encode())
        if end.end_byte != expected + length or b"\n" in self.source[end.start_byte : end.end_byte]:
            self.unclear.append("the end of a here-document")


def is_blank(text: bytes) -> bool:
    """Whether a text is white space that parts words, or nothing."""
    return _BLANK.fullmatch(text) is not None


def spans_in(node: tree_sitter.Node) -> Iterator[tuple[int, int]]:
    """Where in a word something is expanded, the outermost."""
    if node.type in EXPANSIONS:
        yield node.start_byte, node.end_byte
        return
    for child in node.children:
        yield from spans_in(child)


def operands_of(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The words of a declaration or a test, in order."""
    for child in node.children:
        if child.type in _WORDS or not child.children:
            yield child
        else:
            yield from operands_of(child)


def short(text: str) -> str:
    """A text in one short line."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:39]}…"
