"""Heights of many entries, one below the other: where each starts, and which one lies at a line."""

from __future__ import annotations


class Heights:
    """A Fenwick tree: each question and each change takes time in the logarithm of the number of entries."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = [0]

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        """Height of an entry, in lines."""
        return self._heights[index]

    def append(self, height: int) -> None:
        """Add an entry at the end."""
        self._heights.append(height)
        index = len(self._heights)
        total = height
        step = 1
        while not index & step:
            total += self._sums[index - step]
            step <<= 1
        self._sums.append(total)

    def __setitem__(self, index: int, height: int) -> None:
        """Change the height of an entry."""
        difference = height - self._heights[index]
        self._heights[index] = height
        index += 1
        while difference and index < len(self._sums):
            self._sums[index] += difference
            index += index & -index

    def top(self, index: int) -> int:
        """Lines above an entry; with the number of entries, all lines."""
        total = 0
        while index:
            total += self._sums[index]
            index -= index & -index
        return total

    @property
    def total(self) -> int:
        """All lines."""
        return self.top(len(self._heights))

    def at(self, line: int) -> tuple[int, int]:
        """The entry at a line, and the line within it; beyond the end, the last entry's last line.

        Raises:
            IndexError: if there is no entry.
        """
        if not self._heights:
            raise IndexError("there is no entry")
        line = max(0, min(line, self.total - 1))
        index, rest = 0, line
        step = 1 << (len(self._heights).bit_length() - 1)
        while step:
            if index + step < len(self._sums) and self._sums[index + step] <= rest:
                index += step
                rest -= self._sums[index]
            step >>= 1
        return index, rest

    def clear(self) -> None:
        """Forget all entries."""
        self._heights, self._sums = [], [0]
