"""What a shell command would do, as far as its text says: the ground for a permission to run it."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.safety.paths import Territory
from pace_agent.safety.protected import protection
from pace_agent.shell.denials import denied, grave
from pace_agent.shell.options import NotReadOnlyError
from pace_agent.shell.rules import Reading, Sweep, is_device, read_only, writes_file
from pace_agent.shell.split import Split, split_command
from pace_agent.shell.words import SimpleCommand, Word, names

_MOST_NAMES = 20_000
"""Names that are looked through in a folder that a command reads whole; a larger one is asked about."""

_MOST_MATCHES = 2_000
_MOST_FOLDERS = 8
_INLINE = re.compile(
    r"python[0-9.]*|pypy[0-9.]*|node|deno|bun|perl|ruby|php|lua|[gmn]?awk|sed|jq|tclsh|osascript"
)
_WRITERS = names("rm rmdir mkdir touch cp mv ln tee dd install rsync truncate chmod chown unlink shred")


@dataclass(frozen=True)
class Judged:
    """One simple command, judged."""

    command: SimpleCommand
    why_asked: str | None
    """Why it is not known to only read; None if it is."""

    grave: str | None
    """Why it is asked about even in mode ``auto``; None if it is not."""

    writes: bool
    """Whether a redirection of it makes or changes a file."""


@dataclass(frozen=True)
class Judgement:
    """What a shell command would do. The reasons are phrases for people, one each."""

    split: Split
    commands: tuple[Judged, ...]
    denied: str | None
    """Why it is refused in every mode."""

    protected: tuple[str, ...]
    """Protected paths that it names, with why each is."""

    outside: tuple[str, ...]
    """Paths that it names outside of the folders that the agent may use."""

    @property
    def is_read_only(self) -> bool:
        """Whether it is known to change nothing, and to read nothing that is protected or outside."""
        harmless = all(each.why_asked is None and not each.writes for each in self.commands)
        return harmless and self.only_writes_inside

    @property
    def only_writes_inside(self) -> bool:
        """Whether all that it changes are files in the folders of the agent, by redirections."""
        return (
            self.split.is_clear
            and self.denied is None
            and not self.protected
            and not self.outside
            and all(each.why_asked is None for each in self.commands)
        )

    @property
    def why_asked(self) -> str:
        """Why it is asked about, in a few words."""
        if self.split.unclear:
            return f"it cannot be fully understood: {self.split.unclear[0]}"
        if self.outside:
            return f"it names {self.outside[0]}"
        reasons = [each.why_asked for each in self.commands if each.why_asked is not None]
        if reasons:
            return reasons[0]
        return "it writes a file" if any(each.writes for each in self.commands) else "it only reads"


def judge(text: str, territory: Territory, *, is_trusted: bool = True) -> Judgement:
    """Judge a shell command that would run in the repository.

    Args:
        text: the command.
        territory: the folders that the agent may use.
        is_trusted: whether the repository was trusted: in one that was not, git's own settings may hold
            commands that any git command runs, so that none counts as only reading.
    """
    split = split_command(text)
    look = _Look(territory, _bases(split, territory))
    judged = tuple(_judge_one(command, look, is_trusted) for command in split.commands)
    return Judgement(
        split, judged, denied(split), tuple(dict.fromkeys(look.protected)), tuple(dict.fromkeys(look.outside))
    )


def _judge_one(command: SimpleCommand, look: _Look, is_trusted: bool) -> Judged:
    why: str | None = None
    reading: Reading | None = None
    try:
        reading = read_only(command)
        if command.program == "git" and not is_trusted and command.words[-1].text != "--version":
            raise NotReadOnlyError("git runs what this folder's settings say, and it is not trusted yet")
        for word in reading.paths:
            look.reads(word)
        if reading.sweep is not None:
            look.sweep(reading.sweep)
    except NotReadOnlyError as error:
        why = str(error)
    if reading is None:
        look.guess(command)
    for redirection in command.redirections:
        if redirection.is_file and not is_device(redirection.target.text or ""):
            try:
                look.reads(redirection.target)
            except NotReadOnlyError as error:
                why = why or str(error)
    return Judged(command, why, grave(command), any(map(writes_file, command.redirections)))


def _bases(split: Split, territory: Territory) -> tuple[Path, ...]:
    """The folders that a relative path may start from: the repository, and wherever a ``cd`` leads."""
    bases = [territory.repository]
    for command in split.commands:
        if command.program in ("cd", "pushd") and len(command.words) > 1:
            text = command.words[-1].text
            if text is not None and len(bases) < _MOST_FOLDERS:
                bases += [base / os.path.expanduser(text) for base in list(bases)]
    return tuple(dict.fromkeys(bases))


class _Look:
    """Looks up the paths that commands name, from each folder that they may start from."""

    def __init__(self, territory: Territory, bases: tuple[Path, ...]) -> None:
        self.territory = territory
        self.bases = bases
        self.protected: list[str] = []
        self.outside: list[str] = []

    def reads(self, word: Word) -> None:
        """Look a path up that is surely used.

        Raises:
            NotReadOnlyError: if the text does not show it, or its pattern stands for too much.
        """
        if word.text is None:
            raise NotReadOnlyError(f"{word.raw} is only known when it runs")
        if word.text in ("", "-") or is_device(word.text):
            return
        for path in self._expanded(word):
            self._look(path)

    def guess(self, command: SimpleCommand) -> None:
        """Look up what may be paths among the words of a command of which nothing is known."""
        for word in command.words[1:]:
            for piece in _pieces(command, word):
                self._guess(piece, word, surely=command.program in _WRITERS)
        for word in command.words[:1]:
            if word.text is not None and "/" in word.text and self._protection(word.text):
                self._look(word.text)

    def sweep(self, sweep: Sweep) -> None:
        """Look for protected files in the folders that a command reads whole.

        Raises:
            NotReadOnlyError: if there are some, or too many names to look through.
        """
        folders = [path for word in sweep.folders for path in self._expanded(word)] or ["."]
        left = _MOST_NAMES
        for base in self.bases:
            for folder in folders:
                for name, why in _protected_below(base / os.path.expanduser(folder), sweep, self.territory):
                    left -= 1
                    if why is not None:
                        raise NotReadOnlyError(f"it reads all of {folder!r}, where {name!r} is: {why}")
                    if left <= 0:
                        raise NotReadOnlyError(f"it reads all of {folder!r}, too much to look for secrets in")

    def _expanded(self, word: Word) -> list[str]:
        """The paths that a word stands for."""
        text = word.text or ""
        if not word.is_pattern:
            return [text]
        if "**" in text or "[^" in text or "(" in text:
            raise NotReadOnlyError(f"what {word.raw} stands for depends on the shell")
        found: list[str] = [text]
        for base in self.bases:
            pattern = os.path.join(glob.escape(str(base)), text)
            for path in glob.iglob(pattern):
                found.append(os.path.relpath(path, base) if not os.path.isabs(text) else path)
                if len(found) > _MOST_MATCHES:
                    raise NotReadOnlyError(f"{word.raw} stands for too many files")
        if any(os.path.basename(path).startswith("-") and os.sep not in path for path in found):
            raise NotReadOnlyError(f"{word.raw} stands for a name that would be an option")
        return found

    def _look(self, path: str) -> None:
        for base in self.bases:
            try:
                place = self.territory.find(path, base=base)
            except RefusedError:
                self.outside.append(f"{path!r}, outside of the folders that may be used")
                continue
            except ToolError as error:
                raise NotReadOnlyError(str(error)) from None
            if place.protection is not None:
                self.protected.append(f"{place.shown!r} is protected: {place.protection}")
            else:
                self._look_inside(place.path, place.shown)

    def _look_inside(self, path: Path, shown: str) -> None:
        """A private key is known by how it begins, under whatever name."""
        if not path.is_file():
            return
        try:
            with self.territory.opened(self.territory.find(str(path))):
                pass
        except RefusedError as error:
            self.protected.append(str(error).partition(";")[0] or shown)
        except ToolError:
            return

    def _guess(self, text: str, word: Word, *, surely: bool) -> None:
        if "://" in text and not text.startswith("file://"):
            return
        text = text.removeprefix("file://")
        if not text or "\n" in text or len(text) > 1000 or is_device(text):
            return
        if word.is_pattern:
            try:
                names = self._expanded(Word(text, text, True))
            except NotReadOnlyError:
                names = [text]
        else:
            names = [text]
        for name in names:
            may_be_path = self._protection(name) or surely or _leaves(name)
            # Also one that is there: a link in the repository may lead outside, or to a protected file.
            if may_be_path or os.path.lexists(self.territory.repository / name):
                with suppress(NotReadOnlyError):
                    self._look(name)

    def _protection(self, name: str) -> str | None:
        """Whether a name is that of a protected file, wherever it leads."""
        return protection([part for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")])


def _leaves(text: str) -> bool:
    """Whether a word looks like a path that leaves the repository."""
    if text.startswith("~") or ".." in text.split("/"):
        return True
    if not text.startswith("/"):
        return False
    first = text.strip("/").partition("/")[0]
    return not first or os.path.lexists(f"/{first}")


def _pieces(command: SimpleCommand, word: Word) -> Iterator[str]:
    """What in a word may be a path: itself, and what follows ``=``, ``@``, ``:`` or an option's letter."""
    text = word.text
    if text is None:
        # What stands in quotes beside something unknown is still a name: "$dir/.env"
        yield from (
            piece for piece in re.findall(r"[\w.~/-]*\.[\w.~/-]+", word.raw) if piece not in (".", "..")
        )
        return
    yield text
    if "://" not in text and re.search(r"[=@:,]", text):
        yield from re.split(r"[=@:,]", text)[1:]
    if match := re.match(r"-[A-Za-z]([./~].*)", text):
        yield match[1]
    if command.program is not None and _INLINE.fullmatch(command.program) and re.search(r"[\s'\"(]", text):
        yield from re.findall(r"[\w./~-]+", text)


def _protected_below(folder: Path, sweep: Sweep, territory: Territory) -> Iterable[tuple[str, str | None]]:
    """Every name below a folder that would be read, with why it is protected, if it is."""
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as listed:
                entries = list(listed)
        except OSError:
            continue
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and any(fnmatch.fnmatch(entry.name, each) for each in sweep.exclude_folders):
                continue
            is_included = any(fnmatch.fnmatch(entry.name, each.rpartition("/")[2]) for each in sweep.include)
            if sweep.skips_hidden and entry.name.startswith(".") and not is_included:
                continue
            if is_folder:
                waiting.append(Path(entry.path))
            if (is_folder and not sweep.include) or (not is_folder and (is_included or not sweep.include)):
                yield entry.name, _named_protection(entry, territory)
            else:
                yield entry.name, None


def _named_protection(entry: os.DirEntry[str], territory: Territory) -> str | None:
    why = protection((entry.name,))
    if why is None:
        return None
    try:
        return territory.find(entry.path).protection
    except (RefusedError, ToolError):
        return why
