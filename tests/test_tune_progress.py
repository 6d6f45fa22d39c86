"""Progress of a tuning: a line a point, and an estimate that follows from what was measured."""

from __future__ import annotations

import importlib
import io
import sys

import pytest

from pace_local.tuning import Axis, Grid, Measurement, Outcome, Progress

MEASURED = Outcome(Measurement(((-1.5,),), 1, 0, 0, 0, 1.0, 1, "r"))
REFUSED = Outcome(None, "too small")


class Clock:
    """A clock that stands still until it is told."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(importlib.import_module("pace_local.tuning.progress"), "time", clock)
    return clock


def stderr(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = False) -> io.StringIO:
    """Takes the place of stderr; to be called in a test, since pytest puts its own there before it."""
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


GRID = Grid.product([Axis("n", (1, 2)), Axis("size", (None, 5))])


def test_a_line_a_point(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stderr(monkeypatch)
    progress = Progress(GRID, "p", quiet=False)
    clock.now += 10
    progress.point(-1, MEASURED, False)
    progress.point(0, MEASURED, True)
    clock.now += 1
    progress.point(1, REFUSED, False)
    clock.now += 2000
    progress.point(2, MEASURED, False)
    clock.now += 3
    progress.point(3, MEASURED, False)
    assert shown.getvalue().splitlines() == [
        "1 of 5, reference: 1.5000 nats; about 40 s left",
        "2 of 5, n=1 size=none: 1.5000 nats, measured before; about 30 s left",
        "3 of 5, n=1 size=5: refused: too small; about 20 s left",
        "4 of 5, n=2 size=none: 1.5000 nats; about 17 min left",
        "5 of 5, n=2 size=5: 1.5000 nats",
    ]


def test_a_log_hears_of_a_long_point_now_and_then(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stderr(monkeypatch)
    progress = Progress(GRID, "p", quiet=False)
    clock.now += 29
    progress.turn(1, 10)
    clock.now += 11
    progress.turn(2, 10)  # 40 s for a fifth: 200 s for each of five
    clock.now += 29
    progress.turn(3, 10)
    clock.now = 100.0 + 200
    progress.point(-1, MEASURED, False)
    clock.now += 50
    progress.turn(1, 10)
    assert shown.getvalue().splitlines() == [
        "point 1 of 5: 20 %, about 16 min left",
        "1 of 5, reference: 1.5000 nats; about 13 min left",
        "point 2 of 5: 10 %, about 12 min left",
    ]


def test_a_terminal_has_one_line_that_is_redrawn(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stderr(monkeypatch, is_terminal=True)
    progress = Progress(GRID, "p", quiet=False)
    for turn in (1, 2, 3, 4):
        clock.now += 0.15
        progress.turn(turn, 4)
    assert shown.getvalue().count("\r\x1b[Kpoint 1 of 5: ") == 2
    assert "\n" not in shown.getvalue()
    progress.point(-1, MEASURED, False)
    last = shown.getvalue().split("\r\x1b[K")[-1]
    assert last.startswith("1 of 5, reference: ")
    before = shown.getvalue()
    progress.clear()
    assert shown.getvalue() == before, "there is nothing to take away"


def test_quiet(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stderr(monkeypatch)
    progress = Progress(GRID, "p", quiet=True)
    clock.now += 1000
    progress.turn(1, 10)
    progress.point(-1, MEASURED, False)
    assert shown.getvalue() == ""


def test_hours(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stderr(monkeypatch)
    progress = Progress(GRID, "p", quiet=False)
    clock.now += 3600
    progress.point(-1, MEASURED, False)
    assert shown.getvalue() == "1 of 5, reference: 1.5000 nats; about 4.0 h left\n"
