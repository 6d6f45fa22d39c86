"""The code of an answer, and in it the definition that was asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tree_sitter import Node

from pace_agent.editing.elisions import is_elided
from pace_agent.editing.import_lines import IMPORTS
from pace_agent.editing.indentation import indent_of
from pace_agent.editing.syntax_faults import indentation_fault
from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition, Outline
from pace_local.entities import SUFFIX_OF_TAG
from pace_local.excerpts.languages import language_of
from pace_local.excerpts.layout import split_lines
from pace_local.fenced import fenced_blocks

__all__ = [
    "CodeBlock",
    "Picked",
    "as_code",
    "block_of_file",
    "code_blocks",
    "is_elided",
    "pick",
    "pick_definition",
    "unindented",
]

_PATH = r"[\w.@+\-/\\]*[\w+\-]\.[A-Za-z]\w{0,9}"
_INFO_PATH = re.compile(rf"(?:^|[\s:=\"'{{])({_PATH})(?=$|[\s\"'}}:])")
_PROSE_PATH = re.compile(
    rf"^\W*(?:(?:file|path|filename|in|edit|updated?)\b:?\s*)?[`*\"'(]*({_PATH})[`*\"')]*\W*$",
    re.IGNORECASE,
)
_COMMENT_PATH = re.compile(
    rf"^\s*(?:#|//|/\*|<!--|--)\s*(?:file(?:name)?:\s*)?({_PATH})\s*(?:\*/|-->)?\s*$", re.IGNORECASE
)
_FAMILIES = ({"javascript", "typescript", "tsx"}, {"c", "cpp"})
_BEGINS = re.compile(
    r"^\s*(?:@\w|async |def |class |import |from \w+ import|func |function |fn |pub |impl |struct |enum "
    r"|type |const |let |var |export |public |private |static |#include|#\[|interface |package |use |template"
    r"|void |int |\w+ = )"
)
_MOST_STARTS = 4
_MOST_ENDS = 10
_LARGEST = 20_000
"""Characters of an answer without fences that are looked at for code."""


@dataclass(frozen=True)
class CodeBlock:
    """A block of code in an answer."""

    language: str
    """As its fence says, in small letters; empty if it does not."""
    text: str
    """Lines, each ended by a line feed, a first one that only names the file left out."""
    path_hint: str | None
    """The file that is said to be meant: behind the fence, on the line before it, or by its first comment."""
    is_closed: bool
    """Whether its end was written; a last block that was not may be cut off."""


@dataclass(frozen=True)
class Picked:
    """A definition in an answer."""

    source: str
    """The definition, its first line not indented, behind the imports that the answer brings."""
    name: str
    """As the answer qualifies it."""
    outline: Outline
    """Of the block that holds it."""
    definition: Definition
    is_whole: bool
    """Whether it parses and leaves nothing out."""


def code_blocks(answer: str) -> tuple[CodeBlock, ...]:
    """The blocks of an answer that stand between fences, in order; empty ones are left out."""
    found = []
    for block in fenced_blocks(answer):
        tag, text = block.tag, block.text
        hint = _first(_INFO_PATH, block.info)
        if hint == block.info.strip().split(" ")[0]:  # the path stands where the language does
            tag = hint.rpartition(".")[2].casefold()
        tag = re.split(r"[:=,{]", tag)[0]
        lines = split_lines(text)
        if lines and (own := _COMMENT_PATH.match(lines[0])):
            hint, text = hint or own[1], "".join(lines[1:])
        said = [line for line in block.before.split("\n") if line.strip()][-1:]
        hint = hint or (_first(_PROSE_PATH, said[0]) if said else None)
        if text.strip():
            found.append(CodeBlock(tag, text, hint, block.is_closed))
    return tuple(found)


def as_code(answer: str, path: str) -> CodeBlock | None:
    """An answer without fences, or the part of it that is code; None if none is.

    Args:
        answer: of a model.
        path: of the file that it is about; says the language.
    """
    text = "\n".join(re.split(r"\r\n|\r|\n", answer[:_LARGEST])).strip("\n")
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if _BEGINS.match(line)][:_MOST_STARTS]
    gaps = [at for at, line in enumerate(lines) if not line.strip()]
    ends = sorted({*gaps, *range(max(1, len(lines) - 2), len(lines) + 1)}, reverse=True)[:_MOST_ENDS]
    for start in starts:
        for end in ends:
            part = "\n".join(lines[start:end]).rstrip() + "\n"
            if end > start and _is_code(part, path):
                return CodeBlock("", part, None, True)
    if not starts:
        return None
    return CodeBlock("", "\n".join(lines[starts[0] :]) + "\n", None, False)


def pick_definition(blocks: Sequence[CodeBlock], path: str, name: str) -> str | None:
    """The whole definition of a name that blocks hold; None if none does.

    All blocks count; of several definitions the last whole one wins. Imports, wherever they stand in the
    blocks, are put before it. What else the blocks hold is left out.

    Args:
        blocks: of an answer.
        path: of the file; says the language.
        name: qualified or not; a method may stand alone or in its class.
    """
    picked = pick(blocks, path, name)
    return picked.source if picked is not None and picked.is_whole else None


def pick(blocks: Sequence[CodeBlock], path: str, name: str, original: str = "") -> Picked | None:
    """As :func:`pick_definition`, with what stands around it; one that is not whole if there is no other.

    Args:
        blocks: of an answer.
        path: of the file; says the language.
        name: of the definition.
        original: the definition as the file has it; of several of the name in one block, such as a
            property's, the one that begins like it is taken.

    Raises:
        EditError: if there is no grammar for the file's language.
    """
    outlines = [Outline(block.text, path) for block in in_language(blocks, path)]
    closed = [block.is_closed for block in in_language(blocks, path)]
    found: list[tuple[tuple[bool, bool, int], Outline, Definition]] = []
    for at, outline in enumerate(outlines):
        one = _in_block(outline, name, original)
        if one is not None:
            is_whole = _parses(outline, one) and not is_elided(definition_text(outline, one), original)
            found.append(((is_whole, closed[at], at), outline, one))
    if not found:
        return None
    rank, outline, one = max(found, key=lambda each: each[0])
    imports = "".join(f"{text}\n" for text in dict.fromkeys(_imports(outlines)))
    source = imports + definition_text(outline, one) + "\n"
    return Picked(source, one.name, outline, one, rank[0])


def in_language(blocks: Sequence[CodeBlock], path: str) -> list[CodeBlock]:
    """The blocks that are in a file's language, or do not say theirs, and name no other file.

    If there are none such, those that come nearest.
    """
    wanted = language_of(path, "")
    own = []
    for block in blocks:
        tag = SUFFIX_OF_TAG.get(block.language, block.language)
        language = language_of(f"x.{tag}", "") if tag else None
        if not tag or block.language == "code" or (language is not None and _are_kin(language.name, wanted)):
            own.append(block)
    own = own or [block for block in blocks if block.language not in ("diff", "patch")]
    file = PurePath(path).name
    return [
        block for block in own if block.path_hint is None or PurePath(block.path_hint).name == file
    ] or own


def block_of_file(blocks: Sequence[CodeBlock], path: str) -> CodeBlock:
    """The block that holds a new file: one that names it, or else one that names none; the longest.

    Raises:
        EditError: if there is no block, or all are for other files.
    """
    filled = [block for block in blocks if block.text.strip()]
    if not filled:
        raise EditError("there is no code block in the answer; write the whole file in one")
    ranked = [(_names(block.path_hint, path), block) for block in filled]
    best = max(rank for rank, _ in ranked)
    if best == 0:
        others = ", ".join(dict.fromkeys(str(block.path_hint) for block in filled))
        raise EditError(f"the answer gives {others[:200]}; give {path} alone, whole, in one code block")
    own = [block for rank, block in ranked if rank == best]
    return max(in_language(own, path) or own, key=lambda block: len(block.text))


def _names(hint: str | None, path: str) -> int:
    """How surely what stands at a block means a file: 0 another, 1 none, 2 one of its name, 3 this one."""
    if hint is None:
        return 1
    said, meant = PurePath(hint.replace("\\", "/")).parts, PurePath(path).parts
    shorter = min(len(said), len(meant))
    if said[-shorter:] == meant[-shorter:]:
        return 3
    return 2 if said[-1:] == meant[-1:] else 0


def _are_kin(name: str, wanted: object) -> bool:
    other = getattr(wanted, "name", None)
    return name == other or any(name in family and other in family for family in _FAMILIES)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _is_code(text: str, path: str) -> bool:
    try:
        outline = Outline(text, path)
    except EditError:
        return False
    return bool(outline.definitions) and next(outline.faults(), None) is None


def _in_block(outline: Outline, name: str, original: str) -> Definition | None:
    """The definition of a name in a block; the last one, if none begins like the original."""
    wanted = name.strip().removesuffix("()").replace("::", ".").replace("#", ".").strip(".")
    last = wanted.rpartition(".")[2]
    for form in (wanted, last):
        found = [one for one in outline.definitions if one.node is not None and one.name == form]
        found = found or [
            one
            for one in outline.definitions
            if one.node is not None and one.name.endswith(f".{form}") and _is_outermost_of(one, wanted)
        ]
        found = [one for one in found if not one.is_declaration] or found
        if found:
            head = original.strip().split("\n")[0].strip()
            alike = [
                one for one in found if definition_text(outline, one).strip().split("\n")[0].strip() == head
            ]
            return (alike or found)[-1]
    return None


def _is_outermost_of(one: Definition, wanted: str) -> bool:
    """Whether a qualified name can be what is wanted: the shorter ends the longer."""
    return one.name.endswith(f".{wanted}") or wanted.endswith(f".{one.name}")


def _parses(outline: Outline, one: Definition) -> bool:
    if one.node is None or one.node.has_error:
        return False
    is_python = outline.language.name == "python"
    return not is_python or indentation_fault(definition_text(outline, one)) is None


def definition_text(outline: Outline, one: Definition) -> str:
    """A definition's lines as they stand in the outline's text, without the indentation of the first."""
    line = outline.lines.lines[one.first_line - 1]
    text = outline.lines.data[one.start_byte : one.end_byte].decode("utf-8", "replace")
    return unindented(indent_of(line) + text)


def unindented(code: str) -> str:
    """Lines without the indentation of the first, where they have it."""
    lines = split_lines(code)
    base = indent_of(lines[0]) if lines else ""
    return "".join(line.removeprefix(base) for line in lines)


def _imports(outlines: Sequence[Outline]) -> list[str]:
    nodes: list[tuple[Outline, Node]] = [
        (outline, node)
        for outline in outlines
        for node in outline.root.children
        if node.type in IMPORTS and not node.has_error
    ]
    return [outline.part(node).rstrip() for outline, node in nodes]
