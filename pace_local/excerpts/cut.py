"""Cutting a file into excerpts: at definition borders, or at the best borders that it has."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from pace_local.errors import ConfigError
from pace_local.excerpts.code import code_layout
from pace_local.excerpts.excerpt import CountTokens, Excerpt, ExcerptKind
from pace_local.excerpts.languages import grammar_of, language_of
from pace_local.excerpts.layout import Found, Layout, Lines
from pace_local.excerpts.names import all_identifiers, names_in_prose
from pace_local.excerpts.text import text_layout
from pace_local.files import SourceText

MAX_TOKENS = 400
"""Tokens of an excerpt, at most, unless the caller says otherwise."""

_TOO_LARGE = 1.5
"""A text of so many times the characters that should fit, by the last count, is cut without being counted."""

_MINIFIED = 2_000
"""Characters of a line, on average, from which on a syntax tree has nothing to say about lines."""

_ENCLOSING = frozenset({"function", "type", "module", "impl", "value", "macro", "section"})
_BREAKS = (re.compile(r"[.!?;][\"')\]]{0,2}\s{1,2}(?=\S)"), re.compile(r"[,;{}]|\s(?=\S)"))


def cut(source: SourceText, max_tokens: int, count_tokens: CountTokens) -> list[Excerpt]:
    """Cut a file into excerpts of at most ``max_tokens`` tokens.

    Small neighbours share an excerpt. What is larger than an excerpt is cut inside, at its own inner
    borders: members of a class, statements, paragraphs, lines, and last within a line. Comments and
    decorators stay with what they precede.

    Args:
        source: the file.
        max_tokens: tokens of an excerpt, at most. Only a single character can have more.
        count_tokens: counts the tokens of a text; called a few times for each excerpt. It must not give
            more than one token for each UTF-8 byte.

    Returns:
        The excerpts in order; together they are the file's text. None for a text without characters.

    Raises:
        ConfigError: ``max_tokens`` is below 1.
    """
    if max_tokens < 1:
        raise ConfigError(f"an excerpt cannot have {max_tokens} tokens; use 1 or more (400 is a good size)")
    lines = Lines(source.text)
    language = language_of(source.path, source.text)
    is_minified = len(source.text) > _MINIFIED * len(lines)
    grammar = grammar_of(language) if language and not is_minified else None
    layout = code_layout(lines, grammar, max_tokens) if grammar else None
    if layout is None:
        layout = text_layout(lines, source.path)
    spans = _Cutter(lines, layout.levels, max_tokens, count_tokens).spans()
    return list(_excerpts(source.path, lines, layout, spans))


class _Cutter:
    """Divides lines into spans of characters that are small enough each."""

    def __init__(self, lines: Lines, levels: list[int], max_tokens: int, count_tokens: CountTokens) -> None:
        self._text = lines.text
        self._starts = lines.starts
        self._levels = levels
        self._max = max_tokens
        self._count_tokens = count_tokens
        self._sure = max_tokens if lines.text.isascii() else max_tokens // 4
        self._characters_per_token = 3.5
        """As counted last; it only says where to try first."""

    def spans(self) -> list[tuple[int, int]]:
        """Spans of characters, in order, that together are the text."""
        result: list[tuple[int, int]] = []
        todo: list[tuple[int, int, bool | None]] = [(0, len(self._levels), None)] if self._levels else []
        while todo:
            first, end, fits = todo.pop()
            if fits is None:
                fits = self._fits(self._starts[first], self._starts[end])
            if fits:
                result.append((self._starts[first], self._starts[end]))
            elif end - first == 1:
                result += self._parts_of_line(self._starts[first], self._starts[end])
            else:
                todo += reversed(self._divided(first, end))
        return result

    def _count(self, start: int, end: int) -> int:
        tokens = self._count_tokens(self._text[start:end])
        self._characters_per_token = max(0.25, (end - start) / max(1, tokens))
        return tokens

    def _fits(self, start: int, end: int) -> bool:
        size = end - start
        if size <= self._sure:
            return True
        return size <= self._countable() and self._count(start, end) <= self._max

    def _countable(self) -> int:
        """Characters of the largest text that is counted."""
        # Not by the last count alone: if that was of a few odd characters, nothing would be counted again.
        return int(_TOO_LARGE * max(self._capacity(), 2 * self._max))

    def _capacity(self) -> float:
        """Characters of a full excerpt, by the last count."""
        return max(1.0, self._max * self._characters_per_token)

    def _divided(self, first: int, end: int) -> list[tuple[int, int, bool | None]]:
        """Divide a range of lines at its strongest borders; neighbours that fit together stay together.

        Returns:
            Ranges of lines, and of each whether it fits, where that is known.
        """
        strongest = min(self._levels[first + 1 : end])
        borders = [first, *(at for at in range(first + 1, end) if self._levels[at] == strongest), end]
        offsets = [self._starts[at] for at in borders]
        # Excerpts of like size are better than full ones and a rest of one line.
        size = offsets[-1] - offsets[0]
        aim = int(1.15 * size / math.ceil(size / self._capacity()))
        result: list[tuple[int, int, bool | None]] = []
        at = 0
        while at < len(borders) - 1:
            after, fits = self._furthest(offsets, at, aim)
            result.append((borders[at], borders[after], fits))
            at = after
        return result

    def _furthest(self, offsets: list[int], at: int, aim: int) -> tuple[int, bool | None]:
        """How many parts from border ``at`` on make one excerpt of at most ``aim`` characters.

        Returns:
            The border after them, and whether they fit, where that is known.
        """
        start = offsets[at]
        good = bisect_right(offsets, start + self._sure) - 1
        bad = bisect_right(offsets, start + self._countable())
        within = bisect_right(offsets, start + aim) - 1
        if within <= max(good, at + 1) or bad <= at + 1:
            after = max(at + 1, min(good, within))
            return after, True if after <= good else False if after >= bad else None
        bad = min(bad, within + 1)
        for attempt in range(8):
            # A border that by the last count is too far is not tried.
            size = self._capacity()
            if bad - good <= 1 or (good > at and offsets[good + 1] > start + size):
                break
            middle = bisect_right(offsets, int(start + 0.95 * size)) - 1 if attempt < 3 else (good + bad) // 2
            middle = min(max(middle, good + 1), bad - 1)
            tokens = self._count(start, offsets[middle])
            if tokens > self._max:
                bad = middle
                continue
            good = middle
            if tokens >= 0.85 * self._max:
                break
        return max(at + 1, good), good > at or (False if bad == at + 1 else None)

    def _parts_of_line(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Divide one line: after a sentence, else after a sign or a space, else anywhere."""
        while start < end:
            size = min(end - start, int(self._capacity()))
            while size > 1 and not self._fits(start, start + size):
                size = max(1, min(size - 1, int(0.9 * self._capacity())))
            stop = start + size
            if stop < end:
                stop = self._break_before(start, stop)
            yield start, stop
            start = stop

    def _break_before(self, start: int, stop: int) -> int:
        least = start + (stop - start) // 2
        for pattern in _BREAKS:
            ends = [match.end() for match in pattern.finditer(self._text, least, stop)]
            if ends:
                return ends[-1]
        is_pair = self._text[stop - 1 : stop + 1] == "\r\n"
        return stop - 1 if is_pair and stop - 1 > start else stop


def _excerpts(path: str, lines: Lines, layout: Layout, spans: list[tuple[int, int]]) -> Iterator[Excerpt]:
    at_names = [offset for offset, _ in layout.identifiers]
    upcoming = upcoming_name = 0
    around: list[Found] = []  # definitions that began before and have not ended
    for start, end in spans:
        text = lines.text[start:end]
        first, last = lines.line_at(start), lines.line_at(end - 1)
        last_text = last  # blank lines after a definition are not in it
        while last_text > first and lines.is_blank(last_text):
            last_text -= 1
        around = [one for one in around if one.last_line >= last_text]
        inner_from = upcoming
        end_byte = lines.byte_at(last, end - lines.starts[last])
        while upcoming < len(layout.found) and layout.found[upcoming].at < end_byte:
            upcoming += 1
        inside = layout.found[inner_from:upcoming]
        defines = tuple(dict.fromkeys(one.definition() for one in inside if one.kind != "impl"))
        names_from, upcoming_name = upcoming_name, bisect_left(at_names, end_byte)
        names = layout.identifiers[names_from:upcoming_name]
        yield Excerpt(
            path=path,
            start_line=first + 1,
            end_line=last + 1,
            text=text,
            kind=_kind(layout, around, bool(defines), any(one.kind == "section" for one in inside)),
            defines=defines,
            mentions=frozenset(_mentions(layout, text, [name for _, name in names])),
            scope=around[-1].name if around else "",
            head="\n".join(one.signature for one in around),
            offset=start,
        )
        around += [one for one in inside if one.kind in _ENCLOSING and one.last_line > last]


def _kind(layout: Layout, around: list[Found], defines: bool, has_section: bool) -> ExcerptKind:
    if layout.style in ("prose", "settings"):
        return "section" if has_section or any(one.kind == "section" for one in around) else "text"
    if defines:
        return "definitions"
    return "part" if around else "statements"


def _mentions(layout: Layout, text: str, identifiers: list[str]) -> Iterator[str]:
    yield from identifiers
    if layout.style in ("code", "settings"):
        yield from all_identifiers(text)
    else:
        yield from names_in_prose(text)
