from __future__ import annotations

from types import SimpleNamespace

import pytest
from textual import events
from textual.pilot import Pilot
from tui_pilot import ASKED, CALLED, RETURNED, answered, drive, settle, shown, until, write

from pace_tui.app import PaceApp
from pace_tui.grace import GRACE, Grace
from pace_tui.screens.approval import ApprovalScreen
from pace_tui.testing import FakeConnect, ended

COMMAND = {
    "type": "asked", "id": 2, "tool": "shell", "what": "rm -r [build] \x1b[2J", "reason": "it deletes",
    "diff": "", "offers": [],
}  # fmt: skip


async def ask(app: PaceApp, pilot: Pilot[int], *, wait: float = GRACE + 0.1) -> None:
    await write(pilot, "fix")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
    await settle(app, pilot, wait)


@pytest.mark.parametrize(("key", "scope"), [("y", "once"), ("a", "session"), ("p", "project"), ("n", "no")])
def test_each_key_gives_its_answer(key: str, scope: str) -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await ask(app, pilot)
        text = "\n".join(shown(app))
        assert "return sum(prices[1:])" in text
        assert "the mode asks" in text
        await pilot.press(key)
        await settle(app, pilot)
        assert connect.worker.told("answer") == [{"type": "answer", "id": 1, "scope": scope, "message": ""}]
        assert app.screen is app.main
        expected = "✓ edit" if scope != "no" else "⊘ edit"
        assert expected in "\n".join(shown(app))

    drive(steps, runs=[answered(CALLED, ASKED, RETURNED)])


def test_keys_count_by_when_they_were_pressed_once_the_question_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: keys that waited while a long diff was drawn were taken for answers to it."""
    monkeypatch.setattr("pace_tui.grace.time", SimpleNamespace(monotonic=lambda: 100.0))

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await ask(app, pilot)
        # Before it was seen; in its grace; and then each key makes the wait begin again.
        for pressed_at, key in ((40.0, "y"), (101.9, "n"), (103.0, "escape"), (104.0, "x"), (105.0, "y")):
            event = events.Key(key, key if len(key) == 1 else None)
            event.time = pressed_at
            app.post_message(event)
            await settle(app, pilot)
        assert connect.worker.told("answer") == []
        event = events.Key("y", "y")
        event.time = 107.1
        app.post_message(event)
        await settle(app, pilot)
        assert len(connect.worker.told("answer")) == 1

    drive(steps, runs=[answered(CALLED, ASKED, RETURNED)], grace=2.0)


def test_no_key_counts_before_the_question_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bool] = []

    def begin(grace: Grace) -> None:
        drawn.append("return sum(prices[1:])" in "\n".join(shown(asking[0])))

    monkeypatch.setattr(Grace, "begin", begin)
    asking: list[PaceApp] = []

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        asking.append(app)
        await ask(app, pilot)
        assert drawn == [True]
        await pilot.press("y", "a", "escape")  # it has not begun
        await settle(app, pilot)
        assert connect.worker.told("answer") == []

    drive(steps, runs=[answered(CALLED, ASKED, RETURNED)], grace=0.0)


def test_several_wait_in_order_and_each_has_a_grace_of_its_own() -> None:
    second = {**ASKED, "id": 3, "what": "second.py"}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(ASKED, COMMAND, second)
        await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await settle(app, pilot, GRACE + 0.1)
        assert "2 more wait" in "\n".join(shown(app))
        await pilot.press("y", "y", "y")
        await settle(app, pilot, GRACE + 0.1)
        assert [each["id"] for each in connect.worker.told("answer")] == [1]
        text = "\n".join(shown(app))
        assert "rm -r [build] ·[2J" in text
        assert "session and project cover" not in text
        await pilot.press("a")  # not offered
        await pilot.press("n")
        await settle(app, pilot, GRACE + 0.1)
        assert "second.py" in "\n".join(shown(app))
        await pilot.press("a")
        await settle(app, pilot)
        answers = [(each["id"], each["scope"]) for each in connect.worker.told("answer")]
        assert answers == [(1, "once"), (2, "no"), (3, "session")]

    drive(steps)


@pytest.mark.parametrize("leave", ["", "tab", "click"])
def test_no_with_what_to_do_instead(leave: str) -> None:
    """Regression: once the focus had left the field, its letters were keys that answered yes."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await ask(app, pilot)
        await pilot.press("t")
        await write(pilot, "no use")
        if leave == "click":
            await pilot.click("#approval-what")
        elif leave:
            await pilot.press(leave)
        await write(pilot, " pytest, say yap")
        assert connect.worker.told("answer") == []
        await pilot.press("enter")
        await settle(app, pilot)
        answer = {"type": "answer", "id": 1, "scope": "no", "message": "no use pytest, say yap"}
        assert connect.worker.told("answer") == [answer]

    drive(steps, runs=[answered(CALLED, ASKED)])


def test_escape_refuses_and_stops_and_first_leaves_the_field() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await ask(app, pilot)
        await pilot.press("t", "x", "escape")
        await pilot.pause()
        assert isinstance(app.screen, ApprovalScreen)
        await pilot.press("escape")
        await settle(app, pilot)
        assert [each["type"] for each in connect.worker.sent] == ["prompt", "answer", "cancel"]

    drive(steps, runs=[[CALLED, ASKED, {"type": "pause"}]])


def test_what_was_settled_elsewhere_is_not_asked_any_more() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(ASKED, COMMAND)
        await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        connect.worker.say({"type": "decided", "id": 1, "allowed": True, "by": "mode", "reason": ""})
        await settle(app, pilot)
        assert "rm -r" in "\n".join(shown(app))
        connect.worker.say(ended("cancelled"))
        await settle(app, pilot)
        assert app.screen is app.main
        assert connect.worker.told("answer") == []

    drive(steps)


@pytest.mark.parametrize("size", [(40, 15), (300, 50)])
def test_a_long_diff_is_whole_and_scrolls_and_the_keys_stay_in_view(size: tuple[int, int]) -> None:
    lines = "".join(f"+line {number}\n" for number in range(300))
    asked = {**ASKED, "diff": f"--- a\n+++ b\n@@ -0,0 +1,300 @@\n{lines}"}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(asked)
        await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
        await settle(app, pilot, GRACE + 0.1)
        assert "line 299" not in "\n".join(shown(app))
        assert "once" in "\n".join(shown(app))
        await pilot.press("end")
        await settle(app, pilot)
        assert "line 299" in "\n".join(shown(app))
        assert "once" in "\n".join(shown(app))
        assert connect.worker.told("answer") == []

    drive(steps, size=size)
