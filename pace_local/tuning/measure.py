"""One point of a grid: a recorded session played under some settings, and what the model made of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.config import SessionConfig
from pace_local.events import Event, Evicted
from pace_local.model import Model
from pace_local.recording import Appended, Generated, Recording, replay
from pace_local.recording.replay import log_probability
from pace_local.session import Session
from pace_local.terminal import Stop


@dataclass(frozen=True)
class Measurement:
    """What was measured in one replay."""

    log_probabilities: tuple[tuple[float, ...], ...]
    """Of each token of each answer, natural logarithm; every token was forced, whatever was likeliest."""

    likeliest: int
    """Answer tokens that were the likeliest at their place."""

    evictions: int
    evicted: int
    """Tokens evicted."""

    renumberings: int

    seconds: float
    """All turns together, without opening the session and without this measuring."""

    turns: int
    """Texts read and answers written."""

    run: str
    """The process that measured it: times of different runs say little about each other."""

    @property
    def tokens(self) -> int:
        """Answer tokens, at least 1."""
        return sum(map(len, self.log_probabilities))

    @property
    def loss(self) -> float:
        """Mean negative log-likelihood of an answer token, in nats."""
        return -sum(map(sum, self.log_probabilities)) / self.tokens

    @property
    def agreement(self) -> float:
        """Share of answer tokens that were the likeliest."""
        return self.likeliest / self.tokens

    @property
    def seconds_per_turn(self) -> float:
        return self.seconds / self.turns

    def as_document(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Measurement:
        """The measurement that :meth:`as_document` gave."""
        answers = tuple(tuple(map(float, answer)) for answer in document["log_probabilities"])
        return cls(**{**document, "log_probabilities": answers})


def measure(
    model: Model,
    recording: Recording,
    config: SessionConfig,
    *,
    run: str,
    stop: Stop | None = None,
    on_turn: Callable[[int, int], None] | None = None,
) -> Measurement:
    """Play a recording in a session of its own and measure it.

    Args:
        model: the one that was recorded.
        recording: with at least one answer token.
        config: settings of the session.
        run: name of this process.
        stop: ends it soon after it was asked to.
        on_turn: called after each turn with turns done and turns in all.

    Raises:
        ConfigError, ContextFullError: if these settings cannot hold this session.
        FileError: if the recording is one of another model.
        CancelledError, TimeLimitError: after a request to stop.
        NativeError: if the cache fails.
    """
    stop = stop or Stop()
    found: list[float] = []
    likeliest = evictions = 0
    aside = 0.0

    def listen(event: Event) -> None:
        nonlocal evictions
        evictions += isinstance(event, Evicted)
        if stop.reason is not None:
            session.cancel()

    def look(token: int, logits: npt.NDArray[np.float32]) -> None:
        nonlocal likeliest, aside
        began = time.perf_counter()
        found.append(log_probability(token, logits))
        likeliest += int(np.argmax(logits)) == token
        if stop.reason is not None:
            session.cancel()
        aside += time.perf_counter() - began

    def turned(done: int, total: int) -> None:
        nonlocal aside
        began = time.perf_counter()
        stop.raise_if_asked()
        if on_turn is not None:
            on_turn(done, total)
        aside += time.perf_counter() - began

    stop.raise_if_asked()
    with Session(model, config=config, listener=listen) as session, stop.calling(session.cancel):
        began = time.perf_counter()
        replay(recording, session, on_turn=turned, look=look)
        seconds = time.perf_counter() - began - aside
        stats = session.stats
    answers, rest = [], iter(found)
    for turn in recording.turns:
        if isinstance(turn, Generated):
            answers.append(tuple(next(rest) for _ in turn.tokens))
    return Measurement(
        log_probabilities=tuple(answers),
        likeliest=likeliest,
        evictions=evictions,
        evicted=stats.evicted_in_session,
        renumberings=stats.renumberings_in_session,
        seconds=seconds,
        turns=sum(isinstance(turn, (Appended, Generated)) for turn in recording.turns),
        run=run,
    )
