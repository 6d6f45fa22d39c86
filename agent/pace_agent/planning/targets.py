"""Places that a step in guided style changes, one at a time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pace_agent.editing.line_moves import LineMove
from pace_agent.planning.planned_step import PlannedStep, lines_in
from pace_agent.repository.index import RepositoryIndex


@dataclass(frozen=True)
class Target:
    """A place to change: a definition, lines outside of definitions, or a whole file."""

    path: str
    symbol: str = ""
    lines: tuple[int, int] | None = None
    near_line: int | None = None
    """Of several definitions of the symbol, the one at this line, 1-based; None: any of them."""

    @property
    def name(self) -> str:
        """For people and the model."""
        if self.symbol:
            return self.symbol
        return f"{self.path}:{self.lines[0]}-{self.lines[1]}" if self.lines else self.path

    def moved(self, path: str, move: LineMove) -> Target:
        """The same place after an edit of a file."""
        if path != self.path:
            return self
        return dataclasses.replace(
            self,
            lines=None if self.lines is None else move.lines(*self.lines),
            near_line=None if self.near_line is None else move.line(self.near_line),
        )


def targets(step: PlannedStep, index: RepositoryIndex) -> list[Target]:
    """Places that a step changes, in order.

    Lines that a renaming changes are those that use the old name by now: what was done before has moved some.
    """
    if not step.edits:
        return []
    at_lines = dict(step.at_lines)
    found = [
        Target(path, symbol, near_line=at_lines.get(f"{path}:{symbol}"))
        for path, symbol in map(_split, step.symbols)
        if path
    ]
    covered = {target.path for target in found}
    for path in step.files:
        if path in covered:
            continue
        lines = [each for name in step.reads if (each := lines_in(name, path)) is not None]
        if lines and step.old_name:
            facts = index.facts_of(path)
            users = facts.users(step.old_name) if facts else ()
            lines = [(one.first, one.last) for one in users if not one.symbol]
            found += [Target(path, lines=each) for each in lines]
        else:
            found += [Target(path, lines=each) for each in lines] or [Target(path)]
    # From the end of a file on, so that lines further up stay where they are.
    return sorted(dict.fromkeys(found), key=lambda target: -(target.lines or (0, 0))[0])


def _split(name: str) -> tuple[str, str]:
    path, _, symbol = name.rpartition(":")
    return path, symbol
