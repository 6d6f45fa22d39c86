"""The part of an output that a small model needs to see."""

from __future__ import annotations

import re
from bisect import bisect_left

from pace_agent.shell.output import settled
from pace_local.errors import InputError

_LEAST = 40
_GAP = "…"
_SAYS = re.compile(
    r"^E\s|^\s*(?:[\w.]+(?:Error|Exception)|AssertionError \[\w+\]|Failed|panic)(?::|$| )"
    r"|\berror(?:\[\w+\])?(?: TS\d+)?:|: error\b|\bpanicked at\b|Assertion .*failed|^assertion "
    r"|^\s*(?:Expected|Received|expected|received|actual|left|right|want|got|[Ee]xpect(?:ed)?)\b.*:"
    r"|^\s+\S+\.go:\d+: |undefined reference|^\S+\.py:\d+: \w|^\s*(?:- |\+ )|^E?\s*[?] "
)
_SHOWS = re.compile(
    r"^>\s|^(?:FAILED|ERROR|FAIL)\b|^\s*--- FAIL|^\s*File \"|^\S+:\d+: in |^\s+(?:at|❯|-->) |^not ok|^_{3,} "
    r"|^\s*\d+ \| |^\s*● |^---- .* ----"
)
_BEGINS = re.compile(
    r"^_{3,} .* _{3,}$|^={20,}$|^\s*● |^---- .* stdout ----$|^\s*--- FAIL|^not ok \d|^\s+\d+\) "
    r"|^error(?:\[\w+\])?:|^\s*FAIL\s+\S+ > "
)
_NOISE = re.compile(
    r"^\s*(?:PASS(?:ED)?|ok)\b|\bPASSED\b|\[ *\d+%\]$|^[.FEsx]+$|\bWarning:"
    r"|^(?:platform|rootdir|plugins|cachedir|configfile|collected)\b|^=+ (?:test session starts|warnings) "
    r"|^\s*(?:Compiling|Downloaded|Finished|Running)\b"
)
_FOREIGN = re.compile(
    r"site-packages|node_modules|/lib/python\d|<frozen |node:internal|/rustc/|\.cargo/registry"
)
_CAPTURED = re.compile(r"^-{3,} Captured .* -{3,}$")


def shown(output: str, limit_characters: int) -> str:
    """The part of an output that a small model needs, in the output's order.

    Kept first are the first failure's assertion, error and diff, then the lines nearest to them (its source
    and innermost calls), then what the other failures say; captured output, headers and passed tests go
    first. What is left out is marked by a line ``…``.

    Args:
        output: of a command.
        limit_characters: most characters of the result, at least 40.

    Raises:
        InputError: if the limit is lower.
    """
    if limit_characters < _LEAST:
        raise InputError(f"{limit_characters} characters show nothing of an output; give at least {_LEAST}")
    text = "\n".join(line.rstrip() for line in settled(output).split("\n")).strip("\n")
    if len(text) <= limit_characters:
        return text
    longest = max(_LEAST // 2, limit_characters // 3)
    lines = [_narrowed(line, longest) for line in text.split("\n")]
    kept: set[int] = set()
    left = limit_characters - 2 * len(_GAP)
    for at in _order(lines):
        cost = len(lines[at]) + 1 + len(_GAP) + 1  # at worst each line brings a gap
        if cost <= left:
            kept.add(at)
            left -= cost
    parts: list[str] = []
    before = -1
    for at in sorted(kept):
        parts += [_GAP] if at != before + 1 else []
        parts.append(lines[at])
        before = at
    parts += [_GAP] if before != len(lines) - 1 else []
    return "\n".join(parts)


def _narrowed(line: str, longest: int) -> str:
    if len(line) <= longest:
        return line
    half = (longest - 1) // 2
    return line[:half] + _GAP + line[-half:]


def _order(lines: list[str]) -> list[int]:
    """The lines' indices, the most needed first."""
    classes, blocks = _classes(lines)
    saying = [at for at, one in enumerate(classes) if one == 0]
    if not saying:
        return sorted(range(len(lines)), key=lambda at: (not lines[at].strip(), -at))
    first = blocks[saying[0]]
    ranks = {True: (0, 1, 3, 6), False: (2, 4, 5, 6)}

    def key(at: int) -> tuple[int, int, int]:
        near = bisect_left(saying, at)
        distance = min(abs(at - one) for one in saying[max(0, near - 1) : near + 1])
        rank = ranks[blocks[at] == first][classes[at]]
        return rank + (10 if not lines[at].strip() else 0), distance, at

    return sorted(range(len(lines)), key=key)


def _classes(lines: list[str]) -> tuple[list[int], list[int]]:
    """Of each line how much it says (0 most, 3 least), and the number of its failure."""
    classes: list[int] = []
    blocks: list[int] = []
    block, is_captured, is_foreign, was_frame = 0, False, False, False
    for line in lines:
        if _BEGINS.match(line) or line.startswith("==="):
            block, is_captured = block + 1, False
        if _CAPTURED.match(line):
            is_captured = True
        is_frame = re.match(r"^\s*File \"|^\S+:\d+: in |^\s+at ", line) is not None
        is_foreign = _FOREIGN.search(line) is not None if is_frame else is_foreign and line.startswith("    ")
        if is_captured or is_foreign or _NOISE.search(line):
            classes.append(3)
        elif _SAYS.search(line):
            classes.append(0)
        else:
            classes.append(1 if was_frame or _SHOWS.search(line) else 2)
        was_frame = is_frame
        blocks.append(block)
    return classes, blocks
