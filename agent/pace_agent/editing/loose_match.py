"""Places that a text stands for when white space is normalised, and what a replacement becomes there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pace_agent.editing.edited import LINE_END, line_end_near
from pace_agent.editing.indentation import Fit, columns, fit_between, indent_of, step_of
from pace_local.excerpts.layout import split_lines

_GAP = re.compile(r"\s+")
_IN_LINE = r"[^\S\r\n]+"
_REST_OF_LINE = re.compile(r"[^\S\r\n]*(?=\r|\n|\Z)")
_OVER_LINES = r"[^\S\r\n]*(?:\r\n|\r|\n)\s*"


def loose_spans(text: str, search: str, most: int) -> list[tuple[int, int]]:
    """Where the words of a text stand with other white space between them.

    White space within a line stands for any within a line, a line end (and the blank lines and indentation
    after it) for any line end; what is no white space must be the same. A match begins and ends with whole
    words.

    Args:
        text: of the file.
        search: holds more than white space.
        most: spans that are looked for.

    Returns:
        Start and end of each, from its first to its last character that is no white space.
    """
    core = search.strip()
    pieces = [re.escape(word) for word in _GAP.split(core)]
    gaps = [_OVER_LINES if LINE_END.search(gap) else _IN_LINE for gap in _GAP.findall(core)]
    before = r"(?<!\S)" if search[0].isspace() else r"(?<!\w)" if _is_word(core[0]) else ""
    after = r"(?!\S)" if search[-1].isspace() else r"(?!\w)" if _is_word(core[-1]) else ""
    body = "".join(piece + gap for piece, gap in zip(pieces, [*gaps, ""], strict=True))
    pattern = re.compile(before + body + after)
    spans: list[tuple[int, int]] = []
    match = pattern.search(text)
    while match and len(spans) < most:
        spans.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return spans


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


@dataclass(frozen=True)
class _Unit:
    """A line with text in it, and the blank lines behind it."""

    indent: str
    content: str
    tail: str
    """White space up to the next such line's start: line ends, and what blank lines hold."""

    @property
    def blank_lines(self) -> int:
        return len(LINE_END.findall(self.tail)) - 1


def _units(text: str) -> list[_Unit]:
    units: list[_Unit] = []
    for line in split_lines(text):
        content = line.strip()
        if content:
            indent = indent_of(line)
            units.append(_Unit(indent, content, line[len(indent) + len(content) :]))
        elif units:
            last = units.pop()
            units.append(_Unit(last.indent, last.content, last.tail + line))
    return units


def replaced(text: str, span: tuple[int, int], search: str, replacement: str) -> tuple[int, int, str] | None:
    """What a replacement becomes in the place of a span that :func:`loose_spans` found for ``search``.

    Lines that search and replacement share stay as they are in the file; the others get the file's
    indentation and line ends. A replacement without text takes the lines out.

    Returns:
        Start and end of what is replaced, and what comes there; None if the lines of the span are not
        indented as those of the search, shifted as a block: how deep the new lines go is not known then.
    """
    start, end = span
    head = text[_line_start(text, start) : start]
    is_within = bool(head.strip())
    """Whether the span begins in the middle of a line."""
    if not is_within:
        start -= len(head)
    if rest := _REST_OF_LINE.match(text, end):
        end = rest.end()
    theirs, ours, new = _units(search), _units(text[start:end]), _units(replacement)
    if is_within:
        theirs[0] = _Unit("", theirs[0].content, theirs[0].tail)
    fit = _fit(theirs, ours, new, is_within, text)
    if fit is None:
        return None
    line_end = line_end_near(text, start)
    if not new:
        return (*_cut(text, start, end, is_within), "")
    if is_within:
        # Its first line goes on behind what is before it, the space that search has there too.
        lead = replacement[: len(replacement) - len(replacement.lstrip())]
        keeps = lead != search[: len(search) - len(search.lstrip())] and not search[0].isspace()
        new[0] = _Unit(lead if keeps else "", new[0].content, new[0].tail)
        return start, end, "".join(_lines(theirs, ours, new, fit, line_end, is_within=True))
    body = "".join(_lines(theirs, ours, new, fit, line_end))
    more, fewer = _blank_lines(replacement, search, first=True)
    start = _without_blank_lines(text, start, fewer, forward=False)
    more_after, fewer = _blank_lines(replacement, search, first=False)
    end = _without_blank_lines(text, end, fewer, forward=True)
    return start, end, line_end * more + body + line_end * more_after


def _fit(theirs: list[_Unit], ours: list[_Unit], new: list[_Unit], is_within: bool, text: str) -> Fit | None:
    pairs = [(a.indent, b.indent) for a, b in zip(theirs, ours, strict=True)][is_within:]
    rest = pairs[1:]
    model_step = step_of([one.indent + one.content for one in (*theirs, *new)])
    is_lost = bool(rest) and not is_within and pairs[0][0] == "" and all(a == b for a, b in rest)
    if is_lost and any(0 < columns(one.indent) < columns(rest[0][0]) for one in new):
        # Copied from the first character on, so that the first line alone lost its indentation.
        if new and new[0].indent == "":
            new[0] = _Unit(pairs[0][1], new[0].content, new[0].tail)
        theirs[0] = _Unit(pairs[0][1], theirs[0].content, theirs[0].tail)
        pairs = [(pairs[0][1], pairs[0][1]), *rest]
    return fit_between(pairs, model_step, step_of(split_lines(text[: 1 << 18])))


def _lines(
    theirs: Sequence[_Unit],
    ours: Sequence[_Unit],
    new: Sequence[_Unit],
    fit: Fit,
    line_end: str,
    *,
    is_within: bool = False,
) -> Iterator[str]:
    """The new lines, in pieces."""
    same = _same_lines(theirs, new)
    for at, unit in enumerate(new):
        known = same.get(at)
        if known is None:
            yield (unit.indent if is_within and at == 0 else fit(unit.indent)) + unit.content
        else:
            yield ours[known].indent + ours[known].content
        is_last = at + 1 == len(new)
        if known is None:
            yield "" if is_last else line_end * (1 + unit.blank_lines)
            continue
        tail = ours[known].tail
        own = LINE_END.search(tail)
        if is_last:
            yield tail[: own.start()] if own else tail
        elif own is None:
            yield tail + line_end * (1 + unit.blank_lines)
        elif same.get(at + 1, known + 1) == known + 1 and unit.blank_lines == theirs[known].blank_lines:
            yield tail
        else:
            yield tail[: own.end()] + line_end * unit.blank_lines


def _same_lines(theirs: Sequence[_Unit], new: Sequence[_Unit]) -> dict[int, int]:
    """Line of the replacement -> the same line of the search."""
    a = [(one.indent, one.content) for one in theirs]
    b = [(one.indent, one.content) for one in new]
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return {block.b + at: block.a + at for block in matcher.get_matching_blocks() for at in range(block.size)}


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def _cut(text: str, start: int, end: int, is_within: bool) -> tuple[int, int]:
    """The span with the rest of its last line, if lines are taken out as a whole."""
    rest = re.compile(r"[^\S\r\n]*(?:\r\n|\r|\n|\Z)").match(text, end)
    return (start, rest.end()) if rest and not is_within else (start, end)


def _blank_lines(new: str, old: str, *, first: bool) -> tuple[int, int]:
    """How many blank lines more, and how many fewer, the new text has at its start or its end."""
    counts = []
    for one in (new, old):
        space = one[: len(one) - len(one.lstrip())] if first else one[len(one.rstrip()) :]
        counts.append(max(0, len(LINE_END.findall(space)) - (0 if first else 1)))
    return max(0, counts[0] - counts[1]), max(0, counts[1] - counts[0])


def _without_blank_lines(text: str, offset: int, count: int, *, forward: bool) -> int:
    """The offset moved over so many blank lines before it, or after its line; over fewer if there are."""
    for _ in range(count):
        if forward:
            match = re.compile(r"[^\S\r\n]*(?:\r\n|\r|\n)(?=[^\S\r\n]*(?:\r|\n))").match(text, offset)
            if match is None:
                break
            offset = match.end()
        else:
            before = text[:offset]
            end = len(before) - (2 if before.endswith("\r\n") else 1)
            line = before[_line_start(before, max(0, end)) :]
            if not line or line.strip():
                break
            offset -= len(line)
    return offset
