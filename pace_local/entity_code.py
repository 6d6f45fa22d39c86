"""Names and constants of code, found by its tree-sitter grammar."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Tree

from pace_local.entity_words import LONGEST_CONSTANT, is_constant, is_telling
from pace_local.excerpts.languages import PYTHON, Language, grammar_of

_BUILTINS = frozenset(dir(builtins))

_COMMENTS = frozenset({"comment", "line_comment", "block_comment", "doc_comment", "html_comment"})
_STRINGS = frozenset(
    {"string_content", "string_fragment", "raw_string_content", "system_lib_string"}
    | {f"{kind}_string_literal_content" for kind in ("interpreted", "raw")}
    | {"multiline_string_fragment"}
)
_NUMBERS = frozenset(
    {"integer", "float", "number", "int_literal", "integer_literal", "number_literal", "float_literal"}
    | {"imaginary_literal", "decimal_floating_point_literal", "hex_floating_point_literal"}
    | {f"{base}_integer_literal" for base in ("decimal", "hex", "octal", "binary")}
)
_MORE_IDENTIFIERS = frozenset({"private_property_identifier"})


@dataclass
class CodeEntities:
    """What a grammar found; offsets in bytes."""

    entities: list[tuple[int, int]] = field(default_factory=list)
    prose: list[tuple[int, int]] = field(default_factory=list)
    """Comments and long strings."""


def read_code(data: bytes, language: Language) -> CodeEntities | None:
    """Find entities with a grammar; None if there is none here, or the text is prose."""
    grammar = grammar_of(language)
    if grammar is None:
        return None
    found, names = CodeEntities(), language.identifiers | _MORE_IDENTIFIERS
    leaves = stray = stray_names = 0
    for kind, start, end, is_leaf, is_stray in _nodes(grammar.parser.parse(data)):
        leaves, stray = leaves + is_leaf, stray + (is_leaf and is_stray)
        if kind in _COMMENTS:
            found.prose.append((start, end))
        elif kind in names or kind in _NUMBERS or kind in _STRINGS:
            text = data[start:end].decode("utf-8", "replace")
            if kind in names:
                stray_names += is_stray
                is_entity = is_telling(text) and not (language is PYTHON and text in _BUILTINS)
            elif kind in _NUMBERS:
                is_entity = text not in ("0", "1")
            else:
                is_entity = is_constant(text)
                if not is_entity and len(text) > LONGEST_CONSTANT:
                    found.prose.append((start, end))
            if is_entity:
                found.entities.append((start, end))
    # Code that is broken or cut off has fewer names than other tokens.
    is_prose = 2 * stray > leaves and 3 * stray_names > 2 * stray
    return None if is_prose else found


def _nodes(tree: Tree) -> Iterator[tuple[str, int, int, bool, bool]]:
    """Kind, start and end of each node, outer before inner; whether it is a leaf; whether an error holds it.
    The kind of a keyword or sign is empty: some are spelled like kinds.

    Nothing inside comments and strings is visited; they count as leaves. A walk is linear; queries take
    minutes for a long row of brackets.
    """
    cursor = tree.walk()
    in_error = [False]
    while True:
        node = cursor.node
        assert node is not None
        kind = node.type if node.is_named else ""
        is_closed = kind in _COMMENTS or kind in _STRINGS
        is_leaf = is_closed or node.child_count == 0
        yield kind, node.start_byte, node.end_byte, is_leaf, in_error[-1]
        if not is_closed and cursor.goto_first_child():
            in_error.append(kind == "ERROR")
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            in_error.pop()
