"""A model's answer made an edit of the place that it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from tree_sitter import Node

from pace_agent.editing.added_definitions import with_new_definitions
from pace_agent.editing.answer_edits import Replacement, diff_hunks, search_blocks
from pace_agent.editing.class_members import lacking, replace_members
from pace_agent.editing.code_blocks import CodeBlock, Picked, as_code, code_blocks, in_language, pick
from pace_agent.editing.edited import Edited, with_span
from pace_agent.editing.edits import replace_once
from pace_agent.editing.line_edits import apply_lines, apply_whole_file, check_whole, replace_lines
from pace_agent.editing.replacement import replace_definition
from pace_agent.editing.syntax_faults import new_fault
from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition, Outline

__all__ = ["Applied", "How", "apply_answer", "replace_lines"]

How = Literal["definition", "renamed", "members", "lines", "file", "search", "diff"]
"""What the answer was: the definition, one under its new name, some functions of a class, lines, a file,
search and replace blocks, a diff."""


@dataclass(frozen=True)
class Applied:
    """An answer that was applied."""

    edited: Edited
    symbol: str | None
    """Of the definition, qualified, as it is called now; None for lines."""
    how: How
    added: tuple[str, ...] = ()
    """New definitions that came with it."""
    left_out: tuple[str, ...] = ()
    """Other definitions that the answer held and that were not put into the file."""


def apply_answer(
    text: str,
    path: str,
    symbol: str | None,
    answer: str,
    *,
    near_line: int | None = None,
    lines: tuple[int, int] | None = None,
    rename: tuple[str, str] | None = None,
) -> Applied:
    """Apply an answer to the place that the model was shown.

    The definition is replaced by the last whole one of that name in the answer, with the imports it brings
    and those new definitions beside it that it uses. Of a class that lacks functions which the file's has,
    the functions are replaced one by one, and those that are lacking stay. Without a symbol the lines, or
    the whole file, are replaced. Search and replace blocks and diffs are taken as what they are. Everything
    else stays byte for byte, whatever else the answer holds.

    Args:
        text: of the file, line ends as in the file.
        path: of the file; says the language.
        symbol: of the definition that was asked for; None: lines were.
        answer: of the model, whole.
        near_line: of several definitions of the name, the one nearest to this line, 1-based.
        lines: first and last, 1-based and inclusive, that were shown; None without a symbol: the whole file.
        rename: old and new name, unqualified, where the task is to give the definition another name.

    Raises:
        EditError: the answer holds nothing that can be applied, leaves code out, does not parse, or changes
            nothing. The message is fit for the model.
    """
    edits = search_blocks(answer)
    how: How = "search" if edits else "diff"
    edits = edits or diff_hunks(answer)
    if edits:
        edited = _edits(text, path, symbol, edits, near_line)
        return Applied(edited, symbol, how)
    blocks: Sequence[CodeBlock] = code_blocks(answer)
    if not blocks:
        bare = as_code(answer, path)
        if bare is None:
            what = f"the whole of {symbol}" if symbol else "the whole of these lines"
            raise EditError(f"the answer holds no code; give {what} in one code block")
        blocks = (bare,)
    if symbol is None:
        if lines is not None:
            return Applied(apply_lines(text, path, lines, blocks), None, "lines")
        whole = apply_whole_file(text, path, blocks)
        return Applied(whole.edited, None, "file", whole.added)
    return _definition(text, path, symbol, blocks, near_line, rename)


def _definition(
    text: str,
    path: str,
    symbol: str,
    blocks: Sequence[CodeBlock],
    near_line: int | None,
    rename: tuple[str, str] | None,
) -> Applied:
    outline = Outline(text, path)
    target = outline.find(symbol, near_line)
    if target is None:
        replace_definition(text, path, symbol, "x", near_line=near_line)  # raises, with what there is
        raise EditError(f"{path} does not define {symbol}")
    start, end = outline.characters(target.start_byte, target.end_byte)
    original = text[start:end]
    name = target.name
    how: How = "definition"
    picked = None
    if rename is not None and target.name.rpartition(".")[2] == rename[0]:
        name = _qualified(target.name, rename[1])
        picked = pick(blocks, path, name, original)
        if picked is not None:
            text, how = _renamed(outline, target, name), "renamed"
    picked = picked or pick(blocks, path, target.name, original)
    if target.kind == "type" and how == "definition":
        members = _members(outline, target, picked, blocks)
        if members is not None:
            return members
    source = _source(picked, blocks, path, target.name, original)
    near = near_line if near_line is not None else target.first_line
    wanted = name if how == "renamed" else target.name
    try:
        edited = replace_definition(text, path, wanted, source, near_line=near)
    except EditError:
        if how != "renamed" or not _is_same(text, path, wanted, source, near):
            raise
        edited = with_span(outline.text, 0, len(outline.text), text, "definition", path=path)
    added: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    if picked is not None:
        edited, added, left_out = with_new_definitions(edited, path, wanted, picked, near)
    if how == "renamed" or added:
        edited = with_span(outline.text, 0, len(outline.text), edited.text, "definition", path=path)
    fault = new_fault(outline.text, edited.text, path)
    if fault is not None:
        raise EditError(
            f"with this {wanted} {path} does not parse: {fault}; give the whole of it, to its end"
        )
    return Applied(edited, wanted, how, added, left_out)


def _members(
    outline: Outline, target: Definition, picked: Picked | None, blocks: Sequence[CodeBlock]
) -> Applied | None:
    """Functions of a class alone, where the answer lacks some: small models give those that they change.

    What the class has and the answer does not is kept, so that no code is ever lost by an answer cut short.
    """
    if picked is not None:
        given, scope = [picked.outline], picked.definition.name
        if not lacking(outline, target, picked.outline, scope):
            return None
    else:
        given, scope = [Outline(block.text, outline.path) for block in in_language(blocks, outline.path)], ""
    for one in given:
        check_whole(one.text, outline.text, target.name)
    members = replace_members(outline, target, given, scope) if given else None
    if members is None and picked is not None:
        missing = ", ".join(lacking(outline, target, picked.outline, scope)[:8])
        raise EditError(f"the answer leaves out {missing} of {target.name}; give the whole of {target.name}")
    if members is None:
        return None
    fault = new_fault(outline.text, members.edited.text, outline.path)
    if fault is not None:
        raise EditError(f"with this {target.name} {outline.path} does not parse: {fault}; give it to its end")
    return Applied(members.edited, target.name, "members", members.added)


def _source(picked: Picked | None, blocks: Sequence[CodeBlock], path: str, name: str, original: str) -> str:
    if picked is None:
        candidates = in_language(blocks, path)
        defined = [
            one.name
            for block in candidates
            for one in Outline(block.text, path).definitions
            if one.kind in ("function", "type")
        ]
        if defined:
            raise EditError(
                f"the answer defines {', '.join(dict.fromkeys(defined))[:200]}, not {name}; "
                f"give {name} whole, with that name"
            )
        # What does not even look like a definition: the replacement says what is wrong with it.
        return candidates[-1].text if candidates else ""
    check_whole(picked.source, original, name)
    return picked.source


def _qualified(name: str, new: str) -> str:
    head = name.rpartition(".")[0]
    return f"{head}.{new}" if head else new


def _renamed(outline: Outline, target: Definition, name: str) -> str:
    """The file with the definition's name changed where it is defined, and nowhere else."""
    old, new = target.name.rpartition(".")[2], name.rpartition(".")[2]
    if any(one.name == name for one in outline.definitions):
        raise EditError(f"{outline.path} defines {name} already; {old} cannot be called that too")
    node = _name_node(outline, target, old)
    if node is None:
        raise EditError(f"{old} cannot be renamed where {outline.path} defines it; use search and replace")
    start, end = outline.characters(node.start_byte, node.end_byte)
    return outline.text[:start] + new + outline.text[end:]


def _name_node(outline: Outline, target: Definition, name: str) -> Node | None:
    stack = [target.node] if target.node is not None else []
    while stack:
        node = stack.pop()
        if node.type in outline.language.identifiers and outline.part(node) == name:
            parent = node.parent
            if parent is None or parent.type != "decorator":
                return node
        stack.extend(one for one in reversed(node.children) if one.type != "decorator")
    return None


def _is_same(text: str, path: str, name: str, source: str, near_line: int) -> bool:
    """Whether a source is just what the file has under the name by now."""
    outline = Outline(text, path)
    target = outline.find(name, near_line)
    if target is None:
        return False
    start, end = outline.characters(target.start_byte, target.end_byte)
    given = [line.strip() for line in source.split("\n") if line.strip()]
    return [line.strip() for line in text[start:end].splitlines() if line.strip()] == given


def _edits(
    text: str, path: str, symbol: str | None, edits: Sequence[Replacement], near_line: int | None
) -> Edited:
    result = text
    for edit in edits:
        if edit.path is not None and PurePath(edit.path).name != PurePath(path).name:
            raise EditError(f"the answer changes {edit.path}; change {path} alone")
        if not edit.search.strip() and text.strip():
            raise EditError(
                f"a change that holds no line of {path} as it is now has no place; give the lines around it"
            )
        result = _edit(result, path, symbol, edit, near_line)
    fault = new_fault(text, result, path)
    if fault is not None:
        raise EditError(f"after these changes {path} does not parse: {fault}; give the whole code instead")
    return with_span(text, 0, len(text), result, "exact", path=path)


def _edit(text: str, path: str, symbol: str | None, edit: Replacement, near_line: int | None) -> str:
    """One replacement, in the definition that was shown if it is there."""
    try:
        return replace_once(text, edit.search, edit.replacement, path=path).text
    except EditError:
        span = _span(text, path, symbol, near_line)
        if span is None:
            raise
        start, end = span
        try:
            inside = replace_once(text[start:end], edit.search, edit.replacement, path=path)
        except EditError:
            inside = None
        if inside is None:
            raise
        return text[:start] + inside.text + text[end:]


def _span(text: str, path: str, symbol: str | None, near_line: int | None) -> tuple[int, int] | None:
    """The whole lines of a definition, in characters."""
    if symbol is None:
        return None
    try:
        outline = Outline(text, path)
        target = outline.find(symbol, near_line)
    except EditError:
        return None
    if target is None:
        return None
    return outline.lines.starts[target.first_line - 1], outline.lines.starts[target.last_line]
