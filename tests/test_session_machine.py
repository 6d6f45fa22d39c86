"""Random operations in any order, the session compared with its slow reference after each.

Rows of the table of known trouble that this covers: positions after edits go on from the greatest (19901,
17316); no free cell is ever missed in a cache full of holes (15473); a failed removal is never ignored, and
leaves all as it was (28007, 22534); role markers stay or go with their turn (15416).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from session_pair import QUICK, SessionPair
from session_reference import KINDS
from session_settings import OPTIONS

from pace_local import Model
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec

WORDS = ("the ", "and for", " self", "\n", " return x", "<|im_end|>", "é漢", "🙂", "0")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map("".join) | st.text(
    min_size=1, max_size=40
)
kinds = st.sampled_from([*KINDS, *KINDS, "framing", "picture"])
names = st.none() | st.sampled_from(["spec", "notes", "user:1"])
numbers = st.none() | st.integers(1, 6)
uses = st.none() | st.integers(0, 3)


class SessionMachine(RuleBasedStateMachine):
    """One session of any policy; every rule compares all that can be seen of it."""

    model: ClassVar[Model]

    def __init__(self) -> None:
        super().__init__()
        self.pair: SessionPair | None = None

    @initialize(
        policy=st.sampled_from([name for name in sorted(POLICIES) if not POLICIES[name].focuses]),
        budget=st.integers(96, 160),
        headroom=st.integers(16, 40),
        slack=st.integers(0, 60),
        bound_positions=st.none() | st.booleans(),
        soft_target=st.sampled_from([0.7, 1 / 1.1, 1.0]),
        recent=st.none() | st.integers(0, 20),
        evict_every=st.sampled_from([None, None, 1, 7, 20, 60]),
        observe=st.booleans(),
        flash_attn=st.booleans(),
        key_type=st.sampled_from(["f16", "f32"]),
        data=st.data(),
    )
    def open(
        self, policy: str, budget: int, headroom: int, slack: int, data: st.DataObject, **settings: Any
    ) -> None:
        self.pair = SessionPair(
            self.model,
            policy=policy,
            policy_options=data.draw(st.sampled_from(OPTIONS[policy])),
            budget=budget,
            headroom=headroom,
            position_cap=budget + headroom + slack,
            # what comes back from the store is tried in test_working_set_machine.py
            recall=False,
            **settings,
        )

    @property
    def both(self) -> SessionPair:
        assert self.pair is not None
        return self.pair

    @rule(
        text=texts | st.just(" "),
        name=names,
        kind=kinds,
        pinned=st.sampled_from([None, None, False, True]),
        next_use=uses,
    )
    def append(
        self, text: str, name: str | None, kind: str, pinned: bool | None, next_use: int | None
    ) -> None:
        self.both.append(text, name=name, kind=kind, pinned=pinned, next_use=next_use)

    @rule(text=texts, kind=st.sampled_from(KINDS), at=st.integers(1, 6))
    def append_and_cancel(self, text: str, kind: str, at: int) -> None:
        self.both.append(text, kind=kind, cancel_at_event=at)

    @rule(text=texts, max_tokens=st.integers(1, 30), close_after=numbers)
    def ask(self, text: str, max_tokens: int, close_after: int | None) -> None:
        self.both.generate(f"{text}?", max_tokens=max_tokens, close_after=close_after)

    @precondition(lambda self: self.both.reference.role is not None)
    @rule(
        name=names,
        max_tokens=st.integers(1, 30),
        stop=st.sampled_from([(), ("e",), ("th", "0", " ")]),
        next_use=uses,
    )
    def go_on(self, name: str | None, max_tokens: int, stop: tuple[str, ...], next_use: int | None) -> None:
        self.both.generate(None, name=name, max_tokens=max_tokens, stop=stop, next_use=next_use)

    @rule(text=texts, at_event=numbers, at_text=numbers)
    def ask_and_cancel(self, text: str, at_event: int | None, at_text: int | None) -> None:
        self.both.generate(f"{text}?", max_tokens=12, cancel_at_event=at_event, cancel_at_text=at_text)

    @precondition(lambda self: self.both.names)
    @rule(data=st.data(), n_steps=st.integers(0, 3))
    def plan(self, data: st.DataObject, n_steps: int) -> None:
        some = st.lists(st.sampled_from(self.both.names), max_size=3)
        self.both.plan([data.draw(some) for _ in range(n_steps)])

    @rule()
    def step_done(self) -> None:
        self.both.step_done()

    @precondition(lambda self: self.both.names)
    @rule(data=st.data(), pinned=st.booleans())
    def pin(self, data: st.DataObject, pinned: bool) -> None:
        self.both.pin(data.draw(st.sampled_from(self.both.names)), pinned)

    @precondition(lambda self: self.both.reference.fail_next == "nowhere")
    @rule()
    def checkpoint(self) -> None:
        self.both.checkpoint()

    @precondition(lambda self: self.both.reference.n_checkpoints)
    @rule(back=st.integers(-1, 3))
    def restore(self, back: int) -> None:
        """One of the latest, or one that never was."""
        self.both.restore(self.both.reference.n_checkpoints - back)

    @precondition(lambda self: self.both.reference.n_checkpoints)
    @rule(back=st.integers(-1, 3))
    def drop_checkpoint(self, back: int) -> None:
        self.both.drop_checkpoint(self.both.reference.n_checkpoints - back)

    # what a checkpoint holds and a device then loses is tried in test_checkpoints_copies.py
    @precondition(lambda self: not self.both.reference.checkpoints)
    @rule(point=st.sampled_from(["plan", "plan", "allocate", "compute"]))
    def inject(self, point: str) -> None:
        self.both.inject(point)

    def teardown(self) -> None:
        if self.pair is None:
            return
        try:
            self.pair.repeat()
        finally:
            self.pair.close()


@pytest.mark.parametrize("attempt", range(2))
def test_any_order_of_operations(load_tiny: Callable[[TinySpec], Model], attempt: int) -> None:
    class Machine(SessionMachine):
        model = load_tiny(QUICK)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
