"""Finding files by what people call them: a path, its end, its name, a module with dots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

PACKAGE_FILES = frozenset(
    {"__init__.py", "__init__.pyi", "index.js", "index.jsx", "index.ts", "index.tsx", "mod.rs"}
)
"""Files that go by the name of the folder that they are in."""

_AROUND = " \t\r\n\"'`“”‘’<>()[]{},;!?*"
_BEHIND = re.compile(r"(?:::.*|:\d+(?:[:-]\d+)*:?|#L?\d+.*)$")
_TEST_NAME = re.compile(
    r"(?i:tests?|spec|conftest)|test_.*|.*_test|.*[._-](?:test|spec)|.*(?:Tests?|Spec|IT)", re.DOTALL
)
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "testdata", "e2e"})


def is_test(path: str) -> bool:
    """Whether a file holds tests or what they use, by its name and folders."""
    *folders, name = path.split("/")
    return bool(_TEST_FOLDERS & {folder.casefold() for folder in folders}) or bool(
        _TEST_NAME.fullmatch(name.partition(".")[0] if name.count(".") < 2 else name.rpartition(".")[0])
    )


def module_parts(path: str) -> tuple[str, ...]:
    """A file as a module: its folders and its name without suffix; a package's own file is the package."""
    pure = PurePosixPath(path)
    return pure.parent.parts if pure.name in PACKAGE_FILES else (*pure.parent.parts, pure.stem)


class PathNames:
    """The files of a repository by their names.

    Args:
        root: of the repository, so that absolute paths are found.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.as_posix().rstrip("/")
        self._paths: set[str] = set()
        self._by_name: dict[str, set[str]] = {}
        self._by_stem: dict[str, set[str]] = {}
        self._by_folder: dict[str, set[str]] = {}

    def add(self, path: str) -> None:
        """Know a file."""
        if path not in self._paths:
            self._paths.add(path)
            for names, key in self._keys(path):
                names.setdefault(key, set()).add(path)

    def remove(self, path: str) -> None:
        """Know a file no more."""
        if path in self._paths:
            self._paths.remove(path)
            for names, key in self._keys(path):
                names[key].discard(path)

    def _keys(self, path: str) -> Iterable[tuple[dict[str, set[str]], str]]:
        pure = PurePosixPath(path)
        yield self._by_name, pure.name.casefold()
        yield self._by_stem, pure.stem.casefold()
        yield self._by_folder, str(pure.parent)
        if pure.name in PACKAGE_FILES and pure.parent.name:
            yield self._by_stem, pure.parent.name.casefold()

    def find(self, text: str) -> tuple[str, ...]:
        """Files that a text names, the likeliest first: see :meth:`RepositoryIndex.find_path`."""
        for form in dict.fromkeys((text, text.strip(_AROUND), _BEHIND.sub("", text.strip(_AROUND)))):
            wanted = self._relative(form.replace("\\", "/") if form not in self._paths else form)
            if wanted in self._paths:
                return (wanted,)
            found = self._ending(wanted) or self._stems(wanted)
            if not found and "/" not in wanted:
                module = re.sub(r"::|->", ".", wanted)
                found = self._stems(module.replace(".", "/")) if "." in module.strip(".") else []
            if found:
                return tuple(sorted(found, key=lambda path: (path.count("/"), is_test(path), path)))
        return ()

    def in_folder(self, folder: str) -> list[str]:
        """Files directly in a folder, by its whole path from the root; sorted."""
        return sorted(self._by_folder.get(folder, ()))

    def _relative(self, text: str) -> str:
        text = text.removeprefix("file://")
        if text.startswith(self._root + "/"):
            return text[len(self._root) + 1 :]
        while text.startswith("./"):
            text = text[2:]
        return text

    def _ending(self, wanted: str) -> list[str]:
        found = [
            path
            for path in self._by_name.get(wanted.rpartition("/")[2].casefold(), ())
            if f"/{path}".casefold().endswith(f"/{wanted}".casefold())
        ]
        return [path for path in found if f"/{path}".endswith(f"/{wanted}")] or found

    def _stems(self, wanted: str) -> list[str]:
        wanted = wanted.strip("/")
        if not wanted:
            return []
        found = []
        for path in self._by_stem.get(wanted.rpartition("/")[2].casefold(), ()):
            pure = PurePosixPath(path)
            names = {str(pure.parent / pure.stem), "/".join(module_parts(path))}
            if any(f"/{name}".casefold().endswith(f"/{wanted}".casefold()) for name in names):
                found.append(path)
        return found
