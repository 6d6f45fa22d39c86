"""Lines of a file, or all of them, replaced by the code of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pace_agent.editing.class_members import lacking, replace_members
from pace_agent.editing.code_blocks import CodeBlock, definition_text, in_language, unindented
from pace_agent.editing.edited import Edited, check_storable, line_end_near, with_line_ends, with_span
from pace_agent.editing.elisions import elided_line
from pace_agent.editing.import_lines import IMPORTS, with_imports
from pace_agent.editing.indentation import Fit, columns, indent_of, step_of
from pace_agent.editing.replacement import replace_definition
from pace_agent.editing.syntax_faults import new_fault
from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition, Outline
from pace_local.excerpts.layout import split_lines

_LEAST_KEPT = 0.5
"""Share of a file's lines that must come back when it is given whole and its language is not known."""


class WholeFile(NamedTuple):
    """A file after an answer that was to give all of it."""

    edited: Edited
    added: tuple[str, ...]
    """New definitions, where the answer gave some definitions only."""


def replace_lines(text: str, first: int, last: int, new: str, *, path: str) -> Edited:
    """Replace whole lines.

    New lines get the line ends of those around them, and, where the first of them is less indented than the
    first line that they replace, its indentation too. Whether the file ended with a line end stays so.

    Args:
        text: of the file.
        first: line, 1-based.
        last: line, inclusive; one less than ``first`` puts the new lines before it.
        new: lines to put there; empty takes the old ones out.
        path: of the file, for messages.

    Raises:
        EditError: if there are no such lines, or nothing would change.
    """
    check_storable(new, path)
    own = split_lines(text)
    if not (1 <= first <= last + 1 <= len(own) + 1):
        raise EditError(f"{path} has {len(own)} lines; {first} to {last} are not among them")
    start = sum(map(len, own[: first - 1]))
    end = start + sum(map(len, own[first - 1 : last]))
    line_end = line_end_near(text, start)
    old = own[first - 1 : last]
    fresh = [line.rstrip("\r\n") for line in split_lines(_fitted(new, old, own))]
    result = with_line_ends(line_end.join(fresh) + (line_end if fresh else ""), line_end)
    if end == len(text) and text and not text.endswith(("\n", "\r")):
        result = result.removesuffix(line_end)
        if start == end and start:
            result = line_end + result
    return with_span(text, start, end, result, "whole", path=path)


def _fitted(new: str, old: Sequence[str], own: Sequence[str]) -> str:
    """New lines at the indentation of the old ones, if they came with less."""
    lines = split_lines(new)
    theirs = next((indent_of(line) for line in lines if line.strip()), "")
    ours = next((indent_of(line) for line in old if line.strip()), "")
    if columns(theirs) >= columns(ours):
        return new
    fit = Fit({theirs: ours}, step_of(lines), step_of(own))
    return "".join(fit(indent_of(line)) + line.lstrip(" \t") if line.strip() else line for line in lines)


def apply_lines(text: str, path: str, lines: tuple[int, int], blocks: Sequence[CodeBlock]) -> Edited:
    """Replace the lines that a model was shown by those of the last block of its answer.

    Raises:
        EditError: as :func:`replace_lines`; or code is left out, or the file does not parse with it.
    """
    block = in_language(blocks, path)[-1:]
    if not block:
        raise EditError("the answer holds no code; give the whole of these lines in one code block")
    first, last = lines
    old = "".join(split_lines(text)[max(0, first - 1) : last])
    check_whole(block[0].text, old, "these lines")
    edited = replace_lines(text, first, last, block[0].text, path=path)
    fault = new_fault(text, edited.text, path)
    if fault is not None:
        raise EditError(
            f"with these lines {path} does not parse: {fault}; give all of them, complete to the end"
        )
    return edited


def check_whole(code: str, original: str, what: str) -> None:
    """Refuse code that leaves something out.

    Raises:
        EditError: with the line that stands for what is not there.
    """
    line = elided_line(code, original)
    if line is not None:
        raise EditError(f"the answer leaves code out at {line[:100]!r}; give the whole of {what}, every line")


def apply_whole_file(text: str, path: str, blocks: Sequence[CodeBlock]) -> WholeFile:
    """Replace a file by an answer that was to give all of it.

    An answer that lacks functions, classes or functions of classes that the file has is taken as giving some
    definitions only: those are replaced one by one, and new ones are put at the end. In a language that is
    not known, half of the file's lines must be there.

    Raises:
        EditError: the answer leaves out code, does not parse, or changes nothing.
    """
    candidates = in_language(blocks, path)
    if not candidates:
        raise EditError(f"the answer holds no code; give the whole of {path} in one code block")
    code = max((block.text for block in candidates), key=len)
    check_whole(code, text, path)
    try:
        own, given = Outline(text, path), Outline(code, path)
    except EditError:
        before = [line.strip() for line in split_lines(text) if line.strip()]
        after = {line.strip() for line in split_lines(code)}
        if sum(line in after for line in before) < _LEAST_KEPT * len(before):
            raise EditError(
                f"the answer leaves out most lines of {path}; give the whole file, every line of it"
            ) from None
    else:
        known, new = _outermost(own), _outermost(given)
        if known.keys() - new.keys() or any(
            lacking(own, one, given, name) for name, one in known.items() if one.kind == "type"
        ):
            return _some_definitions(text, own, given)
    edited = replace_lines(text, 1, len(split_lines(text)), code, path=path)
    fault = new_fault(text, edited.text, path)
    if fault is not None:
        raise EditError(f"{path} does not parse as it was given: {fault}; give the whole file, to its end")
    return WholeFile(edited, ())


def _outermost(outline: Outline) -> dict[str, Definition]:
    return {
        one.name: one
        for one in outline.definitions
        if one.kind in ("function", "type") and "." not in one.name and one.node is not None
    }


def _some_definitions(text: str, own: Outline, given: Outline) -> WholeFile:
    """A file with those of its definitions replaced that were given, and new ones at its end."""
    result, path = text, own.path
    added: list[str] = []
    known = _outermost(own)
    imports = [node for node in given.root.children if node.type in IMPORTS and not node.has_error]
    for name, one in _outermost(given).items():
        source = definition_text(given, one)
        if name in known:
            now = Outline(result, path)
            target = now.find(name, known[name].first_line)
            is_class = target is not None and target.kind == "type"
            if target is not None and is_class and (left_out := lacking(now, target, given, name)):
                members = replace_members(now, target, [given], name)
                if members is None:
                    raise EditError(
                        f"the answer leaves out {', '.join(left_out[:8])} of {name}; give the whole of {name}"
                    )
                result, added = members.edited.text, [*added, *members.added]
            elif target is None or _stripped(definition_text(now, target)) != _stripped(source):
                result = replace_definition(result, path, name, source, near_line=known[name].first_line).text
        elif one.node is not None and not one.node.has_error:
            line_end = line_end_near(result, 0)
            gap = line_end * (2 if own.language.name == "python" else 1)
            end = "" if result.endswith(("\n", "\r")) else line_end
            result += end + gap + with_line_ends(unindented(source).rstrip(), line_end) + line_end
            added.append(name)
    if not _outermost(given):
        missing = ", ".join(list(known)[:8])
        raise EditError(
            f"the answer does not hold {missing} of {path}; give the whole file, every line of it"
        )
    if result != text:
        result = with_imports(Outline(result, path), given, imports)
    fault = new_fault(text, result, path)
    if fault is not None:
        raise EditError(f"{path} does not parse with this: {fault}; give the whole file, to its end")
    return WholeFile(with_span(text, 0, len(text), result, "definition", path=path), tuple(added))


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in split_lines(code) if line.strip()]
