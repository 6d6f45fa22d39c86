"""Which options of a command are known to change nothing, and what its other arguments are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pace_agent.shell.words import Word


class NotReadOnlyError(Exception):
    """A command is not known to change nothing; the message says why, as a phrase."""


@dataclass(frozen=True)
class Options:
    """The options that a command may have.

    An option that is not named here, or that is abbreviated, makes the command one that is asked about.
    """

    flags: str = ""
    """Letters of options without a value."""

    valued: str = ""
    """Letters of options with a value that is no path."""

    paths: str = ""
    """Letters of options whose value is a path that is read."""

    long: frozenset[str] = frozenset()
    """Long options without a value, or with an optional one after ``=``."""

    long_valued: frozenset[str] = frozenset()
    """Long options with a value that is no path."""

    long_paths: frozenset[str] = frozenset()
    """Long options whose value is a path that is read."""

    numbers: bool = False
    """Whether a number is an option, as in ``head -20``."""

    attached: str = ""
    """Letters of options whose value is no path, and stands right behind the letter if there is one."""


@dataclass
class Parsed:
    """A command's arguments, told apart."""

    operands: list[Word] = field(default_factory=list)
    paths: list[Word] = field(default_factory=list)
    """Values of options that are paths."""
    options: dict[str, list[str]] = field(default_factory=dict)
    """Names of options, letters or words, with their values in order."""

    def add(self, name: str, value: str = "") -> None:
        """Take an option down."""
        self.options.setdefault(name, []).append(value)

    def values(self, *names: str) -> list[str]:
        """All values of some options."""
        return [value for name in names for value in self.options.get(name, ())]


def options(
    flags: str = "",
    valued: str = "",
    long: str = "",
    *,
    paths: str = "",
    numbers: bool = False,
    attached: str = "",
) -> Options:
    """Options in short notation: in ``long``, ``name=`` has a value and ``name@`` a path."""
    names = long.split()
    return Options(
        flags,
        valued,
        paths,
        frozenset(name for name in names if name[-1] not in "=@"),
        frozenset(name[:-1] for name in names if name[-1] == "="),
        frozenset(name[:-1] for name in names if name[-1] == "@"),
        numbers,
        attached,
    )


def parse(words: Sequence[Word], known: Options) -> Parsed:
    """Tell options from operands.

    Raises:
        NotReadOnlyError: for an option that is not known, or a word that the text does not show.
    """
    found = Parsed()
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        if text is None:
            raise NotReadOnlyError(f"{word.raw} is only known when it runs")
        at += 1
        if text == "--":
            found.operands += words[at:]
            if any(rest.text is None for rest in words[at:]):
                raise NotReadOnlyError("an argument is only known when it runs")
            break
        if text == "-" or not text.startswith("-"):
            found.operands.append(word)
        elif word.is_pattern:
            raise NotReadOnlyError(f"{word.raw} may stand for any option")
        elif known.numbers and re.fullmatch(r"-[0-9]+", text):
            found.add("number", text[1:])
        elif text.startswith("--"):
            at = _long(text, words, at, known, found)
        else:
            at = _short(text, words, at, known, found)
    return found


def _long(text: str, words: Sequence[Word], at: int, known: Options, found: Parsed) -> int:
    name, equals, value = text[2:].partition("=")
    if name in known.long:
        found.add(name, value)
        return at
    if name not in known.long_valued and name not in known.long_paths:
        raise NotReadOnlyError(f"the option --{name}")
    word = Word(value, value)
    if not equals:
        word, at = _value(words, at, f"--{name}")
    found.add(name, word.text or "")
    if name in known.long_paths:
        found.paths.append(word)
    return at


def _short(text: str, words: Sequence[Word], at: int, known: Options, found: Parsed) -> int:
    for number, letter in enumerate(text[1:], start=1):
        if letter in known.flags:
            found.add(letter)
            continue
        if letter in known.attached:
            found.add(letter, text[number + 1 :])
            return at
        if letter not in known.valued and letter not in known.paths:
            raise NotReadOnlyError(f"the option -{letter}")
        rest = text[number + 1 :]
        word = Word(rest, rest)
        if not rest:
            word, at = _value(words, at, f"-{letter}")
        found.add(letter, word.text or "")
        if letter in known.paths:
            found.paths.append(word)
        return at
    return at


def _value(words: Sequence[Word], at: int, option: str) -> tuple[Word, int]:
    if at >= len(words):
        raise NotReadOnlyError(f"the option {option} without its value")
    if words[at].text is None or words[at].is_pattern:
        raise NotReadOnlyError(f"the value of {option} is only known when it runs")
    return words[at], at + 1
