"""Lines of a file, or all of them, replaced by the code of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from pace_agent.editing.code_blocks import CodeBlock, in_language
from pace_agent.editing.cut_answers import check_closed
from pace_agent.editing.edited import Edited, check_storable, line_end_near, with_line_ends, with_span
from pace_agent.editing.elisions import elided_line
from pace_agent.editing.file_parts import WholeFile, is_part, with_guard, with_parts
from pace_agent.editing.indentation import Fit, columns, indent_of, step_of
from pace_agent.editing.syntax_faults import new_fault
from pace_agent.errors import EditError
from pace_agent.repository.outline import Outline
from pace_local.excerpts.layout import split_lines

_LEAST_KEPT = 0.5
"""Share of a file's lines that must come back when it is given whole and its language is not known; and of so
many lines as are shown, those that an answer must have at least."""


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


def apply_lines(
    text: str, path: str, lines: tuple[int, int], blocks: Sequence[CodeBlock], *, is_cut: bool = False
) -> Edited:
    """Replace the lines that a model was shown by those of the last block of its answer.

    Args:
        text: of the file.
        path: of the file; says the language.
        lines: first and last, 1-based, inclusive.
        blocks: of the answer.
        is_cut: whether the answer reached its greatest length.

    Raises:
        EditError: as :func:`replace_lines`; or code is left out, or the file does not parse with it.
    """
    block = in_language(blocks, path)[-1:]
    if not block:
        raise EditError("the answer holds no code; give the whole of these lines in one code block")
    first, last = lines
    old = "".join(split_lines(text)[max(0, first - 1) : last])
    check_closed(block[0], "these lines", is_cut=is_cut)
    check_whole(block[0].text, old, "these lines")
    own, new = (sum(bool(line.strip()) for line in split_lines(code)) for code in (old, block[0].text))
    if new < _LEAST_KEPT * own:
        raise EditError(f"the answer gives {new} of {own} lines; give all of these lines, changed or not")
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


def apply_whole_file(
    text: str, path: str, blocks: Sequence[CodeBlock], answer: str, *, is_cut: bool = False
) -> WholeFile:
    """Replace a file by an answer that was to give all of it.

    An answer that lacks functions, classes or functions of classes that the file has, or most of what stands
    outside of them, is taken as giving some definitions only: those are replaced one by one, and new ones are
    put in. In a language that is not known, half of the file's lines must be there, and none behind the block
    that a fence of the file ended too early.

    Args:
        text: of the file.
        path: of the file; says the language.
        blocks: of the answer.
        answer: all of it.
        is_cut: whether the answer reached its greatest length.

    Raises:
        EditError: the answer leaves out code, is cut off, does not parse, or changes nothing.
    """
    candidates = in_language(blocks, path)
    if not candidates:
        raise EditError(f"the answer holds no code; give the whole of {path} in one code block")
    block = max(candidates, key=lambda one: len(one.text))
    code = block.text
    check_closed(block, path, is_cut=is_cut, last=text)
    check_whole(code, text, path)
    try:
        own, given = Outline(text, path), Outline(code, path)
    except EditError:
        before = [line.strip() for line in split_lines(text) if line.strip()]
        after = {line.strip() for line in split_lines(code)}
        outside = {line.strip() for line in split_lines(answer)} - after
        if any(line.startswith(("```", "~~~")) for line in before) and any(
            line in outside and not line.startswith(("```", "~~~")) for line in before
        ):
            raise EditError(
                f"the answer's block ends at a fence in {path}; put it between fences of six"
            ) from None
        if sum(line in after for line in before) < _LEAST_KEPT * len(before):
            raise EditError(
                f"the answer leaves out most lines of {path}; give the whole file, every line of it"
            ) from None
    else:
        if is_part(own, given):
            return with_parts(own, given)
        code = with_guard(own, given)
    edited = replace_lines(text, 1, len(split_lines(text)), code, path=path)
    fault = new_fault(text, edited.text, path)
    if fault is not None:
        raise EditError(f"{path} does not parse as it was given: {fault}; give the whole file, to its end")
    return WholeFile(edited, ())
