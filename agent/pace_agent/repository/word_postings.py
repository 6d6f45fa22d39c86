"""Which files hold which words, so that a name is looked for only where it can be."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

MOST_WORDS = 20_000
"""Different words of one file that are remembered; a file of more is data."""

WORD = re.compile(r"[^\W\d][\w$]*|\$[\w$]+")
"""What could be an identifier in some language."""

_LONGEST_WORD = 100  # what is longer is data, not a name
_FEWEST_DEAD = 1_000


def words_of(text: str) -> set[str]:
    """The words of a text that could be identifiers, at most ``MOST_WORDS``."""
    words: set[str] = set()
    for match in WORD.finditer(text):
        if len(match[0]) <= _LONGEST_WORD:
            words.add(match[0])
            if len(words) >= MOST_WORDS:
                break
    return words


class WordPostings:
    """Words, each with the files that hold it.

    A file's number is new each time that it is added, so that taking it out costs nothing; numbers of files
    that are gone are dropped when they are as many as the others.
    """

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._postings: dict[str, array[int]] = {}
        self._next = 0

    def __len__(self) -> int:
        """Number of files."""
        return len(self._files)

    def __contains__(self, path: str) -> bool:
        """Whether the words of a file are known."""
        return path in self._numbers

    def put(self, path: str, words: Iterable[str]) -> None:
        """Remember the words of a file, in the place of those that it had."""
        self.remove(path)
        number, self._next = self._next, self._next + 1
        self._files[number] = path
        self._numbers[path] = number
        for word in words:
            self._postings.setdefault(word, array("L")).append(number)

    def remove(self, path: str) -> None:
        """Forget a file; one that is not known is no error."""
        number = self._numbers.pop(path, None)
        if number is not None:
            del self._files[number]
            if self._next - len(self._files) > max(_FEWEST_DEAD, len(self._files)):
                self._drop_dead()

    def paths_with(self, word: str) -> list[str]:
        """The files that hold a word, sorted."""
        return sorted(self._files[number] for number in self._postings.get(word, ()) if number in self._files)

    def count_with(self, word: str) -> int:
        """How many files hold a word."""
        return sum(number in self._files for number in self._postings.get(word, ()))

    def _drop_dead(self) -> None:
        renamed = {old: new for new, old in enumerate(self._files)}
        kept = {
            word: array("L", (renamed[number] for number in numbers if number in renamed))
            for word, numbers in self._postings.items()
        }
        self._postings = {word: numbers for word, numbers in kept.items() if numbers}
        self._files = {renamed[number]: path for number, path in self._files.items()}
        self._numbers = {path: number for number, path in self._files.items()}
        self._next = len(self._files)
