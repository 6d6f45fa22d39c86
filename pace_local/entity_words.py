"""Names and constants by their form: in prose, and in code that no grammar reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from pace_local.excerpts.names import looks_like_name
from pace_local.excerpts.words import STOP_WORDS

LONGEST_CONSTANT = 60
"""Characters of a string or quotation that can be a constant; what is longer is prose."""
_MOST_WORDS = 4
_LONGEST_NAME = 80  # what is longer is data, not a name

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        assert await begin bool case catch class cls def delete elif else end enum except false fn foreach
        func function import include int interface kwargs args match module new nil none null print
        raise require return self sizeof str string struct super switch this throw
        trait true typeof unless until void yield
        """,
    )
)
"""What is everywhere in code and tells one place from no other, in lower case."""

_PART = r"[^\W\d]\w*"
_WORD = re.compile(rf"(?<!\w){_PART}")
_DOTTED = re.compile(r"(?<![\w.])[^\W\d]\w+(?:(?:\.|::|->)[^\W\d]\w+)+")
_CALLED = re.compile(rf"(?<!\w){_PART}(?=\((?!e?s\)))")
_MARKED = re.compile(
    r"""(?<!`)`+([^`\n]{1,80})`|(?<!\w)(?:"([^"\n]{1,80})"|“([^”\n]{1,80})”|'([^'\n]{1,80})')(?!\w)"""
)
_UNIT = (
    r"%|‰|°[CF]?|€|[kMGT]?(?:i?B|bit|Hz|W|V|J)|K|M|[nµμum]?s|min|[cmk]?m|[mk]?g|[hdtA]|px|pt|r?em|fps|"
    r"EUR|USD|GBP|percent|(?:byte|token|second|minute|hour|day|week|month|year|euro|dollar|cent)s?"
)
_NUMBER = re.compile(rf"(?<![\w.])([$€£]?)\d\w*(?:[.,:]\d\w*)*([ \u00a0]?(?:{_UNIT})(?!\w))?")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_KEY = re.compile(
    r"""^[ \t]*(?:-[ \t]+)?["']?([^\W\d][\w.-]*)["']?[ \t]*(?:[:?+]?=(?!=)|:(?!:))""", re.MULTILINE
)
_DEFINED = re.compile(
    rf"(?<!\w)(?:def|fn|func|fun|function|sub|proc|class|struct|enum|interface|trait|type|module|const|let|var"
    rf"|val)[ \t]+({_PART})"
)


def entities_by_form(text: str, start: int, end: int, is_code: bool) -> Iterator[tuple[int, int]]:
    """Entities among characters ``start`` to ``end`` of a text, in no order, and some of them twice.

    Args:
        text: any.
        start: first character.
        end: exclusive.
        is_code: whether names that are defined or assigned to count, whatever their form.
    """
    for match in _WORD.finditer(text, start, end):
        if _has_form_of_name(match[0]):
            yield match.span()
    for match in _DOTTED.finditer(text, start, end):
        yield match.span()
    for match in _CALLED.finditer(text, start, end):
        if is_telling(match[0]):
            yield match.span()
    for match in _NUMBER.finditer(text, start, end):
        if (len(match[0]) > 1 or match[1] or match[2]) and not _ORDINAL.fullmatch(match[0]):
            yield match.span()
    for match in _MARKED.finditer(text, start, end):
        group = match.lastindex
        assert group is not None
        if is_constant(match[group]):
            yield match.span(group)
    if is_code:
        for pattern in (_KEY, _DEFINED):
            for match in pattern.finditer(text, start, end):
                if is_telling(match[1]):
                    yield match.span(1)


def _has_form_of_name(word: str) -> bool:
    """Whether a word of prose is written as a name: ``parse_order``, ``HTTPServer``, ``RATE``, ``sha256``."""
    if not is_telling(word):
        return False
    if looks_like_name(word) or word.isupper() or any(character.isdigit() for character in word):
        return True
    return any(one.islower() and other.isupper() for one, other in itertools.pairwise(word))


def is_telling(name: str) -> bool:
    """Whether a name tells one place from others: no common word, no keyword, not one letter, not data."""
    plain = name.strip("_").casefold()
    return (
        len(plain) > 1 and len(name) <= _LONGEST_NAME and plain not in STOP_WORDS and plain not in _KEYWORDS
    )


def is_constant(text: str) -> bool:
    """Whether a string or quotation is short enough for a constant, and says something."""
    words = text.split()
    return (
        1 < len(text) <= LONGEST_CONSTANT
        and 0 < len(words) <= _MOST_WORDS
        and not (len(words) > 1 and words[-1][-1] in ".!?:")  # a sentence
        and text.strip().casefold() not in STOP_WORDS
        and any(character.isalnum() for character in text)
    )
