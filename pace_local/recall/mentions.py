"""Which evicted segment a text needs because it mentions a name that only that segment defines."""

from __future__ import annotations

import bisect
import re
from collections.abc import Container
from itertools import islice

from pace_local.entity_words import is_telling
from pace_local.excerpts import prompt_names
from pace_local.recall.definitions import definitions_of, is_common, owned

MOST_SOURCES = 3
"""A name that more sources define is too common for each of them to matter; as for excerpts of files."""
MOST_NAMES = 256
"""Names and words of a text that are looked up, each."""

_WORD = re.compile(r"[^\W\d_]\w*")


class MentionIndex:
    """The names that each segment of a session defines, and which of them a text is missing.

    A name is *missing* when the text mentions it, some segment defines it, and no resident segment does. So
    "the only one" is meant among those resident: whoever reads a name needs one definition, and needs none
    brought back while one is there. Among all segments it would mean too little, since an answer that
    implements a function defines it as well as its specification; both gone, both are candidates.

    - Of segments with one *source* (a file that was read again, lines 10 to 42 of it before lines 50 to 90),
      the last one that defines the name counts alone: an older one may be out of date, even if resident.
    - A name that more than ``MOST_SOURCES`` sources define tells none of them apart and brings nothing.
    - With an *owner* it can: ``orders.RATE``, ``Order.total``, or RATE in a text that has the word *orders*
      too. The owner is the class or module around a definition, or what a segment's name is about
      (``spec:orders``, ``orders.py``). Where an owner of the text fits some definitions, only these count.
    - Names that are everywhere (``get``, ``name``, what Python's own types have) count with an owner alone.
    - Mentions are what is written as a name: in back-ticks, called, dotted, in snake or camel case, in
      capitals, capitalised inside a sentence. A plain word is none.

    All is kept in an inverted index: the cost of :meth:`candidates` grows with the text alone, that of
    :meth:`add` with what it adds and :meth:`remove_from` with what it removes.
    """

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, list[int]]] = {}
        """Key -> source -> segments that define it, in order."""
        self._added: dict[int, tuple[str, frozenset[str]]] = {}
        """Segment -> its source and keys."""
        self._order: list[int] = []
        """Segments in order."""

    def __len__(self) -> int:
        """Number of segments that define something."""
        return len(self._added)

    def add(self, segment: int, text: str, name: str) -> None:
        """Add a segment, or replace its text.

        Args:
            segment: its id; later segments have greater ones.
            text: what it says.
            name: its name, see :func:`~pace_local.recall.definitions.definitions_of`.
        """
        if segment in self._added:
            self._remove(segment)
            del self._order[bisect.bisect_left(self._order, segment)]
        found = definitions_of(text, name)
        if not found.keys:
            return
        self._added[segment] = found.source, found.keys
        bisect.insort(self._order, segment)
        for key in found.keys:
            bisect.insort(self._sources.setdefault(key, {}).setdefault(found.source, []), segment)

    def remove_from(self, segment: int) -> None:
        """Forget this segment and all with greater ids."""
        while self._order and self._order[-1] >= segment:
            self._remove(self._order.pop())

    def _remove(self, segment: int) -> None:
        source, keys = self._added.pop(segment)
        for key in keys:
            sources = self._sources[key]
            segments = sources[source]
            del segments[bisect.bisect_left(segments, segment)]
            if not segments:
                del sources[source]
            if not sources:
                del self._sources[key]

    def defines(self, segment: int) -> frozenset[str]:
        """The names that a segment defines, without their owners."""
        _, keys = self._added.get(segment, ("", frozenset()))
        return frozenset(key for key in keys if "." not in key)

    def candidates(self, text: str, evicted: Container[int]) -> list[int]:
        """Segments to bring back for a text.

        Args:
            text: such as the user's input.
            evicted: ids of the segments that are not resident.

        Returns:
            Ids of evicted segments that define a missing name, best first. Each missing name counts one,
            shared by those that define it; twice that where an owner in the text fits. Of equals, the newest
            comes first.
        """
        scores: dict[int, float] = {}
        words = list(islice(dict.fromkeys(_WORD.findall(text)), MOST_NAMES))
        asked: set[str] = set()
        names = (name for name in prompt_names(text) if not name.is_phrase and is_telling(name.leaf))
        for name in islice(names, MOST_NAMES):
            leaf = name.leaf
            if leaf not in self._sources:
                continue
            *around, _ = name.text.split(".")
            # What stands before the dot says more than a word somewhere in the text.
            for owners in (around[-1:], [] if leaf in asked else words):
                keys = {
                    key for owner in owners if owner != leaf and (key := owned(owner, leaf)) in self._sources
                }
                if keys:
                    break
            if leaf in asked and not keys:
                continue
            asked.add(leaf)
            if not keys and is_common(leaf):
                continue
            weight = 2.0 if keys else 1.0
            self._count(keys or {leaf}, weight, evicted, scores)
        return sorted(scores, key=lambda segment: (-scores[segment], -segment))

    def _count(
        self, keys: set[str], weight: float, evicted: Container[int], scores: dict[int, float]
    ) -> None:
        """Add the weight of one mentioned name to those that define it, if it is missing."""
        definers: set[int] = set()
        for key in keys:
            sources = self._sources[key]
            if len(sources) > MOST_SOURCES:
                return
            definers |= {segments[-1] for segments in sources.values()}
        if definers and all(segment in evicted for segment in definers):
            for segment in definers:
                scores[segment] = scores.get(segment, 0.0) + weight / len(definers)
