"""Cancelling a run, and its time limit, wherever it stands; the next prompt works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_runs import EDIT, FIX, PLAN, QUESTION, SHOP, Runs, call, make_repository, plan
from session_pair import TALKER

from pace_agent.events import (
    AgentEvent,
    Answer,
    Asked,
    Called,
    Ended,
    Memory,
    Output,
    Prompted,
    Turned,
    Wrote,
)
from pace_local import Model
from pace_local.testing import TinySpec

LONG = "".join(f"{number:05} some text to read\n" for number in range(400))


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


class When:
    """A listener that does something once, at the first event that it is told to wait for."""

    def __init__(self, is_it: Callable[[AgentEvent], bool], act: Callable[[], None]) -> None:
        self._is_it = is_it
        self._act = act
        self.acted_at: float | None = None

    def __call__(self, event: AgentEvent) -> None:
        if self.acted_at is None and self._is_it(event):
            self.acted_at = time.monotonic()
            self._act()


def ended_by(runs: Runs, is_it: Callable[[AgentEvent], bool], prompt: str = FIX) -> Ended:
    """Cancel a run at an event; then the agent must still answer a question, and its cache must be whole."""
    when = When(is_it, runs.agent.cancel)
    runs.listen(when)
    end = runs.run(prompt)
    assert when.acted_at is not None, "what was waited for never happened"
    runs.agent.session.check()
    return end


def answers(runs: Runs) -> None:
    end = runs.run(QUESTION)
    assert (end.reason, end.result) == ("done", "It is 19.")


def progress(event: AgentEvent) -> bool:
    return isinstance(event, Memory) and event.event["type"] == "progress"


def test_a_long_prompt_that_is_being_read(model: Model, shop: Path) -> None:
    """It stops within a batch, and nothing of it is left."""
    with Runs(model, shop, ["It is 19."]) as runs:
        before = runs.agent.session.session_length
        done: list[int] = []
        runs.listen(lambda event: done.append(event.event["done"]) if progress(event) else None)
        end = ended_by(runs, progress, LONG)
        assert (end.reason, end.turns) == ("cancelled", 0)
        assert len(done) == 1  # it was cancelled at the first piece, and no second was read
        assert runs.agent.session.session_length == before
        answers(runs)


def test_a_file_that_is_being_read(model: Model, shop: Path) -> None:
    (shop / "long.txt").write_text(LONG)
    read = call("read", path="long.txt")
    with Runs(model, shop, [PLAN, read, "It is 19."], budget=16384, position_cap=32768) as runs:
        called: list[int] = []

        def is_it(event: AgentEvent) -> bool:
            if isinstance(event, Called):
                called.append(event.id)
            return bool(called) and progress(event)

        end = ended_by(runs, is_it)
        assert end.reason == "cancelled"
        assert not [one for one in runs.agent.session.segments if one.name.startswith("file:long.txt")]
        answers(runs)


def test_an_answer_that_is_being_written(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "I think. " * 60 + EDIT, "It is 19."]) as runs:
        end = ended_by(runs, lambda event: isinstance(event, Wrote))
        assert (end.reason, end.is_success, end.turns) == ("cancelled", False, 2)
        assert "prices[1:]" in (shop / "shop/cart.py").read_text()
        answers(runs)


def test_an_answer_that_is_about_to_begin(model: Model, shop: Path) -> None:
    """Between two answers: what the second one asks is not read."""

    def cancel(sampling: object) -> str:
        runs.agent.cancel()
        return EDIT

    with Runs(model, shop, [PLAN, cancel, "It is 19."]) as runs:
        assert runs.run(FIX).reason == "cancelled"
        assert runs.of(Called) == []
        answers(runs)


def test_a_command_that_runs(model: Model, shop: Path) -> None:
    """It is ended with what it started, within the shell's grace."""
    sleep = call("shell", command="echo begun; sleep 30 & sleep 30; echo over")
    with Runs(model, shop, [PLAN, sleep, "It is 19."], mode="auto") as runs:
        end = ended_by(runs, lambda event: isinstance(event, Output) and "begun" in event.written)
        assert end.reason == "cancelled"
        assert end.seconds < 25
        assert "over" not in "".join(event.written for event in runs.of(Output))
        answers(runs)


def test_while_a_permission_is_asked(model: Model, shop: Path) -> None:
    """A yes that comes after the cancel changes nothing."""

    def approve(asked: Asked) -> Answer:
        runs.agent.cancel()
        return Answer("once")

    with Runs(model, shop, [PLAN, EDIT, "It is 19."], mode="ask", approve=approve) as runs:
        assert runs.run(FIX).reason == "cancelled"
        assert "prices[1:]" in (shop / "shop/cart.py").read_text()
        answers(runs)


def test_before_the_first_turn(model: Model, shop: Path) -> None:
    with Runs(model, shop, ["It is 19."]) as runs:
        end = ended_by(runs, lambda event: isinstance(event, Prompted))
        assert (end.reason, end.turns, end.generated) == ("cancelled", 0, 0)
        runs.agent.cancel()  # nothing runs: nothing happens, now or later
        answers(runs)


def test_while_a_step_s_files_are_read(model: Model, shop: Path) -> None:
    """Cancelled as a step begins to read: none of its files is there, and the next prompt begins anew."""
    steps = plan(("correct total", ["shop/cart.py", "README.md", "tests/test_cart.py"]))
    with Runs(model, shop, [steps, "It is 19."]) as runs:

        def files() -> list[str]:
            return [one.name for one in runs.agent.session.segments if one.name.startswith("file:")]

        end = ended_by(runs, lambda event: bool(runs.of(Turned)) and progress(event))
        assert (end.reason, end.turns) == ("cancelled", 1)
        assert files() == []
        answers(runs)
        assert files() != []


@pytest.fixture
def run_out(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the time limit be reached now, however long it is."""
    timers: list[threading.Timer] = []

    class Timer(threading.Timer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            timers.append(self)

    monkeypatch.setattr("pace_agent.limits.threading", SimpleNamespace(Timer=Timer))
    return lambda: timers[-1].function()


def test_the_time_limit_while_a_prompt_is_read(model: Model, shop: Path, run_out: Callable[[], None]) -> None:
    with Runs(model, shop, ["It is 19."]) as runs:
        when = When(progress, run_out)
        runs.listen(when)
        end = runs.run(LONG, time_limit=600)
        assert when.acted_at is not None
        assert (end.reason, end.is_success, end.turns) == ("time", False, 0)
        answers(runs)


@pytest.mark.parametrize(
    ("line", "event", "written"),
    [
        ("I think. " * 60, Wrote, "I"),
        (call("shell", command="echo begun; sleep 600"), Output, "begun"),
    ],
    ids=["answer", "command"],
)
def test_the_time_limit(
    model: Model,
    shop: Path,
    run_out: Callable[[], None],
    line: str,
    event: type[Wrote | Output],
    written: str,
) -> None:
    with Runs(model, shop, [line, "It is 19."], mode="auto") as runs:
        when = When(lambda one: isinstance(one, event) and written in one.written, run_out)
        runs.listen(when)
        runs.agent.set_plan([("correct total", ["shop/cart.py"])])
        end = runs.run(FIX, time_limit=600)
        assert when.acted_at is not None
        assert (end.reason, end.result) == ("time", "the time limit of 600 s is reached")
        runs.agent.session.check()
        answers(runs)
