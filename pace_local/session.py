"""A session: a conversation of any length in a cache of a fixed size.

:class:`Session` owns the map from token indices to cells. It reads text turn by turn, lets the model
write, evicts by policy and plan within a hard budget, and renumbers residents before positions reach the
cap. It is single-threaded; only :meth:`Session.cancel` may be called from elsewhere.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local import session_disk
from pace_local.answer_text import AnswerText
from pace_local.checkpoints import Checkpoints
from pace_local.config import SessionConfig
from pace_local.config_document import config_of
from pace_local.entities import entity_tokens
from pace_local.errors import CancelledError, ConfigError, StorageError
from pace_local.events import Event, Finished, FinishReason, Progress, Rebuilt, Restored, Text
from pace_local.memory import Read
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.policies import policy_named
from pace_local.sampling import Sampling
from pace_local.segments import CONTENT_KINDS, ROLE_OF_KIND, Kind, Segment, SegmentTable, Snapshot
from pace_local.session_cache import SessionCache
from pace_local.session_checks import check_model, check_positions
from pace_local.session_disk import SessionDisk
from pace_local.session_memory import SessionMemory
from pace_local.session_view import SessionView
from pace_local.sessions import StoredSession, session_folder

Listener = Callable[[Event], None]
Look = Callable[[int, npt.NDArray[np.float32]], None]
"""Takes a token and the logits, shape [n_vocab], from before it was read."""


@dataclass(frozen=True)
class _State:
    """What a checkpoint remembers of a session beside its cache."""

    role: str | None
    prompt: int | None
    pending: list[int]
    n_turns: int
    plan: Plan
    asked: list[int]
    step_is_due: bool
    segments: Snapshot
    policy: dict[str, Any]
    merged: dict[str, Any] | None
    attention: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None


class Session(SessionView):
    """One conversation with a model under a fixed budget.

    Args:
        model: must stay open while the session lives.
        config: settings; None: the defaults.
        listener: called with every event, also those of :meth:`append`.
        folder: name or path under which the session is kept on disk from the start; see :meth:`save`.
        settings: fields of :class:`SessionConfig` that differ from ``config``, such as ``budget=1024``.

    Raises:
        ConfigError: if a setting is unknown or out of range.
        ModelError: if the model's memory cannot be managed, with the reason.
    """

    def __init__(
        self,
        model: Model,
        *,
        config: SessionConfig | None = None,
        listener: Listener | None = None,
        folder: str | os.PathLike[str] | None = None,
        _stored: StoredSession | None = None,
        **settings: Any,
    ) -> None:
        self.config = (config or SessionConfig()).replace(**settings)
        self._disk: SessionDisk | None = None
        self.model = model
        self.policy = policy_named(self.config.policy, self.config.policy_options)
        options = (
            None if self.config.enable_thinking is None else {"enable_thinking": self.config.enable_thinking}
        )
        self._template = model.chat_template(options)
        check_model(model, self.config, self.policy)
        self.segments = SegmentTable()
        self._cache = SessionCache(
            model, self.config, self.policy, self.segments, reads=self.reads, emit=self._emit
        )
        self.engine = self._cache.engine
        self._memory = SessionMemory(
            self._cache,
            self.segments,
            self.config,
            self.policy,
            folder=None if _stored is None else _stored.kv_folder,
            text_of=self.text_of,
            reread=self._reread,
            emit=self._emit,
        )
        self._checkpoints = Checkpoints(self._cache)
        self._cache.before_leaving.append(self._checkpoints.before_leaving)
        self._step_is_due = False
        self._asked: list[int] = []
        self._mentioned: list[int] = []
        self._listener = listener
        self._plan = Plan()
        self._role: str | None = None
        self._n_turns = 0
        self._prompt: int | None = None
        self._arriving: Read | None = None
        self._pending: list[int] = []
        self._turn_start = self._cache.counters.copy()
        self._turn_is_over = False
        self._lock = threading.Lock()
        self._working = False
        try:
            check_positions(model, self.config, self.engine.capabilities.max_position, self.bounds_positions)
            if _stored is not None:
                self._reopen(_stored)
            elif folder is not None:
                self.save(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the cache; a session on disk is written out first. Safe to call twice."""
        try:
            if self._disk is not None and not self._working:
                self._disk.close()
        finally:
            self._memory.close()
            self.engine.close()

    def __enter__(self) -> Session:
        """The session itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

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
        cls, model: Model, folder: str | os.PathLike[str], *, listener: Listener | None = None
    ) -> Session:
        """Go on with a session that is kept on disk, with its own settings.

        Nothing is decoded: residents come back with their keys and values. Those that a killed process could
        not write any more are computed again, and :class:`~pace_local.events.Rebuilt` says how many.

        Args:
            model: the one that the session was begun with.
            folder: name or path.
            listener: as for the constructor.

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
            return cls(model, config=config, listener=listener, _stored=stored)
        except BaseException:
            stored.close()
            raise

    def _reopen(self, stored: StoredSession) -> None:
        lost = session_disk.restore(self, stored.state)
        self._disk = SessionDisk(self, stored)
        if lost:
            self._emit(Rebuilt(lost, "their keys and values were not on the disk"))

    # Plan and pins

    @property
    def plan(self) -> Plan:
        """Steps still to do; assign a new one at any time.

        Raises:
            PlanError: on assignment, if a step reads a segment that does not exist.
        """
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        for step in plan:
            for name in step.reads:
                self.segments.named(name)
        self._start_plan(plan)
        self._cache.told.clear()

    def step_done(self) -> None:
        """The nearest step of the plan is done: go on to the next."""
        self._start_plan(self._plan.advance())

    def _start_plan(self, plan: Plan) -> None:
        self._plan = plan
        self._step_is_due = True
        self._asked = []
        self._memory.plan_changed({self.segments.named(n).id: step for n, step in plan.next_use().items()})
        if not self._working:
            self._write_down()

    def recall(self, name: str) -> None:
        """Have a segment back now, as one that the current step reads.

        What was saved of it is loaded; what was not is computed again, in isolation.

        Raises:
            PlanError: if there is no such segment.
            ConfigError: if it is too large for the budget.
            CancelledError, NativeError: as :meth:`append`.
        """
        segment = self.segments.named(name)
        with self._at_work():
            if not self._memory.working_set.fits_alone(len(self._memory.working_set.unit(segment.id))):
                raise ConfigError(
                    f"{name!r} has {len(segment)} tokens and does not fit beside what is pinned in a budget "
                    f"of {self.config.budget}; raise the budget"
                )
            if segment.id not in self._asked:
                self._asked.append(segment.id)
            for lost in self._memory.bring([segment.id], "asked for"):
                self._memory.recompute(lost, "asked for, and not saved")

    def pin(self, name: str, pinned: bool = True) -> None:
        """Keep a segment whatever happens, or no longer.

        What was evicted already comes back with the next turn, if the policy recalls and it was saved.

        Raises:
            PlanError: if there is no such segment.
            ConfigError: if pinned segments would leave no room to work in.
        """
        segment = self.segments.named(name)
        if pinned and not segment.pinned:
            self._check_pins(segment.name, self._price(segment))
        self.segments.set_pinned(segment.id, pinned)
        if not self._working:
            self._write_down()

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
                self._step_is_due,
                self.segments.snapshot(),
                copy.deepcopy(self.policy.__dict__),
                None if self.merged is None else copy.deepcopy(self.merged.__dict__),
                self._cache.attention_state(),
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
            length, before = self.session_length, set(self.residents.stay.tolist())
            saved = self._checkpoints.restore(checkpoint)
            if self._disk is not None:
                self._disk.withdrawn(saved.n_tokens)
            state: _State = saved.state
            self.segments.restore(state.segments)
            self._memory.forget_from(saved.n_tokens, len(self.segments))
            self._role, self._prompt, self._n_turns = state.role, state.prompt, state.n_turns
            self._pending, self._asked, self._mentioned = list(state.pending), list(state.asked), []
            self._step_is_due = state.step_is_due
            self.policy.__dict__.update(copy.deepcopy(state.policy))
            if self.merged is not None and state.merged is not None:
                self.merged.__dict__.update(copy.deepcopy(state.merged))
            self._plan = state.plan
            self._turn_is_over = True
            if state.attention is not None:
                self._cache.take_attention(*state.attention)
            loaded = len(set(self.residents.stay.tolist()) - before)
        self._emit(Restored(checkpoint, length - self.session_length, loaded, time.perf_counter() - began))

    def drop_checkpoint(self, checkpoint: int) -> None:
        """Forget a checkpoint.

        Raises:
            ConfigError: if there is none of that id.
        """
        self._checkpoints.drop(checkpoint)

    # Reading

    def append(
        self,
        text: str,
        *,
        name: str | None = None,
        kind: Kind = "user",
        pinned: bool | None = None,
        next_use: int | None = None,
        isolated: bool | None = None,
    ) -> Segment:
        """Read a text as one chat turn. All or nothing: if it fails, the turn is withdrawn.

        Args:
            text: any text; control tokens in it are read as plain characters.
            name: of the segment, for plans; None: made from kind and turn.
            kind: what it is; decides the role.
            pinned: whether it always stays; None: if it is a system prompt.
            next_use: how many steps away the nearest step that reads it is, while it is being read: the
                plan can name it only afterwards, when a part of a long text may be gone. None: no step does.
            isolated: whether it is read seeing only the pinned prefix and itself, so that it can be recalled
                as it is; a text too long for that is read as usual. None: under policy ``pace_focus``, files,
                tool results, texts, and what the user gave a name.

        Raises:
            ConfigError: for an empty text, an unknown kind, or a pinned text too large for the budget.
            CancelledError: after :meth:`cancel`.
            ContextFullError: if the policy evicts nothing and the text does not fit.
            NativeError: if the cache fails.
        """
        if not text.strip():
            raise ConfigError(f"the text of {name or kind!r} is empty; give at least one character")
        if kind not in CONTENT_KINDS:
            raise ConfigError(f"segment kind {kind!r} is not one of {', '.join(CONTENT_KINDS)}")
        with self._at_work(), self._all_or_nothing():
            self._start_turn()
            is_talk = kind == "user" and not self._memory.wants_isolation(kind, name, isolated)
            self._start_step(text if is_talk else None)
            return self._append(
                text, name, kind, kind == "system" if pinned is None else pinned, next_use, isolated
            )

    def _append(
        self,
        text: str,
        name: str | None,
        kind: Kind,
        pinned: bool,
        next_use: int | None = None,
        isolated: bool | None = None,
    ) -> Segment:
        role = ROLE_OF_KIND.get(kind, "user")
        frame = self._template.frame(role, first=self._role is None, previous=self._role)
        implied = self.model.tokenize(frame.implied_system, special=True)
        opening = self.model.tokenize(frame.own_prefix, special=True)
        content = self.model.tokenize(text)
        suffix = self.model.tokenize(frame.suffix, special=True)
        if self._role is None and self.model.bos is not None and not frame.has_bos:
            (implied or opening).insert(0, self.model.bos)
        price = len(opening) + len(content) + len(suffix) if pinned else 0
        if implied or pinned:
            self._check_pins(name or kind if pinned else "the template's system prompt", len(implied) + price)
        self._flush_pending()
        if implied:
            self._read(implied, "system", "system", turn=self._next_turn(), pinned=True)
        turn = self._next_turn()
        n_tokens = len(opening) + len(content) + len(suffix)
        alone = (
            not pinned
            and self._memory.wants_isolation(kind, name, isolated)
            and self._memory.working_set.fits_alone(n_tokens)
        )
        with self._memory.reading_alone(n_tokens) if alone else nullcontext() as save:
            self._read_framing(opening, turn)
            segment = self._read(content, name, kind, turn=turn, pinned=pinned, next_use=next_use, text=text)
            self._read_framing(suffix, turn)
            if save is not None:
                save(segment)
        self._role = role
        if kind == "user" and not alone:
            self._prompt = segment.id
        return self.segments[segment.id]

    def _start_step(self, prompt: str | None = None) -> None:
        """Bring what the step at hand reads, before anything of it is read or written.

        Args:
            prompt: what the user is about to ask; what it mentions is read too.
        """
        mentioned = [] if prompt is None else self._memory.mentioned(prompt)
        if prompt is not None:
            self._mentioned = mentioned
        now = [read.segment for read in self.reads() if read.step == 0]
        asked = [segment for segment in now if segment == self._prompt and self._role == "user"]
        reads = [segment for segment in now if segment != self._prompt and segment not in mentioned]
        if self._memory.focuses and self._step_is_due and len(self._plan):
            self._memory.focus.start(next(iter(self._plan)).text, reads + mentioned, asked)
        elif self._memory.recalls:
            pinned = sorted(self.segments.pinned - self._memory.working_set.whole())
            self._memory.bring(pinned, "it is pinned")
            self._memory.bring(asked + reads, "a step reads it")
            self._memory.bring(mentioned, "it alone defines a name that the prompt mentions")
        self._step_is_due = False

    def _reread(self, segment_id: int) -> None:
        """Read the text of a segment again, as a turn of its own that takes its place."""
        old = self.segments[segment_id]
        self._memory.working_set.remove(segment_id)
        self._prompt, prompt = None, self._prompt
        new = self._append(self.text_of(old), old.name, old.kind, False, isolated=False)
        self._prompt = prompt
        self.segments.supersede(old.id, new.id)

    def _read(
        self,
        tokens: Sequence[int],
        name: str | None,
        kind: Kind,
        *,
        turn: int,
        pinned: bool = False,
        next_use: int | None = None,
        text: str | None = None,
    ) -> Segment:
        segment = self._open_segment(name, kind, turn, pinned=pinned, next_use=next_use)
        if kind != "framing":
            self._memory.focus.note(segment.id, tokens)
        marks = self._entities(tokens, segment, text)
        began = time.perf_counter()
        for first in range(0, len(tokens), self.engine.n_batch):
            chunk = tokens[first : first + self.engine.n_batch]
            of_chunk = None if marks is None else marks[first : first + len(chunk)]
            self._cache.decode(chunk, segment, of_chunk)
            if kind != "framing":
                self._emit(Progress(first + len(chunk), len(tokens)))
        self._cache.counters.prompt_tokens += len(tokens)
        self._cache.counters.prompt_seconds += time.perf_counter() - began
        return self.segments[segment.id]

    def _entities(
        self, tokens: Sequence[int], segment: Segment, text: str | None = None
    ) -> npt.NDArray[np.bool_] | None:
        """Which tokens are part of a name or constant, if the policy wants to know."""
        if not self.policy.marks_entities or segment.kind == "framing":
            return None
        return entity_tokens([self.model.piece(token) for token in tokens], segment.name, text)

    def _open_segment(
        self, name: str | None, kind: Kind, turn: int, *, pinned: bool = False, next_use: int | None = None
    ) -> Segment:
        end = len(self._cache.tokens)
        segment = self.segments.add(name, kind, end, end, turn, pinned=pinned)
        if next_use is not None:
            self._arriving = Read(segment.id, next_use)
        return segment

    def _read_framing(self, tokens: Sequence[int], turn: int) -> None:
        if tokens:
            self._read(tokens, None, "framing", turn=turn)

    # Writing

    def generate(
        self,
        prompt: str | None = None,
        *,
        name: str | None = None,
        max_tokens: int = 512,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
        next_use: int | None = None,
    ) -> Iterator[Event]:
        """Read a prompt, if there is one, and let the model answer; events come as they happen.

        The answer becomes a segment of kind ``answer``. Leaving the loop early ends the answer there.

        Args:
            prompt: the user's turn; None: answer to what was read before.
            name: of the answer's segment.
            max_tokens: longest answer, in tokens.
            sampling: None: greedy.
            stop: texts that end the answer; they are not part of it.
            next_use: of the answer, while it is written; as for :meth:`append`.

        Raises:
            ConfigError: for an empty prompt or a limit below 1, before anything is read.
            ContextFullError, NativeError: as :meth:`append`; the session can go on.
        """
        if max_tokens < 1:
            raise ConfigError(f"max_tokens {max_tokens} is out of range; use 1 or more")
        self._check_prompt(prompt)
        if "" in stop:
            raise ConfigError("a stop text is empty; leave it out")
        return self._generate(prompt, name, max_tokens, sampling or Sampling(), tuple(stop), next_use)

    def write(
        self,
        tokens: Sequence[int],
        *,
        prompt: str | None = None,
        name: str | None = None,
        next_use: int | None = None,
        end_token: int | None = None,
        look: Look | None = None,
    ) -> Segment:
        """Read a prompt, if there is one, and then tokens as if the model had written them.

        All or nothing: if it fails, prompt and answer are withdrawn.

        Args:
            tokens: of the answer, without the one that ends it; may be empty.
            prompt: the user's turn; None: an answer to what was read before.
            name: of the answer's segment.
            next_use: of the answer; as for :meth:`append`.
            end_token: with which the answer ends; None: the template's own.
            look: called with each token and the logits, shape [n_vocab], from before it is read.

        Raises:
            ConfigError: for a token that the model does not have, an empty prompt, or nothing to answer.
            CancelledError, ContextFullError, NativeError: as :meth:`append`.
        """
        n_vocab = self.model.shape.n_vocab
        for token in (*tokens, *(() if end_token is None else (end_token,))):
            if not 0 <= token < n_vocab:
                raise ConfigError(
                    f"token {token} is none of {self.model.name}; its tokens are 0 to {n_vocab - 1}"
                )
        self._check_prompt(prompt)
        with self._at_work(), self._all_or_nothing():
            self._start_turn()
            self._start_step(prompt)
            if prompt is not None:
                self._append(prompt, None, "user", False)
            segment = self._open_answer(name, next_use)
            for token in tokens:
                if look is not None:
                    look(token, self.engine.logits())
                began = time.perf_counter()
                self._cache.decode([token], segment)
                self._count_token(began)
            self._close_answer(end_token)
            self._turn_is_over = True
        return self.segments[segment.id]

    def _check_prompt(self, prompt: str | None) -> None:
        if prompt is not None and not prompt.strip():
            raise ConfigError("the prompt is empty; ask something")
        if prompt is None and self._role is None:
            raise ConfigError("there is nothing to answer; give a prompt, or append a text first")

    def _count_token(self, began: float) -> None:
        self._cache.counters.generated_tokens += 1
        self._cache.counters.generated_seconds += time.perf_counter() - began

    def _generate(
        self,
        prompt: str | None,
        name: str | None,
        max_tokens: int,
        sampling: Sampling,
        stop: tuple[str, ...],
        next_use: int | None,
    ) -> Iterator[Event]:
        with self._at_work(), self.engine.sampler(sampling) as sampler:
            self._start_turn()
            answer = AnswerText(stop)
            reason: FinishReason = "cancelled"
            segment = None
            queue: list[Event] = []
            self._queue = queue
            try:
                try:
                    with self._all_or_nothing():
                        self._start_step(prompt)
                        if prompt is not None:
                            self._append(prompt, None, "user", False)
                        segment = self._open_answer(name, next_use)
                    yield from self._drain(queue)
                    began = time.perf_counter()
                    for written in range(1, max_tokens + 1):
                        self._require_open()
                        token = sampler.sample(self.engine.ctx, -1)
                        if self.model.is_end(token):
                            reason = "stop"
                            self._close_answer(token)
                            break
                        self._cache.decode([token], segment)
                        self._count_token(began)
                        text, stopped = answer.add(self.model.piece(token))
                        if text:
                            self._emit(Text(text, written))
                        yield from self._drain(queue)
                        if stopped or written == max_tokens:
                            reason = "stop" if stopped else "length"
                            break
                        began = time.perf_counter()
                except CancelledError:
                    reason = "cancelled"
                finally:
                    if segment is not None and not self._pending and self.engine.ctx is not None:
                        self._close_answer(None)
                    self._turn_is_over = True
                rest = answer.finish()
                if rest:
                    written = self._cache.counters.generated_tokens - self._turn_start.generated_tokens
                    self._emit(Text(rest, written))
                self._emit(Finished(reason, answer.text, self.stats))
                yield from self._drain(queue)
            finally:
                self._queue = None

    def _open_answer(self, name: str | None, next_use: int | None) -> Segment:
        assert self._role is not None
        self._flush_pending()
        turn = self._next_turn()
        self._read_framing(
            self.model.tokenize(self._template.generation_prefix(self._role), special=True), turn
        )
        self._cache.begin_answer()
        return self._open_segment(name, "answer", turn, next_use=next_use)

    def _close_answer(self, end_token: int | None) -> None:
        """Leave the end of the turn to be read with what comes next."""
        answer = self.segments[len(self.segments) - 1]
        marks = self._entities(self.tokens_of(answer), answer)
        if marks is not None:
            self._cache.mark_entities(answer, marks)
        closing = self._template.close_turn("assistant")
        self._role = "assistant"
        if end_token is None:
            self._pending = self.model.tokenize(closing.text, special=True)
        elif closing.end and self.model.text_of([end_token]) == closing.end:
            self._pending = [end_token, *self.model.tokenize(closing.rest, special=True)]
        else:
            self._pending = self.model.tokenize(closing.text, special=True)

    def _flush_pending(self) -> None:
        if self._pending:
            pending, turn = self._pending, self._n_turns - 1
            self._read_framing(pending, turn)
            self._pending = []

    def cancel(self) -> None:
        """Stop what the session is doing within one micro-batch. From any thread or signal handler."""
        if self._working:
            self.engine.cancel()

    # Keeping order

    def check(self) -> None:
        """Compare the map with the native cache and check every invariant.

        Raises:
            AssertionError: a fault of this package.
        """
        self._cache.check()

    def _check_pins(self, name: str, tokens: int) -> None:
        held = sum(self._price(self.segments[i]) for i in self.segments.pinned)
        room = max(0, self.config.soft_budget - self.config.recent_tokens - self.policy.sinks)
        if held + tokens > room:
            raise ConfigError(
                f"{name!r} takes {tokens} tokens with its role markers, pinned segments {held}, and at most "
                f"{room} can be pinned in a budget of {self.config.budget}; pin less or raise the budget"
            )

    def _price(self, segment: Segment) -> int:
        """Tokens that stay if a segment does: its own and the role markers of its turn."""
        markers = sum(len(part) for part in self.segments.of_turn(segment) if part.kind == "framing")
        closing = len(self._pending) if segment.turn == self._n_turns - 1 else 0
        return markers + closing + (0 if segment.kind == "framing" else len(segment))

    def _require_open(self) -> None:
        if self.engine.ctx is None:
            raise ConfigError("the session is closed; make a new one")

    def _start_turn(self) -> None:
        if self._turn_is_over:
            self._turn_start = self._cache.counters.copy()
            self._turn_is_over = False

    def _next_turn(self) -> int:
        self._n_turns += 1
        return self._n_turns - 1

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._require_open()
            if self._working:
                raise ConfigError("the session is busy: finish or close the running generation first")
            self.engine.resume()
            self._working = True
        try:
            yield
        except BaseException:
            with suppress(StorageError):  # what went wrong first is what counts
                self._write_down()
            raise
        else:
            self._write_down()
        finally:
            self._arriving = None
            self._cache.is_answering = False
            self._working = False
            self.engine.resume()

    def _write_down(self) -> None:
        """Write what has changed to the disk, if the session is kept there."""
        if self._disk is not None and self.engine.ctx is not None:
            self.engine.resume()
            self._disk.write()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Withdraw all tokens that were read inside, if it fails. Evictions made for them stay."""
        tokens, segments, turns = len(self._cache.tokens), len(self.segments), self._n_turns
        role, prompt, pending, plan = self._role, self._prompt, self._pending, self._plan
        try:
            yield
        except BaseException:
            self._cache.withdraw(tokens)
            self.segments.truncate(segments)
            self._memory.forget_from(tokens, segments)
            if self._disk is not None:
                self._disk.withdrawn(tokens)
            self._n_turns, self._role, self._prompt, self._pending = turns, role, prompt, pending
            self._cache.told = {told for told in self._cache.told if told[0] < segments}
            self._mentioned = [segment for segment in self._mentioned if segment < segments]
            self._asked = [segment for segment in self._asked if segment < segments]
            if any(name not in self.segments for name in self._plan.next_use()):
                self._plan = plan  # a listener has planned to read what is no more
            raise

    # Events

    _queue: list[Event] | None = None

    def _emit(self, event: Event) -> None:
        """Tell the listener now, and whoever iterates over the answer when it asks next."""
        if self._disk is not None:
            self._disk.note(event)
        if self._queue is not None:
            self._queue.append(event)
        if self._listener is not None:
            self._listener(event)

    @staticmethod
    def _drain(queue: list[Event]) -> Iterator[Event]:
        yield from queue
        queue.clear()
