"""A file's definitions as their first lines with line numbers, for a model that cannot be shown all of it."""

from __future__ import annotations

from pace_agent.repository.file_facts import Place, facts_of
from pace_local.excerpts.layout import split_lines

_LONGEST_LINE = 160
_MORE = "…"


def outline_text(
    text: str, path: str, most_characters: int, *, first: int = 1, last: int | None = None
) -> str:
    """The lines on which the definitions of a file begin, each behind its number.

    What is nested deepest is left out first, then fields and values, then what comes last; one line says how
    many are left out. A file that defines nothing is shown by its first lines.

    Args:
        text: of the file.
        path: says the language.
        most_characters: of the result.
        first: line from which on definitions are shown, 1-based.
        last: the last line, inclusive; None: the file's.

    Returns:
        Lines such as ``12: def total(orders: list[Order]) -> int:``, without a line end behind the last;
        empty if nothing fits.
    """
    lines = split_lines(text)
    last = len(lines) if last is None else last
    facts = facts_of(text, path)
    found = [one for one in facts.definitions if first <= one.first and one.last <= last]
    if not found:
        return _first_lines(lines[first - 1 : last], first, most_characters)
    by_worth = sorted(
        range(len(found)), key=lambda at: (_depth(found[at], found), found[at].kind in ("field", "value"), at)
    )
    shown = {at: _shown(found[at], lines) for at in by_worth}
    total = sum(len(line) + 1 for line in shown.values()) - 1
    count = len(by_worth)
    while (
        count
        and total + (len(_left_out(len(found) - count)) + 1 if count < len(found) else 0) > most_characters
    ):
        count -= 1
        total -= len(shown[by_worth[count]]) + 1
    kept = [shown[at] for at in sorted(by_worth[:count])]
    if 0 < count < len(found):
        kept.append(_left_out(len(found) - count))
    return "\n".join(kept)


def _left_out(count: int) -> str:
    return f"{_MORE} {count} more"


def _depth(one: Place, found: list[Place]) -> int:
    """How many functions and types are around a definition; what is inside of functions counts double."""
    around = [
        other
        for other in found
        if one is not other and other.first <= one.first and one.last <= other.last
        if one.symbol.startswith(other.symbol + ".")
    ]
    return sum(2 if other.kind == "function" else 1 for other in around)


def _shown(one: Place, lines: list[str]) -> str:
    """The line that names a definition: decorators before it are passed over."""
    at = one.first - 1
    for number in range(at, min(one.last, at + 20)):
        if one.leaf in lines[number] and not lines[number].lstrip().startswith(("@", "#[")):
            at = number
            break
    line = lines[at].rstrip()
    return f"{at + 1}: {line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + _MORE}"


def _first_lines(lines: list[str], first: int, most_characters: int) -> str:
    kept: list[str] = []
    size = -1
    for number, line in enumerate(lines, first):
        plain = line.rstrip()
        shown = f"{number}: {plain if len(plain) <= _LONGEST_LINE else plain[: _LONGEST_LINE - 1] + _MORE}"
        size += len(shown) + 1
        if size > most_characters:
            break
        if plain:
            kept.append(shown)
    return "\n".join(kept)
