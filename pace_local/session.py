"""A session: a conversation of any length in a cache of a fixed size.

:class:`Session` owns the map from token indices to cells. It reads text turn by turn, lets the model
write, evicts by policy and plan within a hard budget, and renumbers residents before positions reach the
cap. It is single-threaded; only :meth:`Session.cancel` may be called from elsewhere.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pace_local.answer_text import AnswerText
from pace_local.checkpoints import Checkpoints
from pace_local.config import SessionConfig
from pace_local.entities import entity_tokens
from pace_local.errors import CancelledError, ConfigError
from pace_local.events import Event, Finished, FinishReason, Progress, Text
from pace_local.memory import Read
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.policies import policy_named
from pace_local.reasoning import Pairs, ReasoningSplit
from pace_local.sampling import Sampling, TokenSource, Writer
from pace_local.segments import CONTENT_KINDS, ROLE_OF_KIND, Kind, Segment, SegmentTable
from pace_local.session_cache import SessionCache
from pace_local.session_checks import check_model, check_positions, within_training
from pace_local.session_core import Listener
from pace_local.session_disk import SessionDisk
from pace_local.session_lasting import SessionLasting
from pace_local.session_memory import SessionMemory
from pace_local.sessions import StoredSession

Look = Callable[[int, npt.NDArray[np.float32]], None]
"""Takes a token and the logits, shape [n_vocab], from before it was read."""


class Session(SessionLasting):
    """One conversation with a model under a fixed budget.

    Args:
        model: must stay open while the session lives.
        config: settings; None: the defaults.
        listener: called with every event, also those of :meth:`append`.
        writer: chooses the tokens of answers; None: the model does.
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
        writer: Writer | None = None,
        folder: str | os.PathLike[str] | None = None,
        _stored: StoredSession | None = None,
        **settings: Any,
    ) -> None:
        config = (config or SessionConfig()).replace(**settings)
        self._disk: SessionDisk | None = None
        self.model = model
        self._writer = writer
        self.policy = policy_named(config.policy, config.policy_options)
        self.config = within_training(model, config, self.policy)
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
        try:
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
        except BaseException:
            self.engine.close()
            raise
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
            disk, self._disk = self._disk, None
            if disk is not None:
                disk.close(waits=not self._working)
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
            StorageError: if the session is kept on disk and cannot be written there.
        """
        if not text.strip():
            raise ConfigError(f"the text of {name or kind!r} is empty; give at least one character")
        if kind not in CONTENT_KINDS:
            raise ConfigError(f"segment kind {kind!r} is not one of {', '.join(CONTENT_KINDS)}")
        with self._at_work(), self._all_or_nothing():
            self._start_turn()
            if kind == "user" and not self._memory.wants_isolation(kind, name, isolated):
                self._start_step(text)
            segment = self._append(
                text, name, kind, kind == "system" if pinned is None else pinned, next_use, isolated
            )
            self._write_down()
        return segment

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
        before = self._pending or self._cache.tokens[-1:]
        implied = self.model.tokenize(frame.implied_system, special=True, after=before)
        opening = self.model.tokenize(frame.own_prefix, special=True, after=implied or before)
        content = self.model.tokenize(text, after=opening or implied or before)
        suffix = self.model.tokenize(frame.suffix, special=True, after=content)
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
            self._memory.note(segment.id, tokens)
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
        reasoning: Pairs = (),
    ) -> Iterator[Event]:
        """Read a prompt, if there is one, and let the model answer; events come as they happen.

        The answer becomes a segment of kind ``answer``; reasoning that it begins with, one of its own of kind
        ``reasoning``. Leaving the loop early ends the answer there. After :meth:`cancel` nothing is raised:
        the last event is ``Finished`` with the reason ``cancelled``, and a prompt that was not read whole is
        withdrawn.

        Args:
            prompt: the user's turn; None: answer to what was read before.
            name: of the answer's segment.
            max_tokens: longest answer, in tokens.
            sampling: None: greedy.
            stop: texts that end the answer; they are not part of it.
            next_use: of the answer, while it is written; as for :meth:`append`.
            reasoning: pairs of opening and closing texts of reasoning, such as ``[("<think>", "</think>")]``.

        Raises:
            ConfigError: for an empty prompt or a limit below 1, before anything is read.
            ContextFullError, NativeError: as :meth:`append`; the session can go on.
            StorageError: if the session is kept on disk and cannot be written there. The answer is part of it
                all the same, and is written with what comes next.
        """
        if max_tokens < 1:
            raise ConfigError(f"max_tokens {max_tokens} is out of range; use 1 or more")
        self._check_prompt(prompt)
        if "" in stop:
            raise ConfigError("a stop text is empty; leave it out")
        if any("" in pair for pair in reasoning):
            raise ConfigError("a text that opens or closes reasoning is empty; leave the pair out")
        return self._generate(
            prompt, name, max_tokens, sampling or Sampling(), tuple(stop), next_use, tuple(reasoning)
        )

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
            CancelledError, ContextFullError, NativeError, StorageError: as :meth:`append`.
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
            self._write_down()
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
        reasoning: Pairs,
    ) -> Iterator[Event]:
        with self._at_work(), self._token_source(sampling) as source:
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
                        split = ReasoningSplit(reasoning, self.answer_prefix)
                        if split.is_reasoning:
                            self.segments.set_kind(segment.id, "reasoning")
                    yield from self._drain(queue)
                    began = time.perf_counter()
                    for written in range(1, max_tokens + 1):
                        self._require_open()
                        token = source.sample(self.engine.ctx, -1)
                        if self.model.is_end(token):
                            reason = "stop"
                            self._close_answer(token)
                            break
                        self._cache.decode([token], segment)
                        self._count_token(began)
                        piece = self.model.piece(token)
                        segment = self._split_reasoning(split.add(piece), segment, name, next_use)
                        text, stopped = answer.add(piece)
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

    def _token_source(self, sampling: Sampling) -> AbstractContextManager[TokenSource]:
        if self._writer is not None:
            return self._writer.sampler(self.model, sampling)
        return self.engine.sampler(sampling)

    def _split_reasoning(
        self,
        border: Literal["opened", "closed"] | None,
        segment: Segment,
        name: str | None,
        next_use: int | None,
    ) -> Segment:
        """The segment that the next token belongs to."""
        if border is not None and self.segments[segment.id].kind == "answer":
            self.segments.set_kind(segment.id, "reasoning")
        if border != "closed":
            return segment
        self._mark_entities_of_answer()
        return self._open_segment(name, "answer", segment.turn, next_use=next_use)

    @property
    def answer_prefix(self) -> str:
        """What the template writes before the next answer; some open the model's reasoning in it."""
        return self._template.generation_prefix(self._role or "user")

    def _open_answer(self, name: str | None, next_use: int | None) -> Segment:
        self._flush_pending()
        turn = self._next_turn()
        prefix = self.model.tokenize(self.answer_prefix, special=True, after=self._cache.tokens[-1:])
        self._read_framing(prefix, turn)
        if not prefix:
            self._cache.look_again()
        self._cache.begin_answer()
        return self._open_segment(name, "answer", turn, next_use=next_use)

    def _close_answer(self, end_token: int | None) -> None:
        """Leave the end of the turn to be read with what comes next."""
        self._mark_entities_of_answer()
        if not len(self._plan):
            self._asked = []  # no step will end that reads it
        closing = self._template.close_turn("assistant")
        self._role = "assistant"
        if end_token is not None and closing.end and self.model.text_of([end_token]) == closing.end:
            rest = self.model.tokenize(closing.rest, special=True, after=[end_token])
            self._pending = [end_token, *rest]
        else:
            self._pending = self.model.tokenize(closing.text, special=True, after=self._cache.tokens[-1:])

    def _mark_entities_of_answer(self) -> None:
        answer = self.segments[len(self.segments) - 1]
        marks = self._entities(self.tokens_of(answer), answer)
        if marks is not None:
            self._cache.mark_entities(answer, marks)

    def _flush_pending(self) -> None:
        if self._pending:
            pending, turn = self._pending, self._n_turns - 1
            self._read_framing(pending, turn)
            self._pending = []
