"""What checks of a text answer use: the values that an answer gives to names.

Generous about form: lines, sentences, tables, JSON, Markdown, thousands separators. Strict about content: a
value belongs to the name that it follows, and a second, different value of a name is an error. The source of
this file runs in the sandbox before a check, so that it imports the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_NUMBER = r"(?<![\w.])(?<!\w-)(?<!\d:)-?\d+(?:\.\d+)?(?!\w|\.\d|:\d)"
_AND = r"(?:\s*,\s*and\s+|\s*,\s*or\s+|\s*[,/&]\s*|\s+and\s+)"
_NO_VALUE = re.compile(r"\b(?:version|step|line)\s*\d+|\bv\d+\b", re.IGNORECASE)
_SUM = re.compile(r"\d+(?:\s*[-+*×]\s*\d+)+\s*(?:=|is|equals)\s*(?=-?\d)")
_VALUE = r"(?:(?:on|at|in|to|the|a|an)\s+)*-?\w+(?:-\w+)*"
_PAST = re.compile(
    rf"\b(?:instead of|rather than|no longer|not|formerly|previously|originally|(?:changed|up|down) from)"
    rf"\s+{_VALUE}"
    rf"|\bfrom\s+{_VALUE}(?=\s+to\b)"
    rf"|\(\s*(?:it )?was\s+{_VALUE}(?:\s+\w+)*\s*\)"
    rf"|\bwas\s+{_VALUE}(?=,?\s+(?:but|and)\s+(?:it\s+)?(?:is\s+)?now\b)"
    r"|~~[^~\n]*~~",
    re.IGNORECASE,
)
"""How an answer names what held before, or does not hold."""
_REMARK = re.compile(
    r"\([^)]*\)|\b(?:because|since|whereas|while|compared|against|versus|vs|more than|less than)\b.*",
    re.IGNORECASE,
)
_GIVES = re.compile(r"\s*(?:\([^)\n]*\)\s*)?(?:[:=|]|->|-\s|\u2192|is\b|are\b)", re.IGNORECASE)
"""What stands between a name and its value."""


def plain(answer: str) -> str:
    """An answer without Markdown, quotes and thousands separators; the lines stay."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", answer).replace("\u00a0", " ")
    text = re.sub(r"^[ \t]*(?:```|~~~).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*(?:#{1,6}|>|[-+*•]|\d+[.)])[ \t]+", "", text, flags=re.MULTILINE)
    text = re.sub(r"[*`\"\u201c\u201d\u2018\u2019\\{}\[\]$]|(?<!\w)'|'(?!\w)|(?<!\w)_+|_+(?!\w)", "", text)
    return without_thousands(text)


def without_thousands(text: str) -> str:
    """``1,530`` becomes 1530."""
    return re.sub(r"(?<![\w.,])\d{1,3}(?:[,_'\u202f\u2009]\d{3})+(?!\w|[.,]\d)", _digits, text)


def _digits(number: re.Match[str]) -> str:
    return re.sub(r"\D", "", number[0])


def numbers(text: str) -> list[float]:
    """All numbers of a plain text but for those of codes, clock times, versions and steps of a sum."""
    text = _SUM.sub("", _NO_VALUE.sub("", text))
    return [float(found) for found in re.findall(_NUMBER, text)]


def mentions(text: str, word: str) -> bool:
    """Whether a word or phrase stands in a plain text; upper and lower case are the same."""
    return re.search(_phrase(word), text, re.IGNORECASE) is not None


def _phrase(words: str) -> str:
    return r"(?<![\w-])" + r"[\s_-]+".join(map(re.escape, words.split())) + r"(?![\w-])"


def clauses(answer: str, name: str, names: Sequence[str]) -> list[str]:
    """What an answer says behind each mention of a name: up to the next name, or the end of the sentence.

    Args:
        answer: as the model wrote it.
        name: one of ``names``.
        names: all that the question asks for.
    """
    # The longest first: "price at Hill" is not "price".
    any_name = "|".join(_phrase(each) for each in sorted(names, key=len, reverse=True))
    text = _unfold_entries(_unfold_lists(_unfold_tables(plain(answer), names), any_name), names)
    found = list(re.finditer(any_name, text, re.IGNORECASE))
    ends = [*(match.start() for match in found), len(text)][1:]
    own = re.compile(_phrase(name), re.IGNORECASE)
    return [
        _first_sentence(text[match.end() : end])
        for match, end in zip(found, ends, strict=True)
        if own.fullmatch(match[0])
    ]


def _first_sentence(text: str) -> str:
    for line in text.splitlines():
        if re.search(r"\w", line) and not line.rstrip().endswith(":"):
            return re.split(r"[.;!?](?:\s|$)", line)[0]
    return ""


def _unfold_tables(text: str, names: Sequence[str]) -> str:
    """A table whose head holds names becomes a line for each cell."""
    known = {name.casefold() for name in names}
    lines: list[str] = []
    head: list[str] = []
    rows = text.splitlines()
    for number, line in enumerate(rows):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        following = rows[number + 1] if number + 1 < len(rows) else ""
        if len(cells) > 1 and "-" in following and re.fullmatch(r"[\s|:-]+", following):
            head = cells if sum(cell.casefold() in known for cell in cells) > 1 else []
        elif len(cells) < 2:
            head = []
        elif head and re.search(r"\w", line):
            lines += [f"{title}: {cell}" for title, cell in zip(head, cells, strict=False)]
            continue
        if not head:
            lines.append(line)
    return "\n".join(lines)


def _unfold_lists(text: str, any_name: str) -> str:
    """``A, B and C are 1, 2 and 3`` becomes a line for each."""

    def each(match: re.Match[str]) -> str:
        names = re.findall(any_name, match["names"], re.IGNORECASE)
        values = re.findall(_NUMBER, match["values"])
        if len(names) != len(values):
            return match[0]
        return "\n" + "\n".join(f"{name}: {value}" for name, value in zip(names, values, strict=True)) + "\n"

    return re.sub(
        rf"(?P<names>(?:{any_name})(?:{_AND}(?:{any_name}))+)[^\n:=]{{0,60}}?(?:\bare\b|:|=)\s*"
        rf"(?P<values>{_NUMBER}(?:{_AND}{_NUMBER})+)",
        each,
        text,
        flags=re.IGNORECASE,
    )


def _unfold_entries(text: str, names: Sequence[str]) -> str:
    """``KX-1: 7 pieces, shelf 4`` becomes a line for "pieces of KX-1" and one for "shelf of KX-1"."""
    split = [(name, re.fullmatch(r"(?P<field>.+) (?:of|at) (?P<entry>.+)", name)) for name in names]
    known = {(m["field"].casefold(), m["entry"].casefold()): name for name, m in split if m}
    if not known:
        return text
    # The longest first, as in clauses().
    fields, entries = (
        "|".join(map(_phrase, sorted({*each}, key=len, reverse=True)))
        for each in zip(*sorted(known), strict=True)
    )
    piece = re.compile(
        rf"(?:the\s+)?(?:(?P<field>{fields})\s*(?::|=|is|are)?\s*(?P<value>[\w-]+)"
        rf"|(?P<before>[\w-]+)\s+(?P<unit>{fields}))",
        re.IGNORECASE,
    )

    def each(line: re.Match[str]) -> str:
        pieces = [piece.fullmatch(part) for part in re.split(r"\s*[,;]\s*|\s+and\s+", line["rest"])]
        lines = []
        for found in pieces:
            field = found and (found["field"] or found["unit"])
            name = field and known.get((field.casefold(), line["entry"].casefold()))
            if not found or not name:
                return line[0]
            lines.append(f"{name}: {found['value'] or found['before']}")
        return "\n".join(lines)

    return re.sub(
        rf"^[ \t]*(?P<entry>{entries})\s*(?::|-|has)[ \t]+(?P<rest>[^\n]*\w)[ \t.]*$",
        each,
        text,
        flags=re.IGNORECASE | re.MULTILINE,
    )


def _core(clause: str) -> str:
    """A clause without what held before, and without remarks, such as "(the other has 12)"."""
    clause = _PAST.sub(" ", clause)
    shorter = _REMARK.sub(" ", clause)
    return shorter if re.search(r"\w", shorter) else clause


def values_of(answer: str, name: str, names: Sequence[str]) -> list[float]:
    """The numbers that an answer gives to a name."""
    return [value for clause in clauses(answer, name, names) for value in numbers(_core(clause))]


def check_number(answer: str, name: str, expected: int, names: Sequence[str]) -> None:
    """Assert that a name is given this number, and no other."""
    given = values_of(answer, name, names)
    assert given, f"no value of {name}"
    wrong = [value for value in given if value != expected]
    assert not wrong, f"{name} is given as {wrong[0]:g}, not {expected}"


def check_word(answer: str, name: str, expected: str, others: Sequence[str], names: Sequence[str]) -> None:
    """Assert that a name is given this word, and none of the others."""
    said = [_core(clause) for clause in clauses(answer, name, names)]
    assert any(mentions(clause, expected) for clause in said), f"{name} is not given as {expected}"
    for other in others:
        assert not any(mentions(clause, other) for clause in said), f"{name} is given as {other}"


def check_said(
    answer: str, name: str, expected: str | int, others: Sequence[str | int], names: Sequence[str]
) -> None:
    """Assert that a value is said, that no other value of its kind is, and that its name is given no other.

    For values that no other name of the question can have: so that "37 rows in amber" will do.
    """
    text = _PAST.sub(" ", plain(answer))
    assert _says(text, expected), f"{name}: {expected} is not said"
    for other in others:
        assert not _says(text, other), f"{name}: {other} is said, which is another's or does not hold now"
    for clause in clauses(answer, name, names):
        # "37 rows, 14 copies": what is behind a name is its value only if the answer says so.
        given = _GIVES.sub("", _core(clause), count=1) if _GIVES.match(clause) else ""
        if re.search(r"\w", given):
            assert _says(given, expected), f"{name} is given as {given.strip()}, not {expected}"
            wrong = [value for value in numbers(given) if value != expected]
            assert not wrong, f"{name} is given as {wrong[0]:g} too"


def _says(text: str, value: str | int) -> bool:
    return value in numbers(text) if isinstance(value, int) else mentions(text, value)


def check_not_exchanged(answer: str, values: Mapping[str, int]) -> None:
    """Assert that each name is given a value, and none the value of another name."""
    for name, value in values.items():
        given = values_of(answer, name, tuple(values))
        assert given, f"no value of {name}"
        for other, others_value in values.items():
            if others_value != value:
                assert others_value not in given, f"{name} is given the value of {other}"


def check_none_of(answer: str, values: Sequence[int], others: Sequence[int]) -> None:
    """Assert that all these numbers stand in an answer, and none of the others."""
    said = numbers(_PAST.sub(" ", plain(answer)))
    missing = [value for value in values if value not in said]
    assert not missing, f"{missing[0]} is missing"
    foreign = [value for value in others if value in said]
    assert not foreign, f"{foreign[0]} is of another document"
