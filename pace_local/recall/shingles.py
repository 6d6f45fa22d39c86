"""How much two texts are alike: the runs of tokens that they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SIZE = 3
"""Tokens of a shingle.

Near copies must stand out although their names and numbers differ. Measured with the tokenizer of Qwen2.5 by
``pytest -s -m model tests/test_recall_shingles.py``: the least share among eight specifications of one form
(122 to 131 tokens each, with other names, numbers and rules), and the greatest between texts that are not
alike: those, and the files of a small project in several languages.

==== ===== ======
size alike unlike
==== ===== ======
1    0.69  0.44
2    0.62  0.14
3    0.52  0.06
4    0.46  0.03
6    0.34  0.01
8    0.25  0.00
==== ===== ======

Single tokens tell too little apart. From four on a copy loses more by each name that differs than unlike
texts lose; with three, a limit of about a third has much room on both sides.
"""

_FACTOR = 0x9E3779B97F4A7C15  # odd, and far from powers of 2: tokens in another order give another number

Numbers = npt.NDArray[np.uint64]


def overlap(a: Sequence[int], b: Sequence[int], size: int = SIZE) -> float:
    """The share of a's shingles, its runs of ``size`` tokens, that also occur in b.

    Args:
        a: token ids.
        b: token ids.
        size: tokens of a shingle.

    Returns:
        From 0 to 1; 0 if one of them is shorter than a shingle. It is not symmetric: a short text that a
        long one holds whole has 1.
    """
    return _share(_numbers(a, size), _numbers(b, size))


class Shingles:
    """The shingles of each segment, so that the most alike of several is found quickly.

    A shingle is kept as a number of 8 bytes, in order: comparing two segments of a few hundred tokens takes
    microseconds, and nothing depends on how many segments there are besides those that are compared.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._of: dict[int, Numbers] = {}

    def __len__(self) -> int:
        """Number of segments."""
        return len(self._of)

    def add(self, segment: int, tokens: Sequence[int]) -> None:
        """Add a segment's token ids, or replace them."""
        is_late = segment not in self._of and bool(self._of) and next(reversed(self._of)) > segment
        self._of[segment] = _numbers(tokens, self._size)
        if is_late:  # segments come in order of their ids; only what does not costs this
            self._of = dict(sorted(self._of.items()))

    def remove_from(self, segment: int) -> None:
        """Forget this segment and all with greater ids."""
        while self._of and (last := next(reversed(self._of))) >= segment:
            del self._of[last]

    def most_alike(self, segment: int, among: Iterable[int]) -> tuple[int | None, float]:
        """Which of some segments holds most of a segment's shingles, and what share of them.

        Args:
            segment: the one to compare; it is not compared with itself.
            among: ids; those that are not known are passed over.

        Returns:
            The id (the lowest of several that share as much) and the share as :func:`overlap` has it; None
            and 0 if none shares anything.
        """
        own = self._of.get(segment)
        best: tuple[int | None, float] = (None, 0.0)
        if own is None:
            return best
        for other in sorted(set(among) - {segment}):
            numbers = self._of.get(other)
            if numbers is not None and (share := _share(own, numbers)) > best[1]:
                best = other, share
        return best


def _numbers(tokens: Any, size: int) -> Numbers:
    """One number for each different shingle, in order."""
    ids = np.asarray(tokens, dtype=np.int64).astype(np.uint64)
    count = len(ids) - size + 1
    if count < 1:
        return np.empty(0, np.uint64)
    factor = np.uint64(_FACTOR)
    numbers = np.zeros(count, np.uint64)
    for at in range(size):
        numbers = (numbers ^ ids[at : at + count]) * factor  # modulo 2**64
        numbers ^= numbers >> np.uint64(29)
    return np.unique(numbers)


def _share(a: Numbers, b: Numbers) -> float:
    if not len(a) or not len(b):
        return 0.0
    return float(np.isin(a, b, assume_unique=True).mean())
