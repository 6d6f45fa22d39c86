"""What a word with variables in it may stand for: by what the text sets them to, or else the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from pace_agent.safety.paths import LONGEST_PATH
from pace_agent.shell.folders import spelled_out
from pace_agent.shell.words import Word

_MOST_TEXTS = 256
"""Texts that a word may stand for; what one with more stands for is unknown."""

_VARIABLE = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?P<rest>(?:[^{}]|\$\{[^{}]*\})*)\})",
    re.ASCII | re.DOTALL,
)


class _Rest(Enum):
    """What follows a text."""

    NOTHING = 0
    OUTPUT = 1
    """What a command prints, or the user or a caller gives."""

    UNKNOWN = 2
    """The value of a variable that is neither set in the text nor in the environment."""


@dataclass(frozen=True)
class _Text:
    """What a word is, or begins with."""

    text: str
    rest: _Rest = _Rest.NOTHING


class Expansion:
    """Puts values for variables. Any value that the text gives one counts, wherever it does so.

    Args:
        values: what variables are set to, in the order of the text; None: what a command reads or is given.
    """

    def __init__(self, values: Iterable[tuple[str, Word | None]]) -> None:
        self._values: dict[str, list[_Text]] = {}
        for name, word in values:
            found = [_Text("", _Rest.OUTPUT)] if word is None else self._read(word)
            self._values[name] = list(dict.fromkeys([*self._values.get(name, ()), *found]))

    def texts(self, word: Word) -> list[str]:
        """What a word may be given as, each up to the first that only running it would tell."""
        return [each.text for each in self._read(word) if each.text]

    def is_unknown(self, word: Word) -> bool:
        """Whether a word may begin with a variable of which nothing is known."""
        return any(not each.text and each.rest is _Rest.UNKNOWN for each in self._read(word))

    def _read(self, word: Word) -> list[_Text]:
        if word.text is not None:
            return [_Text(spelled_out(word))]
        begun, ended = [""], list[_Text]()
        for piece in _pieces(word.raw):
            if isinstance(piece, str):
                begun = [text + piece for text in begun]
                continue
            values = [_Text("", _Rest.OUTPUT)] if piece is None else self._expanded(piece)
            if len(begun) * len(values) > _MOST_TEXTS or any(len(text) > LONGEST_PATH for text in begun):
                return [_Text("", _Rest.UNKNOWN)]
            joined = [_Text(text + value.text, value.rest) for text in begun for value in values]
            ended += [each for each in joined if each.rest is not _Rest.NOTHING]
            begun = [each.text for each in joined if each.rest is _Rest.NOTHING]
        return [*ended, *map(_Text, begun)]

    def _expanded(self, variable: re.Match[str]) -> list[_Text]:
        name, rest = variable["name"] or variable["braced"], variable["rest"] or ""
        values, operator = self._of(name), rest.lstrip(":")[:1]
        known = [each for each in values if each.rest is not _Rest.UNKNOWN]
        if operator in ("", "?"):
            return values
        if operator in ("-", "+"):
            other = self._read(Word(rest.lstrip(":")[1:], None))
            if operator == "+":
                return [_Text(""), *(other if known else ())]
            return known if len(known) == len(values) else [*known, *other]
        if operator == "%":
            # Without its end a relative path begins as it did, but a whole one may be that of a folder above.
            is_whole = any(each.text == "." or each.text.startswith("/") for each in values)
            return [*values, *([_Text("", _Rest.UNKNOWN)] if is_whole else ())]
        is_set = name in self._values or name == "PWD"
        return [_Text("", _Rest.OUTPUT if is_set else _Rest.UNKNOWN)]

    def _of(self, name: str) -> list[_Text]:
        if name in self._values:
            return self._values[name]
        if name == "PWD":
            return [_Text(".")]
        if name in os.environ:
            return [_Text(os.environ[name])]
        return [_Text("", _Rest.UNKNOWN)]


def _pieces(raw: str) -> Iterator[str | re.Match[str] | None]:
    """The pieces of a word as it is written: texts, variables, and None for all else, which ends it."""
    at, in_quotes, text = 0, False, ""
    while at < len(raw):
        character = raw[at]
        variable = _VARIABLE.match(raw, at)
        if variable is not None or character in "$`" or (character in "<>{" and not in_quotes):
            yield text
            yield variable
            if variable is None:
                return
            at, text = variable.end(), ""
        elif character == "'" and not in_quotes:
            end = raw.find("'", at + 1)
            text, at = text + raw[at + 1 : end], end + 1 or len(raw)
        elif character == "\\":
            text, at = text + raw[at + 1 : at + 2], at + 2
        else:
            in_quotes = in_quotes != (character == '"')
            text, at = text + character.strip('"'), at + 1
    yield text
