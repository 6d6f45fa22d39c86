"""Definitions of a source file, with exactly the bytes that each takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from pace_agent.errors import EditError
from pace_local.excerpts.code import code_layout
from pace_local.excerpts.languages import Language, grammar_of, language_of
from pace_local.excerpts.layout import Lines

COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
ATTRIBUTES = frozenset({"attribute_item", "decorator"})
"""Nodes that stand before a definition, as its siblings, and are a part of it."""

_WRAPPERS = frozenset({"decorated_definition", "export_statement", "template_declaration"})
_SOLE_WRAPPERS = frozenset(
    {
        "ambient_declaration",
        "const_declaration",
        "declaration",
        "expression_statement",
        "field_declaration",
        "lexical_declaration",
        "type_declaration",
        "var_declaration",
        "var_spec_list",
        "variable_declaration",
    }
)
"""Statements that may define several things; one that defines a single thing is a part of it."""
_WITHOUT_BODY = frozenset(
    {
        "abstract_method_signature",
        "declaration",
        "field_declaration",
        "function_signature",
        "function_signature_item",
        "method_elem",
        "method_signature",
    }
)
_OVERLOAD = re.compile(rb"@(?:\w+\.)?overload\b")
_ALL_SMALL = 1 << 40  # borders are of no interest here


@dataclass(frozen=True)
class Definition:
    """A definition, from its decorators to its end; comments before it are left outside."""

    name: str
    """Qualified by the definitions around it, with dots: ``Orders.total``."""
    kind: str
    """``function``, ``type``, ``value``, ``field``, ``macro`` or ``module``."""
    start_byte: int
    """In the text as UTF-8; behind the indentation of its first line."""
    end_byte: int
    """Behind its last character; the line end is not in it."""
    first_line: int
    """1-based."""
    last_line: int
    """Inclusive."""
    is_declaration: bool = False
    """Whether it only declares a function (or an overload of one) that is defined elsewhere."""
    node: Node | None = field(default=None, compare=False, repr=False)
    """The outermost syntax node of it; for this package's own use."""


class Outline:
    """A parsed text.

    Args:
        text: of the file.
        path: says the language.

    Raises:
        EditError: if there is no grammar for the language.
    """

    def __init__(self, text: str, path: str) -> None:
        language = language_of(path, text)
        grammar = grammar_of(language) if language else None
        if language is None or grammar is None:
            raise EditError(f"{path} is in no language whose definitions are known; use search and replace")
        self.text = text
        self.path = path
        self.language: Language = language
        self.lines = Lines(text)
        self._tree = grammar.parser.parse(self.lines.data)
        self.root = self._tree.root_node
        layout = code_layout(self.lines, grammar, _ALL_SMALL) if text.strip() else None
        found = [self._definition(one.name, one.kind, one.at) for one in layout.found] if layout else []
        self.definitions = sorted(
            (one for one in found if one is not None), key=lambda one: (one.start_byte, -one.end_byte)
        )
        """In the order of the file, what is around others first."""

    def _definition(self, name: str, kind: str, at: int) -> Definition | None:
        if kind == "impl":
            return None
        node = self.root.descendant_for_byte_range(at, at + 1)
        inner = node
        while node is not None and node.type not in self.language.definitions:
            node = node.parent
        if node is None or inner is None:  # found by its form alone, where the file does not parse
            return None
        if self.language.definitions[node.type] == "members":
            node = inner
        whole = _whole(node)
        start = min([whole.start_byte, *(one.start_byte for one in _attributes(whole))])
        after = whole.next_sibling
        end = after.end_byte if after is not None and after.type == ";" else whole.end_byte
        part = self.lines.data[start:end]
        end -= len(part) - len(part.rstrip())
        return Definition(
            name,
            kind,
            start,
            end,
            self.lines.line_at_byte(start) + 1,
            self.lines.line_at_byte(max(start, end - 1)) + 1,
            (node.type in _WITHOUT_BODY and kind == "function") or _OVERLOAD.match(part) is not None,
            whole,
        )

    def find(self, name: str, near_line: int | None = None) -> Definition | None:
        """The definition of a name; see :func:`find_definition`."""
        wanted = name.strip().removesuffix("()").replace("::", ".").replace("#", ".").strip(".")
        matches = [one for one in self.definitions if one.name == wanted]
        matches = matches or [one for one in self.definitions if one.name.endswith("." + wanted)]
        matches = [one for one in matches if not one.is_declaration] or matches
        if not matches:
            return None
        if near_line is not None:
            return min(matches, key=lambda one: (_distance(one, near_line), one.start_byte))
        if len({one.start_byte for one in matches}) > 1:
            places = ", ".join(f"{one.name} at line {one.first_line}" for one in matches)
            raise EditError(
                f"{self.path} defines {name} {len(matches)} times: {places}; say which by its line"
            )
        return matches[0]

    def characters(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in characters of two offsets in bytes."""
        first = len(self.lines.data[:start].decode("utf-8", "replace"))
        return first, first + len(self.lines.data[start:end].decode("utf-8", "replace"))

    def part(self, node: Node) -> str:
        """The text of a node."""
        return self.lines.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def faults(self) -> Iterator[Node]:
        """Nodes that the grammar did not understand, and those that it misses."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node.is_error or node.is_missing:
                yield node
            elif node.has_error:
                stack.extend(reversed(node.children))


def _whole(node: Node) -> Node:
    while (parent := node.parent) is not None:
        if parent.type not in _WRAPPERS and not (parent.type in _SOLE_WRAPPERS and _is_alone(parent)):
            break
        node = parent
    return node


def _is_alone(parent: Node) -> bool:
    return sum(one.type not in COMMENTS for one in parent.named_children) == 1


def _attributes(node: Node) -> list[Node]:
    found = []
    before = node.prev_named_sibling
    while before is not None and before.type in ATTRIBUTES | COMMENTS:
        if before.type in ATTRIBUTES:
            found.append(before)
        before = before.prev_named_sibling
    return found


def _distance(one: Definition, line: int) -> int:
    return max(one.first_line - line, line - one.last_line, 0)


def definitions(text: str, path: str) -> list[Definition]:
    """All definitions of a file, in its order, what is around others first.

    Where the file does not parse, those that do are there.

    Args:
        text: of the file.
        path: says the language, by its suffix.

    Raises:
        EditError: if there is no grammar for the language.
    """
    return Outline(text, path).definitions


def find_definition(text: str, path: str, name: str, *, near_line: int | None = None) -> Definition | None:
    """The definition of a name.

    Args:
        text: of the file.
        path: says the language, by its suffix.
        name: qualified (``Class.method``, ``Class::method``), or the end of a qualified name.
            A definition is preferred to a declaration.
        near_line: of several, the one that holds this line or is nearest to it; 1-based.

    Returns:
        None if there is none.

    Raises:
        EditError: if there are several and no line is given, or there is no grammar for the language.
    """
    return Outline(text, path).find(name, near_line)
