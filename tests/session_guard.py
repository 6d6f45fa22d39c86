"""A listener that looks at a session at every moment that anyone can."""

from __future__ import annotations

from typing import Any

from session_pair import tiny_session

from pace_local import Model, Session, events


class Guard:
    """Looks at the session at every event, as a listener."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.heard: list[events.Event] = []
        self.most_cells = 0

    def __call__(self, event: events.Event) -> None:
        self.heard.append(event)
        self.look()

    def look(self) -> None:
        session = self.session
        assert session is not None
        assert session.engine.cache is not None
        native = session.engine.cache.residents()
        assert len(native) == session.n_residents <= session.config.budget
        assert session.next_position == (native["position"][-1] + 1 if len(native) else 0)
        if session.bounds_positions:
            assert session.next_position <= session.config.position_cap
            assert session.stats.highest_position < session.config.position_cap
        self.most_cells = max(self.most_cells, int(native["cell"].max(initial=0)))


def guarded(model: Model, **settings: Any) -> tuple[Session, Guard]:
    """A tiny session and what looks at it."""
    guard = Guard()
    guard.session = tiny_session(model, listener=guard, **settings)
    return guard.session, guard
