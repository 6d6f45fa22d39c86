"""Ctrl-C in a script or a notebook: it is raised as soon as a native call is over, before anything notes what
that call did. Whatever it comes between, the session is sound and can go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_pair import QUICK

from pace_local import Model, Plan, Session, Step, _native
from pace_local.testing import TinySpec

SETTINGS: dict[str, Any] = {
    "budget": 96,
    "headroom": 24,
    "position_cap": 140,
    "recent": 8,
    "threads": 1,
    "check": True,
}
POLICIES = ["pace_focus", "pace", "context_shift"]
MOVES = ("retain", "place", "load")


class Interrupt:
    """Raises KeyboardInterrupt at one of the native calls that change a cache, before or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.at: int | None = None
        self.is_late = True
        for name in MOVES:
            self._watch(monkeypatch, _native.NativeCache, name)
        self._watch(monkeypatch, _native.llama, "llama_decode")
        self._watch(monkeypatch, _native.llama, "llama_memory_seq_add")

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            is_it = self.calls == self.at
            if is_it and not self.is_late:
                raise KeyboardInterrupt
            result = call(*arguments, **options)
            if is_it:
                raise KeyboardInterrupt
            return result

        monkeypatch.setattr(owner, name, watched)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(QUICK)


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    return Interrupt(monkeypatch)


def work(session: Session) -> None:
    """Something of all that changes a cache: evictions, renumberings, isolation, recalls, going back."""
    session.append("be brief", kind="system")
    session.append("the rate is nine", name="rate", kind="file")
    session.append("and the limit is two and forty", name="limit", kind="file")
    session.plan = Plan([Step("write", reads=["rate"]), Step("write more", reads=["limit", "rate"])])
    list(session.generate("tell me of it", max_tokens=30))
    session.step_done()
    list(session.generate("go on", max_tokens=8))
    if session.policy.recalls:
        session.recall("rate")
        with session.aside():
            list(session.generate("and what else is there to say of it", max_tokens=20))
    session.evict("limit")


def look(session: Session) -> None:
    """Every invariant, and that the session can go on."""
    assert list(session.segments)[-1].end == session.session_length if len(session.segments) else True
    session.check()
    session.plan = Plan()
    said = list(session.generate("and now?", max_tokens=4))
    assert said[-1].type == "finished"
    session.check()


def count_calls(model: Model, policy: str, interrupt: Interrupt) -> int:
    interrupt.calls, interrupt.at = 0, None
    with Session(model, policy=policy, **SETTINGS) as session:
        work(session)
        counters = session._cache.counters
        assert counters.evictions > 0
        assert counters.renumberings > 0 or policy == "context_shift"
    return interrupt.calls


@pytest.mark.parametrize("is_late", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_interrupt_at_any_native_call_leaves_a_sound_session(
    policy: str, is_late: bool, model: Model, interrupt: Interrupt
) -> None:
    interrupt.is_late = is_late
    calls = count_calls(model, policy, interrupt)
    assert calls > 50
    for number in range(1, calls + 1, 1 if is_late else 5):
        interrupt.calls, interrupt.at = 0, number
        with Session(model, policy=policy, **SETTINGS) as session:
            with pytest.raises(KeyboardInterrupt):
                work(session)
            interrupt.at = None
            look(session)


def test_an_interrupted_session_on_disk_is_what_it_is_in_memory(
    model: Model, interrupt: Interrupt, tmp_path: Path
) -> None:
    calls = count_calls(model, "pace_focus", interrupt)
    for number in range(5, calls, 7):
        interrupt.calls, interrupt.at = 0, number
        folder = tmp_path / str(number)
        with Session(model, policy="pace_focus", folder=folder, **SETTINGS) as session:
            with contextlib.suppress(KeyboardInterrupt):  # writing takes calls of its own
                work(session)
            interrupt.at = None
            look(session)
            tokens, names = list(session.tokens), [segment.name for segment in session.segments]
        with Session.open(model, folder) as session:
            assert list(session.tokens) == tokens
            assert [segment.name for segment in session.segments] == names
            look(session)
