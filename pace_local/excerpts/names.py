"""Names: what a prompt names, and what a text that is not code mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from pace_local.excerpts.words import STOP_WORDS

_PART = r"[^\W\d]\w*"
_DOTTED = rf"{_PART}(?:(?:\.|::|#|->){_PART})*"

_BACKTICKED = re.compile(r"(?<!`)`+([^`\n]+)`+")
_QUOTED = re.compile(r"""(?<!\w)(?:"([^"\n]{1,80})"|“([^”\n]{1,80})”|'([^'\n]{1,80})')(?!\w)""")
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*[A-Za-z0-9]")
_HYPHENED = re.compile(r"--?\w+|-{0,2}\w+(?:-\w+)+")
_CALL = re.compile(rf"(?<![\w.])({_DOTTED})\((?!e?s\))")
_WORD = re.compile(rf"(?<![\w.]){_DOTTED}")
_IDENTIFIER = re.compile(_PART)

_SNAKE = re.compile(r"_*[^\W_]+_\w*|_+[^\W_]\w*")
_CAMEL = re.compile(r"[a-z][a-z0-9]*[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*")
_CONSTANT = re.compile(r"[A-Z]+\d*_[A-Z0-9_]+|[A-Z]{2,}\d+")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]+")
_CAPITALISED = re.compile(r"[A-Z][a-z]\w*")


@dataclass(frozen=True)
class Name:
    """Something that a prompt names."""

    text: str
    """As an identifier, dots between its parts; or, for a phrase, as it is to be searched for."""
    is_sure: bool
    """Whether its form alone shows that it is a name: that of ``parse_order`` does, that of ``Order`` not."""
    is_phrase: bool = False
    """Whether it is no identifier: a quoted text or an option such as ``--dry-run``."""

    @property
    def leaf(self) -> str:
        """The part after the last dot."""
        return self.text if self.is_phrase else self.text.rpartition(".")[2]


def prompt_names(prompt: str) -> list[Name]:
    """What a prompt names, in the order in which it does, each once.

    Identifiers in back-ticks, in the form of a call, with underscores, in camel case, of capitals, with
    dots; words with a capital inside a sentence; quoted texts; command line options.
    """
    found: list[tuple[int, Name]] = []
    rest = prompt
    for pattern in (_BACKTICKED, _QUOTED):
        for match in pattern.finditer(rest):
            content = next(group for group in match.groups() if group)
            found += [(match.start(), name) for name in _marked(content, pattern is _BACKTICKED)]
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)
    found += [(match.start(), Name(match[0], True, True)) for match in _FLAG.finditer(rest)]
    found += [(match.start(), Name(_dots(match[1]), True)) for match in _CALL.finditer(rest)]
    for match in _WORD.finditer(rest):
        text = _dots(match[0])
        if looks_like_name(text):
            found.append((match.start(), Name(text, True)))
        elif (
            "." in text
            or _CAPITALS.fullmatch(text)
            or (_CAPITALISED.fullmatch(text) and _inside(rest, match.start()))
        ):
            found.append((match.start(), Name(text, False)))
    names: dict[tuple[str, bool], Name] = {}
    for _, name in sorted(found, key=lambda one: (one[0], not one[1].is_sure)):
        key = (name.text, name.is_phrase)
        if key not in names or (name.is_sure and not names[key].is_sure):
            names[key] = name
    return [name for name in names.values() if name.is_sure or _could_be_name(name.text)]


def _could_be_name(text: str) -> bool:
    return text.casefold() not in STOP_WORDS and all(len(part) > 1 for part in text.split("."))


def named_files(prompt: str, paths: Iterable[str]) -> list[str]:
    """Those of the files that a prompt names; of two with the same name only the one whose path it gives."""
    depths: dict[str, int] = {}
    text = prompt.replace("\\", "/").casefold()
    for path in paths:
        parts = PurePath(path).parts
        # A file without a suffix may be called like a plain word.
        if not parts or not ("." in parts[-1] or parts[-1] != parts[-1].lower()):
            continue
        for depth in range(1, len(parts) + 1):
            tail = re.escape("/".join(parts[-depth:]).casefold())
            if not re.search(rf"(?<![\w.-]){tail}(?![\w-]|\.\w)", text):
                break
            depths[path] = depth
    deepest: dict[str, int] = {}
    for path, depth in depths.items():
        name = PurePath(path).name
        deepest[name] = max(depth, deepest.get(name, 0))
    return [path for path, depth in depths.items() if depth == deepest[PurePath(path).name]]


@lru_cache(maxsize=1 << 16)
def looks_like_name(text: str) -> bool:
    """Whether a word, or one of its dotted parts, has the form of an identifier and not of a plain word."""
    return any(
        _SNAKE.fullmatch(part) or _CAMEL.fullmatch(part) or _CONSTANT.fullmatch(part)
        for part in text.split(".")
    )


def names_in_prose(text: str) -> Iterator[str]:
    """Identifiers in a text that is not code: in back-ticks, called, or of an identifier's form."""
    for match in _BACKTICKED.finditer(text):
        yield from _IDENTIFIER.findall(match[1])
    for match in _CALL.finditer(text):
        yield from _dots(match[1]).split(".")
    for word in set(_IDENTIFIER.findall(text)):
        if looks_like_name(word) or _CAPITALS.fullmatch(word):
            yield word


def all_identifiers(text: str) -> Iterator[str]:
    """Every word that could be an identifier."""
    yield from _IDENTIFIER.findall(text)


def is_constant(name: str) -> bool:
    """Whether a name is in capitals, as constants are."""
    return name.isupper() and len(name) > 1


def _dots(text: str) -> str:
    return text.replace("::", ".").replace("->", ".").replace("#", ".")


def _inside(text: str, at: int) -> bool:
    """Whether a word stands inside a sentence: there its capital means something."""
    before = text[max(0, at - 40) : at].rstrip(" \t(*_\"'")
    return bool(before) and before[-1] not in ".!?:\n-•"


def _marked(content: str, in_backticks: bool) -> Iterator[Name]:
    """Names of a text in back-ticks or quotes."""
    plain = content.strip()
    single = re.fullmatch(rf"[$@&*]?({_DOTTED})(?:\(.*\))?[!?:;]?", plain)
    if single:
        yield Name(_dots(single[1]), in_backticks or looks_like_name(_dots(single[1])))
        if not in_backticks:
            yield Name(plain, True, True)
    elif in_backticks and not _HYPHENED.fullmatch(plain) and _WORD.search(plain):
        yield from (Name(_dots(text), True) for text in _WORD.findall(plain) if len(text) > 1)
    elif plain:
        yield Name(plain, True, True)
