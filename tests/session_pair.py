"""A real session and its slow reference, driven together and compared after every operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from session_driver import SessionDriver, plain
from session_reference import KINDS, SessionReference
from session_turns import TinyTurns, Turns

from pace_local import Model, Session, events
from pace_local.policies import policy_named
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
        self._driver = SessionDriver(model, check=True, **settings)
        self.real, self.watch = self._driver.session, self._driver.watch
        config = self.real.config
        policy = policy_named(config.policy, config.policy_options)
        self.reference = SessionReference(
            config, policy, turns=turns or TinyTurns(model), tokenize=model.tokenize
        )
        self._compared = 0
        self._turn_start = (0, 0, 0)
        self._turn_is_over = False

    def close(self) -> None:
        self.real.close()

    def repeat(self) -> None:
        """Do all of it again on a second real session: the same residents after every operation."""
        self._driver.repeat()

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
        if text.strip() and kind in KINDS:
            self._start_turn()
        ending, segment = self._driver.append(
            text, cancel_at_event, name=name, kind=kind, pinned=pinned, next_use=next_use
        )
        self.reference.scored = list(self.watch.scored)
        expected = self.reference.append(text, name, kind, pinned, next_use, cancel_at_event)
        assert ending == expected, f"append ended with {ending}, not {expected}"
        if segment is not None:
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
        self._start_turn()
        parts = len(self.reference.parts)
        ending, seen = self._driver.generate(
            prompt,
            close_after,
            cancel_at_event,
            cancel_at_text,
            name=name,
            max_tokens=max_tokens,
            stop=stop,
            next_use=next_use,
        )
        self._turn_is_over = True
        self.reference.scored = list(self.watch.scored)
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
        self.compare()
        return ending

    def plan(self, steps: Iterable[Iterable[str]]) -> None:
        reads = [tuple(names) for names in steps]
        self._driver.plan(reads)
        self.reference.plan(reads)
        self.compare_figures()

    def step_done(self) -> None:
        self._driver.step_done()
        self.reference.step_done()
        self.compare_figures()

    def pin(self, name: str, pinned: bool) -> str:
        ending = self._driver.pin(name, pinned)
        expected = self.reference.pin(name, pinned)
        assert ending == expected, f"pin ended with {ending}, not {expected}"
        self.compare_state()
        return ending

    def checkpoint(self) -> None:
        made, expected = self._driver.checkpoint(), self.reference.checkpoint()
        assert made == expected
        self.compare()

    def restore(self, checkpoint: int) -> str:
        ending, expected = self._driver.restore(checkpoint), self.reference.restore(checkpoint)
        assert ending == expected, f"restore ended with {ending}, not {expected}"
        self._turn_is_over |= ending == "done"
        self.compare()
        return ending

    def drop_checkpoint(self, checkpoint: int) -> str:
        ending, expected = (
            self._driver.drop_checkpoint(checkpoint),
            self.reference.drop_checkpoint(checkpoint),
        )
        assert ending == expected, f"dropping ended with {ending}, not {expected}"
        return ending

    def inject(self, point: str) -> None:
        """Make the next native operation fail at a point."""
        self._driver.inject(point)
        self.reference.fail_next = point

    # Comparing

    def compare(self) -> None:
        heard = [plain(event) for event in self.watch.others]
        assert heard == self.reference.events, f"heard {heard}, not {self.reference.events}"
        assert not self.reference.scored, "the session evicted more often than it should"
        self.compare_state()
        self.compare_figures()

    def compare_state(self) -> None:
        real, reference = self.real, self.reference
        real.check()
        assert real.n_residents <= real.config.budget
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
            assert list(real.last_keep.scores) == reference.scores
        # The pool is of the session's own tokens, also after some were withdrawn.
        pool = real.policy.pool()
        assert all(0 <= index < len(reference.tokens) for index in pool)
        assert all(np.isfinite(score) for score in pool.values())

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
