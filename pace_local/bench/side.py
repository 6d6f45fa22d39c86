"""One of two sessions that take turns: brought to a length, led to a position, watched, timed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pace_local.bench.filler import Filler
from pace_local.bench.subject import EndlessModel
from pace_local.bench.writer import Writer
from pace_local.config import SessionConfig
from pace_local.events import Event, Progress, Text
from pace_local.models import Say
from pace_local.plan import Plan, Step
from pace_local.session import Session

LEAST_READ = 16
"""No text is shorter, in tokens."""
_NEAR = 2
"""Positions by which two sessions may differ."""


class Bounds:
    """Counts how often a session breaks its budget or cap. A listener of that session.

    Looks after each micro-batch of a text and each token written: at the native cache, not at the map.
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.looks = 0
        self.violations = 0

    def __call__(self, event: Event) -> None:
        """Look, if the event says that something was decoded."""
        if isinstance(event, Progress | Text) and self.session is not None:
            self.look(self.session)

    def look(self, session: Session) -> None:
        """Compare residents and positions with budget and cap."""
        assert session.engine.cache is not None
        residents = session.engine.cache.residents()
        highest = int(residents["position"].max(initial=-1))
        self.looks += 1
        self.violations += len(residents) > session.config.budget or highest >= session.config.position_cap


@dataclass
class Samples:
    """What the samples of one session took."""

    read: list[float] = field(default_factory=list)
    """Seconds per token read, of each sample."""
    write: list[float] = field(default_factory=list)
    """Seconds per token written, of each sample."""
    seconds: list[float] = field(default_factory=list)
    """All the time of each sample."""
    tokens: list[int] = field(default_factory=list)
    """All that each sample added to the session."""

    @property
    def amortised(self) -> float:
        """Seconds per token of all samples together."""
        return sum(self.seconds) / sum(self.tokens)

    def per_token(self) -> list[float]:
        """Seconds per token of each sample."""
        return [seconds / tokens for seconds, tokens in zip(self.seconds, self.tokens, strict=True)]


@dataclass
class Side:
    """One of the two sessions."""

    name: str
    session: Session
    bounds: Bounds
    filler: Filler
    _framing: int = 0
    """Role markers that came with the last text."""

    @classmethod
    def begin(cls, name: str, model: EndlessModel, config: SessionConfig, fact: int) -> Side:
        """A session that has read the fact, with a plan that reads it again."""
        bounds = Bounds()
        session = Session(model, config=config, listener=bounds)
        bounds.session = session
        filler = Filler(model)
        session.append(filler.take(fact), name="fact", kind="file")
        session.plan = Plan([Step("use the fact", reads=["fact"])])
        return cls(name, session, bounds, filler)

    def read(self, text: str) -> float:
        """Read a text and return the seconds per token."""
        before, began = self.session.session_length, time.perf_counter()
        segment = self.session.append(text, kind="file")
        seconds = time.perf_counter() - began
        count = self.session.session_length - before
        self._framing = count - len(segment)
        return seconds / count

    def write(self, count: int) -> float:
        """Write an answer and return the seconds per token, the first one left out."""
        writer = Writer(self.session, None, max_tokens=count + 1)
        writer.write(1)
        written, seconds = writer.write(count)
        writer.finish()
        return seconds / written

    def lengthen(self, length: int, piece: int, say: Say) -> None:
        """Read text until the session has ``length`` tokens."""
        began = time.perf_counter()
        said = began
        session = self.session
        while session.session_length < length:
            self.read(self.filler.take(max(LEAST_READ, min(piece, length - session.session_length))))
            now = time.perf_counter()
            if now - said > 15 and session.session_length < length:
                said = now
                left = (now - began) / session.session_length * (length - session.session_length)
                say(
                    f"flat: {self.name} session at {session.session_length:,} of {length:,} tokens, "
                    f"{left:.0f} s left"
                )
        seconds = time.perf_counter() - began
        say(
            f"flat: {self.name} session at {session.session_length:,} tokens after {seconds:.0f} s, "
            f"renumbered {session.stats.renumberings_in_session} times"
        )

    def meet(self, position: int) -> None:
        """Read on until the next position is, within ``_NEAR``, a given one."""
        session = self.session
        while abs(distance := position - session.next_position) > _NEAR:
            # Near it: exactly what is missing. Past it: on to the cap; renumbering starts from below.
            step = session.config.headroom // 2
            missing = distance - self._framing
            self.read(self.filler.take(missing if 0 < missing <= 2 * step else step))
