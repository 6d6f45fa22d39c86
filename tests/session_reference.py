"""What a session must do, written the slow and obvious way, to compare the real one with.

It knows no model: which tokens an answer has is told to it. All else it works out by itself: segments, turns,
role markers, chunks, what is withdrawn, and every event but the pieces of the answer; what happens in its
cache is in ``cache_reference``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from cache_reference import CacheReference, Part, Stopped
from session_turns import Turns

from pace_local.memory import Read

ROLES = {"system": "system", "answer": "assistant", "reasoning": "assistant"}
KINDS = ("system", "user", "file", "tool", "answer", "reasoning", "plan", "text")
ANY_TOKEN = 0


@dataclass
class SessionReference(CacheReference):
    """A session without a model."""

    turns: Turns = field(kw_only=True)
    tokenize: Callable[[str], list[int]] = field(kw_only=True)
    role: str | None = None
    checkpoints: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What each of them brings back, by its id."""
    n_checkpoints: int = 0

    # Operations

    def append(
        self,
        text: str,
        name: str | None,
        kind: str,
        pinned: bool | None,
        next_use: int | None = None,
        cancel_at_event: int | None = None,
    ) -> str:
        """How :meth:`Session.append` ends: "done", or what stopped it."""
        self._begin(cancel_at_event)
        if not text.strip() or kind not in KINDS:
            return "config"
        try:
            with self._all_or_nothing():
                self._append(text, name, kind, kind == "system" if pinned is None else pinned, next_use)
        except Stopped as stopped:
            return stopped.status
        return "done"

    def generate(
        self,
        prompt: str | None,
        name: str | None,
        answer: Sequence[int],
        ending: str,
        *,
        ended_by_itself: bool = False,
        next_use: int | None = None,
        cancel_at_event: int | None = None,
        cancel_after: int | None = None,
    ) -> str:
        """How :meth:`Session.generate` ends, given the tokens that it wrote and how they say it ended.

        Args:
            prompt: as there.
            name: as there.
            answer: the tokens that were written.
            ending: "length", "stop" or "closed" where the answer itself ended it, else what stopped it;
                then one more token is tried here, and must be stopped likewise.
            ended_by_itself: whether the model wrote a token that ends an answer.
            next_use: as there.
            cancel_at_event: number of the event, from 1, at which the listener cancelled.
            cancel_after: number of the token after which it did.
        """
        self._begin(cancel_at_event)
        try:
            with self._all_or_nothing():
                if prompt is not None:
                    self._append(prompt, None, "user", False)
                segment = self._open_answer(name, next_use)
        except Stopped as stopped:
            if stopped.status == "cancelled":
                self._emit("finished", "cancelled")
            return stopped.status
        for number, token in enumerate(answer, 1):
            self._decode([token], segment)
            if number == cancel_after:
                self.cancelled = True
        if ending not in ("length", "stop", "closed"):
            try:
                self._decode([ANY_TOKEN], segment)
            except Stopped as stopped:
                ending = stopped.status
            else:
                raise AssertionError(f"nothing stops the answer after {len(answer)} tokens, but it {ending}")
        self.pending = self.turns.closing(ended_by_itself)
        self.role = "assistant"
        if ending in ("length", "stop", "cancelled"):
            self._emit("finished", ending)
        return ending

    def pin(self, name: str, pinned: bool) -> str:
        """How :meth:`Session.pin` ends."""
        number = next(i for i, part in enumerate(self.parts) if part.name == name)
        part = self.parts[number]
        if pinned and not part.pinned and not self._can_pin(self._price(part)):
            return "config"
        self.parts[number] = replace(part, pinned=pinned)
        return "done"

    def plan(self, steps: list[tuple[str, ...]]) -> None:
        self.steps, self.told = steps, set()

    def step_done(self) -> None:
        self.steps = self.steps[1:]

    # Checkpoints

    RESTORED: ClassVar[tuple[str, ...]] = (
        "tokens",
        "owner",
        "parts",
        "slots",
        "steps",
        "n_turns",
        "prompt",
        "pending",
        "role",
        "since_eviction",
    )
    """All that a checkpoint brings back."""

    def checkpoint(self) -> int:
        """Its id."""
        self._begin(None)
        self.n_checkpoints += 1
        now = {name: copy.copy(getattr(self, name)) for name in self.RESTORED}
        self.checkpoints[self.n_checkpoints] = now
        return self.n_checkpoints

    def restore(self, checkpoint: int) -> str:
        """How :meth:`Session.restore` ends."""
        self._begin(None)
        if checkpoint not in self.checkpoints:
            return "config"
        length, held = len(self.tokens), {slot.index for slot in self.slots}
        for name, value in self.checkpoints[checkpoint].items():
            setattr(self, name, copy.copy(value))
        self.checkpoints = {made: state for made, state in self.checkpoints.items() if made <= checkpoint}
        loaded = len([slot for slot in self.slots if slot.index not in held])
        self._emit("restored", checkpoint, length - len(self.tokens), loaded)
        return "done"

    def drop_checkpoint(self, checkpoint: int) -> str:
        """How :meth:`Session.drop_checkpoint` ends."""
        return "config" if self.checkpoints.pop(checkpoint, None) is None else "done"

    # Figures

    def read_figures(self) -> list[tuple[str, int, int, int, int | None, int | None]]:
        """Name, step, tokens, resident tokens, nearest and farthest distance of each planned read."""
        figures = []
        for name, step in self._next_use().items():
            part = next(part for part in self.parts if part.name == name)
            away = [
                self.next_position() - slot.position
                for slot in self.slots
                if part.start <= slot.index < part.end
            ]
            figures.append(
                (
                    name,
                    step,
                    part.end - part.start,
                    len(away),
                    min(away, default=None),
                    max(away, default=None),
                )
            )
        return figures

    # Reading and writing

    def _begin(self, cancel_at_event: int | None) -> None:
        self.events, self.cancelled, self.cancel_at_event = [], False, cancel_at_event
        self.arriving = None

    def _append(
        self, text: str, name: str | None, kind: str, pinned: bool, next_use: int | None = None
    ) -> None:
        role = ROLES.get(kind, "user")
        implied, opening = self.turns.opening(role, self.role)
        content = self.tokenize(text)
        suffix = self.turns.suffix(role, self.role is None, self.role)
        price = len(opening) + len(content) + len(suffix) if pinned else 0
        if (implied or pinned) and not self._can_pin(len(implied) + price):
            raise Stopped("config")
        self._flush_pending()
        if implied:
            self._read(implied, "system", "system", self._next_turn(), pinned=True)
        turn = self._next_turn()
        self._read_framing(opening, turn)
        segment = self._read(content, name, kind, turn, pinned=pinned, next_use=next_use)
        self._read_framing(suffix, turn)
        self.role = role
        if kind == "user":
            self.prompt = segment

    def _open_answer(self, name: str | None, next_use: int | None) -> int:
        assert self.role is not None
        self._flush_pending()
        turn = self._next_turn()
        self._read_framing(self.turns.generation(self.role), turn)
        return self._add_part(name, "answer", turn, pinned=False, next_use=next_use)

    def _flush_pending(self) -> None:
        self._read_framing(self.pending, self.n_turns - 1)
        self.pending = []

    def _next_turn(self) -> int:
        self.n_turns += 1
        return self.n_turns - 1

    def _read_framing(self, tokens: Sequence[int], turn: int) -> None:
        if tokens:
            self._read(tokens, None, "framing", turn)

    def _read(
        self,
        tokens: Sequence[int],
        name: str | None,
        kind: str,
        turn: int,
        pinned: bool = False,
        next_use: int | None = None,
    ) -> int:
        segment = self._add_part(name, kind, turn, pinned, next_use)
        size = self.config.headroom
        for first in range(0, len(tokens), size):
            self._decode(tokens[first : first + size], segment)
            if kind != "framing":
                self._emit("progress", min(first + size, len(tokens)), len(tokens))
        return segment

    def _add_part(
        self, name: str | None, kind: str, turn: int, pinned: bool, next_use: int | None = None
    ) -> int:
        wanted = name or f"{kind}:{turn}"
        names = {part.name for part in self.parts}
        number = 2
        unique = wanted
        while unique in names:
            unique, number = f"{wanted}#{number}", number + 1
        self.parts.append(Part(unique, kind, len(self.tokens), len(self.tokens), turn, pinned))
        if next_use is not None:
            self.arriving = Read(len(self.parts) - 1, next_use)
        return len(self.parts) - 1

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        n, parts, turns = len(self.tokens), len(self.parts), self.n_turns
        role, prompt, pending = self.role, self.prompt, self.pending
        try:
            yield
        except Stopped:
            del self.tokens[n:], self.owner[n:], self.parts[parts:]
            self.slots = [slot for slot in self.slots if slot.index < n]
            self.n_turns, self.role, self.prompt, self.pending = turns, role, prompt, pending
            self.told = {told for told in self.told if told[0] < parts}
            raise
