"""A session on disk: a record a turn in a log, and the keys and values of its residents in files.

A record says who is resident and which saved pieces hold them; the pieces follow, written in the background.
Those of one turn are on the disk before the record of the next is written. So a process that is killed loses
no completed turn, and at most the keys and values of the last have to be computed again; more of them on a
disk that has room for the log alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pace_local import __version__, _native
from pace_local.config_document import config_document
from pace_local.errors import ConfigError, NativeError, StorageError
from pace_local.events import Event, Progress, Text, as_dict
from pace_local.model import Model
from pace_local.residents import NO_PIECE
from pace_local.sessions import (
    Header,
    SessionState,
    StoredSegment,
    StoredSession,
    TurnRecord,
    decode_runs,
    encode_ranges,
    encode_runs,
    pack_array,
    session_folder,
    unpack_array,
)
from pace_local.stats import Counters

if TYPE_CHECKING:
    from pace_local.session_core import SessionCore


def begin(model: Model, reference: str | os.PathLike[str], config: Any) -> StoredSession:
    """Make a folder for a new session.

    Raises:
        ConfigError: for a bad name.
        FileError: if there is a session already.
        StorageError: if it cannot be written.
    """
    facts = _native.read_build().facts
    header = Header(
        pace_version=__version__,
        build={"llama_cpp": str(facts.get("llama_cpp_python")), "patch": str(facts.get("patch"))},
        model_name=model.name,
        model_path=str(model.path.absolute()),
        model_fingerprint=model.fingerprint.hex(),
        config=config_document(config),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    return StoredSession.create(session_folder(reference), header)


def check_model(stored: StoredSession, model: Model) -> None:
    """Refuse a model that a session was not begun with.

    Raises:
        ConfigError: with the name of the one that it was.
    """
    header = stored.state.header
    assert header is not None
    if header.model_fingerprint != model.fingerprint.hex():
        raise ConfigError(
            f"the session in {stored.folder} was begun with {header.model_name} ({header.model_path}), which "
            f"is another file than {model.name}; open it with that"
        )


class SessionDisk:
    """Writes a session's log and keeps its pieces.

    Args:
        session: that it belongs to; its memory's store lies in the folder.
        stored: the folder, locked.
    """

    def __init__(self, session: SessionCore, stored: StoredSession) -> None:
        self._session = session
        self.stored = stored
        self._base = len(stored.state.tokens)
        session._memory.working_set.kept = session._memory.store.kept_ids()
        self._events: list[dict[str, Any]] = []
        self._evictions: list[Any] = []
        self._pauses = 0
        self._cache = session._cache
        self._cache.before_leaving.append(self._note_leaving)

    @property
    def _kept(self) -> set[int]:
        kept = self._session._memory.working_set.kept
        assert kept is not None
        return kept

    @property
    def folder(self) -> Path:
        """Where the session lies."""
        return self.stored.folder

    # What happens between records

    def note(self, event: Event) -> None:
        """Remember an event for the log; not what the model writes, which the tokens hold."""
        if not self._pauses and not isinstance(event, (Progress, Text)):
            document = as_dict(event)
            document.pop("stats", None)
            document.pop("answer", None)
            self._events.append(document)

    def _note_leaving(self, ranks: npt.NDArray[np.int64]) -> None:
        if not self._pauses:
            self._evictions.append(encode_ranges(self._cache.map.token_index[ranks]))

    def withdrawn(self, n_tokens: int) -> None:
        """Tokens from here on are no more."""
        self._base = min(self._base, n_tokens)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within this, nothing is written and nothing noted; at its end the session must be as it was."""
        self.write()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    # Writing

    def write(self) -> None:
        """Write what has changed since the last record, if anything has, and if writing is not paused.

        Pieces that cannot be written do not stop the record: what they hold can be computed again. They are
        tried again with each record; :meth:`close` and ``Session.save`` say so if they still cannot.

        Raises:
            StorageError: if it cannot be written; log and folder are as they were after the last record.
        """
        if self._pauses:
            return
        session, memory = self._session, self._session._memory
        try:
            memory.store.flush()
            has_room = True
        except StorageError:
            has_room = False
        self._cache.tidy()
        self._save_residents()
        record = self._record()
        if self._is_news(record):
            if not has_room:
                memory.store.settle()  # what is half written would take the room that the record needs
            self.stored.append(record, sync=True)
        self._base = record.n_tokens
        self._events, self._evictions = [], []
        session.segments.changed.clear()
        self._release_others()

    def _save_residents(self) -> None:
        """Have every resident in a piece that stays on the disk."""
        working_set, store = self._session._memory.working_set, self._session._memory.store
        residents = self._cache.map
        for piece in np.unique(residents.piece).tolist():
            if piece >= 0 and piece not in self._kept:
                try:
                    store.keep(piece)
                    self._kept.add(piece)
                except StorageError:
                    residents.piece[residents.piece == piece] = NO_PIECE
        for owner, ranks in working_set.unsaved():
            working_set.save(ranks, owner)

    def _release_others(self) -> None:
        """Let the budget of the disk remove pieces whose tokens are resident no more."""
        now = {int(piece) for piece in np.unique(self._cache.map.piece)}
        for piece in self._kept - now:
            with suppress(StorageError):  # it is tried again after the next record
                self._session._memory.store.release(piece)
                self._kept.discard(piece)

    def _record(self) -> TurnRecord:
        session, cache = self._session, self._cache
        residents, segments = cache.map, session.segments
        base = min(self._base, len(cache.tokens))
        changed = sorted(
            {i for i in segments.changed if i < len(segments)} | set(segments.reaching_beyond(base))
        )
        return TurnRecord(
            tokens=list(cache.tokens[base:]),
            n_tokens=len(cache.tokens),
            segments=[StoredSegment(segments[i], self._extra(i)) for i in changed],
            n_segments=len(segments),
            role=session._role,
            prompt=session._prompt,
            pending=list(session._pending),
            n_turns=session._n_turns,
            plan=session.plan,
            residents=encode_runs(residents.token_index, residents.position),
            counters=dataclasses.asdict(cache.counters),
            policy_state=self._state(),
            evictions=self._evictions,
            events=self._events,
        )

    def _is_news(self, record: TurnRecord) -> bool:
        """Whether a record says anything that the log does not say yet."""
        state = self.stored.state
        return bool(
            not state.n_records
            or record.tokens
            or record.segments
            or record.events
            or record.evictions
            or record.n_tokens != len(state.tokens)
            or any(
                getattr(record, name) != getattr(state, name)
                for name in ("role", "prompt", "n_turns", "plan", "residents", "policy_state")
            )
            or list(record.pending) != list(state.pending)
        )

    def _extra(self, segment: int) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        if segment in self._session._memory.focus.crowded:
            extra["crowded"] = True
        later = self._session.segments.later(segment)
        if later is not None:
            extra["later"] = later
        part = self._session.segments[segment]
        if self._session.policy.marks_entities and part.kind != "framing":
            extra["entities"] = pack_array(self._cache.marks(part.start, part.end))
        return extra

    def _state(self) -> dict[str, Any]:
        session, cache = self._session, self._cache
        state: dict[str, Any] = {
            "policy": session.policy.state(),
            "pieces": _runs_of(cache.map.piece),
            "groups": session._memory.working_set.groups(),
            "asked": list(session._asked),
            "mentioned": list(session._mentioned),
            "step_is_due": session._step_is_due,
            "since_eviction": cache.since_eviction,
        }
        attention = cache.attention_state()
        if attention is not None:
            state["attention"] = [pack_array(part) for part in attention]
        return state

    def close(self, *, waits: bool = True) -> None:
        """Let other processes have the folder.

        Args:
            waits: whether until all is written, a record too that could not be before; else what is not is
                computed again, or lost, when it is opened.

        Raises:
            StorageError: if something could not be written; the folder is let go all the same.
        """
        try:
            if waits:
                self.write()
                self._session._memory.store.flush()
        finally:
            self.stored.close()


def restore(session: SessionCore, state: SessionState) -> int:
    """Make a new session what a state says: all but its keys and values first, then those.

    Args:
        session: empty; its memory's store is the one that lies in the session's folder.
        state: from the log.

    Returns:
        How many residents had to be computed again, because what was saved of them is gone.
    """
    cache, memory = session._cache, session._memory
    if not state.n_records:  # killed before its first turn was over
        return 0
    extra = state.policy_state
    cache.tokens.extend(state.tokens)
    session.segments.take_over(
        state.segment_table(),
        {s.segment.id: s.extra["later"] for s in state.segments if "later" in s.extra},
    )
    session._role, session._prompt, session._n_turns = state.role, state.prompt, state.n_turns
    session._pending, session._plan = list(state.pending), state.plan
    session._asked, session._step_is_due = list(extra["asked"]), bool(extra["step_is_due"])
    cache.counters = Counters(**state.counters)  # type: ignore[arg-type]
    session._turn_start, session._turn_is_over = cache.counters.copy(), True
    session._mentioned = list(extra["mentioned"])
    cache.since_eviction = int(extra["since_eviction"])
    session.policy.resume(extra["policy"])
    memory.restore(
        {s.segment.id for s in state.segments if "crowded" in s.extra}, extra["groups"], len(cache.tokens)
    )
    token_index, position = decode_runs(state.residents)
    marks = np.zeros(len(cache.tokens), dtype=np.bool_)
    for stored in state.segments:
        if "entities" in stored.extra:
            marks[stored.segment.start : stored.segment.end] = unpack_array(stored.extra["entities"])
    cache.take_marks(marks)
    lost = _load(session, token_index, position, _spread(extra["pieces"]))
    cache.tidy()
    if "attention" in extra and cache.is_observing:
        total, prompt = map(unpack_array, extra["attention"])
        # What had to be computed again may be more than was resident, and others may have left for it.
        there = np.isin(token_index, cache.map.token_index)
        cache.add_attention(token_index[there], total[there], prompt[there])
    session._tell_memory()
    session.segments.changed.clear()
    return lost


def _load(
    session: SessionCore,
    token_index: npt.NDArray[np.int64],
    position: npt.NDArray[np.int32],
    pieces: npt.NDArray[np.int64],
) -> int:
    """Load all residents that can be loaded, and compute the others again; returns how many those are."""
    cache, working_set, store = session._cache, session._memory.working_set, session._memory.store
    for piece_id in np.unique(pieces).tolist():
        own = np.flatnonzero(pieces == piece_id)
        try:
            piece = store.piece(piece_id)
            block = working_set.fetch(piece)
            if block is None or not np.isin(token_index[own], piece.token_index).all():
                continue
            rows = np.searchsorted(piece.token_index, token_index[own]).astype(np.uint32)
            cache.load(block, rows, cache.rows_of(token_index[own], piece_id), position[own])
        except (StorageError, NativeError):
            continue
    missing = ~np.isin(token_index, cache.map.token_index)
    lost = cache.rows_of(token_index[missing])
    alone = {int(i) for i in np.unique(lost.segment) if session.segments[int(i)].isolated}
    together = ~np.isin(lost.turn, [session.segments[segment].turn for segment in alone])
    if together.any():
        cache.complete(lost.take(np.flatnonzero(together)), position[missing][together])
    for segment in sorted(alone):
        working_set.recompute(segment)
    return int(np.count_nonzero(missing))


def _runs_of(pieces: npt.NDArray[np.int64]) -> list[list[int]]:
    """Equal neighbours as [value, count]."""
    edges = np.flatnonzero(np.diff(pieces, prepend=pieces[:1] - 1))
    counts = np.diff(np.append(edges, len(pieces)))
    return [[int(pieces[edge]), int(count)] for edge, count in zip(edges, counts, strict=True)]


def _spread(runs: list[list[int]]) -> npt.NDArray[np.int64]:
    return np.repeat(
        np.array([value for value, _ in runs], dtype=np.int64),
        np.array([count for _, count in runs], dtype=np.int64),
    )
