"""Where a renaming changes something: the definition that is meant, and all that uses it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pace_agent.planning.intent import Rename
from pace_agent.repository.file_facts import Place
from pace_agent.repository.index import RepositoryIndex
from pace_local.entity_words import is_telling

_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|->|#)[^\W\d][\w$]*)*")
_MARKED = re.compile(r"[`'\"“‘]([^`'\"”’\n]+)[`'\"”’]")
_PATH = re.compile(r"(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w*")
_ROLES = frozenset(
    re.findall(
        r"\w+",
        """
        function functions method methods class classes constant variable field attribute macro struct
        type enum interface trait symbol property module file all every everywhere callers caller uses
        usages references called named
        """,
    )
)


@dataclass(frozen=True)
class RenamePlaces:
    """What a renaming touches."""

    old: str
    """The last part of the name as it is now."""
    definitions: tuple[Place, ...]
    """Of one name; several where it is declared apart, or defined for several cases."""
    users: tuple[Place, ...]
    """Definitions and lines that use it, those inside of its definition left out."""


def rename_places(rename: Rename, index: RepositoryIndex) -> RenamePlaces | None:
    """Where a renaming changes something; None if what is to be renamed is no definition here."""
    paths = {path for match in _PATH.finditer(rename.what) for path in index.find_path(match[0])[:1]}
    for name in dict.fromkeys(_candidates(rename.what)):
        if name.rpartition(".")[2] == rename.new:
            continue
        places = [one for one in index.definitions_of(name) if one.kind != "module"]
        places = [one for one in places if one.path in paths] or places
        if not places:
            continue
        first = places[0]
        same = tuple(one for one in places if one.symbol == first.symbol and _is_same(one, first))
        users = [
            one
            for one in index.users_of(first.leaf)
            if not any(
                one.path == place.path and place.first <= one.first and one.last <= place.last
                for place in same
            )
        ]
        return RenamePlaces(first.leaf, same, tuple(users))
    return None


def _is_same(one: Place, first: Place) -> bool:
    """Whether two places of one symbol are one thing: in one file, or a declaration and its definition."""
    return one.path == first.path or "declaration" in (one.kind, first.kind)


def _candidates(what: str) -> Iterator[str]:
    """Names in the words that say what is renamed: marked ones, those that follow *function*, the others."""
    without_paths = _PATH.sub(
        lambda match: match[0] if match[0].count(".") == 1 and "/" not in match[0] else " ", what
    )
    for match in _MARKED.finditer(what):
        if named := _NAME.fullmatch(match[1].strip().removesuffix("()")):
            yield _dots(named[0])
    words = [match[0] for match in _NAME.finditer(without_paths)]
    for before, word in itertools.pairwise(words):
        if before.casefold() in _ROLES and word.casefold() not in _ROLES:
            yield _dots(word)
    for word in words:
        if word.casefold() not in _ROLES and (is_telling(word) or len(words) == 1):
            yield _dots(word)


def _dots(name: str) -> str:
    return name.replace("::", ".").replace("->", ".").replace("#", ".")
