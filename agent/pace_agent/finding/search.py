"""Searching a repository's files for a text or an expression.

Which files count is the walk's to say, what matches Python's ``re``; ripgrep, where it is installed, only
says which files need not be read, so that a search finds the same with it and without. Files are opened
through the territory: never a protected one, never through a link.
"""

from __future__ import annotations

import codecs
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.finding.file_names import FileNames
from pace_agent.finding.found import Found, Match, match_of
from pace_agent.finding.line_search import ExpressionSearch, GaveUpError, PlainSearch, lines_of
from pace_agent.finding.listing import MOST_FILES, Listed, Listing, list_files, place_in, walk_notes
from pace_agent.finding.ripgrep import ARGUMENT_BYTES, Sieve, find_ripgrep
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import Walk, shown
from pace_agent.safety.paths import Place, Territory

__all__ = ["Found", "Listed", "Listing", "Match", "list_files", "search_text"]

LARGEST_SEARCHED = 4 * 1024**2
"""Bytes of a file; larger ones are hardly written by people."""

LONGEST_PATTERN = 1_000
"""Characters."""

MOST_OF_A_FILE = 30
"""Matches kept of one file where several are searched: a generated one must not crowd out the others."""

MOST_COUNTED = 10_000
"""Matches after which a search ends."""

_WITHOUT_CASE = re.compile(
    r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|.)"  # in an escape, capitals are no letters to be found
    r"|\(\?P?[<=>][^>)]*[>)]?",  # nor in a group's name
    re.DOTALL,
)


def search_text(
    territory: Territory,
    pattern: str,
    *,
    below: str = ".",
    regex: bool = False,
    names: str | None = None,
    most: int = 200,
    cancel: threading.Event | None = None,
    seconds: float = 20.0,
    ripgrep: Callable[[tuple[Path, ...]], str | None] = find_ripgrep,
) -> Found:
    """Find the lines that a pattern matches.

    A pattern without capital letters ignores case. Left out are ignored and protected files, symlinks,
    binary files, and those of more than :data:`LARGEST_SEARCHED` bytes; bytes that are no UTF-8 are compared
    as U+FFFD. UTF-16 needs its byte order mark.

    Args:
        territory: where it may search.
        pattern: what to find within a line.
        below: the folder, or the one file, to search; one that is named is searched even if it is ignored.
        regex: whether the pattern is an expression of Python's; one that is none, or that matches nothing,
            is searched as plain text, and that is noted.
        names: which files, as in an ignore file: ``*.py``, ``src/**/*.ts``, also ``*.{c,h}``; None: all.
        most: matching lines to keep; the others are counted.
        cancel: ends it when set, from any thread; what was found until then is returned.
        seconds: after which it ends, and says so.
        ripgrep: gives ripgrep's path or None for the territory's folders.

    Raises:
        ToolError: the pattern is empty or too long, or ``below`` is not there.
        RefusedError: ``below`` is outside or protected.
    """
    lines = lines_of(pattern) or [""]
    notes = []
    wanted = next((line for line in lines if line.strip()), lines[0])
    if len(lines) > 1:
        notes.append(f"lines are searched one by one: only {shown(wanted)!r} was searched for")
    if not wanted or len(wanted) > LONGEST_PATTERN:
        raise ToolError(
            f"a pattern of {len(wanted)} characters is none to search for; give 1 to {LONGEST_PATTERN}"
        )
    place = territory.find(below or ".")
    territory.check(place)
    if not place.path.exists():
        raise ToolError(f"no such file or folder: {place.shown!r}; list the folder above it")
    search = _Search(territory, place, FileNames(names), most, time.monotonic() + seconds, cancel, ripgrep)
    compiled, problem = _compiled(wanted) if regex else (None, "")
    if compiled is None:
        if problem:
            notes.append(f"{shown(wanted)!r} is no regular expression ({problem}): searched as plain text")
        return search.run(wanted, _plain(wanted), is_plain=True, notes=notes)
    found = search.run(wanted, compiled, is_plain=False, notes=notes)
    if found.matches or found.is_cut_short or wanted == re.escape(wanted):
        return found
    plain = search.run(wanted, _plain(wanted), is_plain=True, notes=notes)
    if not plain.matches:
        return found
    said = f"nothing matches {shown(wanted)!r} as a regular expression: these have it as plain text"
    return plain.noting(said)


def _flags(pattern: str) -> re.RegexFlag:
    return re.RegexFlag(0) if any(map(str.isupper, pattern)) else re.IGNORECASE


def _plain(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text), _flags(text))


def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, str]:
    """A pattern as an expression, or why it is none."""
    try:
        with warnings.catch_warnings():  # of what may mean something else one day
            warnings.simplefilter("ignore")
            return re.compile(pattern, _flags(_WITHOUT_CASE.sub("", pattern))), ""
    except re.error as error:
        return None, str(error)
    except (OverflowError, RecursionError, MemoryError):
        return None, "it is too large"


@dataclass(frozen=True)
class _Search:
    """Everything about a search but what is searched for."""

    territory: Territory
    place: Place
    names: FileNames
    most: int
    deadline: float
    cancel: threading.Event | None
    ripgrep: Callable[[tuple[Path, ...]], str | None]

    def run(self, shown_pattern: str, regex: re.Pattern[str], *, is_plain: bool, notes: list[str]) -> Found:
        left = _LeftOut(self.place)
        program = self.ripgrep(self.territory.roots) if self.place.path.is_dir() else None
        sieve = Sieve(program, regex, self.place.root) if program else None
        matches: list[Match] = []
        more: dict[str, int] = {}
        count = 0
        stopped = ""
        make = PlainSearch(regex) if is_plain else ExpressionSearch(regex, self.deadline, self.cancel)
        try:
            for place in self._worth_reading(left, sieve):
                text = self._text(place, left)
                if text is None:
                    continue
                room = min(self.most - len(matches), MOST_OF_A_FILE if left.is_folder else self.most)
                hits = make.find(text, max(0, room))
                if hits.count:
                    lines = lines_of(text)
                    matches += [match_of(place.shown, lines[n - 1], n, a, b) for n, a, b in hits.spans]
                    if hits.count > len(hits.spans):
                        more[place.shown] = hits.count - len(hits.spans)
                    count += hits.count
                if count >= MOST_COUNTED:
                    stopped = f"the search ended at {count:,} matching lines; search for something rarer"
                    break
        except GaveUpError as error:
            stopped = f"the search ended early: {error}"
            if not is_plain and str(error) != "cancelled":
                stopped += "; give a simpler expression, a plain text, or a smaller folder"
        finally:
            make.close()
        all_notes = [*notes, *([stopped] if stopped else []), *left.notes(self.names)]
        return Found(shown_pattern, tuple(matches), tuple(all_notes), more, is_cut_short=bool(stopped))

    def _worth_reading(self, left: _LeftOut, sieve: Sieve | None) -> Iterator[Place]:
        """Files in the walk's order, without those that ripgrep says cannot match."""
        for chunk in _chunks(self._files(left), 1 if sieve is None else ARGUMENT_BYTES):
            self._check_time()
            kept = chunk
            if sieve is not None:
                paths = ["/".join(place.parts) for place in chunk]
                may_match = sieve.kept(paths, self.deadline, self.cancel)
                kept = [place for place, path in zip(chunk, paths, strict=True) if path in may_match]
            for place in kept:
                self._check_time()
                yield place

    def _check_time(self) -> None:
        if self.cancel is not None and self.cancel.is_set():
            raise GaveUpError("cancelled")
        if time.monotonic() > self.deadline:
            raise GaveUpError("the time limit was reached")

    def _files(self, left: _LeftOut) -> Iterator[Place]:
        """Regular files that are not ignored, protected or large, and whose names are wanted."""
        if not left.is_folder:
            yield self.place
            return
        # From the folder itself: one that is ignored, and named here, is searched.
        walk = left.walk = Walk(Ignoring(self.place.path), most_files=MOST_FILES)
        for entry in walk:
            self._check_time()
            if entry.is_folder or entry.is_link:
                continue
            place = place_in(self.territory, self.place, entry.path)
            if not self.names.match("/".join(place.parts), entry.path):
                continue
            left.named += 1
            if place.protection is not None:
                left.protected.append(place.shown)
            elif entry.status.st_size > LARGEST_SEARCHED:
                left.large.append(place.shown)
            else:
                yield place

    def _text(self, place: Place, left: _LeftOut) -> str | None:
        """A file's text; None if it has none, or is gone or protected."""
        try:
            text = text_of(self.territory.read(place, LARGEST_SEARCHED))
        except (ToolError, RefusedError):
            if not left.is_folder:
                raise
            if place.path.exists() and not os.access(place.path, os.R_OK):
                left.unreadable.append(place.shown)
            return None
        if text is None and not left.is_folder:
            raise ToolError(f"{place.shown!r} is a binary file; search text files")
        return text


class _LeftOut:
    """What a search did not look at."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.is_folder = place.path.is_dir()
        self.walk: Walk | None = None
        self.named = 0
        self.large: list[str] = []
        self.protected: list[str] = []
        self.unreadable: list[str] = []

    def notes(self, names: FileNames) -> Iterator[str]:
        if self.walk is None:
            return
        if not self.named:
            what = f"no file is named like {names.glob!r}" if names.glob else "there are no files"
            yield f"{what} in {self.place.shown!r}"
        yield from _noted(self.protected, "protected")
        yield from _noted(self.large, f"over {LARGEST_SEARCHED // 1024**2} MB")
        yield from _noted(self.unreadable, "cannot be read")
        yield from walk_notes(self.place, self.walk)


def _noted(paths: list[str], why: str) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
        yield f"not searched ({why}): {', '.join(map(shown, paths[:3]))}{more}"


def text_of(data: bytes) -> str | None:
    """The text of a file's bytes; None if it is binary, or in an encoding that says nothing of itself."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
        return None if "\0" in text else text
    if b"\0" in data:
        return None
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _chunks(places: Iterable[Place], most_bytes: int) -> Iterator[list[Place]]:
    """Places, so many at once that their names have about so many bytes."""
    chunk: list[Place] = []
    size = 0
    for place in places:
        chunk.append(place)
        size += sum(len(os.fsencode(part)) + 1 for part in place.parts) + 10
        if size >= most_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
