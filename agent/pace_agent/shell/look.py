"""Looks up the paths that shell commands name."""

from __future__ import annotations

import functools
import glob
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.repository.git_state import git_folder, top_of
from pace_agent.safety.paths import Territory
from pace_agent.safety.protected import protection
from pace_agent.shell.checkouts import has_known_settings, tracked
from pace_agent.shell.denials import deletes, is_recursive
from pace_agent.shell.expansion import Expansion
from pace_agent.shell.folders import spelled_out
from pace_agent.shell.options import NotReadOnlyError
from pace_agent.shell.reading_commands import RULES
from pace_agent.shell.rules import Sweep, is_device, writes_file
from pace_agent.shell.split import Split
from pace_agent.shell.sweeps import names_below
from pace_agent.shell.words import SimpleCommand, Word, names

_MOST_NAMES = 20_000
"""Names that are looked through in a folder that a command reads whole; a larger one is asked about."""

_MOST_MATCHES = 2_000
_INLINE = re.compile(
    r"python[0-9.]*|pypy[0-9.]*|node|deno|bun|perl|ruby|php|lua|[gmn]?awk|sed|jq|tclsh|osascript"
)
_MADE_AGAIN = names(
    "node_modules bower_components .venv venv build dist target __pycache__ .tox .nox .cache .mypy_cache"
    " .pytest_cache .ruff_cache .hypothesis .gradle .next .nuxt .eggs"
)
"""Folders of what tools install or build. Deleting one is undone by building again, whatever is in it."""

_NO_PATHS = frozenset(name for name, rule in RULES.items() if rule.operands == "text") | names(
    "printf export declare typeset local readonly"
)
"""Commands whose arguments are texts: a variable's value in them is no path that they use."""

_WRITERS = names("rm rmdir mkdir touch cp mv ln tee dd install rsync truncate chmod chown unlink shred")


class Look:
    """Looks up the paths that commands name, from each folder that they may start from.

    Args:
        split: the commands.
        territory: the folders that the agent may use.
        bases: the folders that the commands may start from.
        goes_anywhere: whether some command may run in a folder that the text does not show.
    """

    def __init__(
        self, split: Split, territory: Territory, bases: tuple[Path, ...], *, goes_anywhere: bool
    ) -> None:
        self.territory = territory
        self.bases = bases
        self.inner = tuple(base for base in bases if territory.contains(str(base)))
        self.goes_anywhere = goes_anywhere
        self._expansion = Expansion(split.values)
        self._is_lost = any(
            command.program in ("cd", "pushd") and any(map(self._expansion.is_unknown, command.words[1:]))
            for command in split.commands
        )
        """Whether a folder that commands run in is the value of a variable of which nothing is known."""
        self.protected: list[str] = []
        self.outside = [
            f"{os.fspath(base)!r}, outside of the folders that may be used"
            for base in bases
            if base not in self.inner
        ]

    def reads(self, word: Word) -> None:
        """Look a path up that is surely used.

        Raises:
            NotReadOnlyError: if the text does not show it, or its pattern stands for too much.
        """
        if word.text is None:
            for text in self._expansion.texts(word):
                if not is_device(text):
                    self._look(text)
            raise NotReadOnlyError(f"{word.raw} is only known when it runs")
        if word.text in ("", "-") or is_device(word.text):
            return
        for path in self._expanded(word):
            self._look(path)

    def guess(self, command: SimpleCommand) -> None:
        """Look up what may be paths among the words of a command of which nothing is known."""
        surely = command.program in _WRITERS
        for word in command.words[1:]:
            for piece in _pieces(command, word):
                self._guess(piece, word, surely=surely)
            if word.text is None and command.program not in _NO_PATHS:
                for known in self._known(word):
                    for piece in _pieces(command, known):
                        self._guess(piece, known, surely=surely)
        if command.program in ("cd", "pushd") and len(command.words) == 1:
            with suppress(NotReadOnlyError):
                self._look("~")
        for word in command.words[:1]:
            if word.text is not None and "/" in word.text and self._protection(word.text):
                self._look(word.text)

    def _known(self, word: Word) -> Iterator[Word]:
        """The words that the shell may make of one with variables in it: several where it is not quoted."""
        for text in self._expansion.texts(word):
            for part in text.split() if word.raw.startswith("$") else [text]:
                yield Word(part, part)

    def sweep(self, sweep: Sweep) -> None:
        """Look for protected files in the folders that a command reads whole.

        Raises:
            NotReadOnlyError: if there are some, or too many names to look through.
        """
        if sweep.is_git:
            self._tracked(sweep)
            return
        folders = [path for word in sweep.folders for path in self._expanded(word)] or ["."]
        left = _MOST_NAMES
        for base, folder in itertools.product(self.inner, folders):
            for name, why in names_below(base / os.path.expanduser(folder), sweep, self.territory):
                left -= 1
                if why is not None:
                    raise NotReadOnlyError(f"it reads all of {folder!r}, where {name!r} is: {why}")
                if left <= 0:
                    raise NotReadOnlyError(f"it reads all of {folder!r}, too much to look for secrets in")

    def _tracked(self, sweep: Sweep) -> None:
        """Look for protected files among those that git has."""
        for top in dict.fromkeys(map(top_of, self.inner)):
            folder = None if top is None else git_folder(top)
            if top is None or folder is None:
                continue
            try:
                paths = tracked((folder.own / "index").read_bytes())
            except FileNotFoundError:
                continue
            except OSError:
                paths = None
            if paths is None:
                raise NotReadOnlyError("it reads all that git has, which cannot be told")
            known = functools.cache(protection)
            for path in paths:
                pairs = itertools.pairwise(("", *path.split("/")))
                whole = top / path
                if not any(map(known, pairs)) or self._is_named(whole):
                    continue
                if not sweep.folders or any(self._may_be_in(whole, word) for word in sweep.folders):
                    raise NotReadOnlyError(f"it reads all that git has, and that has {path!r}")

    def _is_named(self, path: Path) -> bool:
        """Whether the user named a path whose name is protected."""
        return self.territory.contains(str(path)) and self.territory.find(str(path)).protection is None

    def _may_be_in(self, path: Path, word: Word) -> bool:
        """Whether a path may be one that git takes a word for; no word but that of a folder is followed."""
        text = word.text or ""
        if re.fullmatch(r"\*\.[A-Za-z0-9]+", text):
            return path.name.casefold().endswith(text[1:].casefold())
        places = [Path(os.path.normpath(base / text)) for base in self.bases]
        return any(path.is_relative_to(place) for place in places) or not all(map(os.path.lexists, places))

    def settings_of_git(self) -> None:
        """Make sure that git takes its settings from the repository's own checkout.

        Raises:
            NotReadOnlyError: if it might take others.
        """
        if self.goes_anywhere or not all(
            has_known_settings(base, self.territory.repository) for base in self.bases
        ):
            raise NotReadOnlyError(
                "git runs what the settings of a folder say that is not the repository's own"
            )

    def is_there(self, text: str) -> bool:
        """Whether a word is the name of something that is there."""
        return any(os.path.lexists(base / text) for base in self.bases)

    def ruin(self, command: SimpleCommand) -> str | None:
        """Why deleting whole folders would take what cannot be made again; None if it would not."""
        words = command.words[1:]
        if command.program != "rm" or not is_recursive([word.text or word.raw for word in words]):
            return None
        if self.goes_anywhere:
            return "in which folder it deletes is only known when it runs"
        for word in words:
            if word.text is None or word.text.startswith("-"):
                continue
            try:
                paths = self._expanded(word)
            except NotReadOnlyError:
                return f"what {word.raw} deletes is only known when it runs"
            for base, path in itertools.product(self.bases, paths):
                if why := self._ruined(base, path, word):
                    return why
        return None

    def stray(self, command: SimpleCommand) -> str | None:
        """Why a command may write anywhere; None if the text, a command or a caller says where."""
        written = [each.target for each in command.redirections if writes_file(each)]
        texts = [word.text or word.raw for word in command.words[1:]]
        if command.program in _WRITERS or (command.program == "find" and deletes(texts)):
            written += command.words[1:]
        if any(map(self._expansion.is_unknown, written)) or (written and self._is_lost):
            return "where it writes is only known when it runs"
        return None

    def _ruined(self, base: Path, path: str, word: Word) -> str | None:
        folder, _, last = path.rpartition("/")
        is_all = word.is_pattern and re.fullmatch(r"[*?.]+", last) is not None
        try:
            place = self.territory.find(folder or "." if is_all else path, base=base)
        except (RefusedError, ToolError):
            return None  # outside, which is told by itself
        if not place.parts:
            return f"it deletes all of {place.root.name!r}"
        if not _MADE_AGAIN.isdisjoint(place.parts):
            return None
        for number, (name, why) in enumerate(names_below(place.path, Sweep(()), self.territory)):
            if why is not None:
                return f"it deletes {name!r} in {place.shown!r}: {why}"
            if number > _MOST_NAMES:
                return f"{place.shown!r} is too large to look for what is in it"
        return None

    def _expanded(self, word: Word) -> list[str]:
        """The paths that a word stands for."""
        text = spelled_out(word)
        if not word.is_pattern:
            return [text]
        if re.search(r"\*\*|\[\^|\(|\[\[|\[[:=.]|\[[^\]]*/", text):
            raise NotReadOnlyError(f"what {word.raw} stands for depends on the shell")
        found: list[str] = [text]
        for base in self.bases:
            pattern = os.path.join(glob.escape(str(base)), os.path.expanduser(text))
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
                if base in self.inner or os.path.isabs(path):
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
            if may_be_path or self.is_there(name):
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
            piece
            for piece in re.findall(r"(?<![\w.~/-])[\w.~/-]*\.[\w.~/-]+", word.raw)
            if piece not in (".", "..")
        )
        return
    yield text
    if "://" not in text and re.search(r"[=@:,]", text):
        yield from re.split(r"[=@:,]", text)[1:]
    if match := re.match(r"-[A-Za-z]([./~].*)", text):
        yield match[1]
    if command.program is not None and _INLINE.fullmatch(command.program) and re.search(r"[\s'\"(]", text):
        yield from re.findall(r"[\w./~-]+", text)
