"""Indentation of new lines, made to fit the file that they come into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

_TAB = 4
"""Columns to the next tab stop. Only a difference between two indentations is ever used."""

_SAMPLE = 4_000
"""Lines of a file that are looked at for its step."""


def columns(indent: str) -> int:
    """Width of an indentation; a tab goes to the next multiple of 4."""
    return len(indent.expandtabs(_TAB))


def indent_of(line: str) -> str:
    """White space at the start of a line, a line end left out."""
    body = line.rstrip("\r\n")
    return body[: len(body) - len(body.lstrip())]


def step_of(lines: Iterable[str]) -> str | None:
    """What one level of indentation is: a tab, or so many spaces; None if no line is indented.

    Args:
        lines: of a file or a part of one; the first few thousand count.
    """
    tabs = 0
    steps: Counter[int] = Counter()
    before = 0
    for number, line in enumerate(lines):
        if number >= _SAMPLE:
            break
        if not line.strip():
            continue
        indent = indent_of(line)
        tabs += indent.startswith("\t")
        width = columns(indent)
        if width > before:
            steps[width - before] += 1
        before = width
    spaces = sum(steps.values())
    if tabs and tabs >= spaces - tabs:
        return "\t"
    if not steps:
        return None
    # Arguments are aligned at any column: of the steps seen as often, the least is a level.
    return " " * min(steps, key=lambda width: (width > 8, width == 1, -steps[width], width))


class Fit:
    """Gives lines of one text the indentation of another.

    Args:
        known: indentation in the new text -> indentation in the file, for lines that are in both.
        model_step: one level in the new text.
        file_step: one level in the file; None, of either: levels are as wide in both.
    """

    def __init__(
        self, known: Mapping[str, str], model_step: str | None = None, file_step: str | None = None
    ) -> None:
        self._known = dict(known)
        self._from, self._to = 1, " "
        if model_step and file_step:
            self._from, self._to = columns(model_step), file_step

    def __call__(self, indent: str) -> str:
        """The indentation that a line with this one gets."""
        if indent in self._known or not self._known:
            return self._known.get(indent, indent)
        width = columns(indent)
        below = [one for one in self._known if columns(one) <= width]
        base = max(below, key=columns) if below else min(self._known, key=columns)
        target, difference = self._known[base], width - columns(base)
        if difference < 0:
            return _narrowed(target, columns(target) - self._scaled(-difference))
        if self._from == columns(self._to) and self._to[0] in indent[len(base) :]:
            return target + indent[len(base) :]  # of the same kind: as it stands
        levels, rest = divmod(difference, self._from)
        return target + self._to * levels + " " * rest

    def _scaled(self, width: int) -> int:
        levels, rest = divmod(width, self._from)
        return levels * columns(self._to) + rest


def _narrowed(indent: str, width: int) -> str:
    """The longest start of an indentation that is at most so wide, filled with spaces."""
    while indent and columns(indent) > width:
        indent = indent[:-1]
    return indent + " " * max(0, width - columns(indent))


def fit_between(
    pairs: Iterable[tuple[str, str]], model_step: str | None, file_step: str | None
) -> Fit | None:
    """How a block was shifted, from the indentation of lines that are in both texts.

    Args:
        pairs: indentation in the model's text, and of the same line in the file, line by line.
        model_step: one level in the model's text.
        file_step: one level in the file.

    Returns:
        None if the block was not shifted as a whole: lines as deep as each other are not so in the other
        text, or their order is another.
    """
    known: dict[str, str] = {}
    widths: dict[int, int] = {}
    for theirs, ours in pairs:
        if widths.setdefault(columns(theirs), columns(ours)) != columns(ours):
            return None
        known.setdefault(theirs, ours)
    order = [widths[width] for width in sorted(widths)]
    if any(later <= earlier for earlier, later in pairwise(order)):
        return None
    if model_step and file_step and (model_step == "\t") == (file_step == "\t"):
        # Both use spaces, or both tabs. Other steps are believed only where two depths show them.
        seen = sorted(widths.items())
        gaps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(seen)]
        if model_step == "\t" or not gaps or any(theirs == ours for theirs, ours in gaps):
            model_step = file_step
        else:
            least = min(gaps)
            model_step, file_step = " " * least[0], " " * least[1]
    return Fit(known, model_step, file_step)
