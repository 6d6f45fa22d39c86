"""What a command that reads whole folders finds: every name in them, and which are not to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.safety.paths import Territory
from pace_agent.safety.protected import protection
from pace_agent.shell.rules import Sweep
from pace_agent.shell.words import names

_PLAIN = re.compile(r"(?:\*\*/)?([\w.+-]*)(\*?)([\w.+-]*)", re.ASCII)
"""Patterns that every program understands alike: a name, or one with a single ``*`` in it."""

_IGNORE_FILES = names(".ignore .rgignore .gitignore")
_LARGEST = 256 * 1024
_TYPES = {
    "py": ".py .pyi",
    "python": ".py .pyi",
    "js": ".js .jsx .vue .cjs .mjs",
    "ts": ".ts .tsx .cts .mts",
    "typescript": ".ts .tsx .cts .mts",
    "rust": ".rs",
    "go": ".go",
    "md": ".markdown .md .mdown .mdwn .mdx .mkd .mkdn",
    "markdown": ".markdown .md .mdown .mdwn .mdx .mkd .mkdn",
}
"""How the names of some kinds of files end, as ``rg -t`` has them."""


def names_below(folder: Path, sweep: Sweep, territory: Territory) -> Iterator[tuple[str, str | None]]:
    """Every name below a folder that would be looked at, with why it is not to be read, if it is not."""
    start = Path(os.path.realpath(folder))
    rules = _rules(sweep)
    if sweep.skips_hidden:
        rules.learn(start.parents)
    waiting: list[tuple[Path, str | None]] = [(start, None)]
    seen = {start}
    while waiting:
        current, inherited = waiting.pop()
        try:
            with os.scandir(current) as listed:
                entries = list(listed)
        except OSError:
            continue
        if sweep.skips_hidden:
            rules.learn([current])
        for entry in entries:
            is_link = entry.is_symlink()
            is_folder = entry.is_dir(follow_symlinks=is_link and sweep.follows)
            if (is_link and not sweep.follows) or rules.leaves_out(entry.name, is_folder=is_folder):
                yield entry.name, None
                continue
            why = inherited or _why_not(entry, current, territory, is_link=is_link)
            if is_folder:
                path = Path(os.path.realpath(entry.path) if is_link else entry.path)
                if path not in seen:
                    seen.add(path)
                    waiting.append((path, why))
            # Where only some names are read, a folder is what is read in it.
            yield entry.name, (why if rules.reads(entry.name, is_folder=is_folder) else None)


def _why_not(entry: os.DirEntry[str], folder: Path, territory: Territory, *, is_link: bool) -> str | None:
    """By its whole path; one that is not protected by its last two names need not be resolved for that."""
    why = protection((folder.name, entry.name))
    if why is None and not is_link:
        return None
    try:
        return territory.find(entry.path).protection
    except RefusedError:
        return why or "it is a link that leads outside"
    except ToolError:
        return why


@dataclass
class _Rules:
    """Which names are read, as far as that is sure: the others are not looked up."""

    included: list[re.Pattern[str]] | None
    """None: any may be."""

    excluded: frozenset[str]
    """Names of folders."""

    skips_hidden: bool
    shown: list[tuple[re.Pattern[str], bool]] = field(default_factory=list)
    """Hidden names that are read all the same, and whether only folders of that name are."""

    types: tuple[str, ...] = ()

    def learn(self, folders: Iterable[Path]) -> None:
        """Take down what ignore files of folders say is not ignored: it is read though it is hidden."""
        for folder in folders:
            for name in (*sorted(_IGNORE_FILES), ".git/info/exclude"):
                for line in _lines(folder / name):
                    if line.startswith("!"):
                        pattern = _compiled(line[1:].rstrip().rstrip("/").rpartition("/")[2])
                        self.shown.append((pattern or re.compile(""), line.rstrip().endswith("/")))

    def leaves_out(self, name: str, *, is_folder: bool) -> bool:
        """Whether neither a name nor what is below it is read."""
        if is_folder and name in self.excluded:
            return True
        if not self.skips_hidden or not name.startswith("."):
            return False
        if any(pattern.match(name) for pattern in self.included or ()):
            return False
        if not is_folder and any(name.endswith(tuple(_TYPES.get(t, "").split() or [""])) for t in self.types):
            return False
        return not any(pattern.match(name) and (is_folder or not only) for pattern, only in self.shown)

    def reads(self, name: str, *, is_folder: bool) -> bool:
        """Whether a name itself is read."""
        return self.included is None or (
            not is_folder and any(pattern.match(name) for pattern in self.included)
        )


def _rules(sweep: Sweep) -> _Rules:
    patterns = [_compiled(each) for each in sweep.include]
    known = [pattern for pattern in patterns if pattern is not None]
    is_plain = len(known) == len(patterns)
    return _Rules(
        known if is_plain and known else None,
        frozenset(name for name in sweep.exclude_folders if re.fullmatch(r"[\w.+-]+", name)),
        sweep.skips_hidden and is_plain,
        types=sweep.types,
    )


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """A plain pattern, upper and lower case alike; None if programs differ in what it stands for."""
    match = _PLAIN.fullmatch(pattern)
    if match is None or not pattern:
        return None
    middle = ".*" if match[2] else ""
    return re.compile(re.escape(match[1]) + middle + re.escape(match[3]) + r"\Z", re.IGNORECASE | re.DOTALL)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace").splitlines()
    except OSError:
        return []
