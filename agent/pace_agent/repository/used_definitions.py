"""Definitions one hop away: what the identifiers of some lines mean in the same repository."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pace_agent.repository.file_facts import FileFacts, Place
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.path_names import is_test
from pace_local.entity_words import is_telling
from pace_local.excerpts.names import looks_like_name
from pace_local.recall.definitions import is_common

_MOST_HOMONYMS = 3
"""Definitions of one name; of more, an identifier does not tell which is meant."""
_FAMILIES = (
    ".py .pyi .pyw",
    ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte",
    ".c .h .cc .cpp .cxx .hh .hpp .hxx .cu .cuh .ipp .inl",
    ".java .kt .kts .scala",
)
"""Files that can use each other's names, by their suffix."""
_FOLDER_IS_PACKAGE = frozenset({".go", ".java", ".kt"})


@dataclass(frozen=True)
class Use:
    """A definition that some lines use."""

    place: Place
    by: str
    """The name of what uses it."""
    distance: int
    """0: in the same file; 1: in a file that it imports, or of its package; 2: elsewhere, defined once."""


def used_by(places: Sequence[Place], index: RepositoryIndex, most: int) -> list[Use]:
    """Definitions that some definitions or lines use, without fields and without the places themselves.

    Args:
        places: what uses them.
        index: of the repository.
        most: how many.

    Returns:
        The nearest first, of those as near the smaller.
    """
    found: list[Use] = []
    for one in places:
        facts = index.facts_of(one.path) if one.path else None
        if facts is None:
            continue
        text = index.lines_of(one.path, one.first, one.last)
        for name, lines in (facts.uses or {}).items():
            if not is_telling(name) or not any(one.first <= line <= one.last for line in lines):
                continue
            for distance, place in _meant(name, facts, index):
                is_own = place.path == one.path and place.first <= one.last and one.first <= place.last
                if not is_own and place.kind != "field" and _fits_use(place, text):
                    by = one.symbol or f"{one.path}:{one.first}-{one.last}"
                    found.append(Use(place, by, distance))
    found.sort(key=lambda use: (use.distance, use.place.last - use.place.first, use.place.name))
    first_of: dict[str, Use] = {}
    for use in found:
        first_of.setdefault(use.place.name, use)
    return list(first_of.values())[:most]


def _fits_use(place: Place, text: str) -> bool:
    """Whether a text uses a name as what it is: something of a type stands behind a dot."""
    return "." not in place.symbol or bool(re.search(rf"(?:\.|->|::){re.escape(place.leaf)}\b", text))


def _meant(name: str, facts: FileFacts, index: RepositoryIndex) -> list[tuple[int, Place]]:
    """Definitions that an identifier of a file may mean, with how far away they are."""
    own = [one for one in facts.definitions if one.leaf == name and one.symbol.count(".") < 2]
    if own:
        return [(0, one) for one in own[:_MOST_HOMONYMS]]
    near = [
        one
        for other in _neighbours(name, facts.path, index)
        if (imported := index.facts_of(other)) is not None
        for one in imported.definitions
        if one.leaf == name
    ]
    if near and len(near) <= _MOST_HOMONYMS:
        return [(1, one) for one in near]
    if is_common(name):
        return []
    family = _family(facts.path)
    places = [
        one
        for one in index.definitions_of(name)
        if "." not in one.symbol and not is_test(one.path) and _family(one.path) == family
    ]
    return [(2, places[0])] if len(places) == 1 and (name[0].isupper() or looks_like_name(name)) else []


def _neighbours(name: str, path: str, index: RepositoryIndex) -> list[str]:
    """The files that a file imports, and where a folder is a package those of it that hold the name."""
    found = dict.fromkeys(index.imports_of(path))
    pure = PurePosixPath(path)
    if pure.suffix in _FOLDER_IS_PACKAGE:
        found.update(
            (other, None)
            for other in index.files_with(name)
            if other != path
            and PurePosixPath(other).parent == pure.parent
            and PurePosixPath(other).suffix == pure.suffix
        )
    return list(found)


def _family(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lower()
    return next((family for family in _FAMILIES if suffix in family.split()), suffix)
