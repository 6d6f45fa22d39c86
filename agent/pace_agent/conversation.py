"""The talk with the model, as it reads it: appended to and never rewritten.

This is the only part of the agent that touches the session. Each request extends the one before token for
token; :meth:`Conversation.answer` makes sure of it, and reports what was reused and what was decoded.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence

from pace_agent.calls.answer_stream import AnswerStream
from pace_agent.calls.formats import REASONING, CallFormat
from pace_agent.calls.grammar import begins_with_reasoning, calling
from pace_agent.calls.parsing import Parsed, parse_answer
from pace_agent.events import AgentEvent, Missed, Noted, Thought, Turned, Wrote, memory
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.tool_type import Tool
from pace_local import Plan, Session, Step
from pace_local.errors import CancelledError
from pace_local.events import Event, Finished, Focused, Recalled, Text
from pace_local.sampling import Sampling
from pace_local.segments import Kind
from pace_local.turn_stats import read_stats

_AGAIN = ("recomputed", "together", "reread")
"""Means of recall that decode what was decoded before."""


class Conversation:
    """Talks with a model through one session.

    Args:
        session: open; its listener is taken.
        outbox: takes all events.
        sampling: how answers are chosen.
        max_tokens: longest answer, in tokens.
        cancelled: while it is set, nothing more is read or written.
    """

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 1024,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.session = session
        self._outbox = outbox
        self._sampling = sampling or Sampling()
        self._max_tokens = max_tokens
        self._cancelled = threading.Event() if cancelled is None else cancelled
        self.before_answer: Callable[[], None] = lambda: None
        """Called before each answer, to append what the model has to know by then."""
        self._planned: frozenset[str] | None = None
        self.misses = 0
        """Plan misses of all steps so far."""
        self.recalled = 0
        """Segments that were brought back so far."""
        self.on_focus: Callable[[Focused], None] | None = None
        """Called once, when the working set of the next step is there and its prompt is not yet read."""
        self._again = 0
        self._turns = 0
        self._read: tuple[int, str] = (0, "")
        self.mark_read()

    # Reading

    def hear(self, event: Event) -> None:
        """Pass on what the session reports. To be its listener."""
        if self._cancelled.is_set():  # it may have been cancelled just before the session began to work
            self.session.cancel()
        if isinstance(event, (Text, Finished)):
            return
        if isinstance(event, Recalled):
            self.recalled += 1
            if event.means in _AGAIN:
                self._again += event.tokens
        self._outbox.say(memory(event))
        if isinstance(event, Focused) and self.on_focus is not None:
            told, self.on_focus = self.on_focus, None
            told(event)
        if isinstance(event, Recalled) and self._planned is not None and event.segment not in self._planned:
            self.miss(event.segment, event.means, event.reason)

    def miss(self, segment: str, means: str, reason: str) -> None:
        """Count a plan miss."""
        self.misses += 1
        self._outbox.say(Missed(segment, means, reason))

    def tell(
        self,
        text: str,
        *,
        kind: Kind,
        name: str | None = None,
        pinned: bool = False,
        isolated: bool | None = None,
    ) -> str:
        """Append a text as a turn of its own, and return the name of its segment.

        Raises:
            CancelledError: if it was cancelled; nothing was appended.
            PaceError: if it cannot be; nothing was.
        """
        self._check_cancelled()
        segment = self.session.append(text, kind=kind, name=name, pinned=pinned or None, isolated=isolated)
        return segment.name

    def note(self, text: str) -> str:
        """Append something that the model should know, and tell it."""
        name = self.tell(text, kind="tool", name=f"note:{self._turns}", isolated=False)
        self._outbox.say(Noted(text, name))
        return name

    # Steps

    def start_step(self, steps: Sequence[Step]) -> None:
        """Follow a plan; its first step is the one at hand, and what that reads is brought when it begins."""
        self._planned = None
        self.session.plan = Plan(steps)

    def revise_steps(self, steps: Sequence[Step]) -> None:
        """Change what the step at hand and those after it read; the one at hand goes on."""
        self.session.revise(Plan(steps))
        if self._planned is not None:
            self.step_is_running()

    def step_is_running(self) -> None:
        """From now on what has to be brought back and is not planned is a plan miss."""
        steps = self.session.plan.steps
        self._planned = frozenset(steps[0].reads if steps else ())

    def end_steps(self) -> None:
        """No step is running."""
        self._planned = self.on_focus = None

    def residency(self, name: str) -> tuple[int, int]:
        """Resident tokens of a segment, and all of them."""
        stats = read_stats(self.session, name)
        return stats.resident, stats.tokens

    def bring(self, name: str) -> bool:
        """Have a segment back if it is not resident; returns whether it had to be brought.

        Raises:
            PaceError: if it does not fit, or there is none of that name.
        """
        resident, tokens = self.residency(name)
        if resident == tokens:
            return False
        self.session.recall(name)
        return True

    def recall(self, name: str) -> None:
        """Have a segment back because the user asks for it, which is no plan miss.

        Raises:
            PaceError: as :meth:`bring`.
        """
        self._planned, planned = None, self._planned
        try:
            self.session.recall(name)
        finally:
            self._planned = planned

    def release(self, name: str) -> None:
        """Evict a segment that says what is no longer so, or is of no more use."""
        if name in self.session.segments and not self.session.segments.named(name).pinned:
            self.session.evict(name)

    def release_reasoning(self, since: int) -> None:
        """Evict what the model thought, from a token index on."""
        for segment in list(self.session.segments):
            if segment.kind == "reasoning" and segment.start >= since:
                self.release(segment.name)

    # Answers

    def turn(
        self,
        limits: Limits,
        prompt: str | None = None,
        *,
        tools: Sequence[Tool] = (),
        form: CallFormat | None = None,
        sampling: Sampling | None = None,
        is_shown: bool = True,
    ) -> Iterator[AgentEvent]:
        """Let the model answer as one turn of a run, and go on only if it came to an end by itself.

        Args:
            limits: of the run; a turn is taken.
            prompt: this and the others as for :meth:`answer`.
            tools: as there.
            form: as there.
            sampling: as there.
            is_shown: as there.

        Raises:
            WayOut: if the run is over.
            CancelledError: if the session was cancelled from elsewhere.
            PaceError: as :meth:`answer`.
        """
        limits.take_turn()
        yield from self.answer(prompt, tools=tools, form=form, sampling=sampling, is_shown=is_shown)
        limits.check()
        if self.was_cancelled:
            raise CancelledError("the answer was cancelled")

    def answer(
        self,
        prompt: str | None = None,
        *,
        tools: Sequence[Tool] = (),
        form: CallFormat | None = None,
        sampling: Sampling | None = None,
        is_shown: bool = True,
    ) -> Iterator[AgentEvent]:
        """Let the model answer; :attr:`last` holds what it said.

        Args:
            prompt: read first, as the user's turn; None: nothing.
            tools: that it can call; calls are held by a grammar.
            form: how it calls them.
            sampling: in place of the conversation's own; with tools, the grammar is added.
            is_shown: whether its prose is for people.

        Raises:
            CancelledError: if it was cancelled; what was said so far stays.
            PaceError: if it cannot go on.
        """
        self.before_answer()
        self._check_cancelled()
        self._check_prefix()
        before, was = self._counted, self._read[0]
        chosen = sampling or self._sampling
        if tools and form is not None:
            chosen = calling(tools, form, chosen)
        stream: AnswerStream | None = None
        is_reasoning = False
        whole, reason = "", "cancelled"
        generation = self.session.generate(
            prompt, max_tokens=self._max_tokens, sampling=chosen, reasoning=REASONING
        )
        try:
            for event in generation:
                if stream is None:  # the prompt has been read by now: what opens the answer hangs on it
                    is_reasoning = begins_with_reasoning(self.session.answer_prefix, chosen)
                    stream = AnswerStream(form if tools else None, is_reasoning=is_reasoning)
                if isinstance(event, Finished):
                    whole, reason = event.answer, event.reason
                elif event.text:
                    self._tell_parts(stream.add(event.text), is_shown)
                yield from self._outbox.drain()
        finally:
            generation.close()  # type: ignore[attr-defined]
        if stream is not None:
            self._tell_parts(stream.finish(), is_shown)
        self.was_cut = reason == "length"
        self.was_cancelled = reason == "cancelled"
        self.last_text = whole
        self.last = parse_answer(whole, form, tools, is_reasoning=is_reasoning)
        self._turns += 1
        after = self.session.counters
        self._outbox.say(
            Turned(
                number=self._turns,
                reused=was,
                decoded=after.prompt_tokens - before.prompt_tokens,
                decoded_again=self._again,
                generated=after.generated_tokens - before.generated_tokens,
                session_tokens=self.session.session_length,
                residents=self.session.n_residents,
                next_position=self.session.next_position,
                reading_seconds=after.prompt_seconds - before.prompt_seconds,
                generating_seconds=after.generated_seconds - before.generated_seconds,
            )
        )
        self._again = 0
        self.mark_read()
        yield from self._outbox.drain()

    last: Parsed
    """Prose, reasoning and calls of the last answer."""

    last_text: str
    """All that the model wrote in it."""

    was_cut: bool
    """Whether it reached the limit of tokens."""

    was_cancelled: bool

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError("it was cancelled")

    def _tell_parts(self, parts: Sequence[tuple[str, str]], is_shown: bool) -> None:
        for part, text in parts:
            if part == "reasoning":
                self._outbox.say(Thought(text))
            elif part == "prose" and is_shown:
                self._outbox.say(Wrote(text))

    # The prefix

    def mark_read(self) -> None:
        """Remember all tokens so far as those that the next request extends; after an undo, call it again."""
        length = self.session.session_length
        self._read = (length, self._digest(length))
        self._counted = self.session.counters

    def _check_prefix(self) -> None:
        length, digest = self._read
        assert self.session.session_length >= length, "the conversation has become shorter"
        assert self._digest(length) == digest, "the conversation was rewritten"

    def _digest(self, length: int) -> str:
        return hashlib.blake2b(memoryview(self.session.tokens)[:length]).hexdigest()
