"""What the user sends keeps its order, is shown at once, and does not take back what it was not about."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from textual.pilot import Pilot
from tui_pilot import CALLED, RETURNED, drive, settle, shown, until, write, wrote

from pace_tui.app import PaceApp
from pace_tui.testing import GREETING, FakeConnect, FakeWorker, ended, started
from pace_tui.wire import Command, Received

LOADING = {
    "greeting": [{"type": "loading", "share": 0.5}],
    "runs": [[wrote("x"), {"type": "pause"}, ended()]],
}


def prompted(prompt: str) -> Received:
    return {"type": "prompted", "prompt": prompt, "segment": "p", "number": 1}


async def send(pilot: Pilot[int], *lines: str) -> None:
    for line in lines:
        await write(pilot, line)
        await pilot.press("enter")
        await pilot.pause()


def kinds(worker: FakeWorker) -> list[str]:
    return [each["type"] for each in worker.sent]


def test_nothing_overtakes_what_was_sent_before() -> None:
    """Regression: commands and /undo went to the process at once, past prompts that waited."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        worker = connect.worker
        await send(pilot, "fix it", "!make", "/undo", "!make clean", "next")
        await settle(app, pilot)
        assert worker.sent == []
        assert "5 waiting" in shown(app)[-1]
        text = "\n".join(shown(app))
        assert "▌ !make  (waits)" in text
        assert "▌ /undo  (waits)" in text
        worker.say(*GREETING[1:])
        await settle(app, pilot)
        assert kinds(worker) == ["prompt"]
        worker.go_on()
        await settle(app, pilot)
        assert kinds(worker) == ["prompt", "shell", "undo", "shell", "prompt"]
        assert "(waits)" not in "\n".join(shown(app))

    drive(steps, settings=[LOADING])


def test_a_command_while_a_run_goes_on_waits_behind_the_prompts_and_escape_drops_it() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        worker = connect.worker
        await send(pilot, "one", "two", "!make")
        assert kinds(worker) == ["prompt"]
        worker.go_on()
        await settle(app, pilot)
        assert kinds(worker) == ["prompt", "prompt", "shell"]

    runs = [[wrote("x"), {"type": "pause"}, ended()], [wrote("y"), ended()]]
    drive(steps, settings=[{"greeting": GREETING, "runs": runs}])

    async def dropping(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await send(pilot, "!make", "/undo")
        await pilot.press("escape")
        connect.worker.say(*GREETING[1:])
        await settle(app, pilot)
        assert connect.worker.sent == []
        assert "▌ !make  (not sent)" in "\n".join(shown(app))

    drive(dropping, settings=[LOADING])


class _Silent(FakeWorker):
    """Says nothing to a prompt by itself."""

    def send(self, command: Command) -> None:
        self.sent.append(command)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "send", _Silent.send)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("end", [ended("cancelled"), {"type": "died", "code": 1, "signal": "", "log": []}])
def test_a_prompt_is_shown_when_it_is_sent_and_that_it_was_not_read(end: Received) -> None:
    """Regression: one that was interrupted while it was read was never shown, or waited for ever."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        first = connect.worker
        await send(pilot, "a long one")
        await settle(app, pilot)
        assert any(line.strip().startswith("▌ a long one") for line in shown(app))
        await send(pilot, "/undo", "second")  # it would take back what was said before
        first.say(end)
        await until(pilot, lambda: bool(connect.worker.told("prompt")))
        await until(pilot, lambda: kinds(connect.worker)[-1] == "prompt")
        await settle(app, pilot)
        worker = connect.worker
        assert "undo" not in [each["type"] for one in connect.workers for each in one.sent]
        worker.say(prompted("second"), wrote("answer"), ended())
        await settle(app, pilot)
        await send(pilot, "third")
        worker.say(prompted("third"))
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "▌ a long one  (not read)" in text
        assert "▌ /undo  (not sent)" in text
        for prompt in ("second", "third"):
            assert text.count(f"▌ {prompt}") == 1
        assert "(waits)" not in text
        assert text.count("(not read)") == 1

    drive(steps)


def test_an_undo_takes_back_the_prompt_that_was_read_though_it_was_stopped() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await send(pilot, "one", "/undo")
        await pilot.press("escape")
        await settle(app, pilot)
        assert kinds(connect.worker) == ["prompt", "cancel", "undo"]

    drive(steps, runs=[[CALLED, RETURNED, {"type": "pause"}]])


@dataclass
class _Prepared:
    theme: str = ""
    editor: str = ""
    untrusted: Sequence[str] = ()

    def decline(self) -> None:
        pass


def test_what_is_told_before_there_is_a_process_arrives_and_starts_none() -> None:
    """Regression: it was lost, with the advice to start the agent, which was about to start."""
    is_known = threading.Event()

    def prepare() -> _Prepared:
        is_known.wait(60)
        return _Prepared()

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await send(pilot, "!make", "/note use tabs", "/model other", "/resume")
        await pilot.press("shift+tab")
        await send(pilot, "go")
        await settle(app, pilot)
        assert connect.workers == []
        is_known.set()
        await until(pilot, lambda: bool(connect.workers) and bool(connect.worker.told("prompt")))
        assert kinds(connect.worker) == ["note", "mode", "shell", "prompt"]
        assert connect.worker.options == {"model": "other", "mode": "accept-edits"}
        assert len(connect.workers) == 1
        assert "not running" not in "\n".join(shown(app))

    drive(steps, prepare=prepare)


def test_a_run_that_could_not_be_logged_leaves_the_screen_ready() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await send(pilot, "one", "two")
        connect.worker.say(started(), ended("failed", "cannot write events.jsonl: [No space]"))
        await settle(app, pilot)
        assert [each["prompt"] for each in connect.worker.told("prompt")] == ["one", "two"]
        assert "cannot write events.jsonl: [No space]" in "\n".join(shown(app))

    drive(steps, runs=[[wrote("x"), {"type": "pause"}], [wrote("y"), {"type": "pause"}]])
