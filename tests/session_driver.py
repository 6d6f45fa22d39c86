"""A real session, driven by operations that are kept, so that they can be done again on another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cache_reference import Event, Scored, Slot

from pace_local import Model, Plan, Segment, Session, Step, events
from pace_local.errors import CancelledError, ConfigError, ContextFullError, NativeError, PaceError
from pace_local.policies import CacheView, Policy
from pace_local.policies.base import Scores


def status_of(error: PaceError) -> str:
    """The reference's word for an error."""
    if isinstance(error, NativeError):
        return error.status
    return {CancelledError: "cancelled", ContextFullError: "full", ConfigError: "config"}[type(error)]


def plain(event: events.Event) -> Event:
    """An event without its times, as the reference has it."""
    match event:
        case events.Text(text, tokens):
            return "text", text, tokens
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
        case events.Restored(checkpoint, withdrawn, loaded):
            return "restored", checkpoint, withdrawn, loaded
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
    scored: list[Scored] = field(default_factory=list)
    """What the policy said at each eviction that was tried."""

    def begin(self, cancel_at_event: int | None, cancel_at_text: int | None = None) -> None:
        self.heard, self.scored = [], []
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


@dataclass(frozen=True)
class Outcome:
    """How an operation ended, and what is resident after it."""

    ending: str
    """"done", "length", "stop", "closed", or what stopped it."""
    heard: list[Event]
    tokens: int
    """Of the session."""
    index: list[int]
    position: list[int]


class SessionDriver:
    """A session, and every operation on it that was asked for.

    Args:
        model: of the session.
        check: whether the session checks itself after every decode.
        settings: its others.
    """

    def __init__(self, model: Model, *, check: bool, **settings: Any) -> None:
        self.watch = Watch()
        self.session = Session(model, listener=self.watch, threads=1, check=check, **settings)
        self.watch.session = self.session
        self._watch_scores()
        self.outcomes: list[Outcome] = []
        self._again: list[Callable[[SessionDriver], object]] = []
        self._model, self._settings = model, settings

    def close(self) -> None:
        self.session.close()

    def repeat(self) -> None:
        """Do all of it again on a new session, which must end each operation with the same residents."""
        other = SessionDriver(self._model, check=False, **self._settings)
        try:
            for number, operation in enumerate(self._again):
                operation(other)
                first, second = self.outcomes[number], other.outcomes[number]
                assert first == second, f"operation {number} had another outcome the second time"
            first_tokens, second_tokens = (
                [each.session.tokens_of(segment) for segment in each.session.segments]
                for each in (self, other)
            )
            assert first_tokens == second_tokens
            assert self.session.policy.pool() == other.session.policy.pool()
        finally:
            other.close()

    # Operations

    def append(self, text: str, cancel_at_event: int | None, **options: Any) -> tuple[str, Segment | None]:
        """How it ended, and the segment if it was read."""
        self._again.append(lambda driver: driver.append(text, cancel_at_event, **options))
        self.watch.begin(cancel_at_event)
        ending, segment = "done", None
        try:
            segment = self.session.append(text, **options)
        except PaceError as error:
            ending = status_of(error)
        self._note(ending)
        return ending, segment

    def generate(
        self,
        prompt: str | None,
        close_after: int | None,
        cancel_at_event: int | None,
        cancel_at_text: int | None,
        **options: Any,
    ) -> tuple[str, list[events.Event]]:
        """How it ended, and the events that the loop saw; it is left after ``close_after`` of them."""
        self._again.append(
            lambda driver: driver.generate(prompt, close_after, cancel_at_event, cancel_at_text, **options)
        )
        self.watch.begin(cancel_at_event, cancel_at_text)
        ending, seen = "closed", []
        stream = self.session.generate(prompt, **options)
        try:
            for event in stream:
                seen.append(event)
                if len(seen) == close_after:
                    break
        except PaceError as error:
            ending = status_of(error)
        stream.close()  # type: ignore[attr-defined]
        finished = self.watch.heard[-1] if self.watch.heard else None
        if isinstance(finished, events.Finished):
            ending = finished.reason  # also where the loop was left before it came to that event
        self._note(ending)
        return ending, seen

    def plan(self, reads: Sequence[tuple[str, ...]]) -> None:
        """Plan steps that read the segments of these names."""
        self._again.append(lambda driver: driver.plan(reads))
        self.session.plan = Plan([Step(f"step {number}", names) for number, names in enumerate(reads)])
        self._note("done")

    def step_done(self) -> None:
        self._again.append(SessionDriver.step_done)
        self.session.step_done()
        self._note("done")

    def pin(self, name: str, pinned: bool) -> str:
        """How it ended."""
        self._again.append(lambda driver: driver.pin(name, pinned))
        ending = "done"
        try:
            self.session.pin(name, pinned)
        except PaceError as error:
            ending = status_of(error)
        self._note(ending)
        return ending

    def inject(self, point: str) -> None:
        """Make the next native operation fail at a point."""
        self._again.append(lambda driver: driver.inject(point))
        assert self.session.engine.cache is not None
        self.session.engine.cache.fail_next(point)
        self._note("done")

    def checkpoint(self) -> int:
        """Its id."""
        self._again.append(SessionDriver.checkpoint)
        self.watch.begin(None)
        made = self.session.checkpoint()
        self._note("done")
        return made

    def restore(self, checkpoint: int) -> str:
        """How it ended."""
        self._again.append(lambda driver: driver.restore(checkpoint))
        self.watch.begin(None)
        ending = "done"
        try:
            self.session.restore(checkpoint)
        except PaceError as error:
            ending = status_of(error)
        self._note(ending)
        return ending

    def drop_checkpoint(self, checkpoint: int) -> str:
        """How it ended."""
        self._again.append(lambda driver: driver.drop_checkpoint(checkpoint))
        ending = "done"
        try:
            self.session.drop_checkpoint(checkpoint)
        except PaceError as error:
            ending = status_of(error)
        self._note(ending)
        return ending

    def _watch_scores(self) -> None:
        """Note what the policy says, without a trace in the policy's own state, which checkpoints copy."""
        policy, watch = self.session.policy, self.watch
        own = type(policy)

        def score(self: Policy, view: CacheView) -> Scores:
            scores = own.score(self, view)
            slots = list(map(Slot, view.token_index.tolist(), view.position.tolist()))
            watch.scored.append(Scored(slots, view.session_length, scores.tolist()))
            return scores

        policy.__class__ = type(own.__name__, (own,), {"score": score})

    def _note(self, ending: str) -> None:
        residents = self.session.residents
        self.outcomes.append(
            Outcome(
                ending,
                [plain(event) for event in self.watch.heard],
                self.session.session_length,
                residents.token_index.tolist(),
                residents.position.tolist(),
            )
        )
