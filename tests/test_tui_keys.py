from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList
from tui_pilot import ASKED, CALLED, RETURNED, VIEW, drive, settle, shown, until

from pace_tui.app import PaceApp
from pace_tui.commands import COMMANDS
from pace_tui.keys import KEYS, Key
from pace_tui.looks import Looks
from pace_tui.screens.approval import ApprovalScreen
from pace_tui.screens.help import HelpScreen, help_text
from pace_tui.screens.memory import MemoryScreen
from pace_tui.testing import FakeConnect
from pace_tui.widgets.memory_panel import MemoryPanel
from pace_tui.widgets.prompt_input import PromptInput
from pace_tui.widgets.transcript import Transcript

Prepare = Callable[[PaceApp, Pilot[int], str], Awaitable[None]]
PLACES = {
    "anywhere": PaceApp,
    "input": PromptInput,
    "transcript": Transcript,
    "memory": MemoryPanel,
    "approval": ApprovalScreen,
}
DOCUMENTED = {
    "Enter": "send", "Shift+Enter or Ctrl+J": "new line", "Esc": "stop the run", "Ctrl+C": "quit",
    "Shift+Tab": "mode", "Ctrl+O": "output", "Ctrl+T": "plan", "Ctrl+K": "memory", "F1": "help",
    "Ctrl+P": "commands", "End": "follow",
}  # fmt: skip
"""What people are told, and a word of what it does."""


def test_the_help_names_every_key_and_every_command() -> None:
    text = help_text(Looks()).plain
    lines = [line.strip() for line in text.splitlines()]
    for keys, does in DOCUMENTED.items():
        assert any(line.startswith(keys) and does in line for line in lines), keys
    for key in KEYS:
        assert any(line.startswith(key.shown) and key.help in line for line in lines), key
    for command in COMMANDS:
        assert f"{command.usage}" in text


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.place}-{key.keys}")
def test_every_key_in_the_table_is_bound_to_an_action_that_is_there(key: Key) -> None:
    owner = PLACES[key.place]
    name = key.action.partition("(")[0]
    assert callable(getattr(owner, f"action_{name}", None)), key
    found = {each.key: each.action for each in owner.BINDINGS}
    assert found[key.keys] == key.action


NAMES = {
    "Esc": "escape", "PgUp": "pageup", "PgDn": "pagedown", "↑": "up", "↓": "down", "←": "left", "→": "right",
}  # fmt: skip
"""As the help shows them -> as Textual does."""


def helped() -> dict[str, list[str]]:
    """Headings of the help, and the keys below each, as Textual names them."""
    found: dict[str, list[str]] = {}
    for line in help_text(Looks()).plain.splitlines():
        if line and not line.startswith(" "):
            keys = found.setdefault(line, [])
        elif line.startswith("  "):
            for shown_key in line[2:].split("  ")[0].split(" or "):
                keys.append("+".join(NAMES.get(part, part).lower() for part in shown_key.strip().split("+")))
    return found


def facts(app: PaceApp, connect: FakeConnect) -> tuple[object, ...]:
    """All that a key could change."""
    transcript, panel = app.main.transcript, app.main.query_one(MemoryPanel)
    proposals = app.query_one("#proposals", OptionList)
    top = app.screen
    return (
        type(top), app.return_value, app.state.mode, tuple(app.main.is_wanted.values()), app.clipboard,
        app.main.input.text, app.main.input.area.selection, proposals.display, proposals.highlighted,
        len(connect.worker.sent), transcript.is_open, transcript.is_following, transcript.selected,
        transcript.scroll_offset, [entry.is_folded for entry in transcript.entries], panel.strip.chosen,
        top.focused, len(connect.workers),
    )  # fmt: skip


async def fill(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
    connect.worker.say(VIEW, *({"type": "warned", "message": f"line {number}"} for number in range(200)))
    connect.worker.say(*(each for number in range(3) for each in ({**CALLED, "id": number}, RETURNED)))
    await settle(app, pilot)


async def check_keys(
    app: PaceApp, pilot: Pilot[int], connect: FakeConnect, keys: list[str], prepare: Prepare
) -> None:
    for key in keys:
        await prepare(app, pilot, key)
        await pilot.pause()
        before = facts(app, connect)
        await pilot.press(key)
        await settle(app, pilot, 0.05)
        assert facts(app, connect) != before, f"{key} does nothing"


async def _anywhere(app: PaceApp, pilot: Pilot[int], key: str) -> None:
    while app.screen is not app.main:
        await pilot.press("escape")
        await pilot.pause()
    app.main.input.text = "a draft"
    app.main.input.area.focus()
    if key == "ctrl+z":  # a screen without a terminal has no background; one with a terminal is tested too
        app.action_suspend_process = lambda: app.copy_to_clipboard("suspended")  # type: ignore[method-assign]
    if key == "escape":
        app.state.began = app.state.clock()
    if key in ("pagedown", "ctrl+end"):
        app.main.transcript.scroll_to(y=10, animate=False)


async def _input(app: PaceApp, pilot: Pilot[int], key: str) -> None:
    app.main.input.text = ""
    app.main.input.area.focus()
    texts = {"enter": "send me", "tab": "/mo", "up": "/m", "down": "/m"}
    app.main.input.text = texts.get(key, "text")
    if key == "end":
        app.main.transcript.scroll_to(y=10, animate=False)


async def _transcript(app: PaceApp, pilot: Pilot[int], key: str) -> None:
    transcript = app.main.transcript
    transcript.focus()
    calls = [place for place, entry in enumerate(transcript.entries) if entry.can_fold]
    transcript.selected = calls[1]
    if key in ("end", "home"):
        transcript.scroll_to(y=10, animate=False)


async def _memory(app: PaceApp, pilot: Pilot[int], key: str) -> None:
    while app.screen is not app.main:
        await pilot.press("escape")
        await pilot.pause()
    panel = app.main.query_one(MemoryPanel)
    panel.table.focus()
    panel.strip.chosen = 1


@pytest.mark.parametrize(
    ("heading", "prepare"),
    [
        ("Anywhere", _anywhere),
        ("Writing a prompt", _input),
        ("In the transcript", _transcript),
        ("In the memory panel", _memory),
    ],
)
def test_every_key_that_the_help_names_does_something(heading: str, prepare: Prepare) -> None:
    keys = sorted(helped()[heading], key=lambda key: key == "ctrl+q")
    assert len(keys) >= 5

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await fill(app, pilot, connect)
        await check_keys(app, pilot, connect, keys, prepare)

    drive(steps, editor=f"{sys.executable} -c pass", size=(140, 40))


def test_every_key_that_the_help_names_answers_what_is_asked() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for number, key in enumerate(helped()["When you are asked"]):
            connect.worker.say({**ASKED, "id": number})
            await until(pilot, lambda: isinstance(app.screen, ApprovalScreen))
            await settle(app, pilot, 0.1)
            await pilot.press(key)
            if key == "t":
                await pilot.press("n", "enter")
            await until(pilot, lambda: app.screen is app.main)
            assert connect.worker.told("answer")[-1]["id"] == number
        assert len(connect.worker.told("answer")) == 6

    drive(steps, grace=0.0)


def test_what_lies_over_the_transcript_scrolls_instead_of_it() -> None:
    """Regression: PgDn in the help, or in a long diff that is asked about, scrolled what is below."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await fill(app, pilot, connect)
        before = app.main.transcript.scroll_offset
        await pilot.press("f1")
        await settle(app, pilot)
        first = shown(app)[8]
        await pilot.press("pagedown")
        await settle(app, pilot)
        assert shown(app)[8] != first
        assert app.main.transcript.scroll_offset == before

    drive(steps, size=(100, 24))


def test_no_key_of_a_place_is_in_the_table_twice() -> None:
    for place in PLACES:
        keys = [each for key in KEYS if key.place == place for each in key.keys.split(",")]
        assert len(keys) == len(set(keys)), place


@pytest.mark.parametrize(("key", "screen"), [("f1", HelpScreen), ("f2", MemoryScreen)])
def test_a_key_that_opens_a_screen_closes_it(key: str, screen: type[Screen[None]]) -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, screen))
        await pilot.press(key)
        await until(pilot, lambda: app.screen is app.main)

    drive(steps)


def test_a_command_of_the_palette_that_is_put_into_the_prompt_loses_no_draft() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        app.main.input.text = "a long draft"
        app.commands.run_from_palette("unpin")
        assert app.main.input.text == "/unpin "
        await pilot.press("escape", "up")
        assert app.main.input.text == "a long draft"

    drive(steps)


def test_keys_that_hold_anywhere_do_while_a_prompt_is_written() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        done: list[str] = []
        for key in KEYS:
            if key.place == "anywhere":
                name = key.action.partition("(")[0]
                setattr(app, f"action_{name}", lambda *given, name=name: done.append(name))
        for key in KEYS:
            if key.place == "anywhere":
                await pilot.press(key.keys)
                assert done[-1:] == [key.action.partition("(")[0]], key
        assert app.main.input.text == ""

    drive(steps)


def test_keys_do_what_they_say() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(VIEW)
        await settle(app, pilot)
        for mode in ("accept-edits", "auto", "plan", "ask"):
            await pilot.press("shift+tab")
            assert connect.worker.sent[-1] == {"type": "mode", "mode": mode}
        await settle(app, pilot)
        assert " ask " in shown(app)[-1]
        for key, panel in (("ctrl+t", "plan"), ("ctrl+k", "memory"), ("f3", "watch")):
            before = app.main.is_shown(panel)
            await pilot.press(key)
            assert app.main.is_shown(panel) is not before
        await pilot.press("f1")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        await pilot.press("ctrl+p", *"undo")
        await settle(app, pilot)
        assert "/undo" in "\n".join(shown(app))
        await pilot.press("escape", "ctrl+q")
        await pilot.pause()
        assert app.return_value == 0

    drive(steps)


def test_the_first_paint_imports_nothing_heavy() -> None:
    code = (
        "import sys; import pace_tui.app, pace_tui.screens.main\n"
        "heavy = ['pace_local._native', 'pace_agent', 'llama_cpp', 'pydantic', 'numpy', 'plotext', "
        "'jinja2']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"
