"""Which files of a repository are not looked at: git's ignore files, nested ones included.

Precedence is git's: the file in the deepest folder first, up to the repository's top, then
``.git/info/exclude``, then the user's own ``git/ignore``; within a file the last pattern that matches. What
is below an ignored folder is ignored, whatever its own files say. ``.git`` itself is, always. Where the top
has no ``.gitignore``, folders that hold what tools install or build are ignored as well. Unlike git, which
goes on tracking what was added before, a file that is tracked and matches is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_agent.repository.git_state import git_folder, top_of
from pace_agent.repository.ignore_patterns import PatternFile

RULES_NAME = ".gitignore"
_LARGEST = 1024**2
_GENERATED = b"""
.bzr/
.cache/
.eggs/
.gradle/
.hg/
.hypothesis/
.jj/
.mypy_cache/
.next/
.nox/
.nuxt/
.pytest_cache/
.ruff_cache/
.svn/
.terraform/
.tox/
.venv/
*.egg-info/
*.pyc
__pycache__/
bower_components/
build/
dist/
node_modules/
target/
venv/
"""


@dataclass(frozen=True)
class FolderRules:
    """What is ignored directly in one folder that is not ignored itself."""

    prefix: bytes
    """The folder's path from the repository's top, with ``/`` at the end, or empty."""
    files: Sequence[PatternFile]
    """Those that have a say, the strongest first."""

    def ignores(self, name: str, folder: bool) -> bool:
        """Whether an entry of that name is ignored; a symlink is never a folder."""
        if name == ".git":
            return True
        raw = os.fsencode(name)
        path = self.prefix + raw
        for file in self.files:
            verdict = file.decide(path, raw, folder)
            if verdict is not None:
                return verdict
        return False


class Ignoring:
    """Says what is ignored below a folder, by the ignore files as they are when first needed.

    Not safe to use from several threads at once.

    Args:
        root: the folder; one inside a repository obeys the ignore files above it too, unless those ignore
            the folder itself: then it was named on purpose.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.realpath(root))
        self.reread()

    def reread(self) -> None:
        """Forget what the ignore files said; they are read again as needed."""
        top = top_of(self.root)
        git = git_folder(top) if top else None
        self._ignore_case = git is not None and git.ignores_case
        self._exclude = git.common / "info" / "exclude" if git else None
        weakest: list[PatternFile] = []
        if git and self._exclude:
            # Git keeps to XDG's places on every system, macOS included.
            home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
            found = (self._read(path) for path in (self._exclude, Path(home) / "git" / "ignore"))
            weakest = [one for one in found if one]
        above, prefix = self._above(top, weakest) if top else ([], b"")
        own = self._read(self.root / RULES_NAME, prefix)
        if not own and not above:
            weakest.append(PatternFile(_GENERATED))
        self._rules = {"": FolderRules(prefix, [*([own] if own else []), *above, *weakest])}
        self._ignored: dict[str, bool] = {"": False}

    def _above(self, top: Path, weakest: Sequence[PatternFile]) -> tuple[list[PatternFile], bytes]:
        """Ignore files of the folders above the root, the nearest first, and the root's path from the top."""
        parts = self.root.relative_to(top).parts
        files: list[PatternFile] = []
        prefix = b""
        folder = top
        for part in parts:
            if own := self._read(folder / RULES_NAME, prefix):
                files.insert(0, own)
            if FolderRules(prefix, [*files, *weakest]).ignores(part, True):
                return [], b""
            prefix += os.fsencode(part) + b"/"
            folder /= part
        return files, prefix

    def _read(self, path: Path, base: bytes = b"") -> PatternFile | None:
        """An ignore file, or None where there is none; git does not follow one that is a symlink."""
        try:
            if path.name == RULES_NAME and path.is_symlink():
                return None
            with path.open("rb") as file:
                return PatternFile(file.read(_LARGEST), base, ignore_case=self._ignore_case)
        except (OSError, ValueError):
            return None

    def is_rule_file(self, path: str) -> bool:
        """Whether a file, relative to the root, can change what is ignored."""
        name = path.rpartition("/")[2]
        return name == RULES_NAME or (self._exclude is not None and self.root / path == self._exclude)

    def rules_in(self, folder: str) -> FolderRules:
        """What holds directly in a folder that is not ignored itself; ``""`` is the root."""
        rules = self._rules.get(folder)
        if rules is None:
            parent, _, name = folder.rpartition("/")
            above = self.rules_in(parent)
            prefix = above.prefix + os.fsencode(name) + b"/"
            own = self._read(self.root / folder / RULES_NAME, prefix)
            rules = FolderRules(prefix, [own, *above.files] if own else above.files)
            self._rules[folder] = rules
        return rules

    def ignores(self, path: str, folder: bool = False) -> bool:
        """Whether a path is ignored, by itself or by a folder above it.

        Args:
            path: relative to the root, with ``/`` between its parts, nothing else than names in it.
            folder: whether it is a folder; a symlink is none.
        """
        parent, _, name = path.rpartition("/")
        if parent and self._ignores_folder(parent):
            return True
        if folder:
            return self._ignores_folder(path)
        return self.rules_in(parent).ignores(name, False)

    def _ignores_folder(self, folder: str) -> bool:
        known = self._ignored.get(folder)
        if known is None:
            parent, _, name = folder.rpartition("/")
            known = self._ignores_folder(parent) or self.rules_in(parent).ignores(name, True)
            self._ignored[folder] = known
        return known
