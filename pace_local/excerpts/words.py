"""Words of prompts and excerpts, and how well they agree: BM25 over the parts of identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePath

from pace_local.excerpts.excerpt import Excerpt

_WORD = re.compile(r"\w+")
_SUBWORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\WA-Za-z\d_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_VOWEL = re.compile("[aeiouy]")
_SHORT = re.compile("[^aeiouy][aeiouy][^aeiouywx]")
_LONGEST_WORD = 80  # what is longer is data, not a word
_DEFINITION_WEIGHT = 2  # the words of a name that an excerpt defines count as often more

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all also am an and any are as at be because been before being between both but by can
        could did do does doing done down during each etc every for from further get gets getting give given
        gives go goes had has have having he her here him his how i if in into is it its itself just let
        like made make makes many may me might more most much must my need needs no nor not now of off on
        once one only or other our out over own please same say says she should show shows so some such tell
        than that the their them then there these they this those through to too under until up us use used
        uses using very want was we were what when where which while who whom whose why will with within
        without would you your explain describe write find
        """,
    )
)
"""Words that prompts hold whatever they are about."""


class WordIndex:
    """BM25 over excerpts.

    Each is indexed by the words of its text, of the names that it defines, of the definitions or headings
    around it and of its file's name.
    """

    def __init__(self, excerpts: Sequence[Excerpt]) -> None:
        self._size = len(excerpts)
        self._vocabulary: dict[str, int] = {}
        known = self._vocabulary
        # Numbered in the order of appearance, so that nothing depends on how strings are hashed.
        corpus = [[known.setdefault(term, len(known)) for term in _excerpt_terms(one)] for one in excerpts]
        if known:
            import bm25s  # not before it is needed: it takes a quarter of a second

            self._retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.4)
            self._retriever.index((corpus, known), create_empty_token=False, show_progress=False)

    def scores(self, prompt: str) -> list[float]:
        """How well each excerpt fits the words of a prompt, 0 where they share none."""
        terms = dict.fromkeys(prompt_terms(prompt))
        query = [self._vocabulary[term] for term in terms if term in self._vocabulary]
        if not query:
            return [0.0] * self._size
        return [round(float(score), 4) for score in self._retriever.get_scores(query)]


def prompt_terms(prompt: str) -> Iterator[str]:
    """Terms of a prompt, without the words that every prompt holds, unless it holds no others.

    Two or three words in a row are a term together as well: "position cap" may stand in code as
    ``position_cap``.
    """
    words = _WORD.findall(prompt)
    yield from _terms([word for word in words if word.casefold() not in STOP_WORDS] or words)
    for count in (2, 3):
        for start in range(len(words) - count + 1):
            yield "".join(_terms(words[start : start + count]))


def _excerpt_terms(excerpt: Excerpt) -> Iterator[str]:
    names = [name for definition in excerpt.defines for name in [definition.leaf] * _DEFINITION_WEIGHT]
    around = _WORD.findall(f"{PurePath(excerpt.path).stem} {excerpt.scope} {excerpt.head} {' '.join(names)}")
    return _terms(chain(_WORD.findall(excerpt.text), around))


def _terms(words: Iterable[str]) -> Iterator[str]:
    return chain.from_iterable(map(word_terms, words))


@lru_cache(maxsize=1 << 16)
def word_terms(word: str) -> tuple[str, ...]:
    """What a word is indexed by: its parts in snake and camel case, lower case and stemmed, and the whole."""
    if len(word) > _LONGEST_WORD:
        return (word[:_LONGEST_WORD].casefold(),)
    parts = [
        hump
        for sub in _SUBWORD.findall(word)
        for hump in ([sub] if sub.isdigit() or not sub.isascii() else _HUMP.findall(sub))
    ]
    result: list[str] = []
    for part in parts:
        if _UNSPACED.fullmatch(part) and len(part) > 2:
            result += [part[at : at + 2] for at in range(len(part) - 1)]  # no spaces show where its words end
        else:
            result.append(_stem(part.casefold()))
    if len(parts) > 1:  # so that parse_order, parseOrder and PARSE_ORDER are one term too
        result.append("".join(result))
    return tuple(result)


def _stem(word: str) -> str:
    """Cut the endings of English plurals, participles and gerunds, alike for all forms of a word."""
    if len(word) < 4 or not word.isascii() or word.isdigit():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("xes", "ches", "shes", "sses")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    base = word.removesuffix("ing") if word.endswith("ing") else word.removesuffix("ed")
    if base != word and len(base) > 2 and _VOWEL.search(base):
        if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "aeiouls":
            word = base[:-1]  # shipped, shipping
        else:  # rated and rating come from rate: after rat, the letter would be doubled
            word = base + "e" if _SHORT.fullmatch(base) else base
    if len(word) > 4:
        word = word.removesuffix("e")
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word
