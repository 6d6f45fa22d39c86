"""What a session remembers beyond its cache: saved segments, the working set of each step, near copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from pace_local.config import SessionConfig
from pace_local.events import Event, Focused, Isolated, Recalled
from pace_local.focus import Focus
from pace_local.policies import Policy
from pace_local.recall import Store, default_disk_bytes, default_host_bytes
from pace_local.segments import Kind, Segment, SegmentTable
from pace_local.session_cache import SessionCache
from pace_local.working_set import WorkingSet

if TYPE_CHECKING:
    from pace_local.recall.mentions import MentionIndex

ISOLATED_KINDS = ("file", "tool", "text")
"""Kinds of text that a plan may read whether or not they were given a name."""


MOST_MENTIONED = 3
"""Segments that are brought back for one prompt because it mentions what they define."""


NAMED_AT_ONCE = 512
"""Segments of a session from disk whose names are read at one prompt, newest first, until all are known.
Reading the names of all would make the first prompt of a long session wait."""


class SessionMemory:
    """Saves, recalls and isolates for one session.

    Args:
        cache: the session's.
        segments: the session's.
        config: the session's.
        policy: the session's.
        folder: where saved keys and values go on disk; None: a temporary folder.
        text_of: a segment's text.
        reread: reads the text of a segment again as a new turn.
        emit: takes every event.
    """

    def __init__(
        self,
        cache: SessionCache,
        segments: SegmentTable,
        config: SessionConfig,
        policy: Policy,
        *,
        folder: Path | None,
        text_of: Callable[[Segment], str],
        reread: Callable[[int], None],
        emit: Callable[[Event], None],
    ) -> None:
        self.recalls = policy.recalls if config.recall is None else config.recall
        self.focuses = policy.focuses
        self.isolates = policy.focuses if config.isolate is None else config.isolate
        self._cache = cache
        self._segments = segments
        self._tell = emit
        self.arrivals: dict[int, str] = {}
        """By segment: by what means the last step that read it got it, and why so."""
        self._config = config
        self._uses: dict[int, int] = {}
        self.working_set = WorkingSet(cache, segments, config, self._open_store(folder), self._emit)
        self.working_set.saves_leaving = self.recalls or self.isolates
        self._text_of = text_of
        self._names: MentionIndex | None = None
        self._unnamed = 0
        """Segments from the first whose names are yet to be read, though later ones' are known."""
        self._n_named = 0
        """Segments whose names are known, and those before them."""
        self.focus = Focus(cache, segments, config, policy, self.working_set, reread, self._emit)

    @property
    def store(self) -> Store:
        """Where what is saved lies."""
        return self.working_set.store

    def _open_store(self, folder: Path | None) -> Store:
        host, disk = self._config.host_bytes, self._config.disk_bytes
        make = Store if folder is None else Store.open
        return make(
            folder=folder,  # type: ignore[arg-type]
            host_bytes=default_host_bytes() if host is None else host,
            disk_bytes=default_disk_bytes(folder) if disk is None else disk,
            next_use=lambda segment: self._uses.get(segment, math.inf),
        )

    def move_to(self, folder: Path) -> None:
        """Have all that is saved in a folder from now on."""
        old = self.store
        self.working_set.move_to(self._open_store(folder))
        old.close()

    def restore(self, crowded: set[int], groups: Sequence[Sequence[int]], n_tokens: int) -> None:
        """Know again what a session on disk knew."""
        self.store.forget_from(n_tokens)
        self.working_set.restore_groups(groups)
        if self.focuses:
            self.focus.restore(crowded)
        self._unnamed = self._n_named = len(self._segments)

    def _emit(self, event: Event) -> None:
        if isinstance(event, Recalled):
            segment = self._segments.named(event.segment).id
            self.arrivals[segment] = f"{event.means}: {event.reason}"
        elif isinstance(event, Focused):
            kept = {self._segments.named(name).id for name, means in event.reads.items() if means == "kept"}
            self.arrivals.update(dict.fromkeys(kept, "kept: it was resident"))
        self._tell(event)

    def close(self) -> None:
        """End what runs in the background. Safe to call twice."""
        self.store.close()

    def wants_isolation(self, kind: Kind, name: str | None, asked: bool | None) -> bool:
        """Whether a text is to be read in isolation.

        By default, under a policy that focuses, those are what a plan may read: files, tool results, texts,
        and what the user gave a name. Not talk, which means what it does only where it was said.
        """
        if asked is not None:
            return asked
        return self.isolates and (kind in ISOLATED_KINDS or (kind == "user" and name is not None))

    @contextmanager
    def reading_alone(self, n_tokens: int) -> Iterator[Callable[[Segment], None]]:
        """Within this, tokens are read seeing only the pinned prefix.

        Args:
            n_tokens: of the whole turn.

        Yields:
            What to call with the segment when its turn is complete.
        """
        saved: list[Segment] = []

        def save(segment: Segment) -> None:
            self._segments.set_isolated(segment.id, True)
            self.working_set.save(self.working_set.resident_ranks(segment.id), segment.id)
            saved.append(segment)

        with self.working_set.alone(n_tokens) as aside:
            yield save
        for segment in saved:
            self._emit(Isolated(segment.name, len(segment), aside.residents, aside.seconds))

    def plan_changed(self, steps: Sequence[Sequence[int]]) -> None:
        """Know what each step will read, nearest first: what is needed last is dropped first.

        What this step and the next read is fetched from the disk meanwhile.
        """
        uses: dict[int, int] = {}
        for away, reads in enumerate(steps):
            for owner in (*reads, *self.working_set.sequence_ids(reads)):
                uses.setdefault(owner, away)
        self._uses = uses
        self.store.prefetch(owner for owner, away in uses.items() if away <= 1)

    def note(self, segment: int, tokens: Sequence[int]) -> None:
        """A segment is about to be read; what it looks like matters to policies that focus alone."""
        if self.focuses:
            self.focus.note(segment, tokens)

    def mentioned(self, text: str) -> list[int]:
        """Segments that are not resident and alone define a name that a text mentions, best first, a few."""
        if not self.recalls:
            return []
        whole = self.working_set.whole()
        if len(whole) == len(self._segments):
            return []
        if self._names is None:
            from pace_local.recall.mentions import MentionIndex  # brings grammars: not before they are needed

            self._names = MentionIndex()
        first = max(0, self._unnamed - NAMED_AT_ONCE)
        older = islice(self._segments.from_id(first), self._unnamed - first)
        for segment in chain(older, self._segments.from_id(self._n_named)):
            if segment.kind not in ("framing", "system"):
                self._names.add(segment.id, self._text_of(segment), segment.name)
        self._unnamed, self._n_named = first, len(self._segments)
        return self._names.candidates(text, _Evicted(whole))[:MOST_MENTIONED]

    def forget_from(self, n_tokens: int, n_segments: int) -> None:
        """Tokens and segments from here on were withdrawn."""
        self.store.forget_from(n_tokens)
        self.focus.forget_from(n_segments)
        self.arrivals = {segment: said for segment, said in self.arrivals.items() if segment < n_segments}
        self.working_set.forget_from(n_segments)
        self._unnamed, self._n_named = min(self._unnamed, n_segments), min(self._n_named, n_segments)
        if self._names is not None:
            self._names.remove_from(n_segments)


class _Evicted:
    """The segments that are not resident as a whole."""

    def __init__(self, resident: set[int]) -> None:
        self._resident = resident

    def __contains__(self, segment: object) -> bool:
        """Whether a segment has content that is not resident."""
        return segment not in self._resident
