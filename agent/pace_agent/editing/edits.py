"""Search and replace in a text, forgiving of white space and of nothing else.

A model copies the text that it wants to change, and small models copy badly: indentation shifted, line ends
and trailing spaces lost, the line numbers of a listing left in. The ladder tries, in this order, the text as
it stands, then with white space normalised, then without line numbers; each only where the match is the only
one. What is outside the match stays byte for byte; so do the lines inside it that search and replacement
have in common.
"""

from __future__ import annotations

import re

from pace_agent.editing.edited import (
    LINE_END,
    Edited,
    check_storable,
    line_end_near,
    line_of,
    with_line_ends,
    with_span,
)
from pace_agent.editing.loose_match import loose_spans, replaced
from pace_agent.editing.nearest import nearest
from pace_agent.errors import EditError

__all__ = ["Edited", "replace_once"]

_MOST_SPANS = 1_000
_MOST_SHOWN = 20
_NUMBER = r"[^\S\r\n]*(\d+)(?:\t|→|[^\S\r\n]*[|:│]{space}|(?=\r|\n|\Z))"
_NUMBERED = (re.compile(_NUMBER.format(space=" ?")), re.compile(_NUMBER.format(space="")))
"""A line's number in a listing, with and without a space that keeps it apart from the line."""


def replace_once(text: str, search: str, replacement: str, *, path: str) -> Edited:
    """Replace the one place that ``search`` stands for.

    Line ends of search and replacement may be any; the replacement gets those of the place. An empty search
    gives an empty (or new) file its whole content.

    Args:
        text: of the file, line ends as in the file.
        search: what is to be replaced.
        replacement: what comes in its place.
        path: of the file, for messages.

    Raises:
        EditError: there is no such place, or more than one, or nothing would change. The message says what
            to do; it is the same for the same arguments.
    """
    check_storable(replacement, path)
    if not search:
        return _whole(text, replacement, path)
    if not text.strip() and search.strip():
        raise EditError(f"{path} is empty; to give it its content, use an empty search text")
    edited = _on_ladder(text, search, replacement, path)
    if edited is not None:
        return edited
    plain = _plain_lines(text, search)
    if plain is not None and plain.strip():
        new = _without_numbers(replacement) or replacement
        if not plain.endswith(("\n", "\r")):
            new = new.removesuffix("\n").removesuffix("\r")
        edited = _on_ladder(text, plain, new, path, whole_lines=True)
        if edited is not None:
            return Edited(edited.text, edited.first_line, edited.last_line, "numbered")
    raise EditError(_not_found(text, search if plain is None else plain, replacement, path))


def _whole(text: str, replacement: str, path: str) -> Edited:
    if text.strip():
        raise EditError(
            f"the search text is empty, but {path} is not; give the lines to replace, as they stand"
        )
    return with_span(text, 0, len(text), replacement, "whole", path=path)


def _on_ladder(
    text: str, search: str, replacement: str, path: str, *, whole_lines: bool = False
) -> Edited | None:
    spans = [span for span in _exact_spans(text, search) if not whole_lines or _is_of_lines(text, span)]
    if spans:
        start, end = _the_one(text, spans, path)
        if _lacks_line_end(text, start, search, replacement):
            end -= len(re.findall(r"(?:\r\n|\r|\n)\Z", text[start:end])[0])
        new = with_line_ends(replacement, _line_end_for(text, start, end))
        return with_span(text, start, end, new, "exact", path=path)
    if not search.strip():
        return None
    spans = loose_spans(text, search, _MOST_SPANS)
    spans = [span for span in spans if not whole_lines or _is_of_lines(text, span)]
    if not spans:
        return None
    found = replaced(text, _the_one(text, spans, path), search, replacement)
    if found is None:
        return None
    start, end, new = found
    return with_span(text, start, end, new, "whitespace", path=path)


def _is_of_lines(text: str, span: tuple[int, int]) -> bool:
    """Whether a span has nothing but white space beside it on its lines, as what a listing gives has.

    ``500: "missing",`` is no line of a listing where ``404: "missing",`` stands.
    """
    start, end = span
    before = re.split(r"[\r\n]", text[:start])[-1]
    after = "" if text[end - 1 : end] in ("\n", "\r") else re.split(r"[\r\n]", text[end:], maxsplit=1)[0]
    return not before.strip() and not after.strip()


def _lacks_line_end(text: str, start: int, search: str, replacement: str) -> bool:
    """Whether whole lines would be joined with the next: models forget the last line end."""
    is_whole = (
        bool(search.strip()) and search.endswith(("\n", "\r")) and text[start - 1 : start] in ("", "\n", "\r")
    )
    return is_whole and bool(replacement.strip()) and not replacement.endswith(("\n", "\r"))


def _line_end_for(text: str, start: int, end: int) -> str:
    inside = LINE_END.search(text, start, end)
    return inside[0] if inside else line_end_near(text, end)


def _exact_spans(text: str, search: str) -> list[tuple[int, int]]:
    """Where the search text stands, with its own line ends or with those of the text."""
    forms = {search: None}
    if LINE_END.search(search):
        for line_end in ("\r\n", "\n", "\r"):
            if line_end in text:
                forms[LINE_END.sub(lambda _, end=line_end: end, search)] = None  # type: ignore[misc]
    spans: set[tuple[int, int]] = set()
    for form in forms:
        at = text.find(form)
        while at >= 0 and len(spans) < _MOST_SPANS:
            end = at + len(form)
            if text[at - 1 : at + 1] != "\r\n" and text[end - 1 : end + 1] != "\r\n":  # no half line ends
                spans.add((at, end))
            at = text.find(form, at + 1)
    return sorted(spans)


def _the_one(text: str, spans: list[tuple[int, int]], path: str) -> tuple[int, int]:
    if len(spans) == 1:
        return spans[0]
    lines = list(dict.fromkeys(line_of(text, start) for start, _ in spans[: _MOST_SHOWN + 1]))
    shown = ", ".join(map(str, lines[:_MOST_SHOWN])) + (", …" if len(spans) > _MOST_SHOWN else "")
    count = f"{len(spans)} times" if len(spans) < _MOST_SPANS else f"at least {_MOST_SPANS} times"
    raise EditError(
        f"the search text is in {path} {count}, at line{'s' if len(lines) > 1 else ''} {shown}; give more "
        "of the lines around the one that is meant, so that the text is there once"
    )


def _plain_lines(text: str, search: str) -> str | None:
    """The search without line numbers; None if it has none."""
    found = [_without_numbers(search, pattern, consecutive=True) for pattern in _NUMBERED]
    plain = [one for one in found if one is not None]
    for one in plain:
        if any(text[start - 1 : start] in ("", "\n", "\r") for start, _ in _exact_spans(text, one)):
            return one
    return plain[0] if plain else None


def _without_numbers(
    text: str, pattern: re.Pattern[str] = _NUMBERED[0], *, consecutive: bool = False
) -> str | None:
    """The text without the line numbers that a listing put before its lines; None if it has none.

    Args:
        text: of some lines.
        pattern: of a number.
        consecutive: whether each line must have a number, one more than the line before.
    """
    result: list[str] = []
    expected: int | None = None
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text):
        match = pattern.match(line)
        if match is None:
            if consecutive or line.strip():
                return None
            result.append(line)
            continue
        if consecutive and expected is not None and int(match[1]) != expected:
            return None
        expected = int(match[1]) + 1
        result.append(line[match.end() :])
    return "".join(result) if result else None


def _not_found(text: str, search: str, replacement: str, path: str) -> str:
    if not search.strip():
        return f"the search text is white space alone and is not in {path} like that; give a line with text"
    done = ""
    if len(replacement.strip()) > 3:
        spans = _exact_spans(text, replacement.strip()) or loose_spans(text, replacement, 1)
        if spans:
            done = f" The replacement is there already, at line {line_of(text, spans[0][0])}: is it done?"
    return f"the search text is not in {path}.{done}{nearest(text, search)}"
