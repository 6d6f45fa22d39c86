"""Source code with a grammar: definitions, identifiers and borders from its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node, QueryCursor

from pace_local.excerpts.languages import Grammar
from pace_local.excerpts.layout import PLAIN, Found, Layout, Lines
from pace_local.excerpts.text import patterns_in, plain_levels

_DEEPEST = 100
"""Nesting beyond this is one level, so that the levels of syntax stay below ``PLAIN``."""

_BODY_FIELDS = frozenset({"body", "consequence", "definition", "declaration"})
_WRAPPERS = frozenset({"decorated_definition", "export_statement", "template_declaration"})
_FUNCTION_VALUES = frozenset(
    {"arrow_function", "function_expression", "generator_function", "class", "lambda"}
)
_BODY_NEEDED = frozenset(
    {"struct_specifier", "union_specifier", "enum_specifier", "class_specifier", "mod_item"}
)
_NAME = re.compile(r"[^\W\d][\w$]*(?:\.~?[^\W\d][\w$]*)*|\$[\w$]*")
_JS_PREFIX = re.compile(r"^(?:module\.)?exports\.|^this\.|\.prototype\b")
_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)$")
_SIGNATURE_CHARACTERS = 400


def code_layout(lines: Lines, grammar: Grammar, small: int) -> Layout | None:
    """Find definitions, identifiers and borders.

    Args:
        lines: the file.
        grammar: of its language.
        small: bytes; a syntax node no larger than this is never cut inside.

    Returns:
        None if the grammar understands less than half of the file.
    """
    root = grammar.parser.parse(lines.data).root_node
    captures = QueryCursor(grammar.query).captures(root)
    broken = {row for node in captures.get("error", ()) for row in range(*_rows(lines, node, 1))}
    if 2 * len(broken) > len(lines):
        return None
    found = _find_definitions(lines, grammar, captures.get("definition", ()))
    if broken:
        known = {(found_one.first_line, found_one.name.rpartition(".")[2]) for found_one in found}
        extra = (one for one in patterns_in(lines, "code") if one.first_line in broken)
        found += [one for one in extra if (one.first_line, one.name) not in known]
        found.sort(key=lambda one: one.at)
    levels = [PLAIN + level for level in plain_levels(lines, "prose")]
    _mark_borders(root, levels, lines, grammar.language.leading, small)
    return Layout(levels, "grammar", found, _identifiers(lines, captures.get("identifier", ())))


def _rows(lines: Lines, node: Node, extra: int = 0) -> tuple[int, int]:
    """First and last line of a node (plus ``extra``); a line end that closes it does not count."""
    first = lines.line_at_byte(node.start_byte)
    return first, lines.line_at_byte(max(node.start_byte, node.end_byte - 1)) + extra


def _identifiers(lines: Lines, nodes: list[Node] | tuple[()]) -> list[tuple[int, str]]:
    spans = sorted((node.start_byte, node.end_byte) for node in nodes)
    return [(start, lines.data[start:end].decode("utf-8", "replace")) for start, end in spans]


@dataclass(frozen=True)
class _Frame:
    """A definition that later nodes may stand inside."""

    end: int
    qualifier: str
    kind: str
    is_local: bool
    """Whether values inside are a function's own."""


def _find_definitions(lines: Lines, grammar: Grammar, nodes: list[Node] | tuple[()]) -> list[Found]:
    language = grammar.language
    named: list[tuple[int, str, str, Node]] = []
    stack = [_Frame(len(lines.data) + 1, "", "module", False)]
    for node in sorted(nodes, key=lambda one: (one.start_byte, -one.end_byte)):
        while stack[-1].end <= node.start_byte:
            stack.pop()
        outer = stack[-1]
        kind = _kind(node, language.definitions[node.type], outer)
        if kind is None:
            continue
        qualifier = outer.qualifier
        for name_node, text in _names(node, kind):
            owner = _owner(node, outer, text)
            if owner is None:
                continue
            name = f"{owner}.{text}" if owner else text
            if kind != "anonymous":
                is_member = kind == "value" and (outer.kind == "type" or name_node.type == "attribute")
                shown = "field" if is_member or kind == "members" else kind
                named.append((name_node.start_byte, name, shown, node))
            if _qualifies(node, kind, language.values_qualify):
                qualifier = name
        is_local = kind in ("function", "anonymous") or (outer.is_local and kind not in ("type", "impl"))
        stack.append(_Frame(node.end_byte, qualifier, outer.kind if kind == "members" else kind, is_local))
    named.sort(key=lambda one: (one[0], one[1]))
    return [_found(lines, node, name, kind, at) for at, name, kind, node in named]


def _qualifies(node: Node, kind: str, values_qualify: bool) -> bool:
    if node.type == "type_definition":  # C's typedef names what is inside only where the struct has no name
        inner = node.child_by_field_name("type")
        return inner is not None and inner.child_by_field_name("name") is None
    return kind in ("function", "type", "module", "impl") or (kind == "value" and values_qualify)


def _found(lines: Lines, node: Node, name: str, kind: str, at: int) -> Found:
    whole = node.parent if node.parent is not None and node.parent.type in _WRAPPERS else node
    (first, last), own_first = _rows(lines, whole), _rows(lines, node)[0]
    body = node.child_by_field_name("body")
    start, end = lines.byte_starts[own_first], lines.byte_starts[own_first + 1]
    if body is not None and body.start_byte > node.start_byte:
        end = min(body.start_byte, start + _SIGNATURE_CHARACTERS)
    signature = lines.data[start : min(end, start + _SIGNATURE_CHARACTERS)].decode("utf-8", "ignore").rstrip()
    return Found(name, kind, at, first, last, signature)


def _kind(node: Node, kind: str, outer: _Frame) -> str | None:
    """The kind of definition that a node is, or None if it defines nothing that others can name."""
    if node.type in _BODY_NEEDED and node.child_by_field_name("body") is None:
        return None
    if node.type in ("declaration", "field_declaration") and _declares_function(node):
        return None if outer.is_local else "function"
    if kind == "value":
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        is_function = value is not None and value.type in _FUNCTION_VALUES
        if node.type == "assignment_expression":
            return "function" if is_function and not outer.is_local else None
        if is_function and not (outer.is_local and node.type == "assignment"):
            return "function"
        is_attribute = (left := node.child_by_field_name("left")) is not None and left.type == "attribute"
        if outer.is_local and not is_attribute:
            return None
    return kind


def _declares_function(node: Node) -> bool:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or next(
            iter(declarator.named_children), None
        )
    return declarator is not None and declarator.type == "function_declarator"


def _names(node: Node, kind: str) -> Iterator[tuple[Node, str]]:
    """The nodes that name a definition, with the names that they give, relative to what is around them."""
    fields = ("type",) if kind == "impl" else ("name", "declarator", "left", "property")
    nodes = next((found for field in fields if (found := node.children_by_field_name(field))), [])
    for one in nodes:
        inner = _innermost(one)
        parts = inner.named_children if inner.type in ("pattern_list", "tuple_pattern") else [inner]
        for part in parts:
            text = _plain(part)
            if kind == "impl":
                text = text.partition("<")[0].rpartition(".")[2].strip(" &")
            elif node.type == "assignment_expression":
                text = _JS_PREFIX.sub("", text)
            elif part.type == "attribute":
                text = text.removeprefix("self.")
                if "." in text or not _plain(part).startswith("self."):
                    continue
            if _NAME.fullmatch(text):
                yield part, text


def _innermost(node: Node) -> Node:
    """Follow the declarators of C and its kin down to the name."""
    while node.type.endswith("declarator"):
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if inner is None and not node.named_children:
            break
        node = inner or node.named_children[0]
    return node


def _plain(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace").replace("::", ".")


def _owner(node: Node, outer: _Frame, text: str) -> str | None:
    """What qualifies a name; None if the name is not to be recorded."""
    receiver = node.child_by_field_name("receiver")
    if receiver is not None and (match := _RECEIVER.search(_plain(receiver))):
        return match[1]
    left = node.child_by_field_name("left")
    if left is not None and left.type == "attribute":
        # Of the assignments to self.x, the constructor's are where a reader looks for x.
        owner, _, function = outer.qualifier.rpartition(".")
        return owner if function == "__init__" and owner else None
    if outer.kind == "module" and outer.qualifier and text.startswith(outer.qualifier + "."):
        return ""
    return outer.qualifier


def _mark_borders(root: Node, levels: list[int], lines: Lines, leading: frozenset[str], small: int) -> None:
    """Lower ``levels`` where a syntax node starts on a line of its own: the less deep, the lower."""
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        edge = _rows(lines, node)[0]
        """Last line that is taken."""
        waiting: int | None = None
        """First line of the comments before the next sibling."""
        previous: tuple[bool, str | None] | None = None
        """Of the last sibling, whether it has several lines, and its field."""
        for index, child in enumerate(node.children):
            first, last = _rows(lines, child)
            if last > first and child.end_byte - child.start_byte > small:
                stack.append((child, min(depth + 1, _DEEPEST)))
            if not child.is_named:
                edge = max(edge, last)
                continue
            if child.type in leading:
                if first <= edge:
                    edge = max(edge, last)
                elif waiting is None:
                    waiting = first
                continue
            begin = first if waiting is None else waiting
            field = node.field_name_for_child(index)
            is_long = last > first
            if previous is not None and begin > edge:
                glued = field in _BODY_FIELDS and field != previous[1]
                if not glued:
                    apart = is_long or previous[0] or lines.is_blank(begin - 1)
                    levels[begin] = min(levels[begin], 2 * depth + (0 if apart else 1))
            edge = max(edge, last)
            previous, waiting = (is_long, field), None
