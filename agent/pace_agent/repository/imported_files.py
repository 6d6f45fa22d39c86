"""Which files of a repository an import means, as far as its name shows it."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from pace_agent.repository.path_names import PathNames, module_parts

_MOST_OF_PACKAGE = 20
_C_SUFFIXES = frozenset({".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cu", ".cuh"})
_TO_BE_COMPILED = frozenset({".js", ".jsx", ".mjs", ".cjs"})


def imported_files(path: str, module: str, names: PathNames) -> tuple[str, ...]:
    """The files that an import of a file means.

    Args:
        path: of the file that imports.
        module: as the import names it: ``..orders``, ``shop.orders``, ``./orders``, ``example.org/a/shop``.
        names: the repository's files.

    Returns:
        The likeliest first; none where it lies outside of the repository or the name does not show it.
    """
    folder = PurePosixPath(path).parent
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".go":
        return _package(module, names)
    if module.startswith(("./", "../")) or suffix in _C_SUFFIXES:
        return _beside(folder, module, names) or (names.find(module)[:1] if suffix in _C_SUFFIXES else ())
    if module.startswith("."):
        ups = len(module) - len(module.lstrip("."))
        base = folder
        for _ in range(ups - 1):
            base = base.parent
        return _at(base / module.lstrip(".").replace(".", "/"), names)
    dotted = module.replace(".", "/")
    if "/" not in dotted:  # a single name is a neighbour or a top folder's; elsewhere it is chance
        return _at(folder / dotted, names) or _at(PurePosixPath(dotted), names)
    return _at(folder / dotted, names) or names.find(dotted)[:1]


def _at(module: PurePosixPath, names: PathNames) -> tuple[str, ...]:
    """Files that are exactly this module."""
    return tuple(one for one in names.find(str(module)) if module_parts(one) == module.parts)[:1]


def _beside(folder: PurePosixPath, module: str, names: PathNames) -> tuple[str, ...]:
    near = PurePosixPath(posixpath.normpath(str(folder / module)))
    found = tuple(one for one in names.find(str(near)) if one == str(near)) or _at(near, names)
    if not found and near.suffix in _TO_BE_COMPILED:  # TypeScript names what it will become
        found = _at(near.with_suffix(""), names)
    return found


def _package(module: str, names: PathNames) -> tuple[str, ...]:
    """The files of a Go package, which is a folder: the one that shares most of the end of the name."""
    wanted = module.split("/")
    for start in range(len(wanted)):
        files = names.in_folder("/".join(wanted[start:]))
        if files:
            return tuple(one for one in files if one.endswith(".go"))[:_MOST_OF_PACKAGE]
    return ()
