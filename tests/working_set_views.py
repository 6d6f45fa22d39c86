"""Sessions that save, recall and isolate, and what lies in their caches, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest
from native_cache import expected_keys
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Segment, Session, Step, events
from pace_local.session_cache import SessionCache
from pace_local.testing import TinySpec
from pace_local.working_set import WorkingSet

ROOM: dict[str, Any] = {"budget": 256, "position_cap": 512, "headroom": 64}
"""Room for a few texts of tens of tokens."""

WIDE = replace(TALKER, head_dim=32)
"""Heads wide enough to be quantised."""

CACHES: dict[str, dict[str, Any]] = {
    "f16": {},
    "f16 without flash": {"flash_attn": False},
    "f16 wide references": {"reference_type": "f32"},
    "f32": {"key_type": "f32", "value_type": "f32"},
    "f32 without flash": {"key_type": "f32", "value_type": "f32", "flash_attn": False},
    "q8_0": {"key_type": "q8_0", "value_type": "q8_0"},
    "q8_0 without flash": {"key_type": "q8_0", "flash_attn": False},
}
"""Ways to store keys and values."""

TALK = "return the self and other "
"""26 letters; a few tokens more or less."""

SPECS = {
    "spec:orders": "class Orders: RATE = 53, LIMIT = 1200, REGION = 'north'",
    "spec:stock": "def restock(item, amount): raise Empty if amount < 7",
    "spec:mail": "for letter in inbox: send(letter, retries=4) or drop",
}
"""Texts that are not alike."""

FORM = "service {0}: the rate is {1}3, the limit {1}00, and {0} rounds up to whole cents"

COPIES = {f"copy:{name}": FORM.format(name, n) for n, name in enumerate(("orders", "stock", "mail"), 1)}
"""Texts of one form, which can be taken for one another."""

EventType = TypeVar("EventType", bound=events.Event)


class Hearing:
    """A listener that keeps what it hears, and can be given something to do."""

    def __init__(self) -> None:
        self.heard: list[events.Event] = []
        self.act: Callable[[events.Event], None] = lambda event: None

    def __call__(self, event: events.Event) -> None:
        self.heard.append(event)
        self.act(event)

    def of(self, kind: type[EventType]) -> list[EventType]:
        return [event for event in self.heard if isinstance(event, kind)]

    def recalled(self) -> list[tuple[str, str]]:
        """Names and means of what came back, in order."""
        return [(event.segment, event.means) for event in self.of(events.Recalled)]


def working_session(model: Model, listener: Hearing | None = None, **settings: Any) -> Session:
    """A small session with a system prompt, which is pinned."""
    session = tiny_session(model, listener=listener, **{"policy": "pace_focus", **ROOM, **settings})
    session.append("be brief", kind="system", name="rules")
    return session


def read_specs(session: Session, names: Iterable[str] = SPECS) -> None:
    for name in names:
        session.append(SPECS[name], name=name)


def chatter(session: Session, times: int, words: int = 4) -> None:
    """Turns of talk, no two of them the same."""
    for number in range(times):
        session.append(f"{session.session_length} {number} " + TALK * words)


def computed_for_step(session: Session, hearing: Hearing, *names: str) -> int:
    """Start a step that reads these segments; return how many of their tokens had to be decoded for that."""
    list(session.generate("go on", max_tokens=5))
    end_of_answer = len(session._pending)
    session.plan = Plan([Step(f"step at {session.session_length}", reads=names)])
    decode, calls = session.engine.decode, []
    until_start: list[int] = []

    def counts(tokens: Any, position: int) -> None:
        calls.append(len(tokens))
        decode(tokens, position)

    def look(event: events.Event) -> None:
        if isinstance(event, events.Focused):
            session.check()
            until_start.append(sum(calls))

    act, hearing.act = hearing.act, look
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.engine, "decode", counts)
        session.append("use it")
    hearing.act = act
    (computed,) = until_start
    return computed - end_of_answer


def length_of(session: Session, *names: str) -> int:
    """Tokens of segments with their role markers."""
    return sum(len(working_set_of(session).unit(session.segments.named(name).id)) for name in names)


def cache_of(session: Session) -> SessionCache:
    return session._cache


def working_set_of(session: Session) -> WorkingSet:
    return session._memory.working_set


def ranks_of(session: Session, name: str) -> Any:
    """Ranks of a segment with its role markers."""
    return working_set_of(session).resident_ranks(session.segments.named(name).id)


def is_whole(session: Session, name: str) -> bool:
    """Whether all of a segment is resident."""
    segment = session.segments.named(name)
    return int(np.count_nonzero(session.residents.segment == segment.id)) == len(segment)


def resident_names(session: Session) -> set[str]:
    """Names of the segments with residents, role markers apart."""
    found = (session.segments[int(i)] for i in np.unique(session.residents.segment))
    return {segment.name for segment in found if segment.kind != "framing"}


def plain_rows(session: Session, name: str) -> list[bytes]:
    """Keys as at position 0 and values of a segment and its markers, of each layer."""
    return plain_rows_at(session, ranks_of(session, name))


def plain_rows_at(session: Session, ranks: Sequence[int] | Any) -> list[bytes]:
    cache = session.engine.cache
    assert cache is not None
    seen = []
    for layer in range(session.engine.capabilities.n_layers):
        seen.append(cache.read_plain_keys(layer)[ranks].tobytes())
        seen.append(cache.read_rows("value", layer)[ranks].tobytes())
    return seen


def cached_rows(session: Session, ranks: Any = slice(None)) -> list[bytes]:
    """Keys where they are, and values, of each layer."""
    cache = session.engine.cache
    assert cache is not None
    return [
        cache.read_rows(kind, layer)[ranks].tobytes()
        for layer in range(session.engine.capabilities.n_layers)
        for kind in ("key", "value")
    ]


def saved_bytes(session: Session, name: str) -> bytes:
    """The newest piece of a segment."""
    store = working_set_of(session).store
    pieces = store.pieces_of(session.segments.named(name).id)
    return bytes(store.get(pieces[-1].id).tobytes())


def check_rotations(session: Session, spec: TinySpec) -> None:
    """Every key is its reference, rotated once by numpy, within rounding."""
    cache = session.engine.cache
    assert cache is not None
    native: Any = SimpleNamespace(
        spec=spec,
        llama=session.engine._llama,
        context=session.engine.ctx,
        key_type=session.config.key_type,
    )
    for layer in range(spec.n_layer):
        cache.read_plain_keys(layer)  # takes the references that are still to be taken
        residents = cache.residents()
        shape = (len(residents), spec.n_head_kv, spec.head_dim)
        references = cache.read_rows("reference", layer).reshape(shape)
        keys = cache.read_rows("key", layer).reshape(shape)
        delta = residents["position"] - residents["reference_position"]
        expected, allowed = expected_keys(native, layer, references, delta)
        worst = float((np.abs(keys - expected) / allowed).max(initial=0.0))
        assert worst <= 1, f"layer {layer}: {worst:.2f} x the difference that rounding explains"


def state_of(session: Session) -> dict[str, Any]:
    """All that a turn that failed must leave as it was."""
    return {
        "segments": list(session.segments),
        "tokens": list(session.tokens),
        "residents": session.residents.token_index.tolist(),
        "positions": session.residents.position.tolist(),
        "rows": plain_rows_at(session, slice(None)),
        "plan": session.plan,
        "prompt": session._prompt,
        "role": session._role,
        "pending": list(session._pending),
        "turns": session._n_turns,
    }


class NthFails:
    """Makes the n-th native operation that moves, saves or loads rows fail, and counts them.

    Args:
        session: whose.
        at: number of the operation, from 1; 0: none.
        point: where it fails.
    """

    OPERATIONS = ("retain", "place", "save", "load")

    def __init__(self, session: Session, at: int, point: str) -> None:
        self.count = 0
        cache = session.engine.cache
        assert cache is not None
        for name in self.OPERATIONS:
            setattr(cache, name, self._counting(cache, getattr(cache, name), at, point))
        self._cache = cache

    def _counting(self, cache: Any, call: Callable[..., Any], at: int, point: str) -> Callable[..., Any]:
        def counts(*arguments: Any) -> Any:
            self.count += 1
            if self.count == at:
                cache.fail_next(point)
            try:
                return call(*arguments)
            finally:
                if self.count == at:
                    cache.fail_next("nowhere")  # retain alone needs no device

        return counts

    def stop(self) -> None:
        for name in self.OPERATIONS:
            delattr(self._cache, name)


def read_isolated(session: Session, text: str, name: str = "file") -> Segment:
    return session.append(text, kind="file", name=name, isolated=True)
