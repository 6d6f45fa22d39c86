"""What a session must do, written the slow and obvious way, to compare the real one with.

It knows no model: which tokens an answer has is told to it. All else it works out by itself: segments,
turns, role markers, chunks, evictions, positions, failures, what is withdrawn, and every event but the
pieces of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from keep_reference import Resident, slow_keep

from pace_local import Model, SessionConfig
from pace_local.memory import Read, Reason
from pace_local.policies import Policy

ROLES = {"system": "system", "answer": "assistant", "reasoning": "assistant"}
KINDS = ("system", "user", "file", "tool", "answer", "reasoning", "plan", "text")
SINKS = 4
ANY_TOKEN = 0

Event = tuple[object, ...]


class Turns(Protocol):
    """The text around turns, as tokens."""

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        """The default system turn that comes first, if there is one, and what opens the turn."""

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]: ...

    def generation(self, previous: str) -> list[int]: ...

    def closing(self, ended_by_itself: bool) -> list[int]:
        """What is left to read of an answer's turn, the token that ended it included."""


class TinyTurns:
    """ChatML with a default system prompt, spelled out."""

    def __init__(self, model: Model) -> None:
        self._tokens: Callable[[str], list[int]] = lambda text: model.tokenize(text, special=True)

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        implied = ""
        if previous is None and role != "system":
            implied = "<|im_start|>system\nYou are a tiny model that answers at random.<|im_end|>\n"
        return self._tokens(implied), self._tokens(f"<|im_start|>{role}\n")

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]:
        return self._tokens("<|im_end|>\n")

    def generation(self, previous: str) -> list[int]:
        return self._tokens("<|im_start|>assistant\n")

    def closing(self, ended_by_itself: bool) -> list[int]:
        return self._tokens("<|im_end|>\n")


class ModelTurns:
    """The turns of any model, by its own template: a reference that shares a part with what is tested."""

    def __init__(self, model: Model) -> None:
        self._template = model.chat_template()
        self._bos = model.bos
        self._tokens: Callable[[str], list[int]] = lambda text: model.tokenize(text, special=True)

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        frame = self._template.frame(role, first=previous is None, previous=previous)
        implied, own = self._tokens(frame.implied_system), self._tokens(frame.own_prefix)
        if previous is None and self._bos is not None and not frame.has_bos:
            (implied or own).insert(0, self._bos)
        return implied, own

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]:
        return self._tokens(self._template.frame(role, first=first, previous=previous).suffix)

    def generation(self, previous: str) -> list[int]:
        return self._tokens(self._template.generation_prefix(previous))

    def closing(self, ended_by_itself: bool) -> list[int]:
        closing = self._template.close_turn("assistant")
        return self._tokens(closing.end + closing.rest if ended_by_itself else closing.text)


class Stopped(Exception):  # noqa: N818 - a way out, as in the session
    """An operation ends here; ``status`` says why: "cancelled", "full", "config" or a native status."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Part:
    """A segment."""

    name: str
    kind: str
    start: int
    end: int
    turn: int
    pinned: bool


@dataclass(frozen=True)
class Slot:
    """A resident."""

    index: int
    position: int


@dataclass
class Totals:
    """Counts over the whole session."""

    evicted: int = 0
    evictions: int = 0
    renumberings: int = 0
    highest_position: int = -1


@dataclass
class SessionReference:
    """A session without a model."""

    config: SessionConfig
    policy: Policy
    turns: Turns
    tokenize: Callable[[str], list[int]]

    tokens: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    """Number of the part that each token belongs to."""
    slots: list[Slot] = field(default_factory=list)
    steps: list[tuple[str, ...]] = field(default_factory=list)
    """Names that each step of the plan reads."""
    events: list[Event] = field(default_factory=list)
    """Of the running operation, or the last one."""
    totals: Totals = field(default_factory=Totals)
    reasons: list[Reason] | None = None
    fail_next: str = "nowhere"

    role: str | None = None
    n_turns: int = 0
    prompt: int | None = None
    pending: list[int] = field(default_factory=list)
    arriving: Read | None = None
    """What is being read or written, if a step was said to read it."""
    told: set[tuple[int, int, int]] = field(default_factory=set)
    cancelled: bool = False
    cancel_at_event: int | None = None

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

    # Figures

    def next_position(self) -> int:
        return self.slots[-1].position + 1 if self.slots else 0

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

    # The cache

    def _decode(self, tokens: Sequence[int], segment: int) -> None:
        if not self.policy.evicts and len(self.slots) + len(tokens) > self.config.budget:
            raise Stopped("full")
        if self.bounds_positions and self.next_position() + len(tokens) > self.config.position_cap:
            self._renumber()
        if self.cancelled:
            raise Stopped("cancelled")
        slots, n, part = list(self.slots), len(self.tokens), self.parts[segment]
        for token in tokens:
            self.slots.append(Slot(len(self.tokens), self.next_position()))
            self.tokens.append(token)
            self.owner.append(segment)
        self.parts[segment] = replace(part, end=len(self.tokens))
        self.totals.highest_position = max(self.totals.highest_position, self.next_position() - 1)
        if len(self.slots) > self.config.budget:
            try:
                self._evict()
            except Stopped:
                self.slots, self.parts[segment] = slots, part
                del self.tokens[n:], self.owner[n:]
                raise

    @property
    def bounds_positions(self) -> bool:
        asked = self.config.bound_positions
        return self.policy.bounds_positions if asked is None else asked

    def _evict(self) -> None:
        self._fail_at("plan", "NO_MEMORY")
        residents = []
        for slot in self.slots:
            segment = self.owner[slot.index]
            part = self.parts[segment]
            residents.append(Resident(slot.index, segment, part.turn, part.kind == "framing"))
        self.reasons, partial = slow_keep(
            residents,
            [resident.index for resident in residents],
            target=math.floor(self.config.budget * self.config.soft_target),
            recent=self._recent(),
            reads=self._reads(),
            pinned=frozenset(i for i, part in enumerate(self.parts) if part.pinned),
            sinks=SINKS,
            reads_plan=self.policy.reads_plan,
        )
        lost: dict[str, int] = {}
        for reason, resident in zip(self.reasons, residents, strict=True):
            if reason == Reason.EVICTED:
                name = self.parts[resident.segment].name
                lost[name] = lost.get(name, 0) + 1
        stays = [reason != Reason.EVICTED for reason in self.reasons]
        self.slots = [slot for slot, stay in zip(self.slots, stays, strict=True) if stay]
        self.totals.evicted += sum(lost.values())
        self.totals.evictions += 1
        self._emit("evicted", sum(lost.values()), len(self.slots), lost)
        for read in partial:
            told = (read.segment, read.step, read.kept)
            if told not in self.told:
                self.told.add(told)
                name = self.parts[read.segment].name
                self._emit("reads_over_budget", read.step, name, read.kept, read.resident)

    def _renumber(self) -> None:
        n, before = len(self.slots), self.next_position()
        self._fail_at("plan", "NO_MEMORY")
        self._fail_at("allocate", "NO_MEMORY")
        self.slots = [Slot(slot.index, position) for position, slot in enumerate(self.slots)]
        if self.fail_next == "compute":
            self.fail_next = "nowhere"
            self._emit("rebuilt", n)
        self.totals.renumberings += 1
        self._emit("renumbered", n, before, n)

    def _fail_at(self, point: str, status: str) -> None:
        if self.fail_next == point:
            self.fail_next = "nowhere"
            raise Stopped(status)

    def _reads(self) -> list[Read]:
        reads = [] if self.prompt is None else [Read(self.prompt, 0)]
        number_of = {part.name: i for i, part in enumerate(self.parts)}
        planned = [Read(number_of[name], step) for name, step in self._next_use().items()]
        if self.arriving is not None and self.arriving.segment not in {read.segment for read in planned}:
            planned.append(self.arriving)
        planned.sort(key=lambda read: read.step)
        return reads + [read for read in planned if read.segment != self.prompt]

    def _next_use(self) -> dict[str, int]:
        uses: dict[str, int] = {}
        for step, names in enumerate(self.steps):
            for name in names:
                uses.setdefault(name, step)
        return uses

    # Pins

    def _recent(self) -> int:
        return self.config.budget // 8 if self.config.recent is None else self.config.recent

    def _can_pin(self, price: int) -> bool:
        held = sum(self._price(part) for part in self.parts if part.pinned)
        target = math.floor(self.config.budget * self.config.soft_target)
        return held + price <= target - self._recent() - SINKS

    def _price(self, part: Part) -> int:
        """A segment's tokens, and all role markers of its turn, those included that are still to come."""
        markers = sum(p.end - p.start for p in self.parts if p.turn == part.turn and p.kind == "framing")
        if part.turn == self.n_turns - 1:
            markers += len(self.pending)
        return markers if part.kind == "framing" else markers + part.end - part.start

    # Events

    def _emit(self, *event: object) -> None:
        self.events.append(event)
        if len(self.events) == self.cancel_at_event:
            self.cancelled = True
