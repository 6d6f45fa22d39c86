"""What one file defines, which identifiers it uses and where, and which modules it imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

from tree_sitter import Node, QueryCursor

from pace_agent.editing.import_lines import IMPORTS
from pace_agent.errors import EditError
from pace_agent.repository.outline import ATTRIBUTES, Outline
from pace_agent.repository.word_postings import WORD
from pace_local.excerpts.languages import Grammar, grammar_of, language_of
from pace_local.excerpts.layout import Lines
from pace_local.excerpts.text import style_of, text_layout

LARGEST_PARSED = 512 * 1024
"""Characters of a file that a grammar reads at most; what is longer is read by patterns."""

_DEEPEST = 500  # brackets in brackets, on which a grammar takes minutes
_MINIFIED = 1_000  # characters of a line, on average
_NESTING = re.compile(r"[()\[\]{}]")
_DOTTED_STRING = re.compile(r"""["'](?:[^\W\d]\w*(?:\.|::))+([^\W\d]\w*)["']""")
_STRING = re.compile(r"""["']([^\W\d]\w*)["']""")
_QUOTED_MODULE = re.compile(r"""["'`<]([^"'`<>\n]+)["'`>]""")
_REQUIRED = re.compile(r"""\b(?:require|import)\(\s*["']([^"'\n]+)["']\s*\)""")
_IMPORTED = re.compile(r"\b(?:use|import)\s+(?:static\s+)?([\w.:]+)")
_DATA = frozenset(
    re.findall(
        r"\w+",
        """
        7z a avi bin bmp br bz2 class csv dat db dll doc docx dylib eot exe flac gguf gif gz h5 ico ipynb
        jar jpeg jpg jsonl lock map mkv mo mov mp3 mp4 npy npz o ods ogg onnx otf parquet pdf pickle pkl
        png po ppt pptx psd pyc pyd rar safetensors so sqlite sqlite3 svg tar tgz tif tiff tsv ttf wasm
        wav webm webp whl woff woff2 xls xlsx xz zip zst
        """,
    )
)
"""Suffixes of files that hold no names to look for."""
_NAMES_OF_PATTERNS = frozenset({"function", "type", "value", "macro", "module"})


@dataclass(frozen=True)
class Place:
    """A definition, or lines outside of all definitions."""

    path: str
    """From the repository, with ``/``."""
    symbol: str
    """Qualified by what is around it: ``Orders.total``; empty for lines outside of definitions."""
    first: int
    """First line, 1-based."""
    last: int
    """Last line, inclusive."""
    kind: str
    """``function``, ``type``, ``value``, ``field``, ``macro``, ``module``, ``declaration`` (a function that
    is only declared there), or ``lines``."""

    @property
    def leaf(self) -> str:
        """The last part of the symbol."""
        return self.symbol.rpartition(".")[2]

    @property
    def name(self) -> str:
        """As plans name it: ``shop/orders.py:Orders.total``, or the path alone."""
        return f"{self.path}:{self.symbol}" if self.symbol else self.path


@dataclass(frozen=True)
class FileFacts:
    """What was found in a file."""

    path: str
    lines: int
    definitions: tuple[Place, ...] = ()
    """In the order of the file, what is around others first."""
    uses: dict[str, tuple[int, ...]] | None = None
    """Identifier -> lines that use it, those that define it left out; None if the file is no code."""
    modules: tuple[str, ...] = ()
    """What its imports name, as they do."""

    def around(self, line: int) -> Place | None:
        """The definition that holds a line: the outermost function, or else the innermost of the others."""
        found = None
        for one in self.definitions:
            if one.first <= line <= one.last:
                found = one
                if one.kind == "function":
                    break
        return found

    def users(self, name: str) -> tuple[Place, ...]:
        """Definitions that use an identifier; neighbouring lines outside of definitions are one place."""
        found: list[Place] = []
        for line in (self.uses or {}).get(name, ()):
            place = self.around(line)
            if place is None:
                before = found[-1] if found and found[-1].kind == "lines" else None
                if before and line <= before.last + 1:
                    found[-1] = Place(self.path, "", before.first, line, "lines")
                    continue
                place = Place(self.path, "", line, line, "lines")
            if place not in found:
                found.append(place)
        return tuple(found)


def is_code(path: str, text: str) -> bool:
    """Whether a file is searched for names: code, with or without a grammar, and settings."""
    if PurePosixPath(path).suffix.lower().lstrip(".") in _DATA:
        return False
    return language_of(path, text) is not None or style_of(path) != "prose"


def definition_form(name: str) -> re.Pattern[str]:
    """What stands in the text of each file that defines a name, and in few others.

    A name behind a dot is used, not defined, unless what is before it is the object or module itself.
    """
    word = re.escape(name)
    no_call = rf"(?:(?<![.\w$])|\b(?:self|this|exports|prototype)\.){word}(?![\w$(])"
    with_parameters = rf"(?:^[ \t]*|[\w*&>)~:#]\s*){word}\s*[(<]"
    return re.compile(f"{no_call}|{with_parameters}", re.MULTILINE)


def facts_of(text: str, path: str) -> FileFacts:
    """What a file defines and uses. The time is bounded whatever it holds."""
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    if not is_code(path, text):
        return FileFacts(path, count)
    language = language_of(path, text)
    grammar = _grammar(text, path) if language and _is_parsable(text, count) else None
    if grammar is None:
        return _by_patterns(text, path, count)
    try:
        outline = Outline(text, path)
    except EditError:
        return _by_patterns(text, path, count)
    definitions = tuple(
        Place(
            path,
            one.name,
            one.first_line,
            one.last_line,
            "declaration" if one.is_declaration else one.kind,
        )
        for one in outline.definitions
    )
    modules = dict.fromkeys([*_modules(outline, outline.root), *_REQUIRED.findall(text)])
    return FileFacts(path, count, definitions, _uses(outline, grammar), tuple(modules))


def _is_parsable(text: str, lines: int) -> bool:
    if len(text) > LARGEST_PARSED or len(text) > _MINIFIED * max(lines, 1):
        return False
    depths = accumulate(1 if one in "([{" else -1 for one in _NESTING.findall(text))
    return max(depths, default=0) <= _DEEPEST


_GRAMMARS: dict[str, Grammar | None] = {}


def _grammar(text: str, path: str) -> Grammar | None:
    language = language_of(path, text)
    if language is None:
        return None
    if language.name not in _GRAMMARS:  # the query of one takes as long to make as a file to read
        _GRAMMARS[language.name] = grammar_of(language)
    return _GRAMMARS[language.name]


def _uses(outline: Outline, grammar: Grammar) -> dict[str, tuple[int, ...]]:
    captures = QueryCursor(grammar.query).captures(outline.root)
    data, lines = outline.lines.data, outline.lines
    places: dict[str, list[int]] = {}
    for node in captures.get("identifier", ()):
        name = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        places.setdefault(name, []).append(node.start_byte)
    for one in outline.definitions:
        found = places.get(one.name.rpartition(".")[2], [])
        start = _behind_attributes(one.node) if one.node is not None else one.start_byte
        own = min((at for at in found if start <= at < one.end_byte), default=None)
        if own is not None:
            found.remove(own)
    uses = {name: {lines.line_at_byte(at) + 1 for at in found} for name, found in places.items() if found}
    for name, line in _named_in_strings(outline):
        uses.setdefault(name, set()).add(line)
    return {name: tuple(sorted(found)) for name, found in uses.items()}


def _behind_attributes(node: Node) -> int:
    """Where a definition itself begins, behind its decorators."""
    return max((one.end_byte for one in node.children if one.type in ATTRIBUTES), default=node.start_byte)


def _named_in_strings(outline: Outline) -> Iterator[tuple[str, int]]:
    """Names in strings that mean what code does: those of ``__all__``, and those behind a module."""
    for match in _DOTTED_STRING.finditer(outline.text):
        yield match[1], outline.lines.line_at(match.start(1)) + 1
    for one in outline.definitions:
        if one.name == "__all__":
            for line in range(one.first_line, one.last_line + 1):
                yield from ((name, line) for name in _STRING.findall(outline.lines.lines[line - 1]))


def _modules(outline: Outline, root: Node) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in IMPORTS or (node.type == "export_statement" and node.child_by_field_name("source")):
            yield from _modules_of(outline, node)
        else:
            stack.extend(reversed(node.named_children))


def _modules_of(outline: Outline, node: Node) -> Iterator[str]:
    text = " ".join(outline.part(node).split())
    if outline.language.name != "python":
        quoted = _QUOTED_MODULE.findall(text)
        yield from quoted
        if not quoted:
            found = _IMPORTED.search(text)
            yield from [found[1].replace("::", ".").removeprefix("crate.").strip(".")] if found else []
        return
    module = node.child_by_field_name("module_name")
    names = [
        outline.part(one.child_by_field_name("name") or one) for one in node.children_by_field_name("name")
    ]
    if module is None:
        yield from names
        return
    start = outline.part(module)
    yield start
    yield from (f"{start}{'' if start.endswith('.') else '.'}{name}" for name in names)


def _by_patterns(text: str, path: str, count: int) -> FileFacts:
    """What the form of lines shows, where no grammar reads a file."""
    if len(text) > LARGEST_PARSED or len(text) > _MINIFIED * max(count, 1):
        return FileFacts(path, count, uses={})
    lines = Lines(text)
    found = [one for one in text_layout(lines, path).found if one.kind in _NAMES_OF_PATTERNS] if text else []
    definitions = tuple(
        Place(path, one.name, one.first_line + 1, one.last_line + 1, one.kind)
        for one in found
        if style_of(path) == "code"
    )
    defined = {(one.leaf, one.first) for one in definitions}
    uses: dict[str, list[int]] = {}
    for number, line in enumerate(lines.lines, 1):
        for name in dict.fromkeys(WORD.findall(line)):
            if (name, number) not in defined:
                uses.setdefault(name, []).append(number)
    return FileFacts(path, count, definitions, {name: tuple(at) for name, at in uses.items()})
