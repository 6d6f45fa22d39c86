"""What a search text that is not there may have meant: the nearest lines, and what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from pace_local.excerpts.layout import split_lines

_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_CANDIDATES = 6
_COMMON = 200
"""A line that is in the file more often says nothing about the place."""
_COMPARED = 300
"""Characters of a line, at most, that are compared."""
_LONGEST_LINE = 200
_MOST_LINES = 40
_LEAST = 0.4
"""A region less like the search than this is not shown: it would lead astray."""
_MOST_DIFFERENCES = 3
_SLACK = 2
"""Lines by which the region shown may begin earlier, and end earlier or later, than by the search's size."""


def nearest(text: str, search: str) -> str:
    """Sentences for the model, each after a space or a line end; the same for the same arguments."""
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    wanted = [line.rstrip("\r\n") for line in split_lines(search)]
    while wanted and not wanted[0].strip():
        wanted.pop(0)
    while wanted and not wanted[-1].strip():
        wanted.pop()
    keys, wanted_keys = [_key(line) for line in lines], [_key(line) for line in wanted]
    found = _best(keys, wanted_keys)
    if found is None:
        return " Nothing in the file is like it; read the file again and copy the lines that are to change."
    first, last = found
    shown = list(range(first, min(last, first + _MOST_LINES)))
    listing = "\n".join(f"{at + 1}: {_cut(lines[at])}" for at in shown)
    if len(shown) < last - first:
        listing += f"\n… up to line {last}"
    differences = list(_differences(lines[first:last], wanted, first + 1))
    more = len(differences) - _MOST_DIFFERENCES
    said = "\n".join(differences[:_MOST_DIFFERENCES]) + (f"\n{more} more differ." if more > 0 else "")
    where = f"lines {first + 1} to {last}" if last - first > 1 else f"line {last}"
    return (
        f" The nearest is {where}:\n{listing}\n{said}\n"
        "Copy the lines as they stand in the file, without the numbers, and try again."
    )


def _key(line: str) -> str:
    return _SPACE.sub(" ", line[:20_000].strip())[:_COMPARED]


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"


def _best(keys: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """First line and the one after the last, 0-based, of the lines most like the wanted ones."""
    size = min(len(wanted), len(keys))
    if not size:
        return None
    starts = [*_by_same_lines(keys, wanted), *_by_words(keys, wanted, size)]
    wanted_text = "\n".join(wanted[: 2 * _MOST_LINES])

    def ratio(start: int, end: int) -> float:
        window = "\n".join(keys[start : min(end, start + 2 * _MOST_LINES)])
        return round(SequenceMatcher(None, window, wanted_text, autojunk=False).ratio(), 6)

    starts = list(dict.fromkeys(max(0, min(start, len(keys) - size)) for start in starts))
    likeness, start = max((ratio(start, start + size), -start) for start in starts)
    best = (likeness, -start, -start + size)
    # The file may have a line that the search lacks, or lack one.
    for first in range(max(0, best[1] - _SLACK), best[1] + 1):
        for end in range(max(first + 1, best[2] - _SLACK), min(len(keys), best[2] + _SLACK) + 1):
            likeness = ratio(first, end)
            if likeness > best[0]:
                best = (likeness, first, end)
    return None if best[0] < _LEAST else best[1:]


def _by_same_lines(keys: list[str], wanted: list[str]) -> list[int]:
    """Where most of the wanted lines stand as they are, or nearly in that order."""
    places: dict[str, list[int]] = {key: [] for key in wanted if key}
    for at, key in enumerate(keys):
        if key in places and len(places[key]) <= _COMMON:
            places[key].append(at)
    votes: Counter[int] = Counter()
    for offset, key in enumerate(wanted):
        for at in places.get(key, ()):
            votes[at - offset] += min(len(key), 60) // len(places[key]) + 1
    return sorted(votes, key=lambda start: (-votes[start], start))[:_CANDIDATES]


def _by_words(keys: list[str], wanted: list[str], size: int) -> list[int]:
    """Where the words of the wanted lines are densest; the rarer a word in the file, the more it counts."""
    words = {word for key in wanted for word in _WORD.findall(key)}
    held = [words.intersection(_WORD.findall(key)) for key in keys]
    counts = Counter(word for some in held for word in some)
    scores = [sum(1 / counts[word] for word in sorted(some)) + 0.01 * len(some) for some in held]
    total = sum(scores[:size])
    sums = [total]
    for at in range(size, len(scores)):
        total += scores[at] - scores[at - size]
        sums.append(total)
    order = sorted(range(len(sums)), key=lambda start: (-round(sums[start], 6), start))
    return order[:_CANDIDATES]


def _differences(lines: list[str], wanted: list[str], first: int) -> Iterator[str]:
    a, b = [_key(line) for line in lines], [_key(line) for line in wanted]
    if a == b:
        yield "The text is the same, but its lines are not indented alike."
        return
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        shared = min(a2 - a1, b2 - b1)
        for at in range(shared):
            ours, theirs = _around(lines[a1 + at].strip(), wanted[b1 + at].strip())
            yield f"Line {first + a1 + at}: the file has {ours}, the search has {theirs}."
        for at in range(a1 + shared, a2):
            if a[at]:
                yield f"Line {first + at}: {_quoted(lines[at].strip())} is not in the search."
        for at in range(b1 + shared, b2):
            if b[at]:
                yield f"The search has {_quoted(wanted[at].strip())}, which these lines do not have."


def _around(ours: str, theirs: str) -> tuple[str, str]:
    """Both lines in quotes, cut to where they first differ if they are long."""
    same = next(
        (at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
        min(len(ours), len(theirs)),
    )
    start = max(0, same - 40) if max(len(ours), len(theirs)) > 120 else 0
    return _quoted(ours, start), _quoted(theirs, start)


def _quoted(line: str, start: int = 0) -> str:
    cut = line[start : start + 120]
    return f"`{'…' if start else ''}{cut}{'…' if start + 120 < len(line) else ''}`"
