"""What a text names of a repository: files, definitions, lines, tests, commands.

Precision comes first: a word of plain English is a name only where the text marks it as one, by quotes,
brackets or a word such as *function* next to it, or where the repository defines it once and it is no word
of every day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pace_agent.repository.index import Place, RepositoryIndex
from pace_agent.repository.path_names import is_test
from pace_agent.repository.plain_words import is_plain
from pace_local.entity_words import is_telling
from pace_local.excerpts.names import Name, looks_like_name, prompt_names

_MOST_NAMES = 100
_MOST_PLACES = 6  # of one name; what is defined more often is not meant by its name alone

_LONGEST_WORD = 250
_LONGEST_TEXT = 60_000
_DATA = re.compile(rf"\S{{{_LONGEST_WORD},}}")
_TELLING = frozenset({"function", "type", "value", "macro"})

_FRAME = re.compile(r"""File "([^"\n]+)", line (\d+)(?:, in (?:<\w+>|[\w.<>]+))?""")
_LINE = re.compile(
    r"(?<![\w/.-])((?:[\w.@~+-]*/)*[\w.@+-]+\.[A-Za-z]\w*)(?::(\d+)(?::\d+)?|\((\d+)(?:,\d+)?\)|#L(\d+))"
)
_TEST_ID = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w.-]+\.py)((?:::[\w.-]+)+(?:\[[^\]\n]*\])?)")
_PATH = re.compile(
    r"(?<![\w/.@+-])(?:\.{1,2}/|/)?(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w*(?![\w/])|(?<![\w/.@+-])(?:[\w.@+-]+/)+[\w.@+-]*\w"
)
_CODE_LINE = re.compile(r"^(?:[ \t]*File \"[^\n]*\n)[ \t]+[^\n]*$", re.MULTILINE)
_BACKTICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_QUOTED = re.compile(r"""(?<!\w)(?:"([^"\n]{1,200})"|“([^”\n]{1,200})”|'([^'\n]{1,200})')(?!\w)""")
_COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:python3?|pytest|tox|nox|make|npm|npx|pnpm|yarn|node|go|cargo|mvn|gradle|\./\S+|"
    r"bash|sh|ruff|mypy|jest|vitest|tsc|cmake|ctest|pip|uv|poetry|git|docker)(?: \S.*)?"
)
_ROLE = (
    r"(?:functions?|methods?|class(?:es)?|constants?|variables?|fields?|attributes?|macros?|structs?|types?|enums?|"
    r"interfaces?|traits?|symbols?|helpers?|propert(?:y|ies)|tests?|definitions?|callers? of|uses of)"
)
_PLAIN = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_BEHIND_ROLE = re.compile(rf"\b{_ROLE}[ \t]+(?:named[ \t]+|called[ \t]+)?({_PLAIN})")
_BEFORE_ROLE = re.compile(rf"\b({_PLAIN})[ \t]+{_ROLE}\b")
_RENAMED = re.compile(rf"\b[Rr]ename[ \t]+(?:the[ \t]+)?({_PLAIN})[ \t]+(?:to|into|as|->|→)[ \t]+({_PLAIN})")
_FILE_ROLES = (
    re.compile(r"\b(?:files?|modules?|script|package)[ \t]+([\w./-]*\w)"),
    re.compile(r"(?<![\w./-])([\w./-]*\w)[ \t]+(?:files?|module|script|package)\b"),
)
_WORD = re.compile(r"(?<![\w.-])[^\W\d]\w+(?![\w-])")


@dataclass(frozen=True)
class References:
    """What a text names."""

    paths: tuple[str, ...] = ()
    """Files of the repository, in the order in which they are named."""
    symbols: tuple[Place, ...] = ()
    """Definitions, in that order."""
    identifiers: tuple[str, ...] = ()
    """Names by their form or marks that the repository does not define, such as those still to be made."""
    lines: tuple[tuple[str, int], ...] = ()
    """Files and lines, of tracebacks and messages of compilers too."""
    tests: tuple[str, ...] = ()
    """Ids such as ``tests/test_x.py::test_y``."""
    commands: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()
    """Texts in quotes or back-ticks that are no names, and options such as ``--dry-run``."""
    likely: tuple[Place, ...] = ()
    """Functions and types of named files whose names are everyday words of the text."""


def without_data(text: str) -> str:
    """A text without what nobody would name something by, so that reading it takes time linear in its length.

    What is longer than ``_LONGEST_WORD`` characters without a blank is data; of very long texts the end is
    not read.
    """
    return _DATA.sub(" ", text[:_LONGEST_TEXT])


def references(text: str, index: RepositoryIndex) -> References:
    """What a text names of a repository.

    Args:
        text: a prompt, or a step of a plan; tracebacks may be pasted into it.
        index: of the repository.
    """
    found = _Finder(index)
    with index.within():
        plain = without_data(text)
        found.take(plain)
        found.take_words_of_named_files(plain)
    return References(
        tuple(found.paths),
        tuple(found.symbols),
        tuple(found.identifiers),
        tuple(found.lines),
        tuple(found.tests),
        tuple(found.commands),
        tuple(found.quoted),
        tuple(found.likely),
    )


class _Finder:
    def __init__(self, index: RepositoryIndex) -> None:
        self._index = index
        self.paths: dict[str, None] = {}
        self.symbols: dict[Place, None] = {}
        self.identifiers: dict[str, None] = {}
        self.lines: dict[tuple[str, int], None] = {}
        self.tests: dict[str, None] = {}
        self.commands: dict[str, None] = {}
        self.quoted: dict[str, None] = {}
        self.likely: list[Place] = []

    def take(self, text: str) -> None:
        text = self._frames(text)
        text = self._tests(text)
        text = self._commands(text)
        text = self._lines(text)
        text = self._paths(text)
        self._names(text)

    def _frames(self, text: str) -> str:
        """Places of a Python traceback; its lines of code name nothing that was meant."""
        for match in _FRAME.finditer(text):
            self._place(match[1], int(match[2]))
        return _FRAME.sub(" ", _CODE_LINE.sub(" ", text))

    def _place(self, path: str, line: int) -> bool:
        found = self._index.find_path(path)
        if not found:
            return False
        self.paths.setdefault(found[0])
        self.lines.setdefault((found[0], line))
        if definition := self._index.definition_at(found[0], line):
            self.symbols.setdefault(definition)
        return True

    def _tests(self, text: str) -> str:
        for match in _TEST_ID.finditer(text):
            found = self._index.find_path(match[1])
            if found:
                self.tests.setdefault(found[0] + match[2])
                self.paths.setdefault(found[0])
                name = match[2].partition("[")[0].strip(":").replace("::", ".")
                self.symbols.update(dict.fromkeys(self._index.definitions_of(f"{found[0]}:{name}")))
        return _TEST_ID.sub(" ", text)

    def _commands(self, text: str) -> str:
        def command(match: re.Match[str]) -> str:
            if " " not in match[1].strip() or not _COMMAND.fullmatch(match[1].strip()):
                return match[0]
            self.commands.setdefault(match[1].strip())
            return " " + match[1] + " " if "/" in match[1] or "::" in match[1] else " "

        return _BACKTICKED.sub(command, text)

    def _lines(self, text: str) -> str:
        def line(match: re.Match[str]) -> str:
            is_here = self._place(match[1], int(match[2] or match[3] or match[4]))
            return " " if is_here else match[0]

        return _LINE.sub(line, text)

    def _paths(self, text: str) -> str:
        def path(match: re.Match[str]) -> str:
            if "/" not in match[0] and not _has_file_suffix(match[0]):
                return match[0]
            found = self._index.find_path(match[0])
            if not found or ("/" not in match[0] and not found[0].endswith(match[0].rpartition("/")[2])):
                return match[0]
            self.paths.update(dict.fromkeys(found[:_MOST_PLACES]))
            return " "

        text = _PATH.sub(path, text)
        for pattern in _FILE_ROLES:
            for match in pattern.finditer(text):
                if is_telling(match[1]):
                    self.paths.update(dict.fromkeys(self._index.find_path(match[1])[:1]))
        return text

    def _names(self, text: str) -> None:
        for match in _QUOTED.finditer(text):
            content = next(group for group in match.groups() if group)
            if not re.fullmatch(_PLAIN, content):
                self.quoted.setdefault(content)
        marked = {match[1].rpartition(".")[2] for match in _BEHIND_ROLE.finditer(text)}
        marked |= {match[1].rpartition(".")[2] for match in _BEFORE_ROLE.finditer(text)}
        for match in _RENAMED.finditer(text):
            marked |= {match[1].rpartition(".")[2], match[2].rpartition(".")[2]}
        for name in self._in_order(text):
            if name.is_phrase:
                self.quoted.setdefault(name.text)
            else:
                self._name(name.text, is_sure=name.is_sure, is_marked=name.leaf in marked)

    def _in_order(self, text: str) -> list[Name]:
        """Names by their form, and other words that the repository's code has, in the order of the text."""
        names = prompt_names(text)[:_MOST_NAMES]
        known = {name.text for name in names}
        words = dict.fromkeys(match[0] for match in _WORD.finditer(text))
        plain = [
            Name(word, False)
            for word in words
            if word not in known and is_telling(word) and self._index.spread_of(word)
        ]
        return sorted(
            [*names, *plain[:_MOST_NAMES]],
            key=lambda name: text.find(name.text) if name.text in text else text.find(name.leaf),
        )

    def _name(self, name: str, *, is_sure: bool, is_marked: bool) -> None:
        leaf = name.rpartition(".")[2]
        if "." not in name and not (is_sure or is_marked) and is_plain(name):
            return
        places = [one for one in self._index.definitions_of(name) if not _is_local(one, self._index)]
        if not places and "." in name:
            if paths := self._index.find_path(name):
                self.paths.setdefault(paths[0])
                return
            places = self._member(name)
        named = [one for one in places if one.path in self.paths]
        places = named or places
        if not (is_sure or is_marked or "." in name):
            if len(places) == 1 and places[0].kind in _TELLING and not is_test(places[0].path):
                self.symbols.setdefault(places[0])
        elif places:
            if len(places) <= _MOST_PLACES:
                self.symbols.update(dict.fromkeys(places))
        elif is_sure or looks_like_name(leaf) or ("." in name and not is_plain(leaf)):
            self.identifiers.setdefault(name)

    def take_words_of_named_files(self, text: str) -> None:
        """Everyday words that are functions or types of a file that is named too: "fix total in cart.py"."""
        words = dict.fromkeys(match[0] for match in _WORD.finditer(text))
        found: list[Place] = []
        for path in self.paths.keys() - {one.path for one in self.symbols}:
            facts = None if is_test(path) else self._index.facts_of(path)
            for one in facts.definitions if facts else ():
                if one.symbol in words and len(one.symbol) > 2 and one.kind in ("function", "type"):
                    found.append(one)
        if len(found) <= _MOST_PLACES:
            self.likely = found

    def _member(self, name: str) -> list[Place]:
        """``order.total`` where ``Order`` has a ``total``: a variable is often called like its class."""
        *owners, leaf = name.split(".")
        owner = owners[-1].replace("_", "").casefold()
        return [
            one
            for one in self._index.definitions_of(leaf)
            if one.symbol.rpartition(".")[0].rpartition(".")[2].casefold() == owner and owner
        ]


def _is_local(place: Place, index: RepositoryIndex) -> bool:
    """Whether a definition is inside a function, where nobody else can name it."""
    around = index.definition_at(place.path, place.first)
    return around is not None and around.kind == "function" and place.symbol.startswith(around.symbol + ".")


def _has_file_suffix(text: str) -> bool:
    suffix = text.rpartition(".")[2]
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,9}", suffix)) and not text.endswith(".")
