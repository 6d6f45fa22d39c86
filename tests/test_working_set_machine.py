"""Random operations in any order on a session that saves, recalls, isolates, focuses and goes back.

A plain model knows each segment's text and what every checkpoint is to bring back; the rows of what was read
in isolation are compared bit for bit whenever they are resident as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from session_pair import TALKER, tiny_session
from test_checkpoints import rows_of, seen_of
from working_set_views import Hearing, is_whole, plain_rows, plain_rows_at, ranks_of, working_set_of

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError, NativeError
from pace_local.testing import TinySpec

WORDS = ("return ", "the self and other ", "RATE = 53 ", "def f(x): ", "0123456789 ", "é漢🙂 ", "\n")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map("".join).filter(str.strip)
ALLOWED = (CancelledError, NativeError, ConfigError)
"""What may stop an operation here; a full cache (ContextFullError) or a wrong plan (PlanError) may not."""


_Before = tuple[dict[str, Any], list[bytes], dict[str, str], dict[str, list[bytes]]]
"""What a session shows, its rows, and the first two fields below, at a checkpoint."""

_Sequence = tuple[tuple[int, str], ...]
"""Where each text of a sequence starts, and the text: ids are given again after something was withdrawn."""


@dataclass
class Kept:
    """What is known of one session, the slow and obvious way."""

    texts: dict[str, str] = field(default_factory=dict)
    """Of all segments that were read with a name, by it."""
    rows: dict[str, list[bytes]] = field(default_factory=dict)
    """Of those read in isolation, as they were first."""
    sequences: dict[_Sequence, list[bytes]] = field(default_factory=dict)
    """Of the last of texts that were read one behind the other, as they were first."""
    checkpoints: dict[int, _Before] = field(default_factory=dict)


class WorkingSetMachine(RuleBasedStateMachine):
    """One session; after every rule it is checked against what is known of it."""

    model: ClassVar[Model]

    def __init__(self) -> None:
        super().__init__()
        self.hearing = Hearing()
        self.opened: Session | None = None
        self.kept = Kept()
        self.count = 0
        self.point = "nowhere"

    @initialize(
        policy=st.sampled_from(["pace", "pace_focus", "pace_focus", "streaming", "h2o"]),
        budget=st.integers(120, 200),
        headroom=st.integers(16, 40),
        slack=st.integers(0, 80),
        soft_target=st.sampled_from([0.8, 1 / 1.1]),
        isolate=st.sampled_from([None, True, False]),
        means=st.sampled_from(["auto", "auto", "spliced", "recomputed", "together", "reread"]),
        host_bytes=st.sampled_from([None, None, 1 << 14, 0]),
        save_parts=st.booleans(),
        flash_attn=st.booleans(),
        key_type=st.sampled_from(["f16", "f32"]),
    )
    def open(self, budget: int, headroom: int, slack: int, **settings: Any) -> None:
        self.opened = tiny_session(
            self.model,
            listener=self.hearing,
            budget=budget,
            headroom=headroom,
            position_cap=budget + headroom + slack,
            recall=True,
            disk_bytes=0,
            **settings,
        )
        self.session.append("be brief", kind="system", name="rules")
        self.kept.texts["rules"] = "be brief"

    @property
    def session(self) -> Session:
        assert self.opened is not None
        return self.opened

    def tried(self, act: Callable[[], Any]) -> bool:
        """Whether it went well; if not, it must have failed in a way that is allowed."""
        cache = self.session.engine.cache
        assert cache is not None
        self.hearing.heard.clear()
        cache.fail_next(self.point)
        self.point = "nowhere"
        try:
            act()
        except ALLOWED:
            return False
        finally:
            cache.fail_next("nowhere")  # looking at rows takes references, which would fail else
            for event in self.hearing.of(events.Isolated):  # or read together, or computed again
                self.kept.rows.pop(event.segment, None)
                self.forget_sequences(event.segment)
            for name, means in self.hearing.recalled():
                if means == "reread":  # another segment has its name, which was read among others
                    self.kept.rows.pop(name, None)
            if self.hearing.of(events.Rebuilt):
                self.kept.rows.clear()
        return True

    def forget_sequences(self, name: str) -> None:
        """Those that end with a segment: it was computed anew, behind what is pinned now."""
        session = self.session
        if name in session.segments:
            start = session.segments.named(name).start
            kept = self.kept.sequences.items()
            self.kept.sequences = {texts: rows for texts, rows in kept if texts[-1][0] != start}

    def name(self) -> str:
        self.count += 1
        return f"text:{self.count}"

    # Reading and writing

    @rule(
        text=texts,
        kind=st.sampled_from(["file", "user", "tool", "answer"]),
        isolated=st.sampled_from([None, None, True, False]),
        pinned=st.sampled_from([None, None, None, True]),
    )
    def read(self, text: str, kind: Any, isolated: bool | None, pinned: bool | None) -> None:
        name, session = self.name(), self.session
        length = session.session_length

        def act() -> None:
            session.append(text, name=name, kind=kind, isolated=isolated, pinned=pinned)

        if not self.tried(act):
            assert session.session_length == length
            assert name not in session.segments
            return
        self.kept.texts[name] = text
        rebuilt = bool(self.hearing.of(events.Rebuilt))
        if session.segments.named(name).isolated and not rebuilt and is_whole(session, name):
            self.kept.rows[name] = plain_rows(session, name)

    @rule(text=texts)
    def talk(self, text: str) -> None:
        self.tried(lambda: self.session.append(text))

    @rule(text=texts, max_tokens=st.integers(1, 20))
    def ask(self, text: str, max_tokens: int) -> None:
        self.tried(lambda: list(self.session.generate(text, max_tokens=max_tokens)))

    @rule(text=texts, at=st.integers(1, 7), asks=st.booleans())
    def cancel(self, text: str, at: int, asks: bool) -> None:
        """At some event, whatever is being done then."""
        session, name = self.session, self.name()
        self.hearing.act = lambda event: session.cancel() if len(self.hearing.heard) == at else None
        read = lambda: session.append(text, name=name, kind="file")  # noqa: E731
        done = self.tried((lambda: list(session.generate(text, max_tokens=8))) if asks else read)
        self.hearing.act = lambda event: None
        if done and not asks:
            self.kept.texts[name] = text

    # Steps

    def some_names(self, data: st.DataObject) -> list[str]:
        return data.draw(st.lists(st.sampled_from(sorted(self.kept.texts)), max_size=3, unique=True))

    @rule(data=st.data(), n_steps=st.integers(0, 2))
    def plan(self, data: st.DataObject, n_steps: int) -> None:
        steps = [Step(f"{self.name()}", reads=self.some_names(data)) for _ in range(n_steps)]
        self.session.plan = Plan(steps)

    @rule()
    def step_done(self) -> None:
        self.session.step_done()

    @rule(data=st.data())
    def recall(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kept.texts)))
        if self.tried(lambda: self.session.recall(name)):
            assert is_whole(self.session, name), f"{name} was recalled"

    @precondition(lambda self: len(self.kept.texts) > 1)
    @rule(data=st.data(), pinned=st.booleans())
    def pin(self, data: st.DataObject, pinned: bool) -> None:
        """The system prompt stays pinned: what it is seen by would change."""
        name = data.draw(st.sampled_from(sorted({*self.kept.texts} - {"rules"})))
        self.tried(lambda: self.session.pin(name, pinned))

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """What was saved of a segment, by itself or behind some others."""
        segment = self.session.segments.named(data.draw(st.sampled_from(sorted(self.kept.texts)))).id
        working_set = working_set_of(self.session)
        owners = [owner for owner, *group in working_set.groups() if group[-1] == segment]
        working_set.store.drop(data.draw(st.sampled_from([segment, *owners])))

    @rule(point=st.sampled_from(["plan", "allocate", "compute"]))
    def fail(self, point: str) -> None:
        """At the first native operation of the next rule that has one."""
        self.point = point

    # Back

    @rule()
    def checkpoint(self) -> None:
        made: list[int] = []
        if self.tried(lambda: made.append(self.session.checkpoint())):
            known = dict(self.kept.texts), dict(self.kept.rows)
            self.kept.checkpoints[made[0]] = (seen_of(self.session), rows_of(self.session), *known)

    @precondition(lambda self: self.kept.checkpoints)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        made = data.draw(st.sampled_from(sorted(self.kept.checkpoints)))
        if not self.tried(lambda: self.session.restore(made)):
            return
        seen, rows, known, first_rows = self.kept.checkpoints[made]
        self.kept.checkpoints = {at: kept for at, kept in self.kept.checkpoints.items() if at <= made}
        self.kept.texts = dict(known)
        self.kept.rows = {name: first_rows[name] for name in first_rows if name in self.kept.rows}
        found = seen_of(self.session)
        if self.hearing.of(events.Rebuilt):  # a device lost some of it: all were decoded again
            found["positions"] = seen["positions"]
        else:
            assert rows_of(self.session) == rows
        assert found == seen

    # What always holds

    @invariant()
    def holds(self) -> None:
        if self.opened is None:
            return
        session = self.session
        session.check()
        assert session.n_residents <= session.config.budget
        assert session.segments[len(session.segments) - 1].end == session.session_length
        assert len(session.tokens) == session.session_length
        for name, text in self.kept.texts.items():
            assert session.text_of(session.segments.named(name)) == text
        assert is_whole(session, "rules")
        for name, rows in self.kept.rows.items():
            segment = session.segments.named(name)
            working_set = working_set_of(session)
            if not len(working_set.missing(segment.id)) and working_set.is_own(segment.id):
                assert plain_rows(session, name) == rows, f"{name} is not what was read in isolation"

        self.sequences_hold()

    def sequences_hold(self) -> None:
        session, working_set = self.session, working_set_of(self.session)
        for owner, *group in working_set.groups():
            ranks = working_set.resident_ranks(group[-1])
            if len(working_set.missing(group[-1])) or not working_set._is_held_by(owner, ranks):
                continue
            texts = tuple((session.segments[i].start, session.text_of(session.segments[i])) for i in group)
            rows = plain_rows_at(session, ranks)
            assert self.kept.sequences.setdefault(texts, rows) == rows, f"{group} are not what they were"

    def teardown(self) -> None:
        if self.opened is not None:
            self.opened.close()


def test_any_order_of_operations(load_tiny: Callable[[TinySpec], Model]) -> None:
    class Machine(WorkingSetMachine):
        model = load_tiny(TALKER)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_rows_of_the_machine_can_be_told_apart(load_tiny: Callable[[TinySpec], Model]) -> None:
    """Two texts of one length have rows of their own; else nothing above would be worth its while."""
    with tiny_session(load_tiny(TALKER), policy="pace_focus", budget=200, position_cap=300) as session:
        session.append("be brief", kind="system", name="rules")
        session.append("abc", kind="file", name="a")
        session.append("abd", kind="file", name="b")
        assert np.array_equal(np.diff(ranks_of(session, "a")), np.diff(ranks_of(session, "b")))
        assert plain_rows(session, "a") != plain_rows(session, "b")
