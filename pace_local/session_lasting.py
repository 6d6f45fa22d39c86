"""What makes a session last: checkpoints to go back to, and a folder on disk."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from pace_local import session_disk
from pace_local.checkpoints import Checkpoint
from pace_local.config import SessionConfig
from pace_local.config_document import config_of
from pace_local.errors import ConfigError, PaceError
from pace_local.events import Rebuilt, Restored
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.sampling import Writer
from pace_local.segments import Snapshot
from pace_local.session_core import Listener
from pace_local.session_disk import SessionDisk
from pace_local.session_steps import SessionSteps
from pace_local.sessions import StoredSession, session_folder

S = TypeVar("S", bound="SessionLasting")


@dataclass(frozen=True)
class _State:
    """What a checkpoint remembers of a session beside its cache."""

    role: str | None
    prompt: int | None
    pending: list[int]
    n_turns: int
    plan: Plan
    asked: list[int]
    mentioned: list[int]
    step_is_due: bool
    segments: Snapshot
    policy: dict[str, Any]
    merged: dict[str, Any] | None
    attention: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None
    since_eviction: int
    sequences: frozenset[int]


class SessionLasting(SessionSteps):
    """The part of a session that outlives a mistake, and a process."""

    if TYPE_CHECKING:

        def __init__(
            self,
            model: Model,
            *,
            config: SessionConfig | None = None,
            listener: Listener | None = None,
            writer: Writer | None = None,
            folder: str | os.PathLike[str] | None = None,
            _stored: StoredSession | None = None,
            **settings: Any,
        ) -> None: ...

    # On disk

    def save(self, folder: str | os.PathLike[str] | None = None) -> Path:
        """Keep the session on disk from now on, or have all that is kept there written out.

        After each turn a record is written to the folder's log, and the keys and values of the residents
        follow. A process that is killed loses no completed turn: :meth:`open` goes on from there.

        Args:
            folder: a name, for a folder where ``pace sessions`` finds it, or a path; there must be no session
                yet. None: where the session is kept already.

        Returns:
            Path of the folder.

        Raises:
            ConfigError: for a bad name, if it is kept elsewhere already, or for settings that rule it out.
            FileError: if there is a session in the folder.
            StorageError: if it cannot be written.
        """
        with self._at_work():
            if folder is not None:
                self._begin_on_disk(folder)
            if self._disk is None:
                raise ConfigError("the session is not kept on disk yet; give save() a name or a path")
            self._disk.write()
            self._memory.store.flush()
            return self._disk.folder

    def _begin_on_disk(self, folder: str | os.PathLike[str]) -> None:
        if self._disk is not None:
            raise ConfigError(
                f"the session is kept in {self._disk.folder} already; call save() without a name"
            )
        if self.policy.merging is not None:
            raise ConfigError(
                f"policy {self.policy.name!r} merges what it evicts, which no disk can keep; use another"
            )
        if self.config.disk_bytes == 0:
            raise ConfigError("disk bytes is 0, and the session is to be kept on disk; give it more, or None")
        stored = session_disk.begin(self.model, folder, self.config)
        try:
            self._memory.move_to(stored.kv_folder)
            self._disk = SessionDisk(self, stored)
        except BaseException:
            stored.close()
            raise

    @classmethod
    def open(
        cls: type[S],
        model: Model,
        folder: str | os.PathLike[str],
        *,
        listener: Listener | None = None,
        writer: Writer | None = None,
    ) -> S:
        """Go on with a session that is kept on disk, with its own settings.

        Nothing is decoded: residents come back with their keys and values. Those that a killed process could
        not write any more are computed again, and :class:`~pace_local.events.Rebuilt` says how many.

        Args:
            model: the one that the session was begun with.
            folder: name or path.
            listener: as for the constructor.
            writer: as for the constructor.

        Raises:
            FileError: if there is no session.
            SessionInUseError: if another process has it.
            ConfigError: for another model.
            StorageError: if it cannot be read.
        """
        stored = StoredSession.open(session_folder(folder))
        try:
            session_disk.check_model(stored, model)
            assert stored.state.header is not None
            config = config_of(stored.state.header.config)
            return cls(model, config=config, listener=listener, writer=writer, _stored=stored)
        except BaseException:
            stored.close()
            raise

    def _reopen(self, stored: StoredSession) -> None:
        lost = session_disk.restore(self, stored.state)
        self._disk = SessionDisk(self, stored)
        if lost:
            self._emit(Rebuilt(lost, "their keys and values were not on the disk"))

    # Checkpoints

    def checkpoint(self) -> int:
        """Remember the session as it is now, and return an id for :meth:`restore`.

        Nothing is copied until something of it leaves the cache, but for policies that merge residents.
        """
        with self._at_work():
            state = _State(
                self._role,
                self._prompt,
                list(self._pending),
                self._n_turns,
                self._plan,
                list(self._asked),
                list(self._mentioned),
                self._step_is_due,
                self.segments.snapshot(),
                copy.deepcopy(self.policy.__dict__),
                None if self.merged is None else copy.deepcopy(self.merged.__dict__),
                self._cache.attention_state(),
                self._cache.since_eviction,
                self._memory.working_set.sequences(),
            )
            return self._checkpoints.add(state, copies_all=self.merged is not None)

    def restore(self, checkpoint: int) -> None:
        """Make the session what it was at a checkpoint, without decoding anything.

        Later checkpoints are forgotten; this one stays. Counters go on. Of the attention that was measured,
        totals come back; the window of the last steps starts anew.

        Raises:
            ConfigError: if there is no such checkpoint.
            NativeError: if a device fails.
        """
        began = time.perf_counter()
        with self._at_work():
            length, before = self.session_length, set(self.residents.token_index.tolist())
            saved = self._checkpoints.named(checkpoint)
            try:
                self._checkpoints.restore(checkpoint)
            except PaceError:
                raise
            except BaseException:  # an interrupt, when the cache had gone back already or not
                if self.session_length == saved.n_tokens:
                    self._go_back(saved)
                raise
            self._go_back(saved)
            loaded = len(set(self.residents.token_index.tolist()) - before)
        self._emit(Restored(checkpoint, length - self.session_length, loaded, time.perf_counter() - began))

    def _go_back(self, saved: Checkpoint) -> None:
        """Know what was known at a checkpoint; the cache is as it was then."""
        if self._disk is not None:
            self._disk.withdrawn(saved.n_tokens)
        state: _State = saved.state
        self.segments.restore(state.segments)
        self._memory.forget_from(saved.n_tokens, len(self.segments))
        self._role, self._prompt, self._n_turns = state.role, state.prompt, state.n_turns
        self._pending = list(state.pending)
        self._asked, self._mentioned = list(state.asked), list(state.mentioned)
        self._step_is_due = state.step_is_due
        self.policy.__dict__.update(copy.deepcopy(state.policy))
        if self.merged is not None and state.merged is not None:
            self.merged.__dict__.update(copy.deepcopy(state.merged))
        self._plan = state.plan
        self._turn_is_over = True
        self._cache.since_eviction = state.since_eviction
        self._memory.working_set.forget_sequences_but(state.sequences)
        if state.attention is not None:
            self._cache.take_attention(*state.attention)

    def drop_checkpoint(self, checkpoint: int) -> None:
        """Forget a checkpoint.

        Raises:
            ConfigError: if there is none of that id.
        """
        self._checkpoints.drop(checkpoint)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within this, what is read, written and planned leaves no trace: after it the session is as before.

        Nothing of it is written to the disk either: whoever opens the session after a process was killed in
        it finds it as it was when it began. Counters go on, as with :meth:`restore`.

        Raises:
            ConfigError: on leaving, if a generation is still running.
            NativeError: if a device fails.
        """
        with nullcontext() if self._disk is None else self._disk.paused():
            checkpoint = self.checkpoint()
            try:
                yield
            finally:
                if self.engine.ctx is not None:
                    self.restore(checkpoint)
                    self.drop_checkpoint(checkpoint)
