"""A picture of a repository that a small model can take in: its files with what the most important define."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath

from pace_agent.repository.file_facts import is_code
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.path_names import PACKAGE_FILES, is_test
from pace_agent.repository.walk import shown

_MOST_JUDGED = 20_000
"""Files that are looked at at all, those nearest to the root."""
_MOST_WEIGHED = 2_000
"""Files of which it is counted how many others name them."""
_MOST_LISTED = 150
"""Files that are listed by name."""
_MOST_PARSED = 60
"""Files whose definitions are looked at."""
_MOST_NAMES = 12
"""Definitions of a file that are listed."""
_NAMES_AT_ONCE = 3
_FILES_BEFORE_NAMES = 6
"""So many more files are listed before the first names of a file, and again before its next ones."""
_ENTRIES = frozenset({"main", "__main__", "app", "cli", "index", "server", "manage", "lib", "mod"})
_GUIDES = frozenset(
    {"readme", "pyproject", "package", "cargo", "go", "makefile", "setup", "pom", "cmakelists"}
)


def repository_view(index: RepositoryIndex, budget_tokens: int, count: Callable[[str], int]) -> str:
    """A compact picture of a repository.

    Folders with their files; behind the most important files, the names that they define. What many other
    files name, what programs begin in, and what lies near the root is important; tests are less so.

    Args:
        index: of the repository.
        budget_tokens: of the result, at most.
        count: tokens of a text.

    Returns:
        A line for each folder and file, without a line end behind the last; empty if nothing fits.
    """
    with index.within():
        paths = index.paths
        shallow = sorted(paths, key=lambda path: path.count("/"))[:_MOST_JUDGED]
        by_place = sorted(shallow, key=lambda path: (-_standing(path, index), path.count("/"), path))
        ranked = sorted(
            by_place[:_MOST_WEIGHED],
            key=lambda path: (-_standing(path, index) - _spread(path, index), path.count("/"), path),
        )[:_MOST_LISTED]
        items = _items(ranked, index)
    low, high = 0, len(items)
    while low < high:  # the most that fits
        middle = (low + high + 1) // 2
        fits = count(_drawn(items[:middle], paths)) <= budget_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    while low and count(_drawn(items[:low], paths)) > budget_tokens:  # a longer picture may have fewer tokens
        low -= 1
    view = _drawn(items[:low], paths)
    return view if count(view) <= budget_tokens else ""


def _standing(path: str, index: RepositoryIndex) -> float:
    """How important a file is by its name, place and size."""
    pure = PurePosixPath(path)
    stem = pure.stem.casefold()
    if not is_code(path, ""):
        return 1.2 if stem in _GUIDES and pure.parent == PurePosixPath() else 0.2 - 2 * path.startswith(".")
    score = 1.0 + (stem in _ENTRIES) * 2 + (stem in _GUIDES and len(pure.parts) == 1)
    score -= 0.3 * path.count("/")
    if index.size_of(path) < 40 or any(part.startswith(".") for part in pure.parts):
        score -= 2
    if pure.suffix.lower() in (".json", ".lock", ".yaml", ".yml", ".toml", ".ini", ".cfg"):
        score -= 1.5
    return score - 3 * is_test(path)


def _spread(path: str, index: RepositoryIndex) -> float:
    """How important a file is by how many others name it."""
    pure = PurePosixPath(path)
    if pure.name in PACKAGE_FILES or not is_code(path, ""):
        return 0.0
    return min(index.spread_of(pure.stem), 20) / 4


def _items(ranked: list[str], index: RepositoryIndex) -> list[tuple[str, tuple[str, ...]]]:
    """Files, and names that some define, in the order in which they are worth their room."""
    items: list[tuple[float, int, str, tuple[str, ...]]] = []
    for rank, path in enumerate(ranked):
        items.append((float(rank), rank, path, ()))
        if rank >= _MOST_PARSED or is_test(path):
            continue
        names = _top_names(path, index)
        for number in range(0, len(names), _NAMES_AT_ONCE):
            place = rank + _FILES_BEFORE_NAMES * (number // _NAMES_AT_ONCE + 1) - 0.5
            items.append((place, rank, path, names[number : number + _NAMES_AT_ONCE]))
    items.sort(key=lambda item: item[:2])
    return [(path, names) for _, _, path, names in items]


def _top_names(path: str, index: RepositoryIndex) -> tuple[str, ...]:
    """Public functions, types and constants outside of others, in this order, then methods."""
    facts = index.facts_of(path)
    found = [
        one
        for one in (facts.definitions if facts else ())
        if one.kind in ("function", "type", "macro", "value")
        and not any(part.startswith("_") for part in one.symbol.split("."))
    ]
    outer = sorted((one for one in found if "." not in one.symbol), key=lambda one: one.kind == "value")
    types = {one.symbol for one in outer if one.kind == "type"}
    methods = [one for one in found if one.symbol.rpartition(".")[0] in types]
    names = [f"{one.symbol}()" if one.kind == "function" else one.symbol for one in [*outer, *methods]]
    return tuple(dict.fromkeys(names))[:_MOST_NAMES]


def _drawn(items: list[tuple[str, tuple[str, ...]]], paths: tuple[str, ...]) -> str:
    names_of: dict[str, list[str]] = {}
    for path, names in items:
        names_of.setdefault(path, []).extend(names)
    if not names_of:
        return ""
    by_folder: dict[str, list[str]] = {}
    for path in sorted(names_of):
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    totals = Counter(path.rpartition("/")[0] for path in paths)
    lines = []
    for folder, files in sorted(by_folder.items()):
        more = totals[folder] - len(files)
        lines.append(f"{shown(folder or '.')}/" + (f" ({more} more files)" if more else ""))
        for path in files:
            defined = ", ".join(names_of[path])
            lines.append(f"  {shown(path.rpartition('/')[2])}" + (f": {defined}" if defined else ""))
    left = sum(totals.values()) - sum(totals[folder] for folder in by_folder)
    if left:
        lines.append(f"({left} files in {len(totals) - len(by_folder)} other folders)")
    return "\n".join(lines)
