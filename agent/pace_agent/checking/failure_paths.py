"""Paths that an output names, as paths of the repository."""

from __future__ import annotations

import os
import re
from functools import cached_property
from itertools import product
from pathlib import Path
from urllib.parse import unquote

from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import Walk

_FOREIGN = frozenset(
    {"node_modules", "site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox", ".git", "__pycache__"}
)
"""Folders whose files are nobody's work here, though they may lie in the repository."""
_MOST_FILES = 50_000
_LONGEST = 1_000


class RepositoryPaths:
    """Says which files of the repository are meant.

    Args:
        repository: its folder.
    """

    def __init__(self, repository: Path) -> None:
        self._roots = list(dict.fromkeys((os.path.abspath(repository), os.path.realpath(repository))))
        self._known: dict[tuple[str, str], str | None] = {}

    def inside(self, path: str, folder: str = "") -> str | None:
        """The path from the repository, with ``/``; None if no file of the repository is meant.

        A relative path that leads nowhere from the repository is that of the one file which ends like it:
        tools print paths from the folder that they ran in.

        Args:
            path: as printed; absolute, relative, or a ``file:`` address.
            folder: a part of the folder that it is relative to, if the output says one.
        """
        key = (path, folder)
        if key not in self._known:
            self._known[key] = self._inside(path, folder)
        return self._known[key]

    def _inside(self, path: str, folder: str) -> str | None:
        if path.startswith("file://"):
            path = re.sub(r"^/(?=[A-Za-z]:)", "", unquote(path.removeprefix("file://")))
        if not path or len(path) > _LONGEST or "\0" in path or path.startswith(("<", "node:")):
            return None
        path = path.replace("\\", "/") if os.sep == "\\" or re.match(r"[.\w-]+\\", path) else path
        forms = [path, os.path.realpath(path)] if os.path.isabs(path) else [path]
        for root, form in product(self._roots, forms):
            relative = os.path.relpath(os.path.join(root, form), root).replace(os.sep, "/")
            if not relative.startswith("../") and os.path.isfile(os.path.join(root, relative)):
                return None if _FOREIGN & set(relative.split("/")) else relative
        if os.path.isabs(path):
            return None
        tail = "/" + re.sub(r"^(?:\.\.?/)+", "", path)
        matches = [one for one in self._files if ("/" + one).endswith(tail)]
        nearer = [one for one in matches if folder and one.rpartition("/")[0].endswith(folder)]
        matches = nearer or matches
        return matches[0] if len(matches) == 1 else None

    @cached_property
    def _files(self) -> list[str]:
        walk = Walk(Ignoring(Path(self._roots[-1])), most_files=_MOST_FILES)
        return [one.path for one in walk if not one.is_folder]

    @cached_property
    def go_module(self) -> str:
        """What ``go.mod`` calls the repository; empty without one."""
        try:
            text = Path(self._roots[0], "go.mod").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        found = re.search(r"^module\s+\"?([^\s\"]+)", text, re.MULTILINE)
        return found[1] if found else ""

    def line_of(self, path: str, name: str) -> int | None:
        """The line, 1-based, that defines a function or class in a file of the repository."""
        try:
            text = Path(self._roots[0], path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        found = re.search(
            rf"^[ \t]*(?:async[ \t]+)?(?:def|class|func|fn)[ \t]+{re.escape(name)}\b", text, re.MULTILINE
        )
        return text.count("\n", 0, found.start()) + 1 if found else None
