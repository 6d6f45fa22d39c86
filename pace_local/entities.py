"""Entities: the names and constants of a text, and the tokens that hold a part of one.

Code is read by its tree-sitter grammar: identifiers, numbers and short strings are entities; comments and
long strings are read as prose. Prose, and code without a grammar here, is read by patterns: identifiers by
their form, called or dotted names, words in capitals, numbers with two digits or a unit, short quoted
texts; blocks of code between fences by the grammar of their language. Common words, keywords, one-letter
names and the digits 0 and 1 of code are none.

All offsets are in bytes of UTF-8. The time is linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_local.entity_code import read_code
from pace_local.entity_words import entities_by_form
from pace_local.excerpts.languages import Language, language_of
from pace_local.excerpts.text import style_of

LARGEST_PARSED = 128 * 1024
"""Bytes of code that a grammar reads at most: on bytes that are no code it takes seconds for a megabyte.
What is longer is read by patterns."""

Span = tuple[int, int]

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
SUFFIX_OF_TAG = {"python": "py", "python3": "py", "javascript": "js", "typescript": "ts"}
SUFFIX_OF_TAG |= {"golang": "go", "rust": "rs", "c++": "cpp"}
"""What a fence calls a language, where that is no suffix of its files."""
LINES_OF_NAME = re.compile(r"(?::\d+-\d+)?(?:#\d+)?$")
"""What a segment's name has behind its file's: the lines, and the number of a copy."""


def entity_spans(text: str | bytes, name: str | None = None) -> list[Span]:
    """Where the entities of a text stand.

    Args:
        text: any text, or its UTF-8 bytes. Lone surrogates and invalid bytes are part of no entity's form.
        name: of the file that the text is or was cut from, as segments are named: ``orders.py``,
            ``orders.py:10-42``. It tells the language; None, or a name without a suffix: prose.

    Returns:
        Offsets in bytes of UTF-8, start and end (exclusive), in order; they neither overlap nor touch.
    """
    source = _Source(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return _merged(
        [span for block in _blocks(source.text, name or "") for span in _block_spans(source, block)]
    )


def mark_tokens(
    spans: Sequence[Span], piece_lengths: Sequence[int], *, shift: int = 0
) -> npt.NDArray[np.bool_]:
    """Which tokens hold a byte of a span.

    Args:
        spans: in order and disjoint, as :func:`entity_spans` gives them.
        piece_lengths: bytes of each token's piece, in order; together they are the text.
        shift: bytes that the pieces have before the text starts: 1 where the tokenizer put a space there.

    Returns:
        Shape [tokens].
    """
    lengths = np.asarray(piece_lengths, dtype=np.int64)
    ends = np.cumsum(lengths) - shift
    starts = ends - lengths
    edges = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    # The first span that ends behind the token's start, if there is one; a span that starts nowhere if not.
    first = np.searchsorted(edges[:, 1], starts, side="right")
    start_of = np.append(edges[:, 0], np.iinfo(np.int64).max)[first]
    return np.asarray((start_of < ends) & (lengths > 0))


def entity_tokens(
    pieces: Sequence[bytes], name: str | None = None, text: str | None = None
) -> npt.NDArray[np.bool_]:
    """Which tokens of a text hold a part of an entity.

    Args:
        pieces: bytes of each token.
        name: as for :func:`entity_spans`.
        text: what was tokenized, if it is known. Some tokenizers put a space before it, which would
            indent the first line of code; it is then no part of what is read.

    Returns:
        Shape [tokens].
    """
    data = b"".join(pieces)
    has_space = text is not None and data == b" " + text.encode("utf-8", "surrogatepass")
    spans = entity_spans(data[1:] if has_space else data, name)
    return mark_tokens(spans, [len(piece) for piece in pieces], shift=int(has_space))


class _Source:
    """A text and the way between its offsets in characters and in bytes. An invalid byte is one character."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode("utf-8", "surrogateescape")
        self._starts: npt.NDArray[np.int64] | None = None
        if len(self.text) != len(data):
            points = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
            is_escaped = (points >= 0xDC80) & (points <= 0xDCFF)
            lengths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
            lengths[is_escaped] = 1
            self._starts = np.concatenate([[0], np.cumsum(lengths)])

    def byte_at(self, character: int) -> int:
        """Offset in bytes of a character."""
        return character if self._starts is None else int(self._starts[character])

    def character_at(self, byte: int) -> int:
        """Offset of the first character that starts at a byte or behind it."""
        return byte if self._starts is None else int(np.searchsorted(self._starts, byte))


@dataclass(frozen=True)
class _Block:
    """Characters ``start`` to ``end`` of a text, which are of one kind."""

    start: int
    end: int
    is_code: bool = False
    language: Language | None = None


def _blocks(text: str, name: str) -> Iterator[_Block]:
    """A text in blocks of prose and of code, without the fences between them."""
    path = LINES_OF_NAME.sub("", name)
    language = language_of(path, text)
    is_code = language is not None or style_of(path) != "prose"
    fences = list(_fences(text))
    # A fence within code is part of a comment or string; excerpts are shown between fences, below a title.
    if is_code and (not fences or text.count("\n", 0, fences[0].start) > 1):
        yield _Block(0, len(text), True, language)
        return
    at, opening, inside = 0, "", _Block(0, 0)
    for fence in fences:
        if not opening:
            yield _Block(at, fence.start)
            opening, inside, at = fence.mark, _fenced(fence.rest, language), fence.end
        elif fence.mark.startswith(opening) and not fence.rest:
            yield _Block(at, fence.start, inside.is_code, inside.language)
            opening, inside, at = "", _Block(0, 0), fence.end
    yield _Block(at, len(text), inside.is_code, inside.language)


@dataclass(frozen=True)
class _Fence:
    """A line that opens or closes a block of code."""

    start: int
    end: int
    mark: str
    rest: str


def _fences(text: str) -> Iterator[_Fence]:
    for match in _FENCE.finditer(text):
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        rest = text[match.end() : end].strip()
        if "`" not in rest:  # else it is code within a line
            yield _Fence(match.start(), end, match[1], rest)


def _fenced(info: str, language: Language | None) -> _Block:
    """What stands behind a fence says about its block, in a text that is about a language."""
    tag = info.split()[0].casefold() if info else ""
    if not tag:
        return _Block(0, 0, True, language)
    path = f"code.{SUFFIX_OF_TAG.get(tag, tag)}"
    return _Block(0, 0, style_of(path) != "prose", language_of(path, ""))


def _block_spans(source: _Source, block: _Block) -> Iterator[Span]:
    first = source.byte_at(block.start)
    found = None
    if block.language is not None and source.byte_at(block.end) - first <= LARGEST_PARSED:
        # Each escaped byte becomes one byte again, so that offsets hold.
        data = source.text[block.start : block.end].encode("utf-8", "replace")
        found = read_code(data, block.language)
    if found is None:
        yield from _pattern_spans(source, block.start, block.end, is_code=block.is_code)
        return
    yield from ((first + start, first + end) for start, end in found.entities)
    for start, end in found.prose:
        yield from _pattern_spans(
            source, source.character_at(first + start), source.character_at(first + end)
        )


def _pattern_spans(source: _Source, start: int, end: int, *, is_code: bool = False) -> Iterator[Span]:
    """Bytes of the entities that patterns find among characters ``start`` to ``end``."""
    for first, last in entities_by_form(source.text, start, end, is_code):
        yield source.byte_at(first), source.byte_at(last)


def _merged(spans: list[Span]) -> list[Span]:
    """In order; those that overlap or touch are one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif end > start:
            merged.append((start, end))
    return merged
