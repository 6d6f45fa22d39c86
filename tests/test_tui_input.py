from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList
from tui_pilot import CALLED, VIEW, answered, drive, settle, shown, until, write, wrote

from pace_tui.app import PaceApp
from pace_tui.commands import COMMANDS, UsageError, is_command, run_command
from pace_tui.completion import propose, rank
from pace_tui.editor import edit_text
from pace_tui.sources import KeptSession, Sources
from pace_tui.testing import GREETING, FakeConnect, ended, started
from pace_tui.wire import Command, Inbox, Received

FILES = ["shop/cart.py", "shop/orders.py", "tests/test_cart.py", "README.md"]


def test_files_are_ranked_by_where_the_letters_are() -> None:
    assert rank("cart", FILES) == ["shop/cart.py", "tests/test_cart.py"]
    assert rank("shop", FILES) == ["shop/cart.py", "shop/orders.py"]
    assert rank("sord", FILES)[0] == "shop/orders.py"
    assert rank("xyz", FILES) == []
    assert rank("", FILES)[0] == "README.md"


@pytest.mark.parametrize(
    ("line", "is_first", "inserted"),
    [
        ("/mo", True, ["/model ", "/mode ", "/memory"]),
        ("/mo", False, None),
        ("a /mo", True, None),
        ("/mode a", True, ["ask", "auto", "plan", "accept-edits"]),
        ("look at @orders", False, ["@shop/orders.py "]),
        ("mail me@orders", True, None),
        ("(@orders", True, ["@shop/orders.py "]),
        ("plain", True, None),
        ("/mode ask", True, None),
    ],
)
def test_what_is_proposed(line: str, is_first: bool, inserted: list[str] | None) -> None:
    names = {"file": FILES, "mode": ["plan", "ask", "accept-edits", "auto"]}
    found = propose(line, is_first, lambda kind: names[kind])
    if inserted is None:
        assert found is None
    else:
        assert found is not None
        assert {each.inserted for each in found.all} >= set(inserted) - {"/memory"}


def test_enter_sends_and_a_new_line_does_not() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "one\ntwo")
        await pilot.press("shift+enter")
        await write(pilot, "three")
        assert app.main.input.text == "one\ntwo\nthree"
        assert connect.worker.told("prompt") == []
        await pilot.press("enter")
        await settle(app, pilot)
        assert connect.worker.told("prompt") == [{"type": "prompt", "prompt": "one\ntwo\nthree"}]
        assert app.main.input.text == ""
        await pilot.press("enter")
        assert len(connect.worker.told("prompt")) == 1

    drive(steps)


def test_a_paste_of_many_lines_is_kept_whole_and_harmless() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        pasted = "\r\n".join(f"line {number}" for number in range(500)) + "\r\n\x1b[31mred"
        app.post_message(events.Paste(pasted))
        await settle(app, pilot)
        assert connect.worker.sent == []
        expected = "\n".join(f"line {number}" for number in range(500)) + "\n·[31mred"
        assert app.main.input.text == expected
        assert app.main.input.area.size.height <= 10
        await pilot.press("enter")
        await settle(app, pilot)
        assert connect.worker.told("prompt")[0]["prompt"] == expected

    drive(steps)


class _History:
    def __init__(self) -> None:
        self.all = ["older", "newer"]

    def read(self) -> list[str]:
        return list(self.all)

    def add(self, prompt: str) -> None:
        self.all.append(prompt)


def test_history_at_the_borders_keeps_the_draft() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "draft\nof two")
        await pilot.press("up")
        assert app.main.input.area.cursor_location[0] == 0
        await pilot.press("up")
        assert app.main.input.text == "newer"
        await pilot.press("up", "up", "up")
        assert app.main.input.text == "older"
        await pilot.press("down")
        assert app.main.input.text == "newer"
        await pilot.press("down")
        assert app.main.input.text == "draft\nof two"
        await pilot.press("enter")
        await settle(app, pilot)

    history = _History()
    drive(steps, history=history)
    assert history.all == ["older", "newer", "draft\nof two"]


def test_commands_and_files_are_completed_from_a_list() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "/und")
        await pilot.pause()
        assert app.query_one("#proposals", OptionList).display
        await pilot.press("tab")
        assert app.main.input.text == "/undo"
        await pilot.press("enter")
        await settle(app, pilot)
        assert connect.worker.told("undo") == [{"type": "undo"}]
        await write(pilot, "see @cart")
        await until(pilot, lambda: app.main.input.is_proposing)
        await pilot.press("down", "enter")
        assert app.main.input.text == "see @tests/test_cart.py "
        await write(pilot, "@ord")
        await pilot.pause()
        await pilot.press("escape")
        assert not app.main.input.is_proposing
        assert connect.worker.told("cancel") == []

    drive(steps, sources=Sources(files=lambda: FILES))


_CHARACTERS = {"slash": "/", "space": " ", "enter": "\r", "tab": "\t", "backspace": "\x7f"}


@pytest.mark.parametrize(
    ("keys", "text", "sent"),
    [
        ("slash u n d tab enter", "", [{"type": "undo"}]),
        ("slash m o d e space down tab", "/mode auto", []),
        ("slash u n d enter enter", "", [{"type": "undo"}]),
        ("slash u n d escape enter", "", []),  # the list is closed: it is sent as it is, and is no command
        ("a b left c ctrl+j d", "ac\ndb", []),
        ("a b backspace c enter", "", [{"type": "prompt", "prompt": "ac"}]),
        ("a up b", "bnewer", []),
        ("a ctrl+j b up up c down", "a\nb", []),
    ],
)
def test_keys_that_come_in_one_go_count_in_their_order(keys: str, text: str, sent: list[Command]) -> None:
    """Regression: on a busy machine a key was done before letters typed earlier, or after later ones."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for key in keys.split():
            app.post_message(events.Key(key, _CHARACTERS.get(key, key if len(key) == 1 else None)))
        await settle(app, pilot)
        assert app.main.input.text == text
        assert connect.worker.sent == sent
        assert app.main.input.area.has_focus

    drive(steps, history=_History())


def test_names_for_commands_are_looked_for_when_they_are_needed() -> None:
    asked: list[str] = []

    def models() -> list[str]:
        asked.append("models")
        return ["qwen2.5-coder-0.5b", "smollm2-135m"]

    def policies() -> list[str]:
        raise OSError("the [list] is gone")

    sources = Sources(
        models=models,
        policies=policies,
        sessions=lambda: [KeptSession("one"), KeptSession("two", problem="in use"), KeptSession("three")],
    )

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        assert asked == []
        await write(pilot, "/model co")
        await until(pilot, lambda: app.main.input.is_proposing)
        await pilot.press("tab")
        assert app.main.input.text == "/model qwen2.5-coder-0.5b"
        app.main.input.text = "/resume "
        await until(pilot, lambda: app.main.input.is_proposing)
        options = app.query_one("#proposals", OptionList)
        assert [str(option.prompt) for option in options.options] == ["one", "three"]
        app.main.input.text = "/budget "
        await pilot.pause()
        assert [str(option.prompt) for option in options.options] == ["512", "1024", "2048", "4096"]
        app.main.input.text = "/policy p"
        await settle(app, pilot)
        assert "the [list] is gone" in "\n".join(shown(app))
        assert asked == ["models"]

    drive(steps, sources=sources)


def test_what_is_no_command_is_a_prompt() -> None:
    assert is_command("/undo")
    assert is_command(" /plan fix @a.py ")
    assert not is_command("/usr/bin/python is missing")
    assert not is_command("/undo\nand more")
    assert not is_command("fix /undo")


def test_names_with_markup_are_proposed_letter_for_letter() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(VIEW)
        await settle(app, pilot)
        await write(pilot, "/recall gone")
        await settle(app, pilot)
        assert "file:[b]gone[/b]" in "\n".join(shown(app)[-14:])
        await pilot.press("enter", "enter")
        await settle(app, pilot)
        assert connect.worker.told("recall") == [{"type": "recall", "segment": "file:[b]gone[/b]"}]

    drive(steps)


def test_prompts_wait_for_the_model_and_for_each_other() -> None:
    first = [wrote("first answer"), {"type": "pause"}, ended()]
    loading = {
        "greeting": ({"type": "loading", "share": 0.4},),
        "runs": [first, answered(wrote("second answer"))],
    }

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        assert "loading 40%" in shown(app)[-1]
        for prompt in ("one", "two"):
            await write(pilot, prompt)
            await pilot.press("enter")
        await settle(app, pilot)
        assert connect.worker.sent == []
        assert "2 waiting" in shown(app)[-1]
        connect.worker.say(*GREETING[1:])
        await settle(app, pilot)
        assert [each["prompt"] for each in connect.worker.told("prompt")] == ["one"]
        connect.worker.go_on()
        await settle(app, pilot)
        assert [each["prompt"] for each in connect.worker.told("prompt")] == ["one", "two"]
        text = "\n".join(shown(app))
        assert "second answer" in text
        assert "(waits)" not in text

    drive(steps, settings=[loading])


def test_escape_stops_a_run_while_it_reads() -> None:
    reading: Received = {"type": "memory", "event": {"type": "progress", "done": 100, "total": 4000}}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await pilot.press("escape")
        assert connect.worker.told("cancel") == []
        await write(pilot, "go")
        await pilot.press("enter")
        await settle(app, pilot)
        assert "reading 100/4,000" in shown(app)[-1]
        await pilot.press("escape")
        await settle(app, pilot)
        assert connect.worker.told("cancel") == [{"type": "cancel"}]
        assert "interrupted" in "\n".join(shown(app))
        assert not app.state.is_running

    drive(steps, runs=[[reading, CALLED, {"type": "pause"}]])


def test_ctrl_c_clears_and_then_quits_and_the_worker_is_closed() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "draft")
        await pilot.press("ctrl+c")
        assert app.main.input.text == ""
        assert app.return_value is None
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.return_value == 0

    connect = drive(steps)
    assert connect.worker.is_closed


SENT: dict[str, Command] = {
    "plan fix total @shop/cart.py; test": {
        "type": "plan", "steps": [["fix total shop/cart.py", ["shop/cart.py"]], ["test", []]],
    },
    "pin file:a b": {"type": "pin", "segment": "file:a b"},
    "unpin x": {"type": "unpin", "segment": "x"},
    "evict x": {"type": "evict", "segment": "x"},
    "recall x": {"type": "recall", "segment": "x"},
    "note use tabs": {"type": "note", "text": "use tabs"},
}  # fmt: skip
RESTARTS = {
    "model tiny": {"model": "tiny"}, "policy h2o": {"policy": "h2o"}, "budget 4,096": {"budget": "4096"},
    "resume s1": {"resume": "s1"}, "resume": {},
}  # fmt: skip
DONE = {
    "mode plan": ("mode", "plan"), "inspect x y": ("inspect", "x y"),
    "help": ("help", ""), "memory": ("memory", ""), "plan": ("plan", ""), "sessions": ("sessions", ""),
    "clear": ("clear", ""), "undo": ("undo", ""), "export a b.md": ("export", "a b.md"),
    "theme": ("theme", ""), "quit": ("quit", ""),
}  # fmt: skip


class _Notes:
    def __init__(self) -> None:
        self.all: list[object] = []

    def tell(self, command: Command) -> None:
        self.all.append(command)

    def restart(self, **options: str) -> None:
        self.all.append(options)

    def do(self, action: str, argument: str = "") -> None:
        self.all.append((action, argument))


def test_every_command_does_what_the_table_says() -> None:
    for line, expected in {**SENT, **RESTARTS, **DONE}.items():
        notes = _Notes()
        run_command(notes, f"/{line}")
        assert notes.all == [expected], line
    assert {line.split()[0] for line in {**SENT, **RESTARTS, **DONE}} == {each.name for each in COMMANDS}


@pytest.mark.parametrize(
    ("line", "said"),
    [("/nothing", "/help"), ("/mode fast", "plan, ask"), ("/pin", "/pin SEGMENT"),
     ("/budget many", "/budget 4096"),
     ("/budget ²", "/budget 4096"), ("/plan ;", "/plan fix")],
)  # fmt: skip
def test_what_cannot_be_done_says_what_to_type(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run_command(_Notes(), line)


def test_a_file_in_the_home_folder_of_nobody_is_said() -> None:
    """Regression: the whole screen ended with a traceback."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        app.commands.run("/export ~no-such-user-here/notes.md")
        await settle(app, pilot)
        assert "'~no-such-user-here/notes.md'; name another" in " ".join("\n".join(shown(app)).split())

    drive(steps)


def test_a_shell_line_and_a_wrong_command() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "!git status")
        await pilot.press("enter")
        await write(pilot, "/nothing")
        await pilot.press("enter")
        await settle(app, pilot)
        assert connect.worker.sent == [{"type": "shell", "command": "git status"}]
        assert "there is no command '/nothing'" in "\n".join(shown(app))

    drive(steps)


def test_a_process_that_dies_is_replaced_once_with_its_session() -> None:
    settings = [
        {"greeting": GREETING, "runs": [[CALLED, {"type": "pause"}]]},
        {"greeting": (started(resumed=True),)},
    ]
    died: Received = {"type": "died", "code": None, "signal": "SIGSEGV", "log": ["Segmentation [fault]"]}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "go")
        await pilot.press("enter")
        await settle(app, pilot)
        first = connect.worker
        first.say(died)
        await until(pilot, lambda: len(connect.workers) == 2)
        assert first.is_closed
        assert connect.worker.options["resume"] == "fake"
        first.say(wrote("from the grave"))
        connect.worker.say({"type": "ready"})
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "ended by SIGSEGV" in text
        assert "Segmentation [fault]" in text
        assert "from the grave" not in text
        assert "■ edit" in text
        assert not app.state.is_running
        connect.worker.say(died)
        await settle(app, pilot)
        assert len(connect.workers) == 2
        assert "/resume tries again" in "\n".join(shown(app))

    drive(steps, settings=settings)


def test_a_process_that_dies_again_much_later_is_replaced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("pace_tui.session_life.time", SimpleNamespace(monotonic=lambda: now))
    settings = [{"greeting": GREETING}, {"greeting": (started(resumed=True), {"type": "ready"})}]
    died: Received = {"type": "died", "code": 1, "signal": None, "log": []}

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        nonlocal now
        connect.worker.say(died)
        await until(pilot, lambda: len(connect.workers) == 2)
        await settle(app, pilot)
        now += 31
        connect.worker.say(died)
        await until(pilot, lambda: len(connect.workers) == 3)
        await settle(app, pilot)
        assert "/resume tries again" not in "\n".join(shown(app))
        now += 29
        connect.worker.say(died)
        await settle(app, pilot)
        assert len(connect.workers) == 3
        assert "/resume tries again" in "\n".join(shown(app))

    drive(steps, settings=settings)


def test_another_model_goes_on_with_the_session_and_clear_begins_a_new_one() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "/model other")
        await pilot.press("enter")
        await until(pilot, lambda: len(connect.workers) == 2)
        assert connect.worker.options == {"model": "other", "resume": "fake"}
        await settle(app, pilot)
        await write(pilot, "/clear")
        await pilot.press("enter")
        await until(pilot, lambda: len(connect.workers) == 3)
        assert connect.worker.options == {"model": "other"}

    drive(steps)


def test_an_agent_that_cannot_be_started_is_said() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        def fails(options: object, receive: object) -> None:
            raise OSError("no such [program]")

        app.life.process.connect = fails  # type: ignore[assignment]
        app.life.restart()
        await write(pilot, "go")
        await pilot.press("enter")
        await settle(app, pilot)
        assert "no such [program]" in "\n".join(shown(app))
        assert len(app.turns) == 1

    drive(steps)


def test_an_inbox_wakes_once_a_burst_and_loses_nothing() -> None:
    woken = []
    inbox = Inbox(lambda: woken.append(1))

    def speak(name: str) -> None:
        for number in range(2000):
            inbox.add({"type": name, "number": number})

    threads = [threading.Thread(target=speak, args=(name,)) for name in "ab"]
    taken: list[Received] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += inbox.take(100)
    for _ in range(60):
        taken += inbox.take(100)
    for name in "ab":
        assert [each["number"] for each in taken if each["type"] == name] == list(range(2000))
    assert len(woken) < 2000


def edited(text: str, editor: str) -> tuple[str, str]:
    return asyncio.run(edit_text(text, editor))


def test_an_editor_of_the_users_own(tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text("import sys\nopen(sys.argv[1], 'a').write(' and more\\n')\n")
    assert edited("text", f"{sys.executable} {script}") == ("text and more", "")
    text, problem = edited("text", f"{sys.executable} -c 'raise SystemExit(3)'")
    assert text == "text"
    assert "exit code 3" in problem
    text, problem = edited("text", str(tmp_path / "none"))
    assert text == "text"
    assert "$EDITOR" in problem


def test_a_file_for_the_editor_that_is_gone_leaves_the_prompt_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the whole screen ended with a traceback, and the draft was lost."""
    script = tmp_path / "editor.py"
    script.write_text("import os, sys\nos.rename(sys.argv[1], sys.argv[1] + '.away')\n")
    text, problem = edited("text", f"{sys.executable} {script}")
    assert text == "text"
    assert "No such file or directory; the prompt is as it was" in problem
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # there is none at all
    text, problem = edited("text", f"{sys.executable} -c pass")
    assert text == "text"
    assert "the prompt is as it was" in problem
