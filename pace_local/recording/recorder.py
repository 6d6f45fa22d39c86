"""A session that writes down what it is told and what it answers.

The file is JSON Lines: a header, then a line a turn, written and flushed when the turn is over. A process
that is killed leaves a file that can be read up to its last whole line. What fails and is withdrawn is not
written.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from pace_local.config import SessionConfig
from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.events import Event, Finished, FinishReason
from pace_local.model import Model
from pace_local.plan import Plan
from pace_local.reasoning import Pairs
from pace_local.recording.reader import header_document
from pace_local.recording.turns import (
    Appended,
    Generated,
    Pinned,
    Planned,
    StepDone,
    Turn,
    as_document,
    checksum_of,
)
from pace_local.sampling import Sampling
from pace_local.segments import Kind, Segment
from pace_local.session import Look, Session
from pace_local.session_core import Listener
from pace_local.session_steps import SessionSteps


class RecordedSession(Session):
    """A session whose turns are written to a file.

    A plan, a step or a pin that is set while a turn runs is written after that turn, since what it names may
    come with the turn.

    Args:
        model: must stay open while the session lives.
        recording: path of the file; there must be none yet.
        sha256: of the model's file, if it is known.
        config: settings; None: the defaults.
        listener: called with every event.
        settings: fields of :class:`SessionConfig` that differ from ``config``.

    Raises:
        FileError: if there is a file of that name already.
        StorageError: if it cannot be written; so does every method whose turn cannot be written. That turn
            is part of the session then, and the recording ends before it.
        ConfigError, ModelError: as :class:`Session`.
    """

    def __init__(
        self,
        model: Model,
        recording: str | os.PathLike[str],
        *,
        sha256: str | None = None,
        config: SessionConfig | None = None,
        listener: Listener | None = None,
        **settings: Any,
    ) -> None:
        self._file: _LineFile | None = None
        refuse_existing(recording)
        super().__init__(model, config=config, listener=listener, **settings)
        self._length = self._checksum = 0
        self._written_plan = Plan()
        self._end_token: int | None = None
        self._is_recording_turn = False
        self._plan_was_set = False
        self._pins: dict[str, bool] = {}
        try:
            self._file = _LineFile(Path(recording))
            self._file.write(header_document(model.name, sha256, self.config))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the cache and close the file. Safe to call twice."""
        super().close()
        if self._file is not None:
            self._file.close()

    # Plan and pins

    @property
    def plan(self) -> Plan:
        """Steps still to do; as in :class:`Session`."""
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        _set_plan(self, plan)
        self._plan_was_set = True
        self._write_changes()

    def revise(self, plan: Plan) -> None:
        """Change the plan while its nearest step goes on. A replay begins that step anew."""
        super().revise(plan)
        self._plan_was_set = True
        self._write_changes()

    def step_done(self) -> None:
        """The nearest step of the plan is done: go on to the next."""
        super().step_done()
        if self._is_recording_turn:
            self._plan_was_set = True
        else:
            self._written_plan = self._plan
            self._write(StepDone())

    def pin(self, name: str, pinned: bool = True) -> None:
        """Keep a segment whatever happens, or no longer; as :meth:`Session.pin`."""
        super().pin(name, pinned)
        self._pins[name] = pinned
        self._write_changes()

    # Turns

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
        """Read a text as one chat turn; as :meth:`Session.append`."""
        with self._turn():
            segment = super().append(
                text, name=name, kind=kind, pinned=pinned, next_use=next_use, isolated=isolated
            )
            length, checksum = self._mark()
            # What a listener has pinned meanwhile is written as a pin of its own.
            asked = kind == "system" if pinned is None else pinned
            self._write(Appended(text, kind, segment.name, asked, next_use, length, checksum, isolated))
        return segment

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
        """Read a prompt, if there is one, and let the model answer; as :meth:`Session.generate`.

        Reasoning is written with the answer that it belongs to, and is a part of it when that is replayed.
        """
        stream = super().generate(
            prompt,
            name=name,
            max_tokens=max_tokens,
            sampling=sampling,
            stop=stop,
            next_use=next_use,
            reasoning=reasoning,
        )
        return self._record(stream, prompt, next_use)

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
        """Read a prompt, if there is one, and then tokens as if the model had written them."""
        with self._turn():
            first = len(self.segments)
            segment = super().write(
                tokens, prompt=prompt, name=name, next_use=next_use, end_token=end_token, look=look
            )
            self._write_answer(first, prompt, next_use, self.text_of(segment), "stop")
        return segment

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within this, nothing is recorded: after it the session is as before."""
        file, self._file = self._file, None
        before = self._length, self._checksum, self._written_plan, dict(self._pins)
        try:
            with super().aside():
                yield
        finally:
            self._file = file
            self._length, self._checksum, self._written_plan, self._pins = before
            self._plan_was_set = False

    def checkpoint(self) -> int:
        """Not while it is recorded: a recording cannot take back what was read.

        Raises:
            ConfigError: with what to do.
        """
        if self._file is not None:
            raise ConfigError("a session that is recorded cannot go back; make a Session, or use aside()")
        return super().checkpoint()

    @classmethod
    def open(cls, *_: object, **__: object) -> NoReturn:
        """Not possible: a recording begins where its session does.

        Raises:
            ConfigError: with what to do.
        """
        raise ConfigError("a recording begins with its session; go on with one from disk by Session.open")

    def _record(self, stream: Iterator[Event], prompt: str | None, next_use: int | None) -> Iterator[Event]:
        assert isinstance(stream, Generator)
        with self._turn():
            first = len(self.segments)
            text, finish = "", None
            self._end_token = None
            try:
                with contextlib.closing(stream):
                    for event in stream:
                        text += event.text
                        if isinstance(event, Finished):
                            text, finish = event.answer, event.reason
                        yield event
            finally:
                self._write_answer(first, prompt, next_use, text, finish or "cancelled")

    def _write_answer(
        self, first: int, prompt: str | None, next_use: int | None, text: str, finish: FinishReason
    ) -> None:
        """Write the answer that was opened after the first so many segments, if there is one."""
        for number in range(len(self.segments) - 1, first - 1, -1):
            answer = self.segments[number]
            if answer.kind in ("answer", "reasoning"):
                before = self.segments[number - 1] if number else answer
                start = (
                    before.start
                    if before.kind == "reasoning" and before.turn == answer.turn
                    else answer.start
                )
                tokens = tuple(self.tokens[start : answer.end])
                length, checksum = self._mark()
                self._write(
                    Generated(
                        prompt, answer.name, tokens, self._end_token, text, finish, next_use, length, checksum
                    )
                )
                return

    def _close_answer(self, end_token: int | None) -> None:
        super()._close_answer(end_token)
        self._end_token = end_token

    # Writing

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """A turn: what is planned and pinned inside is written when it is over."""
        if self._is_recording_turn:  # a second one meanwhile: the session refuses it
            yield
            return
        self._is_recording_turn = True
        try:
            yield
        finally:
            self._is_recording_turn = False
            self._write_changes()

    def _mark(self) -> tuple[int, int]:
        """Length of the session, and the checksum of its tokens."""
        tokens = self.tokens
        self._checksum = checksum_of(tokens[self._length :], self._checksum)
        self._length = len(tokens)
        return self._length, self._checksum

    def _write_changes(self) -> None:
        if self._is_recording_turn:
            return
        pins, self._pins = self._pins, {}
        for name, pinned in pins.items():
            if name in self.segments:
                self._write(Pinned(name, pinned))
        if self._plan_was_set and self._plan != self._written_plan:
            self._written_plan = self._plan
            self._write(Planned(self._plan.steps))
        self._plan_was_set = False

    def _write(self, turn: Turn) -> None:
        if self._file is not None:
            self._file.write(as_document(turn))


def refuse_existing(path: str | os.PathLike[str]) -> None:
    """Refuse a path for a new recording where something is already.

    Raises:
        FileError: with what to do.
    """
    if os.path.lexists(path):
        raise FileError(f"{os.fspath(path)} is there already; give the recording another name or delete it")


def _set_plan(session: Session, plan: Plan) -> None:
    """Assign a plan as :class:`Session` does; Python has no ``super()`` for setters."""
    setter = vars(SessionSteps)["plan"].fset
    setter(session, plan)


class _LineFile:
    """A new file that gets JSON objects, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        try:
            # In ASCII, so that any text can be written, also half of a surrogate pair.
            self._file = path.open("x", encoding="ascii", newline="\n")
        except FileExistsError:
            refuse_existing(path)
            raise
        except OSError as error:
            raise self._failure(error) from error

    def write(self, document: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(document, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as error:
            # Nothing may follow half a line.
            self.close()
            raise self._failure(error) from error

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # it was flushed, or that was reported
                file.close()

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write the recording {self._path}: {error.strerror}")
