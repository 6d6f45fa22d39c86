from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from pace_agent.circles import Circles
from pace_agent.events import AgentEvent, Wrote
from pace_agent.limits import Limits
from pace_agent.outbox import Outbox
from pace_agent.ways_out import GoesInCircles, OutOfTime, OutOfTurns, Stopped, WayOut


def test_turns_are_counted() -> None:
    limits = Limits(2, None, lambda: None)
    limits.take_turn()
    limits.take_turn()
    with pytest.raises(OutOfTurns, match="2 turns"):
        limits.take_turn()
    assert limits.turns == 2


def test_a_cancel_interrupts_and_wins() -> None:
    interrupted = threading.Event()
    limits = Limits(0, None, interrupted.set)
    limits.cancel()
    assert interrupted.is_set()
    with pytest.raises(Stopped):
        limits.take_turn()


def test_time_runs_out_in_a_thread_of_its_own() -> None:
    interrupted = threading.Event()
    with Limits(9, 0.01, interrupted.set) as limits:
        assert interrupted.wait(30)
        with pytest.raises(OutOfTime, match=r"0\.01 s"):
            limits.check()


def test_the_clock_ends_with_the_run() -> None:
    interrupted = threading.Event()
    with Limits(9, 3600, interrupted.set) as limits:
        limits.check()
    assert limits._timer is not None
    limits._timer.join(30)
    assert not limits._timer.is_alive()
    assert not interrupted.is_set()


def test_every_way_out_has_its_own_reason() -> None:
    reasons = [each.reason for each in WayOut.__subclasses__()]
    assert len(set(reasons)) == len(reasons) == 9


def test_the_same_call_is_warned_about_and_then_ends_the_run() -> None:
    circles = Circles()
    arguments: Mapping[str, Any] = {"path": "a", "first": 1}
    warned = [circles.note("read", arguments, "same") for _ in range(4)]
    assert warned == [False, False, True, False]
    with pytest.raises(GoesInCircles, match="read was called 5 times"):
        circles.note("read", {"first": 1, "path": "a"}, "same")


def test_another_result_or_a_change_is_no_circle() -> None:
    circles = Circles()
    for number in range(9):
        assert not circles.note("shell", {"command": "pytest"}, str(number))
    for _ in range(9):
        circles.changed()
        assert not circles.note("shell", {"command": "pytest"}, "same")


def test_the_outbox_keeps_events_only_for_who_reads() -> None:
    heard: list[AgentEvent] = []
    outbox = Outbox(heard.append)
    outbox.say(Wrote("a"))  # before anybody reads: kept for the first
    outbox.open()
    outbox.say(Wrote("b"))
    assert list(outbox.drain()) == [Wrote("a"), Wrote("b")]
    assert list(outbox.drain()) == []
    outbox.say(Wrote("c"))
    outbox.close()
    assert list(outbox.drain()) == []
    outbox.say(Wrote("d"))
    outbox.open()
    assert list(outbox.drain()) == []
    assert heard == [Wrote("a"), Wrote("b"), Wrote("c"), Wrote("d")]
