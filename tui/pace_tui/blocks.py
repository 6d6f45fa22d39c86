"""The resident set as a strip of cells: which run of tokens each cell shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Block:
    """A run of residents of one segment, in position order."""

    segment: str
    kind: str
    first_position: int
    tokens: int
    reason: str = ""
    is_read: bool = False

    @property
    def last_position(self) -> int:
        """Position of its last token."""
        return self.first_position + self.tokens - 1


def blocks_of(view: dict[str, Any]) -> list[Block]:
    """The runs of a memory view."""
    return [
        Block(
            str(run.get("segment", "")),
            str(run.get("kind", "text")),
            int(run.get("first_position", 0)),
            int(run.get("tokens", 0)),
            str(run.get("reason", "")),
            bool(run.get("is_read", False)),
        )
        for run in view.get("residents", ())
        if int(run.get("tokens", 0)) > 0
    ]


def cells_of(blocks: Sequence[Block], budget: int, cells: int) -> list[int | None]:
    """Which block each of ``cells`` cells shows; None: free.

    Cells are shared out by tokens against the budget. Every block has a cell of its own as long as there are
    as many cells as blocks; else a cell shows the block with the most tokens in it.
    """
    total = sum(block.tokens for block in blocks)
    whole = max(budget, total)
    if not whole or cells <= 0:
        return [None] * max(cells, 0)
    used = min(cells, max(round(cells * total / whole), min(len(blocks), cells)))
    if len(blocks) > used:
        return [*_most_in_each(blocks, total, used), *([None] * (cells - used))]
    shares = _shares([block.tokens for block in blocks], used)
    shown: list[int | None] = [index for index, share in enumerate(shares) for _ in range(share)]
    return shown + [None] * (cells - len(shown))


def _shares(tokens: list[int], cells: int) -> list[int]:
    """Cells for each, one at least, ``cells`` in all."""
    if not tokens:
        return []
    spare, total = cells - len(tokens), sum(tokens)
    exact = [spare * each / total for each in tokens]
    shares = [1 + int(each) for each in exact]
    by_rest = sorted(range(len(tokens)), key=lambda index: (int(exact[index]) - exact[index], index))
    for index in by_rest[: cells - sum(shares)]:
        shares[index] += 1
    return shares


def _most_in_each(blocks: Sequence[Block], total: int, cells: int) -> list[int | None]:
    shown: list[int | None] = []
    ends: list[int] = []
    end = 0
    for block in blocks:
        end += block.tokens
        ends.append(end)
    at = 0
    for cell in range(cells):
        low, high = cell * total / cells, (cell + 1) * total / cells
        while at < len(ends) - 1 and ends[at] <= low:
            at += 1
        best, most, index = at, 0.0, at
        while index < len(ends) and ends[index] - blocks[index].tokens < high:
            held = min(ends[index], high) - max(ends[index] - blocks[index].tokens, low)
            if held > most:
                best, most = index, held
            index += 1
        shown.append(best)
    return shown
