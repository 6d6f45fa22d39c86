"""Checks a GBNF grammar before llama.cpp sees it.

llama.cpp's own parser prints its complaints to stderr and returns nothing; a repetition such as
``{5,2}`` or a rule that calls itself behind an empty one makes it allocate until memory is gone; deep
nesting overflows its stack. So the text is read here first, by the same rules of syntax, and refused
with a line, a column and a reason. What passes here llama.cpp can parse, and can advance in bounded
memory.

Refused although llama.cpp takes it: token rules (``<think>``, ``<[1000]>``, ``!<think>``), because its
filter and its acceptance disagree about a token that begins in the text before such a rule, and the
disagreement ends the process. Write the token's text as a string instead.
"""

from __future__ import annotations

import string
from typing import NoReturn

from pace_local.errors import ConfigError
from pace_local.grammar_starts import CHARACTER, Rules, check_starts

LONGEST = 256 * 1024
"""Characters of a grammar."""
_MOST_ELEMENTS = 500_000
_DEEPEST_GROUP = 100
_MOST_REPETITIONS = 2000  # llama.cpp's own limit

_WORD = frozenset(string.ascii_letters + string.digits + "-")
_DIGITS = frozenset(string.digits)
_HEX = frozenset(string.hexdigits)
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_PLAIN_ESCAPES = frozenset('trn\\"[]-')


def check_grammar(text: str, root: str = "root") -> None:
    """Refuse a grammar that llama.cpp cannot use, or that it would not survive.

    Raises:
        ConfigError: with line, column and reason.
    """
    if "\0" in text:
        raise ConfigError(f"grammar has a NUL character at offset {text.index(chr(0))}; remove it")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError("grammar holds half of a surrogate pair, which is no character; remove it")
    if len(text) > LONGEST:
        raise ConfigError(f"grammar has {len(text):,} characters; at most {LONGEST:,} are read")
    reader = _Reader(text)
    reader.read()
    if root not in reader.numbers or reader.numbers[root] not in reader.rules:
        raise ConfigError(f"grammar has no rule named {root!r}; one must be there to start from")
    reader.check_names()
    check_starts(reader.rules, reader.name)


class _Reader:
    """Reads the text into numbered rules; groups and repetitions become rules of their own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.numbers: dict[str, int] = {}
        self.rules: Rules = {}
        self._first_use: dict[int, int] = {}
        self._elements = 0
        self._depth = 0

    def read(self) -> None:
        at = self._space(0, over_lines=True)
        while at < len(self.text):
            at = self._rule(at)

    def check_names(self) -> None:
        for name, number in self.numbers.items():
            if number not in self.rules:
                self._fail(self._first_use[number], f"rule {name!r} is used but never defined")

    def name(self, number: int) -> str:
        """The rule as the user wrote it; a group goes by the rule that it stands in."""
        names = list(self.numbers)
        return names[number].partition("_")[0]

    def _fail(self, at: int, reason: str) -> NoReturn:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        near = self.text[at : at + 20].split("\n")[0]
        place = (
            f"near {near!r}" if near else "at the end" if at >= len(self.text) else "at the end of the line"
        )
        raise ConfigError(f"grammar line {line}, column {column}: {reason}, {place}")

    def _peek(self, at: int) -> str:
        return self.text[at : at + 1]

    def _space(self, at: int, *, over_lines: bool) -> int:
        while (character := self._peek(at)) and character in (" \t#\r\n" if over_lines else " \t#"):
            if character == "#":
                while self._peek(at) not in ("", "\r", "\n"):
                    at += 1
            else:
                at += 1
        return at

    def _run(self, at: int, allowed: frozenset[str], what: str) -> int:
        end = at
        while self._peek(end) in allowed:
            end += 1
        if end == at:
            self._fail(at, f"{what} expected")
        return end

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def _fresh(self, name: str) -> int:
        return self._number(f"{name}_{len(self.numbers)}")

    def _rule(self, at: int) -> int:
        end = self._run(at, _WORD, "the name of a rule")
        name = self.text[at:end]
        number = self._number(name)
        at = self._space(end, over_lines=False)
        if self.text[at : at + 3] != "::=":
            self._fail(at, f"'::=' expected after {name!r}")
        at = self._alternatives(self._space(at + 3, over_lines=True), name, number, nested=False)
        if self._peek(at) not in ("", "\r", "\n"):
            self._fail(at, "not understood")
        return self._space(at, over_lines=True)

    def _alternatives(self, at: int, name: str, number: int, *, nested: bool) -> int:
        alternatives = []
        while True:
            sequence, at = self._sequence(at, name, nested=nested)
            alternatives.append(sequence)
            if self._peek(at) != "|":
                break
            at = self._space(at + 1, over_lines=True)
        self.rules[number] = alternatives
        return at

    def _sequence(self, at: int, name: str, *, nested: bool) -> tuple[list[int], int]:
        sequence: list[int] = []
        start = 0  # where the last item begins: what a repetition repeats
        weight = 1  # rules that repeating it would multiply
        while character := self._peek(at):
            begin = at
            if character in "*+?{":
                low, high, at = self._repetition(at, nested=nested)
                weight *= self._repeat(begin, name, sequence, start, low, high, weight)
                at = self._space(at, over_lines=nested)
                continue
            if character in "<!":
                self._fail(at, "token rules are not supported; write the token's text as a string")
            if character not in '"[(.' and character not in _WORD:
                break
            start, weight = len(sequence), 1
            if character == '"':
                at = self._literal(at + 1, sequence)
            elif character == "[":
                at = self._class(at + 1, sequence)
            elif character == "(":
                before = len(self.numbers)
                number, at = self._group(at, name)
                weight = max(1, len(self.numbers) - before)
                sequence.append(number)
            elif character == ".":
                sequence.append(CHARACTER)
                at += 1
            else:
                at = self._run(at, _WORD, "a name")
                sequence.append(self._number(self.text[begin:at]))
                self._first_use.setdefault(sequence[-1], begin)
            self._count(begin, len(sequence) - start)
            at = self._space(at, over_lines=nested)
        return sequence, at

    def _group(self, at: int, name: str) -> tuple[int, int]:
        if self._depth == _DEEPEST_GROUP:
            self._fail(at, f"groups are nested more than {_DEEPEST_GROUP} deep")
        self._depth += 1
        number = self._fresh(name)
        end = self._alternatives(self._space(at + 1, over_lines=True), name, number, nested=True)
        self._depth -= 1
        if self._peek(end) != ")":
            self._fail(end, "')' expected")
        return number, end + 1

    def _literal(self, at: int, sequence: list[int]) -> int:
        while (character := self._peek(at)) != '"':
            if not character:
                self._fail(at, "a string is not closed")
            at = self._escape(at)
            sequence.append(CHARACTER)
        return at + 1

    def _class(self, at: int, sequence: list[int]) -> int:
        at += self._peek(at) == "^"
        while (character := self._peek(at)) != "]":
            if not character:
                self._fail(at, "'[' is not closed")
            at = self._escape(at)
            sequence.append(CHARACTER)  # one for each, as llama.cpp stores it: a class can be long
            if self._peek(at) == "-" and self._peek(at + 1) != "]":
                at = self._escape(at + 1)
                sequence.append(CHARACTER)
        return at + 1

    def _escape(self, at: int) -> int:
        """The place after one character, which may be written as an escape."""
        if self._peek(at) != "\\":
            if not self._peek(at):
                self._fail(at, "a character expected")
            return at + 1
        kind = self._peek(at + 1)
        if kind in _HEX_ESCAPES:
            digits = self.text[at + 2 : at + 2 + _HEX_ESCAPES[kind]]
            if len(digits) < _HEX_ESCAPES[kind] or not _HEX.issuperset(digits):
                self._fail(at, f"{_HEX_ESCAPES[kind]} hexadecimal digits expected after \\{kind}")
            return at + 2 + len(digits)
        if not kind or kind not in _PLAIN_ESCAPES:
            self._fail(at, f"unknown escape \\{kind}")
        return at + 2

    def _repetition(self, at: int, *, nested: bool) -> tuple[int, int | None, int]:
        """Least, most (None: no limit) and the place after the sign."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek(at) in simple:
            return *simple[self._peek(at)], at + 1
        begin = at
        at = self._space(at + 1, over_lines=nested)
        end = self._run(at, _DIGITS, "a number")
        low = high = int(self.text[at:end]) if end - at < 10 else _MOST_REPETITIONS + 1
        if low > _MOST_REPETITIONS:
            self._fail(at, f"more than {_MOST_REPETITIONS} repetitions")
        at = self._space(end, over_lines=nested)
        most: int | None = high
        if self._peek(at) == ",":
            at, most = self._space(at + 1, over_lines=nested), None
            if self._peek(at) in _DIGITS:
                end = self._run(at, _DIGITS, "a number")
                if end - at > 18:
                    self._fail(at, "the number of repetitions is too large")
                most = int(self.text[at:end])
                if most < low:
                    self._fail(begin, f"at least {low} repetitions and at most {most} contradict each other")
                # As llama.cpp does: beyond its limit there is no limit.
                most = None if most > _MOST_REPETITIONS else most
                at = self._space(end, over_lines=nested)
        if self._peek(at) != "}":
            self._fail(at, "'}' expected")
        return low, most, at + 1

    def _repeat(
        self, at: int, name: str, sequence: list[int], start: int, low: int, high: int | None, weight: int
    ) -> int:
        """Rewrite the items from ``start`` on as llama.cpp does; how many rules one has become."""
        item = sequence[start:]
        if not item:
            self._fail(at, "nothing stands before it that could be repeated")
        times = high or low or 1
        if weight * times > _MOST_REPETITIONS:
            self._fail(at, f"nested repetitions multiply to more than {_MOST_REPETITIONS} rules")
        optional = 1 if high is None else high - low
        self._count(at, len(item) * (max(0, low - 1) + optional))
        if low == 0:
            del sequence[start:]
        sequence.extend(item * (low - 1))
        inner: int | None = None
        for _ in range(optional):
            number = self._fresh(name)
            following = number if high is None else inner
            self.rules[number] = [item if following is None else [*item, following], []]
            inner = number
        if inner is not None:
            sequence.append(inner)
        return times

    def _count(self, at: int, more: int) -> None:
        self._elements += more
        if self._elements > _MOST_ELEMENTS:
            self._fail(at, f"repetitions blow the grammar up to more than {_MOST_ELEMENTS:,} elements")
