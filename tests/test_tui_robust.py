"""Text that is meant to break a screen, terminals of all sizes, and processes that do not answer."""

from __future__ import annotations

import threading
import unicodedata
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import OptionList
from tui_pilot import TURNED, VIEW, drive, run_of, segment_of, settle, shown, until, write, wrote

from pace_tui.app import PaceApp
from pace_tui.completion import rank
from pace_tui.screens.approval import ApprovalScreen
from pace_tui.screens.memory import MemoryScreen
from pace_tui.screens.sessions import SessionsScreen
from pace_tui.screens.text import TextScreen
from pace_tui.sources import KeptSession, Sources
from pace_tui.testing import GREETING, FakeConnect, FakeWorker, started
from pace_tui.wire import Options, Receive, Received, WorkerLike

HOSTILE = (
    "[b]x[/b][/][@click=app.leave]y[/] \x1b[31m\x1b]0;t\x07\x9b2J\u202e漢字👩\u200d💻שלום e\u0301\x00\ud800"
)
"""Markup, control characters, marks of direction, wide characters, a joined emoji, half a surrogate pair."""
PLAIN = "[b]x[/b][/][@click=app.leave]y[/]"
"""The part of it that must be seen as it is."""


def hostile(place: str) -> str:
    return f"{place}:{HOSTILE}"


def everything() -> list[Received]:
    diff = f"@@ -1,2 +1,2 @@ {HOSTILE}\n-{HOSTILE}\n+{HOSTILE * 9}\n \u2028same\n"
    view = {
        **VIEW,
        "residents": [
            run_of(hostile("segment"), "file", 0, 500, is_read=True),
            run_of("b", hostile("kind"), 500, 9),
        ],
        "segments": [
            segment_of(hostile("segment"), "file", 500, 0),
            segment_of(hostile("gone"), "tool", 9, None),
        ],
    }
    step = {
        "text": hostile("step"),
        "reads": [hostile("segment")],
        "wanted": [hostile("wanted")],
        "state": "running",
    }
    return [
        started(model=hostile("model"), session=hostile("session"), policy=hostile("policy")),
        {"type": "ready"},
        {"type": "prompted", "prompt": hostile("prompt"), "segment": "p", "number": 1},
        {"type": "planned", "by": hostile("by"), "reason": hostile("reason"), "steps": [step]},
        {"type": "step_started", "number": 1, "of": 1, "step": hostile("step"),
         "reads": {hostile("segment"): "spliced", hostile("absent"): "absent"}},
        {"type": "thought", "written": hostile("thought")},
        wrote(f"{hostile('answer')}\n\n# {hostile('title')}\n\n```\n{hostile('code')}\n```\n\n"),
        wrote(f"|a|b|\n|-|-|\n|{hostile('cell')}|漢|\n"),
        {"type": "called", "id": 1, "tool": hostile("tool"),
         "arguments": {"path": hostile("file"), HOSTILE: HOSTILE}},
        {"type": "output", "id": 1, "written": hostile("output")},
        {"type": "returned", "id": 1, "tool": "t", "ok": False, "result": hostile("result"), "seconds": 1.0,
         "segment": ""},
        {"type": "changed", "path": hostile("path"), "by": "user", "diff": diff, "stale": [hostile("stale")]},
        {"type": "changed", "path": "agent.py", "by": "agent", "diff": diff, "stale": []},
        {"type": "missed", "segment": hostile("missed"), "means": "read", "reason": ""},
        {"type": "noted", "note": hostile("note"), "segment": ""},
        {"type": "warned", "message": hostile("warning")},
        {"type": "error", "message": hostile("error"), "fatal": False},
        {"type": "undone", "number": 1, "restored": [hostile("restored")], "removed": [],
         "kept": [hostile("kept")]},
        {"type": "step_ended", "number": 1, "state": "failed", "summary": hostile("summary")},
        {"type": "memory", "event": {"type": "recalled", "segment": hostile("recalled"), "means": "spliced"}},
        TURNED,
        view,
        {"type": "ended", "reason": "failed", "result": hostile("end"), "turns": 1, "seconds": 1.0,
         "changed": [hostile("changed")]},
    ]  # fmt: skip


SEEN = (
    "prompt", "answer", "title", "code", "cell", "tool", "result", "path", "missed", "note", "warning",
    "error", "restored", "kept", "summary", "end", "changed", "absent", "step", "segment", "wanted", "gone",
    "stale", "model", "session", "recalled",
)  # fmt: skip
"""Places that are all on a large screen at once."""


def fits(app: PaceApp) -> bool:
    """Whether no line is too long."""
    return all(cell_len(line) <= app.size.width for line in shown(app))


def check(app: PaceApp) -> str:
    """The screen holds nothing that a terminal obeys, and no line is too long; returns its text."""
    lines = shown(app)
    for line in lines:
        assert cell_len(line) <= app.size.width
        assert not [one for one in line if unicodedata.category(one) in ("Cc", "Cs") or one == "\u202e"], line
    return "\n".join(lines)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
@pytest.mark.parametrize("size", [(40, 15), (300, 90)])
def test_hostile_text_is_shown_letter_for_letter_wherever_it_comes_from(
    size: tuple[int, int], theme: str
) -> None:
    names = [f"file.py:{PLAIN}", hostile("file2.py")]
    sessions = [
        KeptSession(hostile("name"), hostile("asked"), 1, 0.0),
        KeptSession("b", "", 1, 0.0, hostile("held")),
    ]

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*everything())
        await settle(app, pilot)
        await pilot.press("ctrl+o", "f3")
        await settle(app, pilot)
        text = check(app)
        if size[0] > 100:
            for place in SEEN:
                assert f"{place}:{PLAIN}"[:30] in text, place
        for key in ("ctrl+t", "ctrl+k", "f3"):
            await pilot.press(key)
            await settle(app, pilot)
            check(app)
        if app.main.hide_over():
            await settle(app, pilot)
        app.main.input.area.focus()
        await write(pilot, "see @file")
        await until(pilot, lambda: app.query_one("#proposals", OptionList).display)
        await pilot.pause()
        assert "file.py:[b]x[/b]" in check(app)
        assert "file2.py" not in check(app)
        await pilot.press("escape", "ctrl+c")
        await write(pilot, "/sessions")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionsScreen))
        await settle(app, pilot)
        text = check(app)
        for place in ("name", "asked", "held"):
            assert f"{place}:[b]x[/b]" in text
        await pilot.press("escape")
        app.commands.do("inspect", hostile("segment"))
        connect.worker.say({"type": "text", "segment": hostile("segment"), "text": hostile("itstext")})
        await settle(app, pilot)
        assert "itstext:[b]x[/b]" in check(app)
        await pilot.press("escape", "f2")
        await settle(app, pilot)
        assert isinstance(app.screen, MemoryScreen)
        check(app)
        await pilot.press("escape")
        for diff in ("", f"@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n"):
            connect.worker.say({
                "type": "asked", "id": 7, "tool": hostile("tool"), "what": hostile("what"), "diff": diff,
                "reason": hostile("why"), "offers": [{"tool": "", "prefix": [hostile("offer")]}],
            })  # fmt: skip
            await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
            await settle(app, pilot)
            assert "what:[b]x[/b]" in check(app)
            await pilot.press("n")
            await settle(app, pilot)
        connect.worker.say({"type": "died", "code": 3, "signal": "", "log": [hostile("log")]})
        await settle(app, pilot)
        check(app)
        assert app.is_running

    drive(
        steps, size=size, theme=theme, grace=0.0, is_threaded=True,
        sources=Sources(files=lambda: names, sessions=lambda: sessions),
    )  # fmt: skip


OBEYED = "ok\x1b]52;c;QUJD\x1b\\x\u202e.py"
"""Sets the clipboard of many a terminal."""


def test_what_a_terminal_would_obey_is_not_proposed_and_not_written() -> None:
    """Regression: a file's name, or a prompt from before, went to the terminal as it was."""
    assert rank("ok", ["ok.py", OBEYED, "ok\n.py", "ok\udcff.py"]) == ["ok.py"]

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        app.main.input.text = OBEYED
        assert app.main.input.text == "ok·]52;c;QUJD·\\x·.py"
        app.main.input.text = ""
        app.main.input.remember_before([OBEYED])
        await pilot.press("up")
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "ok·]52" in text
        assert not {"\x1b", "\u202e"} & set(text)

    drive(steps)


@pytest.mark.parametrize("is_without_colour", [False, True])
def test_the_terminal_changes_its_size_while_text_streams(
    is_without_colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_without_colour:
        monkeypatch.setenv("NO_COLOR", "1")

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*everything()[2:])
        is_over = threading.Event()

        def stream() -> None:
            number = 0
            while not is_over.wait(0.002):
                number += 1
                connect.worker.receive(wrote(f"漢字 **word** {number} {'and more ' * 5}\n\n"))

        streaming = threading.Thread(target=stream)
        streaming.start()
        try:
            for size in ((40, 12), (300, 60), (41, 60), (20, 5), (120, 40)):
                await pilot.resize_terminal(*size)
                await until(pilot, lambda: fits(app))  # while all the cores are busy, in its own time
                check(app)
                assert app.main.transcript.is_following
        finally:
            is_over.set()
            streaming.join()
        connect.worker.say({"type": "warned", "message": "the last line"})
        await until(pilot, lambda: "the last line" in check(app))
        await pilot.press("ctrl+k", "ctrl+t")
        await settle(app, pilot)
        check(app)

    drive(steps)


class _Stuck(FakeWorker):
    def __init__(self, receive: Receive, released: threading.Event) -> None:
        super().__init__(receive, GREETING)
        self.released = released
        self.is_asked_to_close = threading.Event()
        self.is_killed = False

    def close(self) -> None:
        self.is_asked_to_close.set()
        self.released.wait(60)

    def kill(self) -> None:
        self.is_killed = True


def test_the_screen_goes_without_a_process_that_does_not_answer() -> None:
    """Regression: a worker thread outlives quit, and holds the terminal."""
    released = threading.Event()
    workers: list[_Stuck] = []

    def connect(options: Options, receive: Receive) -> WorkerLike:
        workers.append(_Stuck(receive, released))
        return workers[-1]

    async def steps(app: PaceApp, pilot: Pilot[int], _: FakeConnect) -> None:
        app.life.process.connect = connect
        app.life.restart()
        await until(pilot, lambda: len(workers) == 1)
        await write(pilot, "typed")
        app.life.restart()  # the first one does not end, and nobody waits
        await write(pilot, " more")
        await pilot.press("ctrl+j")
        assert app.main.input.text == "typed more\n"
        await pilot.press("ctrl+q")

    drive(steps)
    assert workers[0].is_asked_to_close.is_set()
    assert workers[0].is_killed
    assert not released.is_set()
    released.set()


def test_a_process_that_says_why_it_cannot_go_on_is_not_started_again_and_again() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(
            {"type": "error", "message": "there is no model 'x'", "fatal": True},
            {"type": "died", "code": 2, "signal": "", "log": []},
        )
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "there is no model 'x'" in text
        assert "/model takes another model" in text
        assert len(connect.workers) == 1
        assert "dead" in shown(app)[-1]
        await write(pilot, "go on")
        await pilot.press("enter")
        await settle(app, pilot)
        assert "/resume starts it" in "\n".join(shown(app))
        await write(pilot, "/model y")
        await pilot.press("enter")
        await until(pilot, lambda: len(connect.workers) == 2)
        await until(pilot, lambda: bool(connect.worker.told("prompt")))
        assert connect.worker.told("prompt")[0]["prompt"] == "go on"

    drive(steps)


def test_a_commands_output_is_shown_to_who_ordered_it() -> None:
    call: dict[str, Any] = {"type": "called", "id": 1, "tool": "shell", "arguments": {"command": "ls"}}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say({**call, "id": 9}, {"type": "output", "id": 9, "written": "of the model"})
        await write(pilot, "!ls")
        await pilot.press("enter")
        connect.worker.say(call, {"type": "output", "id": 1, "written": "a.py [b]"})
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert connect.worker.sent == [{"type": "shell", "command": "ls"}]
        assert "a.py [b]" in text
        assert "of the model" not in text
        assert "running a command" in shown(app)[-1]
        await pilot.press("escape")
        assert connect.worker.sent[-1] == {"type": "cancel"}

    drive(steps)


def test_a_text_that_comes_late_or_not_at_all_disturbs_nobody() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for segment in ("a", "b"):
            await write(pilot, f"/inspect {segment}")
            await pilot.press("enter")
            await settle(app, pilot)
            assert isinstance(app.screen, TextScreen)
            assert "between two turns" in "\n".join(shown(app))
            await pilot.press("escape")
        connect.worker.say({"type": "text", "segment": "a", "text": "late"})
        await settle(app, pilot)
        assert app.screen is app.main
        await write(pilot, "/inspect c")
        await pilot.press("enter")
        number = connect.worker.told("inspect")[-1]["id"]
        connect.worker.say({"type": "reply", "id": number, "ok": False, "message": "there is no segment 'c'"})
        await settle(app, pilot)
        assert "there is no segment 'c'" in "\n".join(shown(app))
        await pilot.press("escape")
        await write(pilot, "/inspect d")
        await pilot.press("enter")
        fatal = {"type": "error", "message": "x", "fatal": True}
        connect.worker.say(fatal, {"type": "died", "code": 2, "signal": "", "log": []})
        await settle(app, pilot)
        assert "nobody who has the text" in "\n".join(shown(app))
        await pilot.press("escape")
        await write(pilot, "/inspect e")
        await pilot.press("enter")
        await settle(app, pilot)
        assert "nobody who has the text" in "\n".join(shown(app))

    drive(steps)
