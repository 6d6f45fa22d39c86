"""A model's answer made an edit of the place that it was shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePath
from typing import Literal

from pace_agent.editing.added_definitions import with_new_definitions
from pace_agent.editing.answer_edits import Replacement, diff_hunks, search_blocks
from pace_agent.editing.class_members import lacking, replace_members
from pace_agent.editing.code_blocks import (
    CodeBlock,
    Picked,
    as_code,
    code_blocks,
    definition_text,
    in_language,
    pick,
)
from pace_agent.editing.cut_answers import check_end, cut_off, is_open
from pace_agent.editing.edited import Edited, with_span
from pace_agent.editing.edits import replace_once
from pace_agent.editing.line_edits import apply_lines, apply_whole_file, check_whole, replace_lines
from pace_agent.editing.renamed import name_after, not_renamed, qualified, renamed
from pace_agent.editing.replacement import replace_definition
from pace_agent.editing.same_named import definitions_named, head_of, several_named
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
    is_cut: bool = False,
) -> Applied:
    """Apply an answer to the place that the model was shown.

    The definition is replaced by the last whole one of that name in the answer, with the imports it brings
    and those new definitions beside it that it uses. Of a class that lacks functions which the file's has,
    the functions are replaced one by one, and those that are lacking stay. Without a symbol the lines, or
    the whole file, are replaced. Search and replace blocks and diffs are taken as what they are. Everything
    else stays byte for byte, whatever else the answer holds. Of several definitions of the name, such as a
    property's, those are replaced that the answer has with the same first line.

    Args:
        text: of the file, line ends as in the file.
        path: of the file; says the language.
        symbol: of the definition that was asked for; None: lines were.
        answer: of the model, whole.
        near_line: of several definitions of the name, the one nearest to this line, 1-based; None: any.
        lines: first and last, 1-based and inclusive, that were shown; None without a symbol: the whole file.
        rename: old and new name, unqualified, where the task is to give the definition another name.
        is_cut: whether the answer reached its greatest length, so that code that stands open at its end may
            not be all of it.

    Raises:
        EditError: the answer holds nothing that can be applied, leaves code out, is cut off, does not parse,
            changes nothing, or leaves the old name to what is renamed. The message is fit for the model.
    """
    edits = search_blocks(answer)
    how: How = "search" if edits else "diff"
    edits = edits or diff_hunks(answer)
    if edits:
        if is_cut and is_open(answer):
            raise cut_off("the changes")
        edited = _edits(text, path, symbol, edits, near_line)
        return Applied(edited, name_after(edited.text, path, symbol, rename), how)
    blocks: Sequence[CodeBlock] = code_blocks(answer)
    if not blocks:
        bare = as_code(answer, path)
        if bare is None:
            what = symbol or ("these lines" if lines else path)
            raise EditError(f"the answer holds no code; give the whole of {what} in one code block")
        blocks = (dataclasses.replace(bare, is_closed=bare.is_closed and not is_cut),)
    if symbol is None:
        if lines is not None:
            return Applied(apply_lines(text, path, lines, blocks, is_cut=is_cut), None, "lines")
        whole = apply_whole_file(text, path, blocks, answer, is_cut=is_cut)
        return Applied(whole.edited, None, "file", whole.added)
    outline = Outline(text, path)
    targets = definitions_named(outline, symbol, near_line)
    if not targets:
        replace_definition(text, path, symbol, "x", near_line=near_line)  # raises, with what there is
        raise EditError(f"{path} does not define {symbol}")
    cut = blocks[-1].text if is_cut and not blocks[-1].is_closed else None
    if len(targets) > 1:
        return _several(outline, targets, blocks, rename, cut)
    return _definition(outline, targets[0], blocks, near_line, rename, cut)


def _definition(
    outline: Outline,
    target: Definition,
    blocks: Sequence[CodeBlock],
    near_line: int | None,
    rename: tuple[str, str] | None,
    cut: str | None,
) -> Applied:
    """One definition.

    Args:
        outline: of the file.
        target: in it.
        blocks: of the answer.
        near_line: as for :func:`apply_answer`; this and the next.
        rename: old and new name.
        cut: the code that the answer broke off in; None: it did not.
    """
    text, path = outline.text, outline.path
    start, end = outline.characters(target.start_byte, target.end_byte)
    original = text[start:end]
    name = target.name
    how: How = "definition"
    picked = None
    if rename is not None and target.name.rpartition(".")[2] == rename[0]:
        name = qualified(target.name, rename[1])
        picked = pick(blocks, path, name, original)
        if picked is not None:
            text, how = renamed(outline, [target], name), "renamed"
    picked = picked or pick(blocks, path, target.name, original)
    check_end(picked, blocks, target, cut)
    if picked is not None and original.startswith("@"):
        _check_decorated(outline, target, head_of(definition_text(picked.outline, picked.definition)))
    if rename is not None and name != target.name and how == "definition" and picked is not None:
        raise not_renamed(rename)
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


def _check_decorated(outline: Outline, target: Definition, head: str) -> None:
    """Refuse an answer without the decorators that tell a definition from others of its name."""
    own = definition_text(outline, target)
    if not head.startswith("@") and len(definitions_named(outline, target.name)) > 1:
        raise EditError(f"{target.name} begins with {head_of(own)!r}; give it whole, with that first line")


def _several(
    outline: Outline,
    targets: Sequence[Definition],
    blocks: Sequence[CodeBlock],
    rename: tuple[str, str] | None,
    cut: str | None,
) -> Applied:
    """Those of several definitions of one name that the answer has; the arguments as for one."""
    text, path, name = outline.text, outline.path, targets[0].name
    how: How = "definition"
    originals = [definition_text(outline, one) for one in targets]
    is_renamed = rename is not None and name.rpartition(".")[2] == rename[0]
    if rename is not None and is_renamed:
        old = re.compile(rf"(?<!\w){re.escape(rename[0])}(?!\w)")
        originals = [old.sub(rename[1], original) for original in originals]
        name, how = qualified(name, rename[1]), "renamed"
        text = renamed(outline, targets, name)
    given: dict[int, Picked] = {}
    for at, original in enumerate(originals):
        picked = pick(blocks, path, name, original)
        code = "" if picked is None else definition_text(picked.outline, picked.definition)
        if picked is None or head_of(code) != head_of(original):
            continue
        alike = [each for each in originals if head_of(each) == head_of(original)]
        if max(alike, key=lambda each: SequenceMatcher(None, each, code).ratio()) == original:
            check_end(picked, blocks, targets[at], cut)
            check_whole(picked.source, original, name)
            given[at] = picked
    if not given or (is_renamed and len(given) < len(targets)):
        if cut is not None:
            raise cut_off(name)
        raise several_named(name, [head_of(original) for original in originals], path)
    added: list[str] = []
    for at, picked in given.items():
        near = definitions_named(Outline(text, path), name)[at].first_line
        if _is_same(text, path, name, picked.source, near):
            continue
        edited = replace_definition(text, path, name, picked.source, near_line=near)
        edited, new, _ = with_new_definitions(edited, path, name, picked, near)
        text, added = edited.text, [*added, *new]
    fault = new_fault(outline.text, text, path)
    if fault is not None:
        raise EditError(f"with this {name} {path} does not parse: {fault}; give the whole of it, to its end")
    edited = with_span(outline.text, 0, len(outline.text), text, "definition", path=path)
    return Applied(edited, name, how, tuple(added))


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
