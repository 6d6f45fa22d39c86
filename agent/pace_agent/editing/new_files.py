"""Files that a text wants made: paths that there is nothing at yet."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pace_agent.repository.index import RepositoryIndex

_PATH = re.compile(r"(?<![\w/.:@-])(?:[\w.+-]+/)*[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,9}(?![\w/(-])")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+")
_MAKES = re.compile(
    r"\b(?:new|add|create|write|make|generate|implement|put|save|move|split|extract)\b", re.IGNORECASE
)
_MOST = 6


def new_files(text: str, index: RepositoryIndex) -> tuple[str, ...]:
    """Paths in a text that look like files, that the repository has not, and whose folder it may get.

    Only where something is said to be made: a model that changes a file which is not there is mistaken. A
    name without a folder counts only where the repository has files of that kind, so that ``e.g.`` is none.

    Args:
        text: a prompt or a step.
        index: of the repository.
    """
    if not _MAKES.search(text):
        return ()
    matches = list(_PATH.finditer(_ADDRESS.sub(" ", text)))
    if not matches:
        return ()
    suffixes = {PurePosixPath(path).suffix for path in index.paths} | {".md", ".txt"}
    tops = {path.split("/")[0] for path in index.paths if "/" in path}
    found = []
    for match in matches:
        path = match[0].rstrip(".")
        pure = PurePosixPath(path)
        if ".." in pure.parts or index.find_path(path) or path in index:
            continue
        if pure.suffix in suffixes or pure.parts[0] in tops:
            found.append(path.removeprefix("./"))
    return tuple(dict.fromkeys(found))[:_MOST]
