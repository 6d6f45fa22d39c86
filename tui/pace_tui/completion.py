"""What can stand where the cursor is: commands after a slash, their arguments, files after an ``@``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pace_local.harmless_text import harmless
from pace_tui.commands import BY_NAME, COMMANDS

_FILE = re.compile(r"(?:^|(?<=[\s(,]))@([^\s@]*)$")
_MOST = 50


@dataclass(frozen=True)
class Proposal:
    """Something to put in the place of what is typed."""

    inserted: str
    shown: str
    help: str = ""


@dataclass(frozen=True)
class Proposals:
    """What may replace the text from ``start`` to the cursor in its line."""

    start: int
    all: tuple[Proposal, ...]


Names = Callable[[str], Sequence[str]]
"""Names of a kind: ``mode``, ``segment``, ``theme``, ``file``."""


def propose(line: str, is_first: bool, names: Names) -> Proposals | None:
    """What fits the line up to the cursor; None if nothing does.

    Args:
        line: up to the cursor.
        is_first: whether it is the first line of the prompt, where commands stand.
        names: gives names of a kind.
    """
    if is_first and line.startswith("/"):
        name, space, argument = line[1:].partition(" ")
        if not space:
            found = [each for each in COMMANDS if each.name.startswith(name)]
            found += [each for each in COMMANDS if name in each.name and each not in found]
            proposals = [  # those that take something have a space for it
                Proposal(f"/{each.name}" + (" " if each.arguments else ""), each.usage, each.help)
                for each in found
            ]
            return Proposals(0, tuple(proposals)) if proposals else None
        command = BY_NAME.get(name)
        if command is not None and command.completes:
            ranked = rank(argument, names(command.completes))
            if ranked and ranked != [argument]:
                return Proposals(len(name) + 2, tuple(Proposal(each, each) for each in ranked))
    file = _FILE.search(line)
    if file is None:
        return None
    ranked = rank(file[1], names("file"))
    if not ranked or ranked == [file[1]]:
        return None
    return Proposals(file.start(1) - 1, tuple(Proposal(f"@{each} ", each) for each in ranked))


def rank(typed: str, names: Iterable[str]) -> list[str]:
    """The names that hold the typed letters in this order, the best first.

    Those with them in one piece, early in the last part of the path, go before those with them apart. A name
    that cannot be written as it is, since a terminal would obey it, is left out.
    """
    wanted = typed.casefold()
    scored = []
    for name in names:
        score = _score(wanted, name.casefold())
        if score is not None and harmless(name) == name and "\n" not in name:
            scored.append((score, len(name), name))
    return [name for _, _, name in sorted(scored)[:_MOST]]


def _score(wanted: str, name: str) -> tuple[int, int] | None:
    if not wanted:
        return (name.count("/"), 0)
    last = name.rfind("/") + 1
    if (at := name.find(wanted, last)) >= 0:
        return (0, at - last)
    if (at := name.find(wanted)) >= 0:
        return (1, at)
    at, gaps = -1, 0
    for letter in wanted:
        found = name.find(letter, at + 1)
        if found < 0:
            return None
        gaps += found - at - 1
        at = found
    return (2, gaps)
