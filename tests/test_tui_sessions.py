from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual.pilot import Pilot
from tui_pilot import (
    CALLED,
    PLANNED,
    RETURNED,
    STEP,
    TURNED,
    answered,
    drive,
    settle,
    shown,
    until,
    write,
    wrote,
)

from pace_agent.events import Ended, Prompted, Wrote
from pace_agent.sessions.log import SessionFolder
from pace_tui.app import PaceApp
from pace_tui.past import read_past
from pace_tui.process_life import ProcessLife
from pace_tui.repository import past_of, sources_of
from pace_tui.screens.sessions import SessionsScreen
from pace_tui.screens.trust import TrustScreen
from pace_tui.session_state import SessionState
from pace_tui.sources import KeptSession, Sources
from pace_tui.testing import GREETING, FakeConnect, FakeWorker, ended, started
from pace_tui.wire import Command, Inbox, Options, Receive, Received, WorkerLike

SESSIONS = [
    KeptSession("other", "make it [b]faster[/b]", 3, 1.7e9),
    KeptSession("taken", "anything", 1, 1.7e9, problem="process 12 has it"),
    KeptSession("fake", "now", 1, 1.7e9),
]


def prompted(prompt: str) -> Received:
    return {"type": "prompted", "prompt": prompt, "segment": "prompt:1", "number": 1}


PAST: list[Received] = [
    started(session="other", mode="auto"),
    prompted("make it faster"),
    PLANNED,
    STEP,
    wrote("It is "),
    wrote("**faster**."),
    CALLED,
    RETURNED,
    TURNED,
    {"type": "step_ended", "number": 1, "state": "done", "summary": ""},
    ended(),
    {**CALLED, "id": 2},  # and then it was killed
]


def test_a_session_is_chosen_and_what_was_said_in_it_is_shown() -> None:
    asked_for: list[str] = []
    may_read = threading.Event()

    def past(session: str, before: float) -> Iterator[Received]:
        asked_for.append(session)
        may_read.wait(20)
        yield from PAST

    settings = [
        {"greeting": GREETING, "runs": [answered(wrote("of the first"))]},
        {
            "greeting": [started(session="other", resumed=True), {"type": "ready"}],
            "runs": [answered(wrote("new"))],
        },
    ]

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "one")
        await pilot.press("enter")
        await settle(app, pilot)
        await write(pilot, "/sessions")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "make it [b]faster[/b]" in text
        assert "process 12 has it" in text
        await pilot.press("enter")
        await until(pilot, lambda: len(connect.workers) == 2)
        assert connect.worker.options == {"resume": "other"}
        await settle(app, pilot)
        assert "gone on with" not in "\n".join(shown(app))  # it comes behind the past
        may_read.set()
        await until(pilot, lambda: app.state.phase == "ready")
        await write(pilot, "more")
        await pilot.press("enter")
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "of the first" not in text
        places = [text.index(each) for each in (
            "session other begun", "make it faster", "It is faster.", "✓ edit", "✓ done", "■ edit",
            "the session goes on below", "session other gone on with", "▌ more", "new",
        )]  # fmt: skip
        assert places == sorted(places)
        assert asked_for == ["other"]
        assert app.state.history[0].session_tokens == 900
        assert app.state.history[0].bytes is None
        assert app.state.steps[0]["state"] == "done"
        assert app.state.mode == "ask"
        await pilot.press(*["up"] * 4)
        assert app.main.input.text == "make it faster"

    drive(steps, settings=settings, sources=Sources(sessions=lambda: SESSIONS, past=past))


def test_a_session_that_is_opened_by_name_shows_its_past_while_the_model_loads() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await until(pilot, lambda: "It is faster." in "\n".join(shown(app)))
        assert "loading 40%" in shown(app)[-1]
        connect.worker.say(started(session="other", resumed=True), {"type": "ready"})
        await settle(app, pilot)
        assert "\n".join(shown(app)).count("It is faster.") == 1
        connect.worker.say({"type": "died", "code": 1, "signal": "", "log": []})
        await until(pilot, lambda: len(connect.workers) == 2)
        connect.worker.say(started(session="other", resumed=True), {"type": "ready"})
        await settle(app, pilot)
        assert "\n".join(shown(app)).count("It is faster.") == 1

    drive(
        steps,
        settings=[{"greeting": [{"type": "loading", "share": 0.4}]}],
        options={"resume": "other"},
        sources=Sources(past=lambda session, before: PAST),
        size=(120, 60),
    )


def test_a_past_that_cannot_be_read_is_said_and_holds_nothing_up() -> None:
    def past(session: str, before: float) -> Iterator[Received]:
        raise OSError("the disk is [gone]")

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await until(pilot, lambda: app.state.phase == "ready")
        await settle(app, pilot)
        assert "the disk is [gone]" in "\n".join(shown(app))

    drive(steps, options={"resume": "other"}, sources=Sources(past=past))


def test_the_past_comes_from_the_sessions_log_up_to_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_AGENTS_DIR", str(tmp_path / "agents"))
    times = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    with SessionFolder.create("s1", tmp_path, clock=lambda: next(times)) as folder:
        folder.log(Prompted("do it", "prompt:1", 1))
        folder.log(Wrote("done [so] far"))
        folder.log(Ended("done", "", 1, 1.0))
        folder.log(Prompted("of the new process", "prompt:2", 2))
        [kept] = sources_of(tmp_path.resolve()).sessions()
        assert (kept.name, kept.prompts, "process" in kept.problem) == ("s1", 2, True)
    assert [each["type"] for each in past_of("s1", 5.0)] == ["prompted", "wrote", "ended"]
    past = read_past(past_of("s1", 5.0))
    assert past.prompts == ["do it"]
    markdown = "\n".join(entry.as_markdown() for entry in past.entries)
    assert "done [so] far" in markdown
    assert sources_of(tmp_path.resolve()).models()
    assert "pace_focus" in sources_of(tmp_path.resolve()).policies()


def test_a_long_past_is_laid_out_while_keys_still_count() -> None:
    events = [prompted(f"prompt {number}") for number in range(6000)]

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "typed meanwhile")
        assert app.main.input.text == "typed meanwhile"
        await until(pilot, lambda: "prompt 5999" in "\n".join(shown(app)), 30)
        assert len(app.main.transcript.entries) >= 6000

    drive(steps, options={"resume": "other"}, sources=Sources(past=lambda session, before: events))


@dataclass
class _Prepared:
    theme: str = ""
    editor: str = ""
    untrusted: tuple[str, ...] = ()
    declined: list[bool] = field(default_factory=list)

    def decline(self) -> None:
        self.declined.append(True)


@pytest.mark.parametrize(("key", "options"), [("y", {"trust": ""}), ("n", {}), ("escape", {})])
def test_trust_is_asked_for_before_anything_is_started(key: str, options: dict[str, str]) -> None:
    prepared = _Prepared("textual-light", "ed", ("AGENTS[x].md",))

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await settle(app, pilot)
        assert "AGENTS[x].md" in "\n".join(shown(app))
        assert connect.workers == []
        await pilot.press(key)
        await until(pilot, lambda: len(connect.workers) == 1)
        assert connect.worker.options == options
        assert app.theme == "textual-light"
        assert app.editor == "ed"
        await until(pilot, lambda: prepared.declined == [] if key == "y" else prepared.declined == [True])

    drive(steps, prepare=lambda: prepared, grace=0.0)


def test_settings_that_cannot_be_used_are_said_and_the_agent_is_started() -> None:
    def prepare() -> _Prepared:
        raise ValueError("budget [many] is no number")

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await until(pilot, lambda: app.state.phase == "ready")
        assert "budget [many] is no number" in "\n".join(shown(app))

    drive(steps, prepare=prepare)


def test_what_would_break_a_run_off_waits_for_its_end() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "go")
        await pilot.press("enter")
        await settle(app, pilot)
        await write(pilot, "/clear")
        await pilot.press("enter")
        await settle(app, pilot)
        assert "Esc stops it" in "\n".join(shown(app))
        assert len(connect.workers) == 1

    drive(steps, runs=[[wrote("x"), {"type": "pause"}]])


# The process


class _Orders:
    """Connects workers whose life is written down."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.workers: list[FakeWorker] = []

    def __call__(self, options: Options, receive: Receive) -> WorkerLike:
        orders, name = self, options["model"]

        class Worker(FakeWorker):
            def send(self, command: Command) -> None:
                orders.lines.append(f"{name} {command['type']}")

            def close(self) -> None:
                orders.lines.append(f"{name} closed")

        if name == "bad":
            raise OSError("no such model")
        self.lines.append(f"{name} started")
        self.workers.append(Worker(receive))
        return self.workers[-1]


def wait_for(lines: list[str], count: int) -> None:
    async def wait() -> None:
        while len(lines) < count:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(wait(), 20))


def test_one_process_ends_before_the_next_begins_and_what_was_told_meanwhile_arrives() -> None:
    orders, inbox = _Orders(), Inbox(lambda: None)
    failed: list[str] = []
    life = ProcessLife(orders, {"model": "a"}, inbox, failed.append)
    assert life.tell({"type": "early"})
    life.start()
    assert life.tell({"type": "note"})
    wait_for(orders.lines, 3)
    life.start(model="b")
    assert life.tell({"type": "pin"})
    wait_for(orders.lines, 6)
    assert orders.lines == ["a started", "a early", "a note", "a closed", "b started", "b pin"]
    orders.workers[0].say({"type": "late"})
    orders.workers[1].say({"type": "ready"})
    assert inbox.take() == [{"type": "ready"}]
    life.start(model="bad")
    wait_for(failed, 1)
    assert failed == ["no such model"]
    assert not life.tell({"type": "undo"})
    life.close()
    assert orders.lines[-1] == "b closed"


def test_a_session_that_is_begun_anew_is_not_resumed_again() -> None:
    life = ProcessLife(
        lambda options, receive: FakeWorker(receive), {"resume": "a"}, Inbox(lambda: None), print
    )
    life.start(resume="")
    assert life.options == {}
    life.close()


def test_a_past_says_nothing_about_the_process() -> None:
    state = SessionState(mode="plan", phase="loading")
    past = read_past(PAST).state
    state.adopt(past)
    assert (state.mode, state.phase, state.began) == ("plan", "loading", None)
    assert state.reused == 800
