"""A real session and its slow reference, driven together and compared after every operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from session_reference import KINDS, Event, SessionReference, TinyTurns, Turns

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError, ContextFullError, NativeError, PaceError
from pace_local.testing import TinySpec

QUICK = TinySpec(n_layer=2, n_head=2, n_head_kv=1, head_dim=8, n_ff=16, speech="ends")
"""A model for tests that make thousands of decodes; now and then it ends an answer by itself."""

TALKER = replace(QUICK, speech="text")
"""The same, but it never ends an answer by itself."""


def tiny_session(model: Model, **settings: Any) -> Session:
    """A session that evicts and renumbers soon, and checks itself after each decode."""
    tight = {"budget": 96, "headroom": 16, "position_cap": 160, "threads": 1, "check": True}
    return Session(model, **{**tight, **settings})


class Scripted:
    """A sampler that says what a test wants it to say."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = iter(tokens)

    def sample(self, ctx: object, index: int = -1) -> int:
        return next(self._tokens)

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def before_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the stop text that is complete first."""
    places = [(text.index(end) + len(end), text.index(end)) for end in stop if end in text]
    return text[: min(places)[1]] if places else text


def status_of(error: PaceError) -> str:
    """The reference's word for an error."""
    if isinstance(error, NativeError):
        return error.status
    return {CancelledError: "cancelled", ContextFullError: "full", ConfigError: "config"}[type(error)]


def plain(event: events.Event) -> Event:
    """An event without its times, as the reference has it."""
    match event:
        case events.Progress(done, total):
            return "progress", done, total
        case events.Evicted(count, residents, segments):
            return "evicted", count, residents, segments
        case events.Renumbered(residents, from_position, next_position):
            return "renumbered", residents, from_position, next_position
        case events.ReadsOverBudget(step, segment, kept, resident):
            return "reads_over_budget", step, segment, kept, resident
        case events.Rebuilt(residents):
            return "rebuilt", residents
        case events.Finished(reason):
            return "finished", reason
    raise AssertionError(f"unknown event {event}")


@dataclass
class Watch:
    """The listener of the session: keeps what it hears, and cancels when it was told to."""

    session: Session | None = None
    heard: list[events.Event] = field(default_factory=list)
    cancel_at_event: int | None = None
    """Number of the event, from 1, pieces of the answer apart."""
    cancel_at_text: int | None = None
    """Number of the piece of the answer, from 1."""
    cancelled_after: int | None = None
    """Tokens of the answer when a piece of it made us cancel."""

    def begin(self, cancel_at_event: int | None, cancel_at_text: int | None = None) -> None:
        self.heard = []
        self.cancel_at_event, self.cancel_at_text, self.cancelled_after = (
            cancel_at_event,
            cancel_at_text,
            None,
        )

    def __call__(self, event: events.Event) -> None:
        assert self.session is not None
        self.heard.append(event)
        if isinstance(event, events.Text):
            if len(self.texts) == self.cancel_at_text:
                self.cancelled_after = event.tokens
                self.session.cancel()
        elif len(self.others) == self.cancel_at_event:
            self.session.cancel()

    @property
    def texts(self) -> list[events.Text]:
        return [event for event in self.heard if isinstance(event, events.Text)]

    @property
    def others(self) -> list[events.Event]:
        return [event for event in self.heard if not isinstance(event, events.Text)]


class SessionPair:
    """Two sessions that must agree.

    Every method does one thing to both and raises AssertionError where they differ.

    Args:
        model: of the real session.
        turns: how the reference frames turns; None: the tiny models' ChatML.
        settings: of both.
    """

    def __init__(self, model: Model, turns: Turns | None = None, **settings: Any) -> None:
        self.model = model
        self.watch = Watch()
        self.real = Session(model, listener=self.watch, threads=1, check=True, **settings)
        self.watch.session = self.real
        self.reference = SessionReference(
            self.real.config, self.real.policy, turns or TinyTurns(model), model.tokenize
        )
        self._compared = 0
        self._turn_start = (0, 0, 0)
        self._turn_is_over = False

    def close(self) -> None:
        self.real.close()

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.reference.parts]

    # Operations

    def append(
        self,
        text: str,
        *,
        name: str | None = None,
        kind: str = "user",
        pinned: bool | None = None,
        next_use: int | None = None,
        cancel_at_event: int | None = None,
    ) -> str:
        """Returns how it ended: "done", or what stopped it."""
        self.watch.begin(cancel_at_event)
        if text.strip() and kind in KINDS:
            self._start_turn()
        ending = "done"
        try:
            segment = self.real.append(
                text, name=name, kind=kind, pinned=pinned, next_use=next_use  # type: ignore[arg-type]
            )  # fmt: skip
        except PaceError as error:
            ending = status_of(error)
        expected = self.reference.append(text, name, kind, pinned, next_use, cancel_at_event)
        assert ending == expected, f"append ended with {ending}, not {expected}"
        if ending == "done":
            assert self.real.tokens_of(segment) == self.model.tokenize(text)
        self.compare()
        return ending

    def generate(
        self,
        prompt: str | None,
        *,
        name: str | None = None,
        max_tokens: int = 8,
        stop: Sequence[str] = (),
        next_use: int | None = None,
        close_after: int | None = None,
        cancel_at_event: int | None = None,
        cancel_at_text: int | None = None,
    ) -> str:
        """Returns how it ended: "length", "stop", "closed", or what stopped it.

        ``close_after`` is how many events are taken before the loop is left.
        """
        self.watch.begin(cancel_at_event, cancel_at_text)
        self._start_turn()
        parts, ending, seen = len(self.reference.parts), "closed", []
        stream = self.real.generate(prompt, name=name, max_tokens=max_tokens, stop=stop, next_use=next_use)
        try:
            for event in stream:
                seen.append(event)
                if len(seen) == close_after:
                    break
        except PaceError as error:
            ending = status_of(error)
        stream.close()  # type: ignore[attr-defined]
        self._turn_is_over = True
        finished = self.watch.heard[-1] if self.watch.heard else None
        if isinstance(finished, events.Finished):
            ending = finished.reason  # also where the loop was left before it came to that event
        answer = self._answer_after(parts)
        by_itself = ending == "stop" and not self._stopped_by(stop, answer)
        expected = self.reference.generate(
            prompt,
            name,
            answer,
            ending,
            ended_by_itself=by_itself,
            next_use=next_use,
            cancel_at_event=cancel_at_event,
            cancel_after=self.watch.cancelled_after,
        )
        assert ending == expected, f"the answer ended with {ending}, not {expected}"
        assert seen == self.watch.heard[: len(seen)], "the listener heard something else"
        self._check_answer(answer, ending, max_tokens, stop)
        self.compare(closed=ending == "closed")
        return ending

    def plan(self, steps: Iterable[Iterable[str]]) -> None:
        reads = [tuple(names) for names in steps]
        self.real.plan = Plan([Step(f"step {number}", names) for number, names in enumerate(reads)])
        self.reference.plan(reads)
        self.compare_figures()

    def step_done(self) -> None:
        self.real.step_done()
        self.reference.step_done()
        self.compare_figures()

    def pin(self, name: str, pinned: bool) -> str:
        ending = "done"
        try:
            self.real.pin(name, pinned)
        except PaceError as error:
            ending = status_of(error)
        expected = self.reference.pin(name, pinned)
        assert ending == expected, f"pin ended with {ending}, not {expected}"
        self.compare_state()
        return ending

    def inject(self, point: str) -> None:
        """Make the next native operation fail at a point."""
        assert self.real.engine.cache is not None
        self.real.engine.cache.fail_next(point)
        self.reference.fail_next = point

    # Comparing

    def compare(self, closed: bool = False) -> None:
        heard = [plain(event) for event in self.watch.others]
        assert heard == self.reference.events, f"heard {heard}, not {self.reference.events}"
        self.compare_state()
        self.compare_figures()

    def compare_state(self) -> None:
        real, reference = self.real, self.reference
        real.check()
        assert [
            (part.name, part.kind, part.start, part.end, part.turn, part.pinned) for part in real.segments
        ] == [
            (part.name, part.kind, part.start, part.end, part.turn, part.pinned) for part in reference.parts
        ]
        assert real.session_length == len(reference.tokens)
        assert list(real.residents.token_index) == [slot.index for slot in reference.slots]
        assert list(real.residents.position) == [slot.position for slot in reference.slots]
        assert list(real.residents.segment) == [reference.owner[slot.index] for slot in reference.slots]
        assert real.next_position == reference.next_position()
        self._compared = min(self._compared, real.session_length)
        for segment in real.segments:
            if segment.end > self._compared:
                assert real.tokens_of(segment) == reference.tokens[segment.start : segment.end]
        self._compared = real.session_length
        if reference.reasons is not None:
            assert real.last_keep is not None
            assert list(real.last_keep.reasons) == reference.reasons
            assert np.array_equal(real.last_keep.keep, np.flatnonzero(reference.reasons))

    def compare_figures(self) -> None:
        stats, totals = self.real.stats, self.reference.totals
        assert (stats.session_tokens, stats.residents) == (
            len(self.reference.tokens),
            len(self.reference.slots),
        )
        assert stats.highest_position == totals.highest_position
        assert stats.evicted_in_session == totals.evicted
        assert stats.renumberings_in_session == totals.renumberings
        assert (stats.evicted, stats.evictions, stats.renumberings) == tuple(
            now - then for now, then in zip(self._counts(), self._turn_start, strict=True)
        )
        assert [
            (read.name, read.step, read.tokens, read.resident, read.nearest, read.farthest)
            for read in stats.reads
        ] == self.reference.read_figures()

    def _counts(self) -> tuple[int, int, int]:
        totals = self.reference.totals
        return totals.evicted, totals.evictions, totals.renumberings

    def _start_turn(self) -> None:
        if self._turn_is_over:
            self._turn_start, self._turn_is_over = self._counts(), False

    def _answer_after(self, parts: int) -> list[int]:
        answers = [segment for segment in list(self.real.segments)[parts:] if segment.kind == "answer"]
        return self.real.tokens_of(answers[-1]) if answers else []

    def _stopped_by(self, stop: Sequence[str], answer: Sequence[int]) -> bool:
        text = self.model.text_of(answer, special=False)
        return any(end in text for end in stop)

    def _check_answer(self, answer: list[int], ending: str, max_tokens: int, stop: Sequence[str]) -> None:
        text = self.model.text_of(answer, special=False)
        text = before_stop(text, stop)
        written = "".join(event.written for event in self.watch.texts)
        assert len(answer) <= max_tokens
        assert ending != "length" or len(answer) == max_tokens
        assert [event.tokens for event in self.watch.texts] == sorted(e.tokens for e in self.watch.texts)
        finished = self.watch.heard[-1] if self.watch.heard else None
        if isinstance(finished, events.Finished):
            assert written == finished.answer == text
            # The process grows and shrinks by itself.
            assert replace(finished.stats, host_bytes=0) == replace(self.real.stats, host_bytes=0)
        else:
            assert text.startswith(written)
