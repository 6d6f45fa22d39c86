"""Which files a repository has, what each defines and uses, and where a name is defined and used.

Nothing is read before it is needed, and no question takes longer than a given time: what could not be looked
at in it is looked at by the next one, and :meth:`RepositoryIndex.notes` says so meanwhile. Files are listed
first, then their words are read, and only files that hold a word are parsed. Ignored files, symbolic links
and files that hold secrets are not looked at.
"""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from pace_agent.repository.file_facts import FileFacts, Place, definition_form, facts_of, is_code
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.imported_files import imported_files
from pace_agent.repository.path_names import PathNames, is_test, module_parts
from pace_agent.repository.walk import MOST_FILES, Entry, Walk
from pace_agent.repository.word_postings import WordPostings, words_of
from pace_agent.safety.protected import HEADER_BYTES, header_protection, protection
from pace_local.errors import FileError
from pace_local.excerpts.layout import split_lines
from pace_local.files import read_text

__all__ = ["Place", "RepositoryIndex"]

LARGEST_READ = 2 * 1024**2
"""Bytes of a file whose words and definitions are looked at."""

_KEPT_FACTS = 4_000
_KEPT_TEXTS = 64
_State = tuple[int, int]  # nanoseconds of the last change, bytes


class RepositoryIndex:
    """What there is in a repository. Not safe to use from several threads at once.

    Args:
        root: the folder.
        ignoring: what is ignored below it; None: what git ignores.
        deadline: seconds that a question may take, at most; a single file is not interrupted.
        most_files: files that are listed.
        largest: bytes of a file that is read.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        ignoring: Ignoring | None = None,
        deadline: float = 2.0,
        most_files: int = MOST_FILES,
        largest: int = LARGEST_READ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ignoring = ignoring or Ignoring(root)
        self.root = self._ignoring.root
        self._deadline = deadline
        self._most_files = most_files
        self._largest = largest
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._names = PathNames(self.root)
        self._postings = WordPostings()
        self._facts: OrderedDict[str, tuple[_State, FileFacts]] = OrderedDict()
        self._texts: OrderedDict[str, tuple[_State, str]] = OrderedDict()
        self._unread: dict[str, None] = {}
        self._too_large: set[str] = set()
        self._unparsed = False
        self._fell_short = False
        self._shared: float | None = None
        self._imports: dict[str, tuple[FileFacts, tuple[str, ...]]] = {}
        self._begin()

    def _begin(self) -> None:
        self._walk = Walk(self._ignoring, most_files=self._most_files)
        self._walking: Iterator[Entry] | None = iter(self._walk)
        self._seen: set[str] = set()

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that are known by now, sorted."""
        self._list(self._until())
        return tuple(sorted(self._states))

    def __contains__(self, path: object) -> bool:
        """Whether a file is known, by its path from the root."""
        self._list(self._until())
        return path in self._states

    @property
    def is_complete(self) -> bool:
        """Whether all that is to be looked at has been."""
        return self._walking is None and not self._unread and not self._unparsed

    def notes(self) -> list[str]:
        """What was not looked at, a sentence each."""
        notes = self._walk.notes()
        if self._walking is not None and self._fell_short:
            notes.append(f"{len(self._states):,} files listed by now: the repository is large; ask again")
        elif self._unread and self._fell_short:
            notes.append(f"{len(self._unread):,} files not searched for names yet; ask again")
        elif self._unparsed:
            notes.append("some files that hold the name were not looked into yet; ask again")
        if self._too_large:
            largest = f"{self._largest / 2**20:.3g} MiB"
            notes.append(f"{len(self._too_large):,} files of more than {largest} were not searched for names")
        return notes

    def refresh(self, paths: Iterable[str] | None = None) -> None:
        """Look again at files that may have changed, come or gone.

        Args:
            paths: files or folders, from the root; None: everything. Files are told by time and size.
        """
        if paths is None:
            self._ignoring.reread()
            self._begin()
            return
        for path in dict.fromkeys(paths):
            if (self.root / path).is_dir():
                for entry in Walk(self._ignoring, below=path, most_files=self._most_files):
                    self._note(entry)
                continue
            try:
                status = os.stat(self.root / path, follow_symlinks=False)
            except (OSError, ValueError):
                for gone in [one for one in self._states if one == path or one.startswith(path + "/")]:
                    self._forget(gone)
                continue
            if not self._ignoring.ignores(path):
                self._note(Entry(path, status))

    def size_of(self, path: str) -> int:
        """Bytes of a file as last seen; 0 if it is not known."""
        return self._states.get(path, (0, 0))[1]

    def text_of(self, path: str) -> str | None:
        """The text of a file as it is now; None if it is gone, too large, protected or no text."""
        state = self._state_now(path)
        if state is None or state[1] > self._largest or protection(PurePosixPath(path).parts):
            return None
        kept = self._texts.get(path)
        if kept and kept[0] == state:
            self._texts.move_to_end(path)
            return kept[1]
        try:
            text = read_text(self.root / path, max_bytes=self._largest).text
        except FileError:
            return None
        if header_protection(text[:HEADER_BYTES].encode("utf-8", "replace")):
            return None
        self._texts[path] = (state, text)
        if len(self._texts) > _KEPT_TEXTS:
            self._texts.popitem(last=False)
        return text

    def lines_of(self, path: str, first: int, last: int) -> str:
        """Lines of a file as it is now, 1-based and inclusive; empty where there are none."""
        text = self.text_of(path)
        return "" if text is None else "".join(split_lines(text)[max(first, 1) - 1 : last])

    def facts_of(self, path: str) -> FileFacts | None:
        """What a file defines and uses now; None if it cannot be read."""
        text = self.text_of(path)
        if text is None:
            return None
        state = self._state_now(path)
        kept = self._facts.get(path)
        if kept is None or state is None or kept[0] != state:
            kept = (state or (0, 0), facts_of(text, path))
            self._facts[path] = kept
            if len(self._facts) > _KEPT_FACTS:
                self._facts.popitem(last=False)
        self._facts.move_to_end(path)
        return kept[1]

    def find_path(self, text: str) -> tuple[str, ...]:
        """Files that a text names, as people write it.

        That is a path, whole or its end, with or without its suffix; a module with dots or ``::``; an
        absolute path in the root; each with a line or a test's name behind it or without.

        Returns:
            The nearest to the root first, tests last. The path alone where the text is one.
        """
        self._list(self._until())
        return self._names.find(text)

    def definitions_of(self, name: str) -> tuple[Place, ...]:
        """Where a name is defined.

        Args:
            name: alone, or behind what is around it or its module: ``total``, ``Orders.total``,
                ``orders.Orders.total``, ``Orders::total``, ``shop/orders.py:total``.

        Returns:
            The least qualified first, definitions before declarations, tests last.
        """
        path, parts = self._split(name)
        if not parts:
            return ()
        until = self._until()
        found: list[Place] = []
        for facts in self._facts_with(parts[-1], until, within=path, could_define=True):
            module = module_parts(facts.path)
            for one in facts.definitions:
                whole = (*module, *one.symbol.split("."))
                if one.leaf == parts[-1] and whole[-len(parts) :] == parts:
                    found.append(one)
        return tuple(sorted(found, key=_by_likelihood))

    def users_of(self, name: str) -> tuple[Place, ...]:
        """Which definitions use a name, and which lines outside of definitions do.

        It is looked for as a whole word by its last part, in code and settings: comments and strings do not
        count, except for ``__all__`` and strings with dots such as those that name what is to be patched.
        What else has the same name is among them.
        """
        path, parts = self._split(name)
        if not parts:
            return ()
        until = self._until()
        found = [place for facts in self._facts_with(parts[-1], until) for place in facts.users(parts[-1])]
        return tuple(
            sorted(found, key=lambda one: (one.path != path, is_test(one.path), one.path, one.first))
        )

    def definition_at(self, path: str, line: int) -> Place | None:
        """The definition that holds a line, see :meth:`FileFacts.around`."""
        facts = self.facts_of(path)
        return facts.around(line) if facts else None

    def files_with(self, word: str) -> list[str]:
        """Code and settings that hold a word, comments and strings included; sorted."""
        self._read(self._until())
        return self._postings.paths_with(word)

    def spread_of(self, word: str) -> int:
        """How many files hold a word, as :meth:`files_with`."""
        self._read(self._until())
        return self._postings.count_with(word)

    def imports_of(self, path: str) -> tuple[str, ...]:
        """The repository's files that a file imports, as far as the imports' names show it."""
        self._list(self._until())
        facts = self.facts_of(path)
        if facts is None:
            return ()
        kept = self._imports.get(path)
        if kept is None or kept[0] is not facts:
            found = dict.fromkeys(
                one for module in facts.modules for one in imported_files(path, module, self._names)
            )
            found.pop(path, None)
            self._imports[path] = kept = (facts, tuple(found))
        return kept[1]

    @contextmanager
    def within(self, seconds: float | None = None) -> Iterator[None]:
        """Let all questions that are asked inside take so long together; None: as long as a single one."""
        outer = self._shared
        until = self._clock() + (self._deadline if seconds is None else seconds)
        self._shared = until if outer is None else min(outer, until)
        try:
            yield
        finally:
            self._shared = outer

    def _until(self) -> float:
        return self._clock() + self._deadline if self._shared is None else self._shared

    def _list(self, until: float) -> None:
        """Go on listing files."""
        if self._walking is None:
            return
        for entry in self._walking:
            if not entry.is_folder:
                self._note(entry)
            if self._clock() >= until:
                self._fell_short = True
                return
        self._walking = None
        for gone in [path for path in self._states if path not in self._seen]:
            self._forget(gone)

    def _note(self, entry: Entry) -> None:
        if not stat.S_ISREG(entry.status.st_mode):
            return
        path, state = entry.path, (entry.status.st_mtime_ns, entry.status.st_size)
        self._seen.add(path)
        if self._states.get(path) == state:
            return
        self._states[path] = state
        self._names.add(path)
        self._postings.remove(path)
        self._too_large.discard(path)
        self._unread.pop(path, None)
        pure = PurePosixPath(path)
        if protection(pure.parts) or not (is_code(path, "") or not pure.suffix):
            return
        if state[1] > self._largest:
            self._too_large.add(path)
        else:
            self._unread[path] = None

    def _forget(self, path: str) -> None:
        self._states.pop(path, None)
        self._names.remove(path)
        self._postings.remove(path)
        self._unread.pop(path, None)
        self._too_large.discard(path)
        self._facts.pop(path, None)
        self._imports.pop(path, None)
        self._texts.pop(path, None)

    def _read(self, until: float) -> None:
        """Go on reading words."""
        self._list(until)
        if self._walking is not None:
            return
        self._fell_short = False
        while self._unread:
            path = next(iter(self._unread))
            del self._unread[path]
            text = self.text_of(path)
            if text is not None and is_code(path, text):
                self._postings.put(path, words_of(text))
            if self._unread and self._clock() >= until:
                self._fell_short = True
                return

    def _state_now(self, path: str) -> _State | None:
        """A file's state on the disk; what is known of it is dropped if it has changed."""
        if path not in self._states:
            self._list(self._until())
            if path not in self._states:
                return None
        try:
            status = os.stat(self.root / path, follow_symlinks=False)
        except (OSError, ValueError):
            self._forget(path)
            return None
        self._note(Entry(path, status))
        return self._states.get(path)

    def _facts_with(
        self, word: str, until: float, *, within: str | None = None, could_define: bool = False
    ) -> Iterator[FileFacts]:
        """Facts of all files that hold a word, those that are parsed already first.

        Args:
            word: a whole word.
            until: when to stop.
            within: this file alone.
            could_define: leave out files whose text shows that they do not define it.
        """
        if within is None:
            self._read(until)
            paths = self._postings.paths_with(word)
        else:
            paths = [within]
        form = definition_form(word)
        self._unparsed = False
        for path in sorted(paths, key=lambda one: (one not in self._facts, is_test(one))):
            if path not in self._facts:
                if self._clock() >= until:
                    self._unparsed = True
                    return
                if could_define and not form.search(self.text_of(path) or ""):
                    continue
            facts = self.facts_of(path)
            if facts is not None:
                yield facts

    def _split(self, name: str) -> tuple[str | None, tuple[str, ...]]:
        """A file that is named before a name, and the parts of the name."""
        name = name.strip().strip("`").removesuffix("()")
        before, mark, after = name.partition(":")
        path = None
        if mark and ("/" in before or "." in before):
            found = self.find_path(before)
            if not found:
                return None, ()
            path, name = found[0], after.lstrip(":")
        plain = name.replace("::", ".").replace("->", ".").replace("#", ".").strip(".")
        return path, tuple(part for part in plain.split(".") if part)


def _by_likelihood(place: Place) -> tuple[int, bool, bool, str, int]:
    return place.symbol.count("."), place.kind == "declaration", is_test(place.path), place.path, place.first
