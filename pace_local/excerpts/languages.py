"""The languages whose grammar is used: which files they are, and which syntax nodes define a name.

A grammar is loaded when the first file of its language is cut. One that is not installed, or was made
for another version of tree-sitter, is no error: the file is then cut as text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath

import tree_sitter

_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_IDENTIFIERS = frozenset(
    {
        "identifier",
        "type_identifier",
        "field_identifier",
        "property_identifier",
        "shorthand_property_identifier",
    }
    | {"namespace_identifier", "package_identifier", "shorthand_property_identifier_pattern"}
)


@dataclass(frozen=True)
class Language:
    """What one grammar calls things."""

    name: str
    module: str
    """Python module of the grammar's wheel."""
    definitions: Mapping[str, str]
    """Node type to kind of definition. Besides the kinds of :class:`Definition` there are ``impl`` (qualifies
    what is inside it, defines nothing), ``anonymous`` (a function without a name: what is inside is local)
    and ``members`` (whose own children in the field ``name`` are fields)."""
    function: str = "language"
    """The module's function that gives the grammar."""
    leading: frozenset[str] = _COMMENTS
    """Nodes that belong to the sibling after them."""
    identifiers: frozenset[str] = _IDENTIFIERS
    values_qualify: bool = False
    """Whether a value qualifies the functions inside it, as an object literal does."""


@dataclass(frozen=True)
class Grammar:
    """A loaded grammar."""

    language: Language
    parser: tree_sitter.Parser = field(compare=False)
    query: tree_sitter.Query = field(compare=False)
    """Captures ``@definition``, ``@identifier`` and ``@error``."""


_JAVASCRIPT = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "method_definition": "function",
    "class_declaration": "type",
    "variable_declarator": "value",
    "field_definition": "field",
    "assignment_expression": "value",
    "arrow_function": "anonymous",
    "function_expression": "anonymous",
    "generator_function": "anonymous",
}

_C = {
    "function_definition": "function",
    "struct_specifier": "type",
    "union_specifier": "type",
    "enum_specifier": "type",
    "type_definition": "type",
    "enumerator": "field",
    "field_declaration": "field",
    "declaration": "value",
    "preproc_def": "macro",
    "preproc_function_def": "macro",
}

PYTHON = Language(
    name="python",
    module="tree_sitter_python",
    definitions={
        "function_definition": "function",
        "class_definition": "type",
        "type_alias_statement": "type",
        "assignment": "value",
        "lambda": "anonymous",
    },
    leading=_COMMENTS | {"decorator"},
)
JAVASCRIPT = Language(
    name="javascript",
    module="tree_sitter_javascript",
    definitions=_JAVASCRIPT,
    leading=_COMMENTS | {"decorator"},
    values_qualify=True,
)
TYPESCRIPT = Language(
    name="typescript",
    module="tree_sitter_typescript",
    function="language_typescript",
    definitions=_JAVASCRIPT
    | {
        "abstract_class_declaration": "type",
        "interface_declaration": "type",
        "type_alias_declaration": "type",
        "enum_declaration": "type",
        "internal_module": "module",
        "module": "module",
        "function_signature": "function",
        "method_signature": "function",
        "abstract_method_signature": "function",
        "public_field_definition": "field",
        "property_signature": "field",
        "enum_assignment": "field",
        "enum_body": "members",
    },
    leading=_COMMENTS | {"decorator"},
    values_qualify=True,
)
TSX = Language(
    name="tsx",
    module="tree_sitter_typescript",
    function="language_tsx",
    definitions=TYPESCRIPT.definitions,
    leading=TYPESCRIPT.leading,
    values_qualify=True,
)
GO = Language(
    name="go",
    module="tree_sitter_go",
    definitions={
        "function_declaration": "function",
        "method_declaration": "function",
        "method_elem": "function",
        "type_spec": "type",
        "type_alias": "type",
        "const_spec": "value",
        "var_spec": "value",
        "field_declaration": "field",
        "func_literal": "anonymous",
    },
)
RUST = Language(
    name="rust",
    module="tree_sitter_rust",
    definitions={
        "function_item": "function",
        "function_signature_item": "function",
        "struct_item": "type",
        "enum_item": "type",
        "union_item": "type",
        "trait_item": "type",
        "type_item": "type",
        "associated_type": "type",
        "impl_item": "impl",
        "mod_item": "module",
        "const_item": "value",
        "static_item": "value",
        "field_declaration": "field",
        "enum_variant": "field",
        "macro_definition": "macro",
        "closure_expression": "anonymous",
    },
    leading=_COMMENTS | {"attribute_item", "inner_attribute_item"},
)
C = Language(name="c", module="tree_sitter_c", definitions=_C)
CPP = Language(
    name="cpp",
    module="tree_sitter_cpp",
    definitions=_C
    | {
        "class_specifier": "type",
        "alias_declaration": "type",
        "concept_definition": "type",
        "namespace_definition": "module",
        "lambda_expression": "anonymous",
    },
)
JAVA = Language(
    name="java",
    module="tree_sitter_java",
    definitions={
        "class_declaration": "type",
        "interface_declaration": "type",
        "enum_declaration": "type",
        "record_declaration": "type",
        "annotation_type_declaration": "type",
        "method_declaration": "function",
        "constructor_declaration": "function",
        "compact_constructor_declaration": "function",
        "annotation_type_element_declaration": "function",
        "field_declaration": "field",
        "constant_declaration": "field",
        "enum_constant": "field",
        "lambda_expression": "anonymous",
    },
)

_SUFFIXES = {
    ".py": PYTHON,
    ".pyi": PYTHON,
    ".pyw": PYTHON,
    ".js": JAVASCRIPT,
    ".mjs": JAVASCRIPT,
    ".cjs": JAVASCRIPT,
    ".jsx": JAVASCRIPT,
    ".ts": TYPESCRIPT,
    ".mts": TYPESCRIPT,
    ".cts": TYPESCRIPT,
    ".tsx": TSX,
    ".go": GO,
    ".rs": RUST,
    ".c": C,
    ".h": C,
    ".cc": CPP,
    ".cpp": CPP,
    ".cxx": CPP,
    ".hh": CPP,
    ".hpp": CPP,
    ".hxx": CPP,
    ".cu": CPP,
    ".cuh": CPP,
    ".ipp": CPP,
    ".inl": CPP,
    ".java": JAVA,
}
_SHEBANG = re.compile(r"#!.*\b(python|node)[\d.]*\b")
_CPP_HEADER = re.compile(r"^\s*(?:class|namespace|template|using)\b|::", re.MULTILINE)


def language_of(path: str, text: str) -> Language | None:
    """The language of a file by its suffix, else by its first line; None if it is no known one."""
    suffix = PurePath(path).suffix.lower()
    if suffix == ".h" and _CPP_HEADER.search(text):
        return CPP
    if suffix:
        return _SUFFIXES.get(suffix)
    shebang = _SHEBANG.match(text)
    if not shebang:
        return None
    return PYTHON if shebang[1] == "python" else JAVASCRIPT


@cache
def _loaded(module: str, function: str) -> tree_sitter.Language | None:
    try:
        return tree_sitter.Language(getattr(importlib.import_module(module), function)())
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return None


def grammar_of(language: Language) -> Grammar | None:
    """The grammar, or None if it cannot be loaded."""
    loaded = _loaded(language.module, language.function)
    if loaded is None:
        return None
    # Node types differ between releases of a grammar: one that it does not know would fail the whole query.
    patterns = [
        f"[{' '.join(f'({kind})' for kind in kinds)}] @{capture}"
        for capture, names in (("definition", language.definitions), ("identifier", language.identifiers))
        if (kinds := sorted(kind for kind in names if loaded.id_for_node_kind(kind, True)))
    ]
    query = tree_sitter.Query(loaded, "\n".join([*patterns, "(ERROR) @error"]))
    return Grammar(language, tree_sitter.Parser(loaded), query)
