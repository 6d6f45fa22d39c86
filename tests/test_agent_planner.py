"""What a step reads, and plans that the user gives, in runs from prompt to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import DONE, EDIT, FIX, QUESTION, SHOP, Runs, call, make_repository, plan
from session_pair import TALKER

from pace_agent.events import Changed, Noted, Returned, StepStarted
from pace_agent.sessions.places import AGENTS_DIR_VARIABLE
from pace_local import Model
from pace_local.testing import TinySpec

LARGE = "".join(f"def function_{number}(value):\n    return value + {number}\n\n\n" for number in range(18))
"""More than a quarter of a step's room."""


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", {**SHOP, "shop/large.py": LARGE})


def test_a_file_that_was_shown_in_outline_can_be_read_whole(model: Model, shop: Path) -> None:
    """The outline was taken for its lines: the model was told that it had them, until it was stopped."""
    read = call("read", path="shop/large.py")
    lines = [plan(("look at it", ["shop/large.py"])), read, read, DONE]
    with Runs(model, shop, lines, watch=False) as runs:
        assert runs.run("Correct function_3 in shop/large.py").reason == "done"
        (started,) = runs.of(StepStarted)
        assert started.reads["outline:shop/large.py:1"] == "read"
        whole, again, _ = (event.result for event in runs.of(Returned))
        assert "def function_17(value):\n    return value + 17" in whole
        assert again.endswith("you have them already.")


@pytest.mark.parametrize("is_undone", [False, True], ids=["resumed", "undone"])
def test_an_outline_of_an_unchanged_file_is_no_news(
    model: Model, shop: Path, is_undone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AGENTS_DIR_VARIABLE, str(tmp_path / "agents"))
    lines = [plan(("look at it", ["shop/large.py"])), DONE]
    task = "Correct function_3 in shop/large.py"
    if is_undone:
        with Runs(model, shop, [*lines, call("done", result="19"), "It is 19."], watch=False) as runs:
            runs.run(task)
            runs.run(QUESTION)
            runs.agent.undo()
            runs.run(QUESTION)
    else:
        with Runs(model, shop, lines, watch=False, session="kept") as runs:
            runs.run(task)
        with Runs(model, shop, ["It is 19."], watch=False, session="kept", resume=True) as runs:
            runs.run(QUESTION)
    assert runs.of(Changed) == []
    assert runs.of(Noted) == []


def test_a_plan_for_the_next_prompt_outlives_an_undo(model: Model, shop: Path) -> None:
    """The plan was emptied, and still taken for the user's: the next run did nothing, and succeeded."""
    with Runs(model, shop, ["It is 19.", EDIT, DONE], watch=False) as runs:
        runs.run(QUESTION)
        runs.agent.set_plan([("correct total", ["shop/cart.py"])])
        runs.agent.undo()
        assert [step.text for step in runs.agent.plan] == ["correct total"]
        assert runs.run(FIX).result == "total adds all"
        assert [event.step for event in runs.of(StepStarted)][1:] == ["correct total"]
        runs.agent.undo()
        assert runs.agent.plan == ()
